"""A turn as the body of xAI's POST /responses."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from msgspec import structs

from belljar.vendors import code_call
from belljar.vendors.media_types import type_of
from belljar.vendors.model import nearest_effort_of
from belljar.vendors.openai import request as openai_request
from belljar.vendors.request import Asked, AttachedFiles, ModelRequest, VendorFile
from belljar.vendors.vendor_tag import untag
from belljar.vendors.xai.models import BY_ID
from belljar.wire import codec
from belljar.wire.items import CodeInterpreterCall, InputFile, InputImage, Message, Part, Reasoning
from belljar.wire.responses import Reasoner
from belljar.wire.tools import CodeInterpreterTool

Body: TypeAlias = dict[str, Any]

VENDOR = "xai"
"""The mark of its sealed reasoning, which has the id there behind it."""
_TOOL = {"type": "code_interpreter"}


def encode(request: ModelRequest, members: Collection[str]) -> bytes:
    """OpenAI's body without what xAI refuses.

    Instructions are its first message, there is no role `developer`, no verbosity and no truncation, and reasoning is
    asked for sealed where nothing is stored there. Of how hard to think, only the effort.
    """
    plain = structs.replace(
        request,
        items=tuple(_items(request)),
        instructions=None,
        encrypted_reasoning=not request.store,
        reasoning=_fit_reasoning(request),
        text=structs.replace(request.text, verbosity="medium"),
        truncation="disabled",
        logprobs=False,
        top_logprobs=0,
    )
    hosted = openai_request.find_code_interpreter(request) is not None
    body = openai_request.write(plain, members, lambda item: _cell(item) if hosted else None, VENDOR)
    if request.logprobs or request.top_logprobs:
        body["logprobs"] = True
    if request.top_logprobs:
        body["top_logprobs"] = request.top_logprobs
    if "tools" in body:
        body["tools"] = [_TOOL if isinstance(tool, CodeInterpreterTool) else tool for tool in body["tools"]]
    return codec.encode(body)


def _fit_reasoning(request: ModelRequest) -> Reasoner | None:
    """With an effort that the model takes; nothing where it takes none."""
    wanted = request.reasoning.effort if request.reasoning else None
    effort = None if wanted is None else nearest_effort_of(BY_ID, request.model, wanted)
    return None if effort is None else Reasoner(effort=effort)


def _items(request: ModelRequest) -> Iterator[Asked]:
    """Files stand in messages of the user's, also those for code; ours in the first: they are given anew each time."""
    if request.instructions:
        yield Message(role="system", content=request.instructions)
    files = tuple(InputFile(file_id=file.id) for file in request.files)
    attached: list[Part] = []
    for item in request.items:
        match item:
            case AttachedFiles():
                attached += map(_write_attachment, item.files)
            case Message(role="user") if files or attached:
                yield structs.replace(item, content=(*attached, *openai_request.parts_of(item), *files))
                attached, files = [], ()
            case Message(role="developer"):
                yield structs.replace(item, role="system")
            case Reasoning():
                id, _, sealed = (untag(VENDOR, item.encrypted_content) or "").partition(":")
                if sealed:
                    yield structs.replace(item, id=id, encrypted_content=sealed)
            case _:
                yield item


def _write_attachment(file: VendorFile) -> Part:
    """It looks at pictures only where they are given whole, not by an id."""
    if file.data is None:
        return InputFile(file_id=file.id)
    return InputImage(image_url=f"data:{file.type or type_of(file.name)};base64,{b64encode(file.data).decode()}")


def _cell(item: CodeInterpreterCall) -> Body:
    """Code that xAI ran, in its own form."""
    return {
        "type": "code_interpreter_call",
        "id": item.id,
        "call_id": "",
        "name": "code_execution",
        "arguments": code_call.write_arguments(item),
        "status": item.status,
        "outputs": item.outputs or (),
    }
