"""A turn in no provider's words: what was answered, and what a provider's conversation has to bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from belljar.adapters.steps import Heard
from belljar.errors import ProviderError
from belljar.providers.tool_converters import Tool as ToolDefinition
from belljar.providers.tool_converters import tool_call
from belljar.runtime import TokenUsage
from belljar.tools import ProviderTool, ToolResult
from belljar.tools.tool_choice import Chosen
from belljar.vendors.deltas import Decoder
from belljar.vendors.fold import FunctionCalled
from belljar.wire.items import FunctionCallOutput
from belljar.wire.responses import Usage
from belljar.wire.tools import Choice
from belljar.wire.tools import ToolChoice as WireChoice

Hosted: TypeAlias = ProviderTool[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A function that the model wants called."""

    id: str
    name: str
    arguments: str | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class HostedCall:
    """A call that the provider ran itself; `payload` is what came of it."""

    id: str | None
    type: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnAnswer:
    """What one turn gave."""

    text: str = ""
    """All that was said."""
    last: str = ""
    """The last message alone, which is where a typed answer is."""
    refusal: str | None = None
    calls: Sequence[CalledTool] = ()
    hosted: Sequence[HostedCall] = ()
    annotations: Sequence[Mapping[str, Any]] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    finish: Literal["stop", "length", "filtered", "paused"] = "stop"
    """`paused`: the provider wants to be asked again, to go on."""
    id: str | None = None


class ProviderConversation(Protocol):
    """One evaluation with one provider. What may block is said so; everything else is quick."""

    @property
    def hosted(self) -> Sequence[Hosted]:
        """The tools that the provider runs."""

    def prepare(self) -> None:
        """Blocks: have everything there that the first request names."""

    def request(self) -> bytes: ...

    def decoder(self) -> Decoder:
        """For one answer to that request."""

    def hear(self, heard: Heard) -> TurnAnswer:
        """Take the answer into the history."""

    def tell(self, results: Sequence[tuple[CalledTool, ToolResult[Any]]]) -> None:
        """Take what the tools gave into the history."""

    def postponed_act(self) -> Callable[[], object] | None:
        """What an earlier evaluation postponed, to be done first; it blocks. None: nothing."""

    def settling(self, answer: TurnAnswer) -> Callable[[], object] | None:
        """What is to be done after a turn, with its results told; it blocks. None: nothing."""

    def postpone(self) -> None:
        """The evaluation is over and could not be settled: leave that to the next."""

    def forget(self) -> None:
        """What could not be settled never will be."""

    def mend(self, error: ProviderError) -> bool:
        """Blocks: whether something was done about the cause, so that asking again is worth it."""

    def about(self) -> Mapping[str, object]:
        """What is worth logging of a turn: the model, its limit, and the container with its memory."""


def wire_choice(choice: Chosen) -> WireChoice:
    """The choice of a tool as the dialects take it."""
    match choice:
        case "none" | "required":
            return choice
        case dict():
            return msgspec.convert(choice, Choice)
        case _:
            return "auto"


def read_call(called: FunctionCalled, tools: Sequence[ToolDefinition] = ()) -> CalledTool:
    """A call with its arguments, or with what came for them; with `tools`, nulls become defaults."""
    made = tool_call(called.id, called.name, called.arguments, tools)
    return CalledTool(made["id"], made["name"], made.get("invalid", made["input"]))


def write_results(results: Sequence[tuple[CalledTool, ToolResult[Any]]]) -> tuple[list[FunctionCallOutput], set[str]]:
    """What came of the calls, and the ids of those that failed."""
    outputs = [FunctionCallOutput(call_id=call.id, output=result.text) for call, result in results]
    return outputs, {call.id for call, result in results if not result.success}


def count_tokens(usage: Usage | None) -> TokenUsage:
    """What was read from a cache, or written to one, is part of the input."""
    if usage is None:
        return TokenUsage()
    return TokenUsage(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens or None)
