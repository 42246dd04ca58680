"""Parse request bodies into frozen values; what cannot be parsed is an `InvalidRequest` that names the field."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Struct, field, structs

from belljar.errors import InvalidRequest
from belljar.wire import codec, error_messages, ids
from belljar.wire.conversion import fit
from belljar.wire.items import InputItem, Json
from belljar.wire.reading_items import read_input, read_item, read_items, read_stored_items
from belljar.wire.reading_tools import check_network, read_tool_choice, read_tools
from belljar.wire.requests import (
    CompactRequest,
    CreateContainer,
    CreateResponse,
    Id,
    Metadata,
    RequestOptions,
    StreamOptions,
)
from belljar.wire.responses import ConversationRef, TextFormat

__all__ = [
    "check_stream_options",
    "read_compact",
    "read_container",
    "read_input_tokens",
    "read_item",
    "read_items",
    "read_json",
    "read_metadata",
    "read_response",
    "read_stored_items",
]

_IGNORED = frozenset({"access_programs", "client_metadata", "image", "moderation"})
"""Accepted without effect: OpenAI's newest, and what its own command line adds."""
_RESPONSE = frozenset(CreateResponse.__struct_fields__) | _IGNORED
_LONE = (
    "a string in it has half of a surrogate pair, such as \\ud83d, without the other half; send whole characters, or"
    " replace what is no text"
)
_COUNT = frozenset(
    {
        "conversation",
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "personality",
        "previous_response_id",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)
_COMPACT = _IGNORED | {
    "input",
    "instructions",
    "model",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "service_tier",
    "text",
    "tools",
}
_CONTAINER = frozenset(CreateContainer.__struct_fields__)


class _Conversation(Struct):
    conversation: Id | ConversationRef | None = None


class _Metadata(Struct):
    metadata: Metadata = field(default_factory=dict)


def read_json(body: bytes) -> dict[str, Json]:
    """A body's object. Of a key given twice the last counts."""
    if not body:
        raise InvalidRequest('The request body is empty: send a JSON object, as in {"model": …}.')
    try:
        data = codec.decode(body)
    except codec.TooDeep:
        raise InvalidRequest(
            f"The request body is nested too deep: at most {codec.DEEPEST} levels are allowed. Send a flatter object."
        ) from None
    except codec.TooMany:
        raise InvalidRequest(
            f"The request body has too many values: at most {codec.MOST_VALUES} numbers, strings, arrays and objects"
            " are allowed. Send fewer items at once."
        ) from None
    except msgspec.DecodeError as error:
        why = _LONE if codec.has_lone_surrogate(body) else f"{error}"
        raise InvalidRequest(f"The request body is not valid JSON: {why}.") from None
    if not isinstance(data, dict):
        raise InvalidRequest('The request body is not a JSON object: send one, as in {"model": …}.')
    return data


def read_response(data: dict[str, Json]) -> CreateResponse:
    return _read_request(_drop_nulls(data, _RESPONSE))


def read_input_tokens(data: dict[str, Json]) -> CreateResponse:
    """A request whose tokens are to be counted: it says nothing of how to answer, and need not name a model."""
    return _read_request({"model": "any", **_drop_nulls(data, _COUNT)})


def read_compact(data: dict[str, Json]) -> CompactRequest:
    given = _drop_nulls(data, _COMPACT)
    options = fit(given, RequestOptions, "")
    return CompactRequest(
        model=options.model,
        input=_read_input(given, "previous_response_id"),
        instructions=options.instructions,
        previous_response_id=options.previous_response_id,
        prompt_cache_key=options.prompt_cache_key,
    )


def read_container(data: dict[str, Json]) -> CreateContainer:
    if data.get("skills"):
        raise error_messages.unsupported("skills", "Upload what the code needs as files instead.")
    container = fit(_drop_nulls(data, _CONTAINER | {"skills"}), CreateContainer, "")
    if "\0" in container.name:
        raise error_messages.has_nul("name")
    check_network(container.network_policy, "network_policy")
    return container


def read_metadata(value: Json) -> dict[str, str]:
    return fit({"metadata": value}, _Metadata, "").metadata


def _drop_nulls(data: dict[str, Json], accepted: frozenset[str]) -> dict[str, Json]:
    """What the caller said: the SDKs write null for what they leave to us."""
    for key in data:
        if key not in accepted:
            raise error_messages.unknown(error_messages.at("", key))
    return {key: value for key, value in data.items() if value is not None}


def _read_request(given: dict[str, Json]) -> CreateResponse:
    if "prompt" in given:
        raise error_messages.unsupported(
            "prompt", "It keeps no stored prompts: send the text as 'instructions' and 'input'."
        )
    options = fit(given, RequestOptions, "")
    _check_together(given, options)
    conversation = _read_conversation(given)
    check_stream_options(options.stream_options)
    _check_format(options.text.format, "text.format")
    tools = read_tools(given["tools"], "tools") if "tools" in given else ()
    choice = read_tool_choice(given["tool_choice"], tools, "tool_choice") if "tool_choice" in given else "auto"
    return CreateResponse(
        **structs.asdict(options),
        input=_read_input(given, "previous_response_id", "conversation"),
        conversation=conversation,
        tools=tools,
        tool_choice=choice,
    )


def _read_input(given: dict[str, Json], *instead: str) -> tuple[InputItem, ...]:
    """None is fine where the request goes on from something."""
    items = read_input(given["input"], "input") if "input" in given else ()
    if not items and not any(name in given for name in instead):
        named = " or ".join(f"'{name}'" for name in instead)
        raise error_messages.missing("input", f"Send it, or go on from {named}.")
    return items


def _read_conversation(given: dict[str, Json]) -> str | None:
    named = fit(given, _Conversation, "").conversation if "conversation" in given else None
    id = named.id if isinstance(named, ConversationRef) else named
    if id is not None and not ids.is_like("conv", id):
        path = "conversation.id" if isinstance(named, ConversationRef) else "conversation"
        raise error_messages.not_an_id(path, id, "conv_")
    return id


def _check_together(given: dict[str, Json], options: RequestOptions) -> None:
    """Parameters that are right alone and wrong together."""
    if "conversation" in given and options.previous_response_id is not None:
        raise error_messages.both("previous_response_id", "conversation")
    if options.stream_options is not None and not options.stream:
        raise InvalidRequest(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.", param="stream_options"
        )
    if options.background and not options.store:
        raise InvalidRequest(
            "Invalid 'background': a background response is fetched later and so must be stored."
            " Leave 'store' out or set it to true.",
            param="background",
            fault="invalid_value",
        )


def check_stream_options(options: StreamOptions | None) -> None:
    """Padding hides how long the pieces of an answer are: who relies on it must know that there is none."""
    if options is not None and options.include_obfuscation:
        path = "stream_options.include_obfuscation"
        raise error_messages.unsupported(path, "Leave it out or send false: streams have no padding here.")


def _check_format(form: TextFormat, path: str) -> None:
    if form.type == "json_schema":
        if form.name is UNSET:
            raise error_messages.missing(f"{path}.name")
        if form.schema is UNSET:
            raise error_messages.missing(f"{path}.schema")
