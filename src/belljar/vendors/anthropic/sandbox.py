"""Cells that Anthropic ran itself, as blocks on its wire and as items of ours; an item's id tells what it was there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from belljar.vendors.deltas import Ran
from belljar.vendors.request import HostedFile
from belljar.wire import codec
from belljar.wire.items import CellEnd, CodeInterpreterCall, Json, Logs

Block: TypeAlias = dict[str, Any]


class CodeTool(Struct, frozen=True):
    """One of the tools that its code execution consists of."""

    name: str
    member: str | None
    """The member of its input that is the code; without one, the whole input is."""


_TOOLS: Mapping[str, CodeTool] = MappingProxyType(
    {
        "bash": CodeTool("bash_code_execution", "command"),
        "code": CodeTool("code_execution", "code"),
        "edit": CodeTool("text_editor_code_execution", None),
    }
)
"""By the word for it in our ids."""
_WORDS = MappingProxyType({tool.name: word for word, tool in _TOOLS.items()})
_USE = re.compile(r"srvtoolu_[a-zA-Z0-9_]+")
"""Its own id of a use; it refuses others there."""


def tool_of(name: str) -> CodeTool | None:
    """None where it is no tool that runs code."""
    return _TOOLS[_WORDS[name]] if name in _WORDS else None


def id_of(tool: CodeTool, use_id: str) -> str:
    """Our id of a cell: from it the vendor's block can be written again."""
    return f"ci_{_WORDS[tool.name]}_{use_id}"


def use_id_of(id: str) -> str:
    """The vendor's id of a cell's use, of our id for it."""
    return id.split("_", 2)[2]


# -- read -------------------------------------------------------------------------------------------------------------


class _File(Struct, frozen=True):
    file_id: str = ""


class _Result(Struct, frozen=True):
    """Of any of the tools: each has some of these."""

    type: str = ""
    stdout: str = ""
    stderr: str = ""
    return_code: int = 0
    error_code: str = ""
    error_message: str | None = None
    content: str | tuple[_File, ...] = ""
    """Text that was viewed, or files that were made."""
    lines: list[str] | None = None


_result = msgspec.json.Decoder(_Result).decode
_TOO_LONG = "execution_time_exceeded"
_KILLED = MappingProxyType(
    {
        _TOO_LONG: "The code ran for longer than the provider allows.",
        "output_file_too_large": "The code made a file that is larger than the provider allows.",
        "too_many_requests": "The provider runs too much code at the moment; try again later.",
        "unavailable": "The provider's code execution is not available at the moment; try again later.",
        "invalid_tool_input": "The provider could not read what it was to run.",
        "file_not_found": "There is no such file.",
    }
)


def read_result(
    tool: CodeTool, use_id: str, code: str, content: Raw
) -> tuple[CodeInterpreterCall, tuple[HostedFile, ...], Ran]:
    """The cell that a result block ends, the files that it made, and what it put out."""
    result = _result(content)
    ran = Ran(code=_show_code(tool, code), stdout=result.stdout, stderr=result.stderr, exit=result.return_code)
    files: tuple[HostedFile, ...] = ()
    status: Literal["completed", "failed"] = "completed"
    if result.type.endswith("_error"):
        status = "failed"
        logs = result.error_message or _KILLED.get(result.error_code, result.error_code)
        how: Literal["timed_out", "killed"] = "timed_out" if result.error_code == _TOO_LONG else "killed"
        end = CellEnd(exit=how, reason=result.error_code, text=logs, exit_code=-1)
        ran = replace(ran, stderr=result.error_code, exit=None, late=how == "timed_out")
    elif tool.member is None:
        logs = result.content if isinstance(result.content, str) else ""
        logs = "\n".join(result.lines or ()) or logs
        end = CellEnd(exit="ok")
        ran = replace(ran, stdout=logs)
    else:
        logs = result.stdout
        if logs and result.stderr and not logs.endswith("\n"):
            logs += "\n"
        logs += result.stderr
        files = tuple(
            HostedFile(name=None, type="application/octet-stream", id=one.file_id)
            for one in result.content
            if isinstance(one, _File)
        )
        failed = result.return_code != 0
        end = CellEnd(
            exit="raised" if failed else "ok",
            text=f"It ended with the exit code {result.return_code}." if failed else "",
            exit_code=result.return_code,
            stdout=result.stdout,
            stderr=result.stderr,
        )
    item = CodeInterpreterCall(
        id=id_of(tool, use_id),
        status=status,
        code=code,
        container_id="",
        outputs=(Logs(logs=logs),) if logs else (),
        belljar=end,
    )
    return item, files, ran


def write_unfinished_cell(tool: CodeTool, use_id: str, code: str) -> tuple[CodeInterpreterCall, Ran]:
    """A cell of which no result came."""
    item = CodeInterpreterCall(id=id_of(tool, use_id), status="incomplete", code=code, container_id="", outputs=())
    return item, Ran(code=_show_code(tool, code))


def _show_code(tool: CodeTool, code: str) -> str:
    """As people read it: what the editor is told to do is JSON."""
    if tool.member is not None:
        return code
    given = _read_input(tool, code)
    return f"{given.get('command', '')} {given.get('path', '')}\n{given.get('file_text', '')}".strip()


# -- written ----------------------------------------------------------------------------------------------------------


def write_hosted_call(item: CodeInterpreterCall) -> list[Block] | None:
    """The call and its result; None if the vendor did not run it."""
    _, word, use_id = (*item.id.split("_", 2), "", "")[:3]
    if word not in _TOOLS or not _USE.fullmatch(use_id) or item.status == "incomplete":
        return None
    tool = _TOOLS[word]
    given = _read_input(tool, item.code or "")
    logs = "".join(output.logs for output in item.outputs or () if isinstance(output, Logs))
    return [
        {"type": "server_tool_use", "id": use_id, "name": tool.name, "input": given},
        {"type": f"{tool.name}_tool_result", "tool_use_id": use_id, "content": _write_result(tool, item, given, logs)},
    ]


def _read_input(tool: CodeTool, code: str) -> Block:
    if tool.member is not None:
        return {tool.member: code}
    try:
        given: Json = codec.decode(code)
    except msgspec.DecodeError:
        given = None
    return given if isinstance(given, dict) else {}


def _write_result(tool: CodeTool, item: CodeInterpreterCall, given: Block, logs: str) -> Block:
    if item.status == "failed":
        reason = item.belljar.reason if item.belljar is not UNSET else None
        return {"type": f"{tool.name}_tool_result_error", "error_code": reason or "unavailable"}
    if tool.member is not None:
        failed = item.belljar is not UNSET and item.belljar.exit != "ok"
        came: Block = {"stdout": logs, "stderr": "", "return_code": int(failed), "content": []}
        return {"type": f"{tool.name}_result", **came}
    match given.get("command"):
        case "view":
            return {"type": f"{tool.name}_view_result", "file_type": "text", "content": logs}
        case "create":
            return {"type": f"{tool.name}_create_result", "is_file_update": False}
        case _:
            return {"type": f"{tool.name}_str_replace_result", "lines": logs.split("\n") if logs else []}
