"""The response object: the same fields in every snapshot, complete from the first event on."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from belljar.wire.extras import ResponseExtras
from belljar.wire.items import Json, OutputItem
from belljar.wire.tools import Tool, ToolChoice

Status: TypeAlias = Literal["completed", "failed", "in_progress", "cancelled", "queued", "incomplete"]


class InputDetails(Struct, frozen=True, kw_only=True):
    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputDetails(Struct, frozen=True, kw_only=True):
    reasoning_tokens: int = 0


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens over all turns of a response."""

    input_tokens: int = 0
    input_tokens_details: InputDetails = field(default_factory=InputDetails)
    output_tokens: int = 0
    output_tokens_details: OutputDetails = field(default_factory=OutputDetails)
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            input_tokens_details=InputDetails(
                cached_tokens=self.input_tokens_details.cached_tokens + other.input_tokens_details.cached_tokens,
                cache_write_tokens=self.input_tokens_details.cache_write_tokens
                + other.input_tokens_details.cache_write_tokens,
            ),
            output_tokens=self.output_tokens + other.output_tokens,
            output_tokens_details=OutputDetails(
                reasoning_tokens=self.output_tokens_details.reasoning_tokens
                + other.output_tokens_details.reasoning_tokens
            ),
            total_tokens=self.total_tokens + other.total_tokens,
        )


class IncompleteDetails(Struct, frozen=True, kw_only=True):
    reason: Literal["max_output_tokens", "content_filter", "max_messages"]


class ResponseError(Struct, frozen=True, kw_only=True):
    code: str
    message: str


class Reasoner(Struct, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=True):
    """How hard the model thinks and what it shows of it."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | UnsetType | None = UNSET
    context: Literal["auto", "current_turn", "all_turns"] | UnsetType | None = UNSET
    mode: Literal["standard", "pro"] | UnsetType = UNSET


class TextFormat(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Plain text, any JSON, or JSON by a schema."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[a-zA-Z0-9_-]+\Z")] | UnsetType = UNSET
    schema: dict[str, Json] | UnsetType = UNSET
    strict: bool | UnsetType | None = UNSET
    description: str | UnsetType = UNSET


class TextConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: TextFormat = field(default_factory=TextFormat)
    verbosity: Literal["low", "medium", "high"] | None = "medium"


class ConversationRef(Struct, frozen=True, kw_only=True):
    id: str


class Response(Struct, frozen=True, kw_only=True):
    """A snapshot: the same keys at every moment of its life."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status
    background: bool = False
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | list[Json] | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    model: str
    output: tuple[OutputItem, ...] = ()
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    conversation: ConversationRef | UnsetType | None = UNSET
    prompt_cache_key: str | None = None
    reasoning: Reasoner | None = field(default_factory=Reasoner)
    safety_identifier: str | None = None
    service_tier: str = "default"
    store: bool = True
    temperature: float = 1.0
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    text: TextConfig = field(default_factory=TextConfig)
    tool_choice: ToolChoice = "auto"
    tools: tuple[Tool, ...] = ()
    top_logprobs: int = 0
    truncation: Literal["auto", "disabled"] = "disabled"
    usage: Usage | None = None
    user: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    belljar: ResponseExtras | UnsetType = UNSET
