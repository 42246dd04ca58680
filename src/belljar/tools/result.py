"""ToolResult: what a tool returns, words for the model and a value for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from belljar.tools.serde import dump

T = TypeVar("T")


@dataclass(frozen=True)  # without slots: Python 3.11 cannot make a `ToolResult[Value](…)` that has them
class ToolResult(Generic[T]):
    message: str
    value: T | None
    success: bool = True
    exclude_value_from_context: bool = False
    """The model is shown the message alone."""

    @classmethod
    def ok(cls, value: T, message: str = "OK") -> ToolResult[T]:
        return cls(message, value)

    @classmethod
    def error(cls, message: str) -> ToolResult[Any]:
        return ToolResult(message, None, success=False)

    def render(self) -> str:
        """The value as the model is shown it; empty where it is shown none."""
        return "" if self.exclude_value_from_context else _render_value(self.value)

    @property
    def text(self) -> str:
        """All that the model is shown."""
        return "\n\n".join(part for part in (self.message, self.render()) if part)


def _render_value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    render = getattr(value, "render", None)
    if callable(render):
        return str(render())
    if isinstance(value, Sequence) and any(callable(getattr(inside, "render", None)) for inside in value):
        return "\n\n".join(_render_value(inside) for inside in value)
    return json.dumps(dump(value, exclude_none=True), ensure_ascii=False)
