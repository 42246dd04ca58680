"""What may be sent to the API and is read by hand, as types: the description at /openapi.json is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from belljar.http_server.routing import Content, Operation, Parameter
from belljar.wire.events import Event
from belljar.wire.files import Purpose
from belljar.wire.items import InputItem, Json, OutputItem, Part
from belljar.wire.requests import Id, Include, Metadata, RequestOptions
from belljar.wire.responses import ConversationRef, Reasoner, TextConfig, Usage
from belljar.wire.tools import Tool, ToolChoice

# -- queries ----------------------------------------------------------------------------------------------------------


def describe_page(most: int) -> tuple[Parameter, ...]:
    """Which part of a list is asked for, and in which order."""
    return (
        Parameter("limit", Annotated[int, Meta(ge=1, le=most)], "The most that are listed."),
        Parameter("order", Literal["asc", "desc"], "By when they were made."),
        Parameter("after", str, "The id after which to go on."),
        Parameter("before", str, "The id before which to end."),
    )


PAGE = describe_page(100)
INCLUDE = Parameter("include", list[Include], "What is told beside the usual.")
CONTENT = Operation(
    "A file's bytes, or a range of them", (Content(None, "*/*"),), also=((206, "A range"), (304, "Unchanged"))
)

# -- events -----------------------------------------------------------------------------------------------------------


def _list_kinds(above: type[Event]) -> Iterator[type[Event]]:
    for one in above.__subclasses__():
        if one.__struct_config__.tag is not None:
            yield one
        yield from _list_kinds(one)


AnyEvent: TypeAlias = tuple(_list_kinds(Event))  # type: ignore[valid-type]
"""Each event of a stream; OpenAPI has no word for streams of them."""

# -- bodies -----------------------------------------------------------------------------------------------------------


class ShortMessage(Struct, frozen=True, kw_only=True):
    """A message without a type."""

    role: Literal["user", "system", "developer", "assistant"]
    content: str | tuple[Part, ...]


Input: TypeAlias = str | tuple[ShortMessage | InputItem, ...]


class ResponseBody(RequestOptions, frozen=True, kw_only=True):
    """Of POST /v1/responses."""

    input: Input = ()
    conversation: Id | ConversationRef | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"


class CountBody(Struct, frozen=True, kw_only=True):
    """Of POST /v1/responses/input_tokens: what a response would be asked."""

    model: Id | None = None
    input: Input = ()
    instructions: str | None = None
    previous_response_id: Id | None = None
    conversation: Id | ConversationRef | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel_tool_calls: bool = True
    reasoning: Reasoner | None = None
    text: TextConfig = field(default_factory=TextConfig)
    truncation: Literal["auto", "disabled"] = "disabled"


class CompactBody(Struct, frozen=True, kw_only=True):
    """Of POST /v1/responses/compact."""

    model: Id
    input: Input = ()
    instructions: str | None = None
    previous_response_id: Id | None = None
    prompt_cache_key: str | None = None


class CompactedBody(Struct, frozen=True, kw_only=True):
    """A conversation made short: send its `output` in place of it."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: tuple[OutputItem, ...]
    usage: Usage | None = None


class ConversationBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    metadata: Metadata | None = None
    items: tuple[ShortMessage | InputItem, ...] | None = None


class MetadataBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    metadata: Metadata


class ItemsBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    items: tuple[ShortMessage | InputItem, ...]


class UploadForm(Struct, frozen=True, kw_only=True):
    file: bytes
    purpose: Purpose


class PlaceBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file that was uploaded before."""

    file_id: str


class PlaceForm(Struct, frozen=True, kw_only=True):
    """One of `file` and `file_id`."""

    file: bytes | None = None
    file_id: str | None = None
    extract: bool = False


class ChatCompletion(Struct, frozen=True, kw_only=True):
    """OpenAI's; a piece of a stream has `delta` in its choices in place of `message`."""

    id: str
    object: Literal["chat.completion", "chat.completion.chunk"]
    created: int
    model: str
    choices: tuple[dict[str, Json], ...]
    usage: dict[str, Any] | None = None
