"""A turn in no provider's words: what was answered, and what a provider's conversation has to bring."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from belljar.adapters.steps import Heard
from belljar.errors import ProviderError
from belljar.runtime import TokenUsage
from belljar.tools import ProviderTool, ToolResult
from belljar.vendors.deltas import Decoder

Hosted: TypeAlias = ProviderTool[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Call:
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
class Answer:
    """What one turn gave."""

    text: str = ""
    """All that was said."""
    last: str = ""
    """The last message alone, which is where a typed answer is."""
    refusal: str | None = None
    calls: Sequence[Call] = ()
    hosted: Sequence[HostedCall] = ()
    annotations: Sequence[Mapping[str, Any]] = ()
    usage: TokenUsage = field(default_factory=TokenUsage)
    finish: Literal["stop", "length", "filtered", "paused"] = "stop"
    """`paused`: the provider wants to be asked again, to go on."""
    id: str | None = None


class Conversation(Protocol):
    """One evaluation with one provider. What may block is said so; everything else is quick."""

    @property
    def hosted(self) -> Sequence[Hosted]:
        """The tools that the provider runs."""

    def prepare(self) -> None:
        """Blocks: have everything there that the first request names."""

    def request(self) -> bytes: ...

    def decoder(self) -> Decoder | None:
        """For one answer to that request; None where `hear` reads it itself."""

    def hear(self, heard: Heard) -> Answer:
        """Take the answer into the history."""

    def tell(self, results: Sequence[tuple[Call, ToolResult[Any]]]) -> None:
        """Take what the tools gave into the history."""

    def unsettled(self) -> Callable[[], object] | None:
        """What an earlier evaluation postponed, to be done first; it blocks. None: nothing."""

    def settling(self, answer: Answer) -> Callable[[], object] | None:
        """What is to be done after a turn, with its results told; it blocks. None: nothing."""

    def postpone(self) -> None:
        """The evaluation is over and could not be settled: leave that to the next."""

    def forget(self) -> None:
        """What could not be settled never will be."""

    def mend(self, error: ProviderError) -> bool:
        """Blocks: whether something was done about the cause, so that asking again is worth it."""

    def about(self) -> Mapping[str, object]:
        """What is worth logging of a turn: the model, its limit, and the container with its memory."""
