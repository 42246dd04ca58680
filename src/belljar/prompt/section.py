"""Sections: the parts a prompt is written in, each with its parameters, its children and its tools."""

from __future__ import annotations

import dataclasses
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from string import Template
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Generic

from belljar.errors import PromptValidationError
from belljar.tools import Tool
from belljar.tools.specialised import Specialised

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ParamsT = TypeVar("ParamsT", default=None)
else:
    from typing import TypeVar

    ParamsT = TypeVar("ParamsT")

KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class Section(Specialised, Generic[ParamsT]):
    """`Section[Params]` is rendered with a `Params`, bound to the prompt or given as `default_params`.

    `enabled` is asked with the parameters, or with nothing where there are none; a section that is not enabled takes
    its children and tools with it.
    """

    def __init__(
        self,
        *,
        title: str,
        key: str,
        default_params: ParamsT | None = None,
        children: Sequence[Section[Any]] = (),
        enabled: Callable[..., bool] | None = None,
        tools: Sequence[Tool[Any, Any]] = (),
        accepts_overrides: bool = True,
    ) -> None:
        if not KEY.fullmatch(key):
            raise PromptValidationError(
                f"section {key!r}: a key is 1 to 64 of a-z, 0-9, ., _ and -, a letter or digit first"
            )
        if not title.strip():
            raise PromptValidationError(f"section {key!r}: its title is empty; give it one, such as 'Task'")
        self.title = title.strip()
        self.key = key
        self.default_params = default_params
        self.children = tuple(children)
        self.tools = tuple(tools)
        self.accepts_overrides = accepts_overrides
        self._enabled = enabled
        self._check_params_type()

    @property
    def params_type(self) -> type | None:
        """None: it has no parameters."""
        if self.type_arguments is not None:
            return None if self.type_arguments[0] in (None, type(None)) else self.type_arguments[0]
        return None if self.default_params is None else type(self.default_params)

    def is_enabled(self, params: ParamsT | None) -> bool:
        if self._enabled is None:
            return True
        return self._enabled() if self.params_type is None else self._enabled(params)

    @abstractmethod
    def render_body(self, params: ParamsT | None) -> str:
        """The text below the heading; empty for none."""

    def check(self) -> None:
        """Raise PromptValidationError for what is wrong in itself; called when a template is made."""

    def _check_params_type(self) -> None:
        kind, given = self.params_type, self.default_params
        if kind is not None and not dataclasses.is_dataclass(kind):
            raise PromptValidationError(f"section {self.key!r}: its parameters are a dataclass, not {kind!r}")
        if given is not None and (kind is None or not isinstance(given, kind)):
            raise PromptValidationError(
                f"section {self.key!r}: default_params are no {kind.__name__ if kind else None}"
            )


PromptSection = Section


class MarkdownSection(Section[ParamsT]):
    """Text with `$name` for the parameters' members, as in `string.Template`; `$$` is a dollar."""

    def __init__(
        self,
        *,
        title: str,
        key: str,
        template: str,
        default_params: ParamsT | None = None,
        children: Sequence[Section[Any]] = (),
        enabled: Callable[..., bool] | None = None,
        tools: Sequence[Tool[Any, Any]] = (),
        accepts_overrides: bool = True,
    ) -> None:
        super().__init__(
            title=title,
            key=key,
            default_params=default_params,
            children=children,
            enabled=enabled,
            tools=tools,
            accepts_overrides=accepts_overrides,
        )
        self.template = dedent(template).strip()

    def render_body(self, params: ParamsT | None) -> str:
        return Template(self.template).substitute(_members(params))

    def check(self) -> None:
        template = Template(self.template)
        if not template.is_valid():
            raise PromptValidationError(
                f"section {self.key!r}: its template has a $ without a name; write $$ for a dollar"
            )
        kind: Any = self.params_type
        known = {field.name for field in dataclasses.fields(kind)} if kind else set()
        if unknown := [name for name in template.get_identifiers() if name not in known]:
            has = f"{kind.__name__} has {', '.join(sorted(known))}" if kind else "it has no parameters"
            raise PromptValidationError(f"section {self.key!r}: ${unknown[0]} is unknown; {has}")


def _members(params: Any) -> dict[str, object]:
    return {} if params is None else {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
