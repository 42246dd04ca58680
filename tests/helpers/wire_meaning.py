"""A body of any vendor's wire by what it means, whatever its spelling: what is so without being said is left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OWN = frozenset({"properties", "input_schema", "parameters", "schema", "parametersJsonSchema", "arguments", "input"})
"""Below these, where they are objects, names are the caller's own."""
_IMPLIED: Mapping[str, tuple[Any, ...]] = {
    "stream": (True,),
    "store": (True,),
    "parallel_tool_calls": (True,),
    "tool_choice": ("auto", {"type": "auto"}),
    "strict": (False,),
    "verbosity": ("medium",),
    "format": ({"type": "text"},),
    "text": ({},),
    "detail": ("auto",),
}
_WORDS = ("text", "input_text")


def meaning(body: Any) -> Any:
    """The body, or a part of one, in one spelling: a lone text as its words, nothing that is so by itself."""
    return _plain(_camel(body) if isinstance(body, dict) and "contents" in body else body)


def _plain(value: Any, own: bool = False) -> Any:
    if isinstance(value, list):
        return [_plain(one, own) for one in value]
    if not isinstance(value, dict):
        return value
    made = {name: _plain(one, own or (name in _OWN and isinstance(one, dict))) for name, one in value.items()}
    if own:
        return made
    made = {name: one for name, one in made.items() if one is not None and one not in _IMPLIED.get(name, ())}
    if made.get("type") == "message" and "role" in made:
        del made["type"]
    match made.get("content"):
        case [{"type": kind, "text": text, **more}] if kind in _WORDS and not more:
            made["content"] = text
    return made


def _camel(value: Any, own: bool = False) -> Any:
    """Google takes names as Python has them too, and its SDK writes both."""
    if isinstance(value, list):
        return [_camel(one, own) for one in value]
    if not isinstance(value, dict):
        return value
    names = {name: name if own else re.sub(r"_([a-z])", lambda found: found[1].upper(), name) for name in value}
    return {names[name]: _camel(one, own or names[name] in _OWN) for name, one in value.items()}
