"""The streamed answer of xAI's POST /responses as deltas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from belljar.vendors.deltas import Delta
from belljar.vendors.openai.stream import ResponsesDecoder
from belljar.vendors.vendor_tag import tag
from belljar.vendors.xai.request import VENDOR
from belljar.wire import codec

_CELLS = frozenset(["code_interpreter_call", "code_execution_call"])


class XaiDecoder(ResponsesDecoder):
    """One answer. Events of a cell's progress say nothing that its item does not, when it is done."""

    vendor = VENDOR

    def _begin(self, index: int, item: Raw, out: list[Delta]) -> None:
        super()._begin(index, _plain(item), out)

    def _complete(self, index: int, item: Raw, out: list[Delta]) -> None:
        super()._complete(index, _plain(item), out)


def _plain(item: Raw) -> Raw:
    """The item as OpenAI would have it; twice is the same as once."""
    data = msgspec.json.decode(item)
    if data.get("type") in _CELLS:
        return Raw(msgspec.json.encode(_cell(data)))
    sealed = data.get("encrypted_content")
    if data.get("type") == "reasoning" and isinstance(sealed, str) and not sealed.startswith(f"{VENDOR}:"):
        return Raw(msgspec.json.encode({**data, "encrypted_content": tag(VENDOR, f"{data.get('id')}:{sealed}")}))
    return item


def _cell(data: dict[str, Any]) -> dict[str, Any]:
    """The code is in the arguments of a call; the outputs, where there are any, are OpenAI's or a record of the run."""
    return {
        "type": "code_interpreter_call",
        "id": data.get("id") or "",
        "status": data.get("status"),
        "code": data.get("code"),
        "arguments": data.get("arguments") or "{}",
        "container_id": data.get("container_id") or "",
        **_read_result(data),
    }


def _read_result(data: dict[str, Any]) -> dict[str, Any]:
    """What the run printed, and the files that it made: beside that, or beside the call."""
    given = data.get("outputs") or data.get("output")
    if isinstance(given, str):
        try:
            given = codec.decode(given)
        except msgspec.DecodeError:
            given = {"stdout": given}
    made = data.get("files") or data.get("output_files")
    if not made and isinstance(given, dict):
        made = given.get("output_files")
    came = {"outputs": _outputs(given), "files": list(_files(made))}
    end = _end(given) if isinstance(given, dict) else data.get("end")
    return {**came, "end": end} if isinstance(end, dict) and "exit" in end else came


def _end(given: dict[str, Any]) -> dict[str, Any]:
    """How a run ended, of which it has a record."""
    streams = {name: text for name in ("stdout", "stderr") if isinstance(text := given.get(name), str)}
    return {"exit": "raised" if given.get("error") else "ok", **streams}


def _files(made: Any) -> Iterator[dict[str, str]]:
    """A list of files, or files by their names: what a filled one looks like has not been seen."""
    if isinstance(made, dict):
        made = [{"name": name, **(one if isinstance(one, dict) else {"file_id": one})} for name, one in made.items()]
    for one in made if isinstance(made, list) else ():
        if isinstance(one, dict) and isinstance(id := one.get("file_id") or one.get("id"), str):
            yield {"file_id": id, "name": str(one.get("name") or one.get("filename") or "")}


def _outputs(given: Any) -> list[dict[str, Any]] | None:
    if isinstance(given, dict):
        told = [given.get(name) for name in ("stdout", "stderr", "error", "ret")]
        logs = "".join(text for text in told if isinstance(text, str))
        return [{"type": "logs", "logs": logs}] if logs else []
    if isinstance(given, list):
        return [one for one in given if isinstance(one, dict) and one.get("type") in ("logs", "image")]
    return None
