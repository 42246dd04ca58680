"""Describe a conversation in plain words: cells, results, and a summary of all of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import UNSET

from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Image,
    InputItem,
    InputText,
    Logs,
    Message,
    OutputText,
)

SHOWN = 4000
"""Characters of an output that are repeated."""
GIST = 300
"""Characters of each item in a digest."""


def read_text(item: InputItem) -> str:
    """The text of an item."""
    match item:
        case Message(content=content) | FunctionCallOutput(output=content) | CustomToolCallOutput(output=content):
            if isinstance(content, str):
                return content
            return "\n".join(part.text for part in content if isinstance(part, InputText | OutputText))
        case CodeInterpreterCall(outputs=outputs):
            return "".join(output.logs for output in outputs or () if isinstance(output, Logs))
        case FunctionCall(arguments=text) | CustomToolCall(input=text):
            return text
    return ""


def describe_cells(cells: Sequence[CodeInterpreterCall], told: Mapping[str, str]) -> str:
    """Each cell: what it showed, why it stopped if it did; then links to all files. `told` helps where outputs lack."""
    paths = dict.fromkeys(path for cell in cells if cell.belljar is not UNSET for path in cell.belljar.files)
    parts = [_describe_cell(cell, told.get(cell.id, "")) for cell in cells]
    if paths:
        parts.append("Files: " + ", ".join(f"[{path}](sandbox:/mnt/data/{path})" for path in paths))
    return "\n\n".join(parts)


def _describe_cell(cell: CodeInterpreterCall, told: str) -> str:
    shown = (told if cell.outputs is None else read_text(cell)).rstrip()
    images = sum(isinstance(output, Image) for output in cell.outputs or ())
    end = cell.belljar
    stopped = ""
    if end is not UNSET and end.exit != "ok":  # the remedy is the caller's; that of the code's author was shown
        stopped = end.text.removesuffix(end.remedy).rstrip() or f"It ended with: {end.exit}."
    head = "The code failed" if stopped else "The code ran"
    if images:
        head += f" and made {images} image{'s' if images > 1 else ''}"
    elif not shown and not stopped:
        head += " and showed nothing"
    parts = [f"{head}:", add_fence(shown)] if shown else [f"{head}."]
    if stopped and stopped.removesuffix(".") not in shown:
        parts.append(stopped)
    return "\n\n".join(parts)


def describe_result(output: FunctionCallOutput | CustomToolCallOutput, items: Sequence[InputItem]) -> str:
    """What a function of the caller's gave."""
    calls = (item for item in items if isinstance(item, FunctionCall | CustomToolCall))
    name = next((call.name for call in calls if call.call_id == output.call_id), "The function")
    return f"{name} gave:\n\n{add_fence(read_text(output))}"


def add_fence(text: str) -> str:
    """In a fence that nothing inside can close, with the middle left out of a long text."""
    if len(text) > SHOWN:
        half = SHOWN // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def write_digest(items: Sequence[InputItem]) -> str:
    """The conversation in short, a line an item."""
    return "\n".join(line for item in items if (line := _describe_item(item))) or "Nothing has been said."


def _describe_item(item: InputItem) -> str:
    text = _shorten(read_text(item))
    match item:
        case Message(role=role):
            return f"{role}: {text}"
        case CodeInterpreterCall(code=code, belljar=end):
            made = f"; files: {', '.join(end.files)}" if end is not UNSET and end.files else ""
            return f"code: {_shorten(code or '')} -> {text or 'no output'}{made}"
        case FunctionCall(name=name) | CustomToolCall(name=name):
            return f"call: {name}({text})"
        case FunctionCallOutput() | CustomToolCallOutput():
            return f"result: {text}"
    return ""


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= GIST else line[: GIST - 1] + "…"
