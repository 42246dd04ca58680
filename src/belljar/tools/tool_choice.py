"""Parse and check `tool_choice`, and write it for OpenAI's wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

from belljar.errors import PromptValidationError

ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Mapping[str, Any] | None
"""`auto`, `none` or `required`; `{"type": "function", "name": …}`; a hosted tool by its `{"type": …}`; None: unsaid."""

Chosen: TypeAlias = str | dict[str, Any] | None
"""A choice in its one form."""

_WORDS = ("auto", "none", "required")


def parse_choice(given: ToolChoice) -> Chosen:
    """PromptValidationError says what is wrong with it."""
    if given is None or (isinstance(given, str) and given in _WORDS):
        return given
    if isinstance(given, Mapping):
        kind, inner = given.get("type"), given.get("function")
        name = inner.get("name") if isinstance(inner, Mapping) else given.get("name")
        if kind == "function" and isinstance(name, str) and name:
            return {"type": "function", "name": name}
        if isinstance(kind, str) and kind != "function" and len(given) == 1:
            return {"type": kind}
    raise PromptValidationError(
        f"tool_choice: {given!r} is unknown; use {', '.join(_WORDS)}, {{'type': 'function', 'name': …}} or the type "
        "of a hosted tool, such as {'type': 'code_interpreter'}"
    )


def check_choice(choice: Chosen, functions: Collection[str], hosted: Collection[str]) -> None:
    """Whether there is such a tool: functions go by their name, hosted tools by their type."""
    if choice == "required" and not functions and not hosted:
        raise PromptValidationError("tool_choice: 'required' needs a tool, and the prompt has none")
    if isinstance(choice, dict):
        known = functions if choice["type"] == "function" else hosted
        if choice.get("name", choice["type"]) not in known:
            there = ", ".join([*hosted, *functions]) or "none"
            raise PromptValidationError(f"tool_choice: {choice!r} is none of the tools; there are {there}")


def release_choice(choice: Chosen) -> Chosen:
    """After a tool was called: one is forced once, and not for ever."""
    return choice if choice in (None, "none") else "auto"
