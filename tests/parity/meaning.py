"""A request's body by what it asks for: without its spelling, and without how an answer is delivered and kept."""

from __future__ import annotations

import json
from typing import Any

from tests.helpers import wire_meaning

_DELIVERY = ("stream", "stream_options", "store", "model")
"""How the answer comes and who remembers it; which model it is, is in the row."""
_SEALED = "reasoning.encrypted_content"
"""Who does not have a conversation kept has its thoughts sealed."""


def meaning(body: Any) -> Any:
    plain = wire_meaning.meaning(body)
    for name in _DELIVERY:
        plain.pop(name, None)
    include = [one for one in plain.pop("include", ()) if one != _SEALED]
    if include:
        plain["include"] = include
    if "systemInstruction" in plain:
        plain["systemInstruction"].pop("role", None)
    if "tools" in plain:
        plain["tools"] = sorted(plain["tools"], key=lambda tool: json.dumps(tool, sort_keys=True))  # a set to all
    return plain


def changes(before: Any, after: Any) -> dict[str, Any]:
    """Members that are new or other than before; None for those that are gone."""
    found: dict[str, Any] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old != new:
            found[name] = changes(old, new) if isinstance(old, dict) and isinstance(new, dict) else new
    return found
