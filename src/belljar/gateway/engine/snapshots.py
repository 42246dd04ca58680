"""A request's response object before anything has happened, and what is kept of it afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import UNSET, structs

from belljar.gateway.store.base import ResponseRecord
from belljar.wire.codec import encode, sse
from belljar.wire.events import TERMINAL, Completed, ErrorDetail, ErrorEvent, Event, Failed, Incomplete
from belljar.wire.items import InputItem, Json, OutputItem
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import ConversationRef, Reasoner, Response, Status
from belljar.wire.tools import AutoContainer, CodeInterpreterTool, HostedTool, NetworkPolicy, Tool

STOPPED = "The gateway was stopped before it was done."
"""Why a response failed that outlived the process it ran in."""
LOST = "The gateway failed before it was done; its log has the reason."
"""Why a response failed that nobody works on, though the process goes on."""
UNFINISHED = ("queued", "in_progress")
_LAST = tuple(f"event: {kind.__struct_config__.tag}\n".encode() for kind in TERMINAL)
_SECRETS = frozenset({"authorization", "domain_secrets", "headers"})
"""Keys of vendors' own tools that hold passwords to somebody else's servers."""
_WITH_STATUS = frozenset(
    {"message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"}
)


def build_first(request: CreateResponse, id: str, now: int) -> Response:
    """The snapshot that the first event carries: everything the caller said, told back."""
    status: Status = "queued" if request.background else "in_progress"
    return Response(
        id=id,
        created_at=now,
        status=status,
        background=request.background,
        instructions=request.instructions,
        max_output_tokens=request.max_output_tokens,
        max_tool_calls=request.max_tool_calls,
        model=request.model,
        parallel_tool_calls=request.parallel_tool_calls,
        previous_response_id=request.previous_response_id,
        conversation=UNSET if request.conversation is None else ConversationRef(id=request.conversation),
        prompt_cache_key=request.prompt_cache_key,
        reasoning=request.reasoning or Reasoner(),
        safety_identifier=request.safety_identifier,
        service_tier="default" if request.service_tier in (None, "auto") else request.service_tier,
        store=request.store,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        text=request.text,
        tool_choice=request.tool_choice,
        tools=tuple(map(hide_secrets, request.tools)),
        top_logprobs=request.top_logprobs,
        truncation=request.truncation,
        user=request.user,
        metadata=request.metadata,
    )


def hide_secrets(tool: Tool) -> Tool:
    """A tool as it is told back and kept: without what opens other doors."""
    match tool:
        case HostedTool():
            return HostedTool(cast(dict[str, Json], _scrub(tool.data)))
        case CodeInterpreterTool(container=AutoContainer(network_policy=NetworkPolicy() as policy) as container):
            policy = structs.replace(policy, domain_secrets=UNSET)
            return structs.replace(tool, container=structs.replace(container, network_policy=policy))
    return tool


def _scrub(data: Json) -> Json:
    if isinstance(data, dict):
        return {name: _scrub(value) for name, value in data.items() if name not in _SECRETS}
    return [_scrub(value) for value in data] if isinstance(data, list) else data


def build_record(
    response: Response,
    owner: str,
    *,
    own: Sequence[InputItem],
    output: Sequence[OutputItem],
    container_id: str | None,
    container_version: int | None = None,
) -> ResponseRecord:
    """What is kept: the snapshot without its output beside the output with everything in it, each once."""
    conversation = response.conversation
    return ResponseRecord(
        id=response.id,
        owner=owner,
        created_at=response.created_at,
        status=response.status,
        background=response.background,
        previous_id=response.previous_response_id,
        conversation_id=conversation.id if isinstance(conversation, ConversationRef) else None,
        container_id=container_id,
        container_version=container_version,
        input=encode(own),
        output=encode(output),
        body=encode(structs.replace(response, output=())),
    )


def empty_output(event: Event) -> Event:
    """The event without what the model and its code said so far, where it has that."""
    return (
        structs.replace(event, response=structs.replace(event.response, output=()))
        if (isinstance(event, TERMINAL))
        else event
    )


def is_last(frame: bytes) -> bool:
    """Whether a stream ends with it."""
    return frame.startswith(_LAST)


def build_last_frames(kept: ResponseRecord, number: int) -> list[bytes]:
    """The last frames of a stream that has none, though its response is over, from this number on."""
    response = cast(Response, msgspec.Raw(encode_response(kept, frozenset())))  # it is in its JSON form already
    if kept.status == "completed":
        return [sse(Completed(sequence_number=number, response=response))]
    if kept.status != "failed":
        return [sse(Incomplete(sequence_number=number, response=response))]
    why = msgspec.json.decode(kept.body)["error"]["message"]
    detail = ErrorDetail(type="server_error", code="server_error", message=why)
    return [
        sse(ErrorEvent(sequence_number=number, error=detail)),
        sse(Failed(sequence_number=number + 1, response=response)),
    ]


def encode_response(kept: ResponseRecord, include: frozenset[str]) -> bytes:
    """A kept response as GET answers it."""
    body = msgspec.json.decode(kept.body)
    body["output"] = filter_items(msgspec.json.decode(kept.output), include)
    return encode(body)


def filter_items(items: list[dict[str, object]], include: frozenset[str]) -> list[dict[str, object]]:
    """Kept items in their long form, without what the caller did not ask to see."""
    for item in items:
        _lengthen(item)
        item.pop("told", None)
        if item.get("type") == "code_interpreter_call" and "code_interpreter_call.outputs" not in include:
            item["outputs"] = None
            if isinstance(end := item.get("belljar"), dict):
                end.pop("stdout", None)
                end.pop("stderr", None)
        elif item.get("type") == "reasoning" and "reasoning.encrypted_content" not in include:
            item.pop("encrypted_content", None)
        elif item.get("type") == "message":
            item.pop("sealed", None)
    return items


def _lengthen(item: dict[str, object]) -> None:
    """Callers may send a message's text alone, and no status; it is told back with all that belongs to it."""
    if item.get("type") in _WITH_STATUS:
        item.setdefault("status", "completed")
    if item.get("type") == "message" and isinstance(text := item["content"], str):
        part: dict[str, object] = {"type": "input_text", "text": text}
        if item["role"] == "assistant":
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item["content"] = [part]
