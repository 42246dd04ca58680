"""Build what the model is asked in one turn from the caller's request and the conversation so far."""

from __future__ import annotations

from belljar.gateway.engine import tool_selection
from belljar.gateway.engine.context import Context
from belljar.gateway.upstream.models import ModelRoute
from belljar.vendors.request import ModelRequest
from belljar.wire.items import InputItem
from belljar.wire.requests import CreateResponse
from belljar.wire.tools import Tool, ToolChoice


def build_model_request(
    request: CreateResponse,
    route: ModelRoute,
    context: Context,
    *,
    items: tuple[InputItem, ...],
    tools: tuple[Tool, ...],
    choice: ToolChoice,
    max_output_tokens: int | None,
    hops: tuple[str, ...],
) -> ModelRequest:
    """`items` are those of the context, with calls by the names that the model knows."""
    return ModelRequest(
        model=route.name,
        items=items,
        instructions=request.instructions,
        tools=tools,
        tool_choice=tool_selection.translate_choice(choice, tools),
        parallel_tool_calls=request.parallel_tool_calls,
        max_output_tokens=max_output_tokens,
        temperature=request.temperature,
        top_p=request.top_p,
        sampling=request.sampling(),
        logprobs=tool_selection.wants_logprobs(request),
        top_logprobs=request.top_logprobs,
        text=request.text,
        reasoning=request.reasoning,
        encrypted_reasoning=route.traits.hosted,
        prompt_cache_key=request.prompt_cache_key,
        service_tier=request.service_tier,
        safety_identifier=request.safety_identifier,
        truncation=request.truncation,
        stream=request.stream or request.background,
        call_outputs=context.call_outputs,
        call_images=context.call_images,
        hops=hops,
    )
