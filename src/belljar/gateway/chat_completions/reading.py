"""Parse POST /v1/chat/completions into the Responses request that means the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, field, structs

from belljar.vendors.code_call import NAME
from belljar.wire import error_messages
from belljar.wire.conversion import fit
from belljar.wire.extras import Ignored, RequestExtras
from belljar.wire.images import check_picture
from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputFile,
    InputImage,
    InputItem,
    InputText,
    Json,
    Message,
    OutputText,
    Part,
    Refusal,
    Value,
)
from belljar.wire.reading import check_stream_options
from belljar.wire.reading_tools import read_tool_choice, read_tools
from belljar.wire.requests import CreateResponse, Id, Include, Metadata, Sampling, ServiceTier, StreamOptions
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import AutoContainer

_PREDICTION = "Answers are written without it: it would only make them faster. Leave it out."

# -- parts ------------------------------------------------------------------------------------------------------------


class _Text(Value, frozen=True, kw_only=True, tag="text"):
    text: str


class _Refusal(Value, frozen=True, kw_only=True, tag="refusal"):
    refusal: str


class _ImageUrl(Struct, frozen=True, kw_only=True):
    url: str
    detail: Literal["auto", "low", "high"] | None = None


class _Image(Value, frozen=True, kw_only=True, tag="image_url"):
    image_url: _ImageUrl


class _Audio(Value, frozen=True, kw_only=True, tag="input_audio"):
    input_audio: dict[str, Json]


class _FileSource(Struct, frozen=True, kw_only=True):
    file_id: str | None = None
    file_data: str | None = None
    filename: str | None = None


class _File(Value, frozen=True, kw_only=True, tag="file"):
    file: _FileSource


# -- messages ---------------------------------------------------------------------------------------------------------


class _Function(Struct, frozen=True, kw_only=True):
    name: str
    arguments: str


class _FunctionCall(Value, frozen=True, kw_only=True, tag="function"):
    id: str
    function: _Function


class _Custom(Struct, frozen=True, kw_only=True):
    name: str
    input: str


class _CustomCall(Value, frozen=True, kw_only=True, tag="custom"):
    id: str
    custom: _Custom


class _Said(Struct, frozen=True, kw_only=True, tag_field="role"):
    """Keys that we do not know are let go: clients send back what some server once answered."""


class _System(_Said, frozen=True, kw_only=True, tag="system"):
    content: str | tuple[_Text, ...]


class _Developer(_Said, frozen=True, kw_only=True, tag="developer"):
    content: str | tuple[_Text, ...]


class _User(_Said, frozen=True, kw_only=True, tag="user"):
    content: str | tuple[_Text | _Image | _Audio | _File, ...]


class _Ours(Struct, frozen=True, kw_only=True):
    """What we answered beside it. The cells that we ran, sent back, keep the container."""

    cells: tuple[CodeInterpreterCall, ...] = ()


class _Assistant(_Said, frozen=True, kw_only=True, tag="assistant"):
    content: str | tuple[_Text | _Refusal, ...] | None = None
    refusal: str | None = None
    tool_calls: tuple[_FunctionCall | _CustomCall, ...] | None = None
    belljar: _Ours | None = None


class _Tool(_Said, frozen=True, kw_only=True, tag="tool"):
    tool_call_id: str
    content: str | tuple[_Text, ...]


_AnyMessage: TypeAlias = _System | _Developer | _User | _Assistant | _Tool

# -- tools and form ---------------------------------------------------------------------------------------------------


class _FunctionSpec(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: str | None = None
    parameters: dict[str, Json] | None = None
    strict: bool | None = None


class _FunctionTool(Value, frozen=True, kw_only=True, tag="function"):
    function: _FunctionSpec


class _CustomSpec(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: str | None = None
    format: dict[str, Json] | None = None


class _CustomTool(Value, frozen=True, kw_only=True, tag="custom"):
    custom: _CustomSpec


class _CodeTool(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="code_interpreter"):
    container: str | AutoContainer | None = None


class _AnyForm(Value, frozen=True, kw_only=True, tag="text"): ...


class _ObjectForm(Value, frozen=True, kw_only=True, tag="json_object"): ...


class _Schema(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    schema: dict[str, Json] | None = None
    strict: bool | None = None
    description: str | None = None


class _SchemaForm(Value, frozen=True, kw_only=True, tag="json_schema"):
    json_schema: _Schema


# -- the body ---------------------------------------------------------------------------------------------------------


class _StreamOptions(StreamOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    include_usage: bool = False


class ChatBody(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: Id
    messages: Annotated[tuple[_AnyMessage, ...], Meta(min_length=1)]
    tools: tuple[_FunctionTool | _CustomTool | _CodeTool, ...] = ()
    tool_choice: Json = None
    parallel_tool_calls: bool = True
    response_format: _AnyForm | _ObjectForm | _SchemaForm | None = None
    verbosity: Literal["low", "medium", "high"] = "medium"
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    stream: bool = False
    stream_options: _StreamOptions | None = None
    store: bool = False
    metadata: Metadata = field(default_factory=dict)
    service_tier: ServiceTier | None = None
    prompt_cache_key: Annotated[str, Meta(max_length=64)] | None = None
    prompt_cache_options: dict[str, Json] | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None = None
    user: str | None = None
    belljar: RequestExtras = field(default_factory=RequestExtras)
    # Without effect.
    moderation: Json = None
    prediction: dict[str, Json] | None = None
    # Refused unless they ask for what is done anyway.
    n: int = 1
    modalities: tuple[str, ...] = ("text",)
    audio: Json = None
    web_search_options: Json = None
    functions: Json = None
    function_call: Json = None


class ChatRequest(Struct, frozen=True, kw_only=True):
    """What a chat completion asks for."""

    request: CreateResponse
    usage: bool
    """The stream is to end with the tokens spent."""
    ignored: tuple[Ignored, ...] = ()
    """What had no effect, beyond what the engine tells."""


def read_chat(data: dict[str, Json]) -> ChatRequest:
    """The request; an `InvalidRequest` names the field in the caller's own terms."""
    body = fit(_add_call_types(data), ChatBody, "")
    _check_supported(body)
    check_stream_options(body.stream_options)
    tools = read_tools([_read_tool(tool) for tool in body.tools], "tools")
    choice = "auto" if body.tool_choice is None else _read_choice(body.tool_choice)
    include: list[Include] = []
    if any(isinstance(tool, _CodeTool) for tool in body.tools):
        include.append("code_interpreter_call.outputs")
    if body.logprobs:
        include.append("message.output_text.logprobs")
    request = CreateResponse(
        **structs.asdict(body.sampling()),
        model=body.model,
        input=tuple(_read_items(body.messages)),
        tools=tools,
        tool_choice=read_tool_choice(choice, tools, "tool_choice"),
        parallel_tool_calls=body.parallel_tool_calls,
        include=tuple(include),
        text=TextConfig(format=_read_format(body.response_format), verbosity=body.verbosity),
        max_output_tokens=body.max_completion_tokens or body.max_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_logprobs=body.top_logprobs,
        reasoning=Reasoner(effort=body.reasoning_effort) if body.reasoning_effort else None,
        stream=body.stream,
        store=body.store,
        metadata=body.metadata,
        service_tier=body.service_tier,
        prompt_cache_key=body.prompt_cache_key,
        prompt_cache_options=body.prompt_cache_options,
        prompt_cache_retention=body.prompt_cache_retention,
        safety_identifier=body.safety_identifier,
        user=body.user,
        belljar=body.belljar,
    )
    ignored = () if body.prediction is None else (Ignored(param="prediction", message=_PREDICTION),)
    usage = body.stream_options is not None and body.stream_options.include_usage
    return ChatRequest(request=request, usage=usage, ignored=ignored)


