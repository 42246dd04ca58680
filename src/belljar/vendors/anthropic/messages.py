"""A conversation as Anthropic's wire has it: a user and an assistant in turn, and what both say in blocks."""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

import msgspec

from belljar.errors import InvalidRequest
from belljar.vendors import code_call, vendor_tag
from belljar.vendors.anthropic import sandbox as anthropic_sandbox
from belljar.vendors.anthropic.vendor import READING
from belljar.vendors.call_ids import ANTHROPIC, CallIds
from belljar.vendors.media_types import type_of
from belljar.vendors.request import Asked, AttachedFiles, ModelRequest, VendorFile, Verbatim, refuse_item
from belljar.wire import codec
from belljar.wire.items import (
    CodeInterpreterCall,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputFile,
    InputImage,
    InputText,
    ItemReference,
    Json,
    Message,
    OutputText,
    Part,
    Reasoning,
    Refusal,
)
from belljar.wire.tools import CodeInterpreterTool

Block: TypeAlias = dict[str, Any]

VENDOR = "anthropic"
_THOUGHT = ("thinking", "redacted_thinking")
_BEGINNING = "(The conversation begins here.)"
_DATA_URL = re.compile(r"data:([^;,]*+)([^,]*+),", re.ASCII)


class _Turn:
    """What the assistant said in one go, and the results of its calls."""

    __slots__ = ("blocks", "more", "open", "results")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.results: list[Block] = []
        self.open = False
        """A call of it awaits its result further on: what comes before that belongs to it."""
        self.more = False
        """Another call of it follows."""


