"""A conversation made short: the user's messages stay, the rest becomes a summary that is sealed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

from msgspec import UNSET, structs

from belljar.errors import Garbled
from belljar.gateway.builtin_model.model import SUMMARISE
from belljar.gateway.upstream.models import ModelRoute
from belljar.vendors import deltas
from belljar.vendors.request import ModelRequest
from belljar.wire.items import InputItem, InputText, Message
from belljar.wire.requests import Sampling
from belljar.wire.responses import Usage

_ASK = "Write the summary now."


async def summarise(route: ModelRoute, request: ModelRequest) -> tuple[str, Usage]:
    """The conversation in the model's own words, and what that cost."""
    last = Message(role="user", content=(InputText(text=_ASK),))
    asked = structs.replace(
        request,
        items=(*request.items, last),
        instructions=SUMMARISE,
        tools=(),
        tool_choice="auto",
        text=structs.replace(request.text, format=type(request.text.format)()),
        max_output_tokens=None,
        sampling=Sampling(),
    )
    said: list[str] = []
    usage = Usage()
    async with aclosing(route.model.ask(asked)) as answer:
        async for batch in answer:
            for delta in batch:
                if isinstance(delta, deltas.Text):
                    said.append(delta.text)
                elif isinstance(delta, deltas.UsageDelta):
                    usage = delta.usage
    summary = "".join(said).strip()
    if not summary:
        raise Garbled(
            f"{route.upstream}: the model gave no summary to compact the conversation with; try another model"
        )
    return summary, usage


def list_user_messages(items: Sequence[InputItem]) -> tuple[Message, ...]:
    """The user's messages, as they stand in the compacted conversation."""
    return tuple(
        structs.replace(
            item,
            status="completed",
            told=UNSET,
            content=(InputText(text=item.content),) if isinstance(item.content, str) else item.content,
        )
        for item in items
        if isinstance(item, Message) and item.role == "user"
    )
