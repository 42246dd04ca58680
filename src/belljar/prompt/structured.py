"""Structured output: how a typed answer is asked for, and how it is found in what the model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import GenericAlias
from typing import Any

from belljar.errors import OutputParseError, ToolValidationError
from belljar.prompt.prompt import RenderedPrompt
from belljar.prompt.template import OutputT
from belljar.tools import parse, schema

_FENCED = re.compile(r"```json[ \t]*\n(.*?)```", re.S | re.I)
_OPENING = re.compile(r"[{\[]")


def text_format(rendered: RenderedPrompt[Any], name: str) -> dict[str, Any] | None:
    """The request's `text.format`; None where text is asked for. OpenAI wants an object: a list goes as its `items`."""
    if rendered.output_type is None:
        return None
    one = schema(rendered.output_type, extra="ignore" if rendered.allow_extra_keys else "forbid")
    if rendered.container == "array":
        items = {"items": {"type": "array", "items": one}}
        one = {"type": "object", "properties": items, "required": ["items"], "additionalProperties": False}
    return {"type": "json_schema", "name": f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:57]}_schema", "schema": one}


def parse_structured_output(text: str, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """The answer as its type: from a ```json block, else the whole text, else the first object or list in it."""
    if rendered.output_type is None:
        raise OutputParseError("the prompt asks for text, not for structured output")
    found = next(_found(text), None)
    if found is None:
        raise OutputParseError(f"the answer holds no JSON object or list: {text[:200]!r}")
    wanted = rendered.output_type
    if rendered.container == "array":
        wanted = GenericAlias(list, (wanted,))
        if isinstance(found, dict) and list(found) == ["items"]:
            found = found["items"]
    try:
        parsed: OutputT = parse(
            wanted, found, extra="ignore" if rendered.allow_extra_keys else "forbid", where="output"
        )
    except ToolValidationError as error:
        raise OutputParseError(str(error)) from error
    return parsed


def _found(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    for block in _FENCED.findall(text):
        yield from _decoded(block)
    yield from _decoded(text)
    decoder = json.JSONDecoder()
    for opening in _OPENING.finditer(text):
        try:
            yield decoder.raw_decode(text, opening.start())[0]
        except ValueError:
            continue


def _decoded(text: str) -> Iterator[dict[str, Any] | list[Any]]:
    try:
        value = json.loads(text)
    except ValueError:
        return
    if isinstance(value, dict | list):
        yield value
