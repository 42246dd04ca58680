"""A turn as the body of POST /responses, for a provider that speaks OpenAI's own wire."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

from msgspec import UNSET, structs

from belljar.vendors import code_call, function_names
from belljar.vendors.call_ids import RESPONSES, CallIds
from belljar.vendors.media_types import type_of
from belljar.vendors.model import find_row, nearest_effort_of
from belljar.vendors.openai.models import BY_ID
from belljar.vendors.request import AttachedFiles, ModelRequest, VendorTool, Verbatim
from belljar.vendors.vendor_tag import give_back
from belljar.wire import codec, ids
from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputItem,
    InputPart,
    InputText,
    Message,
    OtherItem,
    OutputText,
    Part,
    Reasoning,
)
from belljar.wire.responses import Reasoner, TextConfig
from belljar.wire.tools import AllowedTools, Choice, CodeInterpreterTool, ToolChoice

Body: TypeAlias = dict[str, Any]
Native: TypeAlias = Callable[[CodeInterpreterCall], object | None]
"""A cell that the provider ran, in its own form; None where it cannot be told so."""

VENDOR = "openai"
"""Whose own blocks and tools are sent."""
_FUNCTION = Choice(type="function", name=code_call.NAME)
_LEAST = 16
"""Tokens of an answer: a smaller limit is refused there."""
_CELL = re.compile(r"ci_[a-zA-Z0-9_-]{1,61}")
"""The id of a cell of OpenAI's; it refuses others there."""


def encode(request: ModelRequest, members: Collection[str]) -> bytes:
    """A cell that OpenAI ran is told as such only in the container that it goes on in.

    It would refuse a cell of a container that is gone. `members` are those beyond the common ones that a server takes.
    """
    tool = find_code_interpreter(request)
    container = tool.container if tool is not None and isinstance(tool.container, str) else None

    def native(item: CodeInterpreterCall) -> object | None:
        if container is None or not _CELL.fullmatch(item.id):
            return None
        return structs.replace(item, container_id=container, belljar=UNSET, told=UNSET)

    return codec.encode(write(request, members, native, VENDOR))


def find_code_interpreter(request: ModelRequest) -> CodeInterpreterTool | None:
    return next((tool for tool in request.tools if isinstance(tool, CodeInterpreterTool)), None)


def write(request: ModelRequest, members: Collection[str], native: Native, vendor: str) -> Body:
    """Always a stream. Of what is one vendor's own, only this `vendor`'s is sent."""
    request = function_names.fit_names(request, function_names.LONG)
    tools = list(_tools(request, vendor))
    hosted = any(_runs_code(tool) for tool in tools)
    body: Body = {
        "model": request.model,
        "input": list(_input(request, native, vendor)),
        "stream": True,
    }
    if request.store is not None:
        body["store"] = request.store
    if request.previous is not None:
        body["previous_response_id"] = request.previous
    if tools:
        body["tools"] = tools
        if request.tool_choice != "auto":
            body["tool_choice"] = request.tool_choice if hosted else _replace_choice(request.tool_choice)
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    include = []
    if request.encrypted_reasoning:
        include.append("reasoning.encrypted_content")
    if hosted:
        include.append("code_interpreter_call.outputs")
    if request.logprobs or request.top_logprobs:
        include.append("message.output_text.logprobs")
    optional: Body = {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens and max(_LEAST, request.max_output_tokens),
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_logprobs": request.top_logprobs or None,
        "text": _text(request),
        "reasoning": _fit_reasoning(request),
        "truncation": request.truncation if request.truncation != "disabled" else None,
        "include": include or None,
        "user": request.user,
    }
    extras = {
        "service_tier": request.service_tier,
        "prompt_cache_key": request.prompt_cache_key,
        "safety_identifier": request.safety_identifier,
    }
    body.update({name: value for name, value in optional.items() if value is not None})
    body.update({name: value for name, value in extras.items() if value is not None and name in members})
    return body


def _text(request: ModelRequest) -> TextConfig | None:
    """Without a verbosity that the model refuses."""
    row = find_row(BY_ID, request.model)
    text = request.text if row is None or row.verbosity else structs.replace(request.text, verbosity="medium")
    return text if text != TextConfig() else None


def _fit_reasoning(request: ModelRequest) -> Reasoner | None:
    """With an effort that the model takes; without one where it takes none."""
    asked = request.reasoning
    if asked is None or asked.effort is None:
        return asked
    told = structs.replace(asked, effort=nearest_effort_of(BY_ID, request.model, asked.effort))
    return told if told != Reasoner() else None


def _tools(request: ModelRequest, vendor: str) -> Iterator[object]:
    for tool in request.tools:
        match tool:
            case CodeInterpreterTool():
                yield _supply_files(tool, request)
            case VendorTool():
                if tool.vendor == vendor:
                    yield tool.body
            case _:
                yield tool


def _runs_code(tool: object) -> bool:
    return isinstance(tool, CodeInterpreterTool) or (isinstance(tool, dict) and tool.get("type") == code_call.NAME)


