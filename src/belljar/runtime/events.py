"""Events of an evaluation, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import UUID, uuid4


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """None: the provider did not say. Cached tokens are part of the input."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        return (self.input_tokens or 0) + (self.output_tokens or 0)

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
        )


class ToolResultLike(Protocol):
    """A tool's result, as those see it who hear of it: a `ToolResult`."""

    @property
    def message(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def success(self) -> bool: ...


class ResponseLike(Protocol):
    """A prompt's response, likewise: a `PromptResponse`."""

    @property
    def text(self) -> str | None: ...

    @property
    def output(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRendered:
    prompt_ns: str
    prompt_key: str
    prompt_name: str | None
    adapter: str
    session_id: UUID | None
    render_inputs: tuple[object, ...]
    rendered_prompt: str
    created_at: datetime = field(default_factory=now)
    event_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvoked:
    prompt_name: str | None
    adapter: str
    name: str
    params: object
    """The parsed parameters, or the arguments as they came where they did not fit."""
    result: ToolResultLike
    session_id: UUID | None
    created_at: datetime = field(default_factory=now)
    usage: TokenUsage | None = None
    rendered_output: str = ""
    call_id: str | None = None
    event_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptExecuted:
    prompt_name: str | None
    adapter: str
    result: ResponseLike
    session_id: UUID | None
    created_at: datetime = field(default_factory=now)
    usage: TokenUsage | None = None
    event_id: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFailed:
    """A conversation that had grown long was not compacted; the answer is none the worse for it."""

    prompt_name: str | None
    adapter: str
    error: Exception
    will_retry: bool
    """After the next turn, or with the session's next evaluation."""
    session_id: UUID | None
    created_at: datetime = field(default_factory=now)
    event_id: UUID = field(default_factory=uuid4)


def _sum(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other