def _add_call_types(data: dict[str, Json]) -> dict[str, Json]:
    """Calls in the history without a type, which many leave out, are of functions."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        return data
    return {**data, "messages": [_add_types(message) for message in messages]}


def _add_types(message: Json) -> Json:
    if not isinstance(message, dict) or not isinstance(calls := message.get("tool_calls"), list):
        return message
    return {**message, "tool_calls": [{"type": "function", **one} if isinstance(one, dict) else one for one in calls]}


def _check_supported(body: ChatBody) -> None:
    """What we cannot do is refused rather than passed over."""
    once = "Ask once for every answer you want."
    refused: list[tuple[str, bool, str]] = [
        ("n", body.n != 1, once),
        ("modalities", body.modalities != ("text",), "Answers are text."),
        ("audio", body.audio is not None, "Answers are text."),
        ("web_search_options", body.web_search_options is not None, "Offer a function that searches."),
        ("functions", bool(body.functions), "Use 'tools' instead."),
        ("function_call", body.function_call not in (None, "auto", "none"), "Use 'tool_choice' instead."),
    ]
    for name, is_asked, remedy in refused:
        if is_asked:
            raise error_messages.unsupported(name, remedy)


def _read_tool(tool: _FunctionTool | _CustomTool | _CodeTool) -> dict[str, Json]:
    """As our own API would have it: flat."""
    match tool:
        case _FunctionTool(function=function):
            return {"type": "function", **structs.asdict(function)}
        case _CustomTool(custom=custom):
            flat = {"type": "custom", "name": custom.name}
            if custom.description is not None:
                flat["description"] = custom.description
            return flat if custom.format is None else {**flat, "format": _flatten_tool(custom.format)}
        case _:
            container = AutoContainer() if tool.container is None else tool.container
            return {"type": NAME, "container": msgspec.to_builtins(container)}


def _read_choice(choice: Json) -> Json:
    flat = _flatten_tool(choice)
    if isinstance(flat, dict) and isinstance(flat.get("tools"), list):
        return {**flat, "tools": [_flatten_tool(tool) for tool in flat["tools"]]}
    return flat


def _flatten_tool(value: Json) -> Json:
    """`{"type": "x", "x": {…}}` as `{"type": "x", …}`."""
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    inner = value.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **inner} if isinstance(inner, dict) else value


def _read_format(form: _AnyForm | _ObjectForm | _SchemaForm | None) -> TextFormat:
    match form:
        case _SchemaForm(json_schema=asked):
            return TextFormat(
                type="json_schema",
                name=asked.name,
                schema=asked.schema or {},
                strict=UNSET if asked.strict is None else asked.strict,
                description=asked.description or UNSET,
            )
        case _ObjectForm():
            return TextFormat(type="json_object")
        case _:
            return TextFormat()


# -- messages as items ------------------------------------------------------------------------------------------------


def _read_items(messages: tuple[_AnyMessage, ...]) -> Iterator[InputItem]:
    custom: set[str] = set()
    for n, message in enumerate(messages):
        match message:
            case _System(content=content):
                yield Message(role="system", content=_read_texts(content))
            case _Developer(content=content):
                yield Message(role="developer", content=_read_texts(content))
            case _User():
                yield Message(role="user", content=_read_parts(message, f"messages[{n}].content"))
            case _Tool(tool_call_id=call_id, content=content) if call_id in custom:
                yield CustomToolCallOutput(call_id=call_id, output=_read_texts(content))
            case _Tool(tool_call_id=call_id, content=content):
                yield FunctionCallOutput(call_id=call_id, output=_read_texts(content))
            case _:
                yield from message.belljar.cells if message.belljar else ()
                said = _read_answer_parts(message)
                if said:
                    yield Message(role="assistant", content=said)
                for call in message.tool_calls or ():
                    if isinstance(call, _CustomCall):
                        custom.add(call.id)
                        yield CustomToolCall(call_id=call.id, name=call.custom.name, input=call.custom.input)
                    else:
                        function = call.function
                        yield FunctionCall(call_id=call.id, name=function.name, arguments=function.arguments)


def _read_texts(content: str | tuple[_Text, ...]) -> str | tuple[InputText, ...]:
    return content if isinstance(content, str) else tuple(InputText(text=part.text) for part in content)


def _read_parts(message: _User, path: str) -> str | tuple[Part, ...]:
    if isinstance(message.content, str):
        return message.content
    return tuple(_read_part(part, f"{path}[{n}]") for n, part in enumerate(message.content))


def _read_part(part: _Text | _Image | _Audio | _File, path: str) -> Part:
    match part:
        case _Text(text=text):
            return InputText(text=text)
        case _Image(image_url=image):
            check_picture(image.url, f"{path}.image_url.url")
            return InputImage(image_url=image.url, detail=image.detail or "auto")
        case _Audio(input_audio=audio):
            return InputAudio(input_audio=audio)
        case _:
            file = part.file
            if file.file_id is None and file.file_data is None:
                raise error_messages.missing(f"{path}.file.file_id", "A file needs 'file_id' or 'file_data'.")
            return InputFile(
                file_id=file.file_id or UNSET, file_data=file.file_data or UNSET, filename=file.filename or UNSET
            )


def _read_answer_parts(message: _Assistant) -> tuple[Part, ...]:
    content = message.content or ()
    parts: list[Part] = []
    if isinstance(content, str):
        parts.append(OutputText(text=content))
    else:
        for part in content:
            parts.append(OutputText(text=part.text) if isinstance(part, _Text) else Refusal(refusal=part.refusal))
    if message.refusal:
        parts.append(Refusal(refusal=message.refusal))
    return tuple(parts)