def _supply_files(tool: CodeInterpreterTool, request: ModelRequest) -> CodeInterpreterTool:
    """A new container gets its files with the tool; into one that is there already they are put beforehand."""
    if isinstance(tool.container, str):
        return tool
    given = [file.id for file in request.files if file.id is not None]
    attached = [item for item in request.items if isinstance(item, AttachedFiles) and item.for_code]
    given += [file.id for item in attached for file in item.files]
    return structs.replace(tool, container=structs.replace(tool.container, file_ids=tuple(given) or UNSET))


def _replace_choice(choice: ToolChoice) -> ToolChoice:
    """Where we run the code, the provider knows the tool as a function."""
    match choice:
        case Choice(type=code_call.NAME):
            return _FUNCTION
        case AllowedTools():
            tools = tuple(_FUNCTION if tool.type == code_call.NAME else tool for tool in choice.tools)
            return AllowedTools(mode=choice.mode, tools=tools)
        case _:
            return choice


def _input(request: ModelRequest, native: Native, vendor: str) -> Iterator[object]:
    """The conversation as it goes out. Calls that were made together stand together, and after them their results."""
    calls = CallIds(RESPONSES)
    held: list[object] = []
    attached: list[InputPart] = []
    more = False
    for item in request.items:
        if type(item) is FunctionCallOutput or type(item) is CustomToolCallOutput:
            more = False
        if held and not more:
            yield from held
            held = []
        match item:
            case AttachedFiles():
                attached += [] if item.for_code else [_write_attachment(file.id, file.name) for file in item.files]
            case Verbatim():
                yield from _blocks(item, calls) if item.vendor == vendor else ()
            case Message() if attached:
                said = structs.replace(item, content=(*attached, *parts_of(item)))
                yield from _write_item(said, request, native, calls)
                attached = []
            case CodeInterpreterCall():
                made, *came = _write_item(item, request, native, calls)
                yield made
                held += came
                more = code_call.has_more_calls(item)
            case _:
                yield from _write_item(item, request, native, calls)
    yield from held


def _blocks(item: Verbatim, calls: CallIds) -> Iterator[object]:
    """As the vendor wrote them, ids and all."""
    for block in item.blocks:
        if block.get("type") in ("function_call", "custom_tool_call"):
            calls.keep(block["call_id"])
        yield block


def parts_of(said: Message) -> tuple[Part, ...]:
    return (InputText(text=said.content),) if isinstance(said.content, str) else said.content


def _write_attachment(id: str, name: str) -> InputPart:
    """A picture is no file to OpenAI: it is looked at, not read."""
    return InputImage(file_id=id) if type_of(name).startswith("image/") else InputFile(file_id=id)


def _write_item(item: InputItem, request: ModelRequest, native: Native, calls: CallIds) -> Iterator[object]:
    """The item as it goes out. Ids are dropped but of what the provider must find again: it has stored nothing."""
    match item:
        case Message():
            yield structs.replace(item, content=_content(item), id=UNSET, status=UNSET, sealed=UNSET, told=UNSET)
        case FunctionCall() | CustomToolCall():
            yield structs.replace(item, call_id=calls.open_call(item.call_id), id=UNSET, status=UNSET)
        case FunctionCallOutput() if item.call_id in request.failed_calls and isinstance(item.output, str):
            # There is no flag for a failure on this wire.
            yield FunctionCallOutput(call_id=calls.output(item.call_id), output=f"Error: {item.output}")
        case FunctionCallOutput() | CustomToolCallOutput():
            yield structs.replace(item, call_id=calls.output(item.call_id), id=UNSET)
        case Reasoning():
            # One of another vendor, or not kept, is left out: the provider could not find it.
            if (own := give_back(item)) is not None:
                yield own
        case CodeInterpreterCall() if ids.home(item.id) is None and (cell := native(item)) is not None:
            yield cell
        case CodeInterpreterCall():
            id = calls.call(item.id)
            yield FunctionCall(call_id=id, name=code_call.NAME, arguments=code_call.write_arguments(item))
            yield FunctionCallOutput(call_id=id, output=_write_output(item, request))
        case OtherItem(id=str(id)) if id.startswith("item_") and ids.home(id) is not None:
            # A number that we gave it: the provider knows none for it, and refuses this one.
            yield OtherItem({name: value for name, value in item.data.items() if name != "id"})
        case _:
            yield item


def _content(item: Message) -> str | tuple[Part, ...]:
    """What was said, without what it was annotated with: citations name files that only we have."""
    if isinstance(item.content, str):
        return item.content
    return tuple(OutputText(text=part.text) if isinstance(part, OutputText) else part for part in item.content)


def _write_output(item: CodeInterpreterCall, request: ModelRequest) -> str | tuple[InputText | InputImage, ...]:
    told = code_call.write_output(item, request)
    images = request.call_images.get(item.id)
    if not images:
        return told
    return (InputText(text=told), *(InputImage(image_url=url) for url in images))
