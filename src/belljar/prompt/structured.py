"""Structured output: ask for a typed answer, and parse it from what the model wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import GenericAlias
from typing import Any, Literal, TypeAlias

from belljar.errors import OutputParseError, ToolValidationError
from belljar.prompt.prompt import RenderedPrompt
from belljar.prompt.template import OutputT
from belljar.providers.null_defaults import with_defaults
from belljar.tools import parse, schema

_FENCED = re.compile(r"```json[ \t]*\n(.*?)```", re.S | re.I)
_OPENING = re.compile(r"[{\[]")
_MOST_FAILURES = 10_000
"""Each costs a look at all that follows: a text of nothing but brackets is given up on."""

Json: TypeAlias = dict[str, Any] | list[Any]


def text_format(rendered: RenderedPrompt[Any], name: str) -> dict[str, Any] | None:
    """The request's `text.format`; None where text is asked for. OpenAI wants an object: a list goes as its `items`."""
    if rendered.output_type is None:
        return None
    one = schema(rendered.output_type, extra=_extra(rendered))
    if rendered.container == "array":
        items = {"items": {"type": "array", "items": one}}
        one = {"type": "object", "properties": items, "required": ["items"], "additionalProperties": False}
    return {"type": "json_schema", "name": f"{re.sub(r'[^a-zA-Z0-9_-]', '_', name)[:57]}_schema", "schema": one}


def parse_structured_output(text: str, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """The answer as its type: the first JSON value that fits it, of those in ```json blocks, of the whole text, and
    of those among the words, in this order.

    What is inside a value that does not fit is not looked at: a part of a wrong answer is no answer.
    """
    if rendered.output_type is None:
        raise OutputParseError("the prompt asks for text, not for structured output")
    faults: list[tuple[bool, ToolValidationError]] = []
    for found in _find_json(text):
        try:
            return _parse_answer(found, rendered)
        except ToolValidationError as error:
            faults.append((isinstance(found, list if rendered.container == "array" else dict), error))
    if not faults:
        raise OutputParseError(f"the answer holds no JSON object or list: {text[:200]!r}")
    meant = max(faults, key=lambda one: one[0])[1]  # of equals the first: it is where an answer is looked for first
    raise OutputParseError(str(meant)) from meant


def _parse_answer(found: Json, rendered: RenderedPrompt[OutputT]) -> OutputT:
    """ToolValidationError says why it does not fit. A null stands for a default: strict formats make models say it."""
    wanted, extra = rendered.output_type, _extra(rendered)
    one: Any = schema(wanted, extra=extra)
    if rendered.container == "array":
        wanted, one = GenericAlias(list, (wanted,)), {"type": "array", "items": one}
        if isinstance(found, dict) and list(found) == ["items"]:
            found = found["items"]
    parsed: OutputT = parse(wanted, with_defaults(found, one), extra=extra, where="output")
    return parsed


def _extra(rendered: RenderedPrompt[Any]) -> Literal["ignore", "forbid"]:
    return "ignore" if rendered.allow_extra_keys else "forbid"


def _find_json(text: str) -> Iterator[Json]:
    for block in _FENCED.findall(text):
        yield from _decode_json(block)
    yield from _decode_json(text)
    decoder = json.JSONDecoder()
    at, failures = 0, 0
    while failures < _MOST_FAILURES and (opening := _OPENING.search(text, at)):
        try:
            value, at = decoder.raw_decode(text, opening.start())
        except ValueError:
            at, failures = opening.end(), failures + 1
        except RecursionError:  # so deep is nobody's answer, and the next bracket would be as deep
            return
        else:
            yield value


def _decode_json(text: str) -> Iterator[Json]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict | list):
        yield value
