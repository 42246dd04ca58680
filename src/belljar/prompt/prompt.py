"""A prompt: a template with its parameters bound, and how it renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from belljar.errors import PromptValidationError
from belljar.filesystem import Filesystem
from belljar.prompt.section import Section
from belljar.prompt.template import OutputT, Placed, PromptTemplate
from belljar.tools import FileCitation, Tool
from belljar.tools.code_interpreter import citations_in

S = TypeVar("S", bound=Section[Any])


@dataclass(frozen=True)
class RenderedPrompt(Generic[OutputT]):
    text: str
    tools: tuple[Tool[Any, Any], ...]
    output_type: Any = None
    container: Literal["object", "array"] | None = None
    allow_extra_keys: bool = False
    sections: tuple[Section[Any], ...] = ()
    """Those that were enabled, parents before children."""


@dataclass(frozen=True)
class PromptResponse(Generic[OutputT]):
    """An answer: `output` where a type was asked for, and `text` where none was, or `str`."""

    prompt_name: str | None
    text: str | None
    output: OutputT
    """Always of the type that was asked for: an answer that is not is an error. None where none was."""
    annotations: tuple[Mapping[str, Any], ...] = ()
    """What the answer cites, as the provider wrote it down."""
    finish_reason: Literal["stop", "length"] = "stop"
    """`length`: the text was cut off where the model might say no more."""
    earlier_annotations: tuple[Mapping[str, Any], ...] = ()
    """What was cited on the way there, in turns that went on with a tool."""

    @property
    def citations(self) -> tuple[FileCitation, ...]:
        """The files that were cited in any turn, by the names they can be fetched with."""
        return citations_in((*self.earlier_annotations, *self.annotations))


@dataclass(frozen=True, eq=False)
class Prompt(Generic[OutputT]):
    template: PromptTemplate[OutputT]
    bound: tuple[Any, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.template
        if not isinstance(given, PromptTemplate):
            raise PromptValidationError(
                f"Prompt.template: a {type(given).__name__} is no template; use PromptTemplate(ns=…, key=…, sections=…)"
            )

    @property
    def ns(self) -> str:
        return self.template.ns

    @property
    def key(self) -> str:
        return self.template.key

    @property
    def name(self) -> str | None:
        return self.template.name

    @property
    def sections(self) -> tuple[Section[Any], ...]:
        return tuple(self.template.sections)

    def bind(self, *params: object) -> Prompt[OutputT]:
        """With parameters for the sections of their type; newer ones replace older ones of a type."""
        wanted = {placed.section.params_type for placed in self.template.walk_sections()}
        kinds = [type(one) for one in params]
        for kind in kinds:
            if kind not in wanted:
                raise self._fault(f"no section takes a {kind.__name__}")
            if kinds.count(kind) > 1:
                raise self._fault(f"{kind.__name__} is bound twice at once")
        return Prompt(self.template, bound=(*(old for old in self.bound if type(old) not in kinds), *params))

    def render(self) -> RenderedPrompt[OutputT]:
        """Headings are numbered as the template stands, so that they do not move when a section is not enabled."""
        parts: list[str] = []
        tools: list[Tool[Any, Any]] = []
        sections: list[Section[Any]] = []
        dark: list[tuple[str, ...]] = []
        for placed in self.template.walk_sections():
            params = self._params(placed)
            if any(placed.path[: len(path)] == path for path in dark):
                continue
            if not placed.section.is_enabled(params):
                dark.append(placed.path)
                continue
            parts.append(_render_section(placed, params))
            tools.extend(placed.section.tools)
            sections.append(placed.section)
        return RenderedPrompt(
            "\n\n".join(parts),
            tuple(tools),
            self.template.output_type,
            self.template.container,
            self.template.allow_extra_keys,
            tuple(sections),
        )

    def find_section(self, section_type: type[S]) -> S | None:
        """The first of that type, at any depth."""
        return next((p.section for p in self.template.walk_sections() if isinstance(p.section, section_type)), None)

    def filesystem(self) -> Filesystem | None:
        """That of the first section that has one."""
        held = (getattr(placed.section, "filesystem", None) for placed in self.template.walk_sections())
        return next((found for found in held if found is not None), None)

    def _params(self, placed: Placed) -> Any:
        kind = placed.section.params_type
        if kind is None:
            return None
        found = next((one for one in self.bound if type(one) is kind), placed.section.default_params)
        if found is not None:
            return found
        try:
            return kind()
        except TypeError:
            where = ".".join(placed.path)
            raise self._fault(f"section {where} needs a {kind.__name__}; bind one or give default_params") from None

    def _fault(self, message: str) -> PromptValidationError:
        return PromptValidationError(f"prompt {self.ns}:{self.key}: {message}")


def _render_section(placed: Placed, params: Any) -> str:
    marks = "#" * (len(placed.number) + 1)
    number = ".".join(map(str, placed.number))
    heading = f"{marks} {number}. {placed.section.title} ({'.'.join(placed.path)})"
    body = placed.section.render_body(params)
    return f"{heading}\n\n{body}" if body else heading