class MessagesWriter:
    """The items of a request, written down."""

    def __init__(self, request: ModelRequest) -> None:
        self.messages: list[Block] = []
        self.orders: list[str] = [request.instructions] if request.instructions else []
        """What goes before everything: instructions, and messages of the system and the developer."""
        self._called: dict[str, None] = {}
        self._call_ids = CallIds(ANTHROPIC)
        self._request = request
        self.ran = speaks_of_code(request)
        """Code of the vendor's own running is spoken of in it."""
        self._hosted = any(isinstance(tool, CodeInterpreterTool) for tool in request.tools)
        self._turn: _Turn | None = None
        self._outputs: dict[str, deque[str | tuple[Part, ...]]] = {}
        for item in request.items:
            if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
                self._outputs.setdefault(item.call_id, deque()).append(item.output)
        for item in request.items:
            self._write(item)
        self._close()
        if not self.messages or self.messages[0]["role"] != "user":
            self.messages.insert(0, {"role": "user", "content": [_text(_BEGINNING)]})
        if request.files:
            newest = next(message for message in reversed(self.messages) if message["role"] == "user")
            newest["content"] += [{"type": "container_upload", "file_id": file.id} for file in request.files]

    @property
    def called(self) -> list[str]:
        """The names of the tools that were called in it."""
        return list(self._called)

    def _write(self, item: Asked) -> None:
        match item:
            case Verbatim():
                if item.vendor == VENDOR:
                    self._repeat(item.blocks)
            case AttachedFiles():
                self._close()
                self._say("user", [_write_attachment(file, item.for_code) for file in item.files])
            case Message(role="user"):
                self._close()
                self._say("user", self._blocks(item.content))
            case Message(role="assistant"):
                self._open_turn().blocks += self._blocks(item.content)
            case Message():
                self.orders += [block["text"] for block in self._blocks(item.content) if block["type"] == "text"]
            case Reasoning():
                if (thought := _read_thought_block(item)) is not None:
                    self._open_turn().blocks.append(thought)
            case FunctionCall():
                self._call(item.call_id, item.name, _object(item.arguments))
            case CustomToolCall():
                self._call(item.call_id, item.name, {"input": item.input})
            case FunctionCallOutput() | CustomToolCallOutput():
                if self._turn is not None:
                    self._turn.open = False
            case CodeInterpreterCall() if (
                self._hosted and (ran := anthropic_sandbox.write_hosted_call(item)) is not None
            ):
                self._open_turn().blocks += ran
            case CodeInterpreterCall():
                self._ran(item)
            case Compaction() | ItemReference():
                raise refuse_item(self._request.model, item)
            case _:  # a hosted tool's doings, or a mark for us: nothing that this wire can say
                pass

    # -- turns

    def _open_turn(self) -> _Turn:
        """The turn to add to: results end one, unless some are still to come."""
        turn = self._turn
        if turn is None or (turn.results and not (turn.open or turn.more)):
            self._close()
            turn = self._turn = _Turn()
        return turn

    def _repeat(self, blocks: Iterable[Block]) -> None:
        """An answer as it came. Each call in it has a result, be it empty: without, the wire takes no more."""
        if self._turn is not None and self._turn.results:
            self._close()
        turn = self._open_turn()
        for block in blocks:
            turn.blocks.append(block)
            if block["type"] == "tool_use":
                self._called[block["name"]] = None
                turn.results.append(self._result(block["id"], block["id"]))
                turn.open = True

    def _call(self, call_id: str, name: str, given: Json) -> None:
        turn = self._open_turn()
        id = self._call_ids.call(call_id)
        self._called[name] = None
        turn.blocks.append({"type": "tool_use", "id": id, "name": name, "input": given})
        turn.results.append(self._result(call_id, id))
        turn.open, turn.more = True, False

    def _result(self, call_id: str, id: str) -> Block:
        """Of a call, which goes by this id on the wire."""
        outputs = self._outputs.get(call_id)
        output = outputs.popleft() if outputs else ""
        written: Block = {"type": "tool_result", "tool_use_id": id, "content": self._blocks(output)}
        return written | {"is_error": True} if call_id in self._request.failed_calls else written

    def _ran(self, item: CodeInterpreterCall) -> None:
        told = [_text(code_call.write_output(item, self._request))]
        shown = [_image(url) for url in self._request.call_images.get(item.id, ())]
        turn = self._open_turn()
        id = self._call_ids.call(item.id)
        self._called[code_call.NAME] = None
        given = {"code": item.code or ""}
        turn.blocks.append({"type": "tool_use", "id": id, "name": code_call.NAME, "input": given})
        turn.results.append({"type": "tool_result", "tool_use_id": id, "content": told + shown})
        turn.more = code_call.has_more_calls(item)

    def _close(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        while turn.blocks and turn.blocks[-1]["type"] in _THOUGHT:  # a turn that was cut off; it may not end so
            turn.blocks.pop()
        self._say("assistant", turn.blocks)
        self._say("user", turn.results)

    def _say(self, role: Literal["user", "assistant"], blocks: list[Block]) -> None:
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": list(blocks)})

    # -- content

    def _blocks(self, content: str | Iterable[Part]) -> list[Block]:
        """Without empty texts, which are refused."""
        if isinstance(content, str):
            return [_text(content)] if content.strip() else []
        blocks = [self._block(part) for part in content]
        return [block for block in blocks if block["type"] != "text" or block["text"].strip()]

    def _block(self, part: Part) -> Block:
        match part:
            case InputText(text=text) | OutputText(text=text) | Refusal(refusal=text):
                return _text(text)
            case InputImage(image_url=str(url)):
                return _image(url)
            case InputImage(file_id=id):
                return _text(f"[attached image: {id}]")
            case InputFile():
                return _document(part)
            case _:  # InputAudio
                raise InvalidRequest(
                    f"input: {self._request.model!r} cannot hear; leave the input_audio out, or send it in words",
                    param="input",
                )


def speaks_of_code(request: ModelRequest) -> bool:
    """Whether the conversation has files for code of the vendor's own running, or what it ran."""
    return any(
        (type(item) is AttachedFiles and item.for_code)
        or (type(item) is Verbatim and item.vendor == VENDOR and any(map(_is_run, item.blocks)))
        for item in request.items
    )


def _is_run(block: Block) -> bool:
    return block["type"] == "server_tool_use" and anthropic_sandbox.tool_of(block["name"]) is not None


def _write_attachment(file: VendorFile, for_code: bool) -> Block:
    if for_code:
        return {"type": "container_upload", "file_id": file.id}
    kind = "image" if type_of(file.name).startswith("image/") else "document"
    return {"type": kind, "source": {"type": "file", "file_id": file.id}}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _image(url: str) -> Block:
    return {"type": "image", "source": _source(url)}


def _source(url: str) -> Block:
    found = _DATA_URL.match(url)
    if found is None:
        return {"type": "url", "url": url}
    kind = "image/jpeg" if found[1] == "image/jpg" else found[1]
    return {"type": "base64", "media_type": kind, "data": _base64(found, url)}


def _base64(found: re.Match[str], url: str) -> str:
    rest = url[found.end() :]
    return rest if ";base64" in found[2] else base64.b64encode(unquote_to_bytes(rest)).decode()


def _document(part: InputFile) -> Block:
    """What the model can read goes to it; of other files it is told the name."""
    name = part.filename if isinstance(part.filename, str) else "file"
    if isinstance(part.file_url, str):
        return {"type": "document", "source": {"type": "url", "url": part.file_url}}
    found = _DATA_URL.match(part.file_data) if isinstance(part.file_data, str) else None
    if found is not None and isinstance(part.file_data, str):
        data = _base64(found, part.file_data)
        if found[1] == "application/pdf":
            source = {"type": "base64", "media_type": "application/pdf", "data": data}
            return {"type": "document", "title": name, "source": source}
        if READING.reads(found[1]):
            text = base64.b64decode(data).decode(errors="replace")
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return {"type": "document", "title": name, "source": source}
    return _text(f"[attached file: {name}]")


def _read_thought_block(item: Reasoning) -> Block | None:
    """The block as it came; None where this vendor did not think it."""
    kept = vendor_tag.untag(VENDOR, item.encrypted_content)
    if kept is None:
        return None
    try:
        block: Json = codec.decode(kept)
    except msgspec.DecodeError:  # a caller had its hands on it
        return None
    return block if isinstance(block, dict) and block.get("type") in _THOUGHT else None


def _object(arguments: str) -> Json:
    """Arguments as the object that they must be, if need be by wrapping."""
    try:
        given: Json = codec.decode(arguments or "{}")
    except msgspec.DecodeError:
        given = None
    return given if isinstance(given, dict) else {"arguments": arguments}
