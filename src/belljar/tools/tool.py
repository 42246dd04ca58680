"""Tool: a name, a description and a typed handler, checked when made."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, get_args, get_origin

from belljar.errors import PromptValidationError, ToolValidationError
from belljar.tools.annotations import NoneType, form_of
from belljar.tools.context import ToolContext
from belljar.tools.handlers import check_handler
from belljar.tools.result import ToolResult
from belljar.tools.schema import Schema, schema
from belljar.tools.serde import dump, parse
from belljar.tools.specialised import Specialised

ParamsT = TypeVar("ParamsT")
ResultT = TypeVar("ResultT")
ParamsT_contra = TypeVar("ParamsT_contra", contravariant=True)

_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_LONGEST_DESCRIPTION = 1024
"""What servers of OpenAI's chat completions take."""


class ToolHandler(Protocol[ParamsT_contra, ResultT]):
    """A function, or a coroutine function: `evaluate_async` awaits it in the caller's loop, `evaluate` in a new one."""

    def __call__(
        self, params: ParamsT_contra, /, *, context: ToolContext
    ) -> ToolResult[ResultT] | Awaitable[ToolResult[ResultT]]: ...


@dataclass(frozen=True)
class ToolExample(Generic[ParamsT, ResultT]):
    """A call and what comes of it; the model reads it with the tool's description."""

    description: str
    input: ParamsT
    output: ResultT

    def render(self) -> str:
        """As the model reads it."""
        given = json.dumps({} if self.input is None else dump(self.input, exclude_none=True), ensure_ascii=False)
        gives = ToolResult("", self.output).render()
        return f"{self.description}: {given}" + (f" gives {gives}" if gives else "")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool(Specialised, Generic[ParamsT, ResultT]):
    """`Tool[Params, Result](name=…, description=…, handler=…)`.

    `Params` is a dataclass, or None for a tool without arguments. `Result` is a dataclass, a list or tuple of one
    dataclass, or None. A fault in any of it is a PromptValidationError that names the tool and the fault.
    """

    takes_mappings: ClassVar[bool] = False
    """Whether a result may be a plain `dict[str, …]`."""

    name: str
    description: str
    handler: ToolHandler[ParamsT, ResultT] | None = None
    examples: Sequence[ToolExample[ParamsT, ResultT]] = ()
    accepts_overrides: bool = True
    params_type: Any = field(init=False)
    result_type: Any = field(init=False)
    result_container: Literal["object", "array"] = field(init=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise PromptValidationError(f"tool {self.name!r}: a name is 1 to 64 of a-z, 0-9, _ and -")
        if not 0 < len(self.description.strip()) <= _LONGEST_DESCRIPTION:
            raise self._fault(f"a description is 1 to {_LONGEST_DESCRIPTION} characters, not {len(self.description)}")
        params, result = (_normal(argument) for argument in self._types())
        set_once = object.__setattr__
        set_once(self, "params_type", params)
        set_once(self, "result_type", result)
        set_once(self, "examples", self._given_examples(self.examples))
        self._check_params()
        set_once(self, "result_container", self._result_container())
        if self.handler is not None and (fault := check_handler(self.handler, params, result)):
            raise self._fault(f"handler: {fault}")
        for example in self.examples:
            self._check_example(example)

    @property
    def parameters(self) -> Schema:
        """The JSON schema of its arguments."""
        return schema(self.params_type)

    @property
    def definition(self) -> dict[str, Any]:
        """What a model is told of it, in the form that `belljar.providers` takes: the examples too."""
        told, parameters = self.description, self.parameters
        if self.examples:
            shown = "\n".join(["Examples:", *(f"- {example.render()}" for example in self.examples)])
            if len(told) + len(shown) + 2 <= _LONGEST_DESCRIPTION:
                told = f"{told}\n\n{shown}"
            else:  # servers refuse a longer description of a tool, and not of its parameters
                parameters["description"] = shown
        return {"name": self.name, "description": told, "input_schema": parameters}

    def parse_arguments(self, arguments: str | Mapping[str, object]) -> ParamsT:
        """The parameters, from JSON or from an object; ToolValidationError names what does not fit."""
        given = _from_json(arguments) if isinstance(arguments, str) else arguments
        if self.params_type is NoneType:
            if given:
                raise ToolValidationError(f"arguments: {self.name} takes none, not {', '.join(map(repr, given))}")
            return cast(ParamsT, None)
        return cast(ParamsT, parse(self.params_type, given, where="arguments"))

    def _types(self) -> tuple[Any, Any]:
        """Of parameters and result."""
        if self.type_arguments is None:
            raise self._fault(f"write its types in brackets: {type(self).__name__}[Params, Result](…)")
        return self.type_arguments[0], self.type_arguments[1]

    def _check_params(self) -> None:
        if self.params_type is not NoneType and not _is_record(self.params_type):
            raise self._fault(f"parameters are a dataclass or None, not {self.params_type!r}")
        self._check_form(self.params_type)

    def _result_container(self) -> Literal["object", "array"]:
        kind, origin, arguments = self.result_type, get_origin(self.result_type), get_args(self.result_type)
        if self.takes_mappings and (origin or kind) in (dict, Mapping):
            return "object"
        self._check_form(kind)
        if kind is NoneType or _is_record(kind):
            return "object"
        elements = [argument for argument in arguments if argument is not Ellipsis]
        if origin is not None and issubclass(origin, (list, tuple)) and len(elements) == 1 and _is_record(elements[0]):
            return "array"
        raise self._fault(f"results are a dataclass, a list or tuple of one dataclass, or None, not {kind!r}")

    def _check_form(self, kind: Any) -> None:
        try:
            form_of(kind)
        except PromptValidationError as error:
            raise self._fault(str(error)) from None

    def _given_examples(self, given: object) -> tuple[ToolExample[Any, Any], ...]:
        examples = tuple(given) if isinstance(given, Iterable) else (None,)
        if not all(isinstance(one, ToolExample) for one in examples):
            raise self._fault(f"examples: {given!r} is not a list of ToolExample(description, input, output)")
        return examples

    def _check_example(self, example: ToolExample[ParamsT, ResultT]) -> None:
        if not isinstance(example.input, self.params_type):
            raise self._fault(f"example {example.description!r}: its input is no {self.params_type.__name__}")
        element = self.result_type if self.result_container == "object" else get_args(self.result_type)[0]
        outputs = [example.output] if self.result_container == "object" else cast(list[Any], example.output)
        if not all(isinstance(output, get_origin(element) or element) for output in outputs):
            raise self._fault(f"example {example.description!r}: its output is no {self.result_type!r}")

    def _fault(self, message: str) -> PromptValidationError:
        return PromptValidationError(f"tool {self.name!r}: {message}")


def _normal(argument: Any) -> Any:
    return NoneType if argument is None else argument


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def _from_json(text: str) -> Mapping[str, object]:
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise ToolValidationError(f"arguments: are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ToolValidationError(f"arguments: must be an object, not {json.dumps(given)[:60]}")
    return given
