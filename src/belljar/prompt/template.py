"""Prompt templates: name, sections and the type of the answer, checked when made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, get_args, get_origin

from belljar.errors import PromptValidationError
from belljar.prompt.section import KEY, Section
from belljar.tools.annotations import form_of
from belljar.tools.specialised import Specialised
from belljar.tools.tool_choice import ToolChoice, parse_choice

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=None)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")


@dataclass(frozen=True, slots=True)
class Placed:
    """A section where it stands: its number and its keys from the top."""

    section: Section[Any]
    number: tuple[int, ...]
    path: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptTemplate(Specialised, Generic[OutputT]):
    """`PromptTemplate[Out](ns=…, key=…, sections=[…])`; `Out` is a dataclass, a list of one, or left out for text."""

    ns: str
    key: str
    name: str | None = None
    sections: Sequence[Section[Any]] = ()
    allow_extra_keys: bool = False
    """Whether members that the output does not have are passed over, and not a fault."""
    tool_choice: ToolChoice = None
    """None: what the adapter says."""
    output_type: Any = field(init=False)
    """The dataclass, also where a list of them is asked for; None for text."""
    container: Literal["object", "array"] | None = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (("ns", self.ns), ("key", self.key)):
            given: object = value
            if not isinstance(given, str) or not KEY.fullmatch(given):
                raise PromptValidationError(f"prompt {name} {value!r}: use 1 to 64 of a-z, 0-9, ., _ and -")
        sections: object = self.sections
        if isinstance(sections, Section | str):
            raise self._fault("sections: is one thing; put it into a list")
        for one in self.sections:
            section: object = one
            if not isinstance(section, Section):
                raise self._fault(f"sections: a {type(section).__name__} is no section; use MarkdownSection(…)")
        set_once = object.__setattr__
        set_once(self, "sections", tuple(self.sections))
        set_once(self, "tool_choice", parse_choice(self.tool_choice))
        output_type, container = self._output()
        set_once(self, "output_type", output_type)
        set_once(self, "container", container)
        paths: set[tuple[str, ...]] = set()
        tools: set[str] = set()
        for placed in self.walk_sections():
            self._check(placed, paths, tools)

    def walk_sections(self) -> Iterator[Placed]:
        """Every section, parents before children."""
        yield from _walk_sections(self.sections, (), ())

    def _output(self) -> tuple[Any, Literal["object", "array"] | None]:
        wanted = None if self.type_arguments is None else self.type_arguments[0]
        if wanted in (None, type(None), str):
            return None, None
        arguments = get_args(wanted)
        kind = arguments[0] if get_origin(wanted) is list else wanted
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise self._fault(f"its output is a dataclass or a list of one, not {wanted!r}")
        form_of(kind)
        return kind, "object" if kind is wanted else "array"

    def _check(self, placed: Placed, paths: set[tuple[str, ...]], tools: set[str]) -> None:
        if placed.path in paths:
            raise self._fault(f"two sections have the path {'.'.join(placed.path)}")
        paths.add(placed.path)
        placed.section.check()
        for tool in placed.section.tools:
            if tool.name in tools:
                raise self._fault(f"two tools have the name {tool.name!r}")
            tools.add(tool.name)

    def _fault(self, message: str) -> PromptValidationError:
        return PromptValidationError(f"prompt {self.ns}:{self.key}: {message}")


def _walk_sections(
    sections: Sequence[Section[Any]], number: tuple[int, ...], path: tuple[str, ...]
) -> Iterator[Placed]:
    for n, section in enumerate(sections, 1):
        placed = Placed(section, (*number, n), (*path, section.key))
        yield placed
        yield from _walk_sections(section.children, placed.number, placed.path)
