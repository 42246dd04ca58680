"""Tools that a provider runs itself, bound to it by name, with a hook for their results."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar, cast, get_args, get_origin

from belljar.tools.annotations import NoneType
from belljar.tools.async_handlers import wait_for_result
from belljar.tools.context import ToolContext
from belljar.tools.handlers import hints_of
from belljar.tools.result import ToolResult
from belljar.tools.serde import dump, parse
from belljar.tools.tool import ParamsT, ResultT, Tool

ConfigT = TypeVar("ConfigT")
Hook: TypeAlias = Callable[[ResultT, ToolContext], ToolResult[ResultT] | Awaitable[ToolResult[ResultT]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class ProviderTool(Tool[ParamsT, ResultT], Generic[ParamsT, ResultT, ConfigT]):
    """`ProviderTool[Params, Result, Config](provider="openai", …)`; a result may be a plain `dict[str, object]`."""

    takes_mappings: ClassVar[bool] = True

    provider: str
    """The only provider that may be offered this tool."""
    config: ConfigT | None = None
    handle_provider_output: Hook[ResultT] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.provider:
            raise self._fault("provider: is empty; name the provider that runs it")
        if self.handle_provider_output is not None:
            self._check_hook(self.handle_provider_output)

    @property
    def type(self) -> str:
        """What the provider calls it."""
        return self.name

    def wire(self) -> dict[str, Any]:
        """Its place in a request's `tools`: its type, and its config's members."""
        return {"type": self.type, **(dump(self.config, exclude_none=True) or {})}

    def receive(self, payload: Mapping[str, object], *, context: ToolContext) -> ToolResult[ResultT]:
        """What a provider's answer means: the hook is asked first, with the payload as a `Result`; else the handler."""
        if self.handle_provider_output is not None:
            return wait_for_result(self.handle_provider_output(self.read_payload(payload), context))
        if self.handler is not None:
            return wait_for_result(self.handler(self.read_params(payload), context=context))
        return self.default_result(payload)

    def read_payload(self, payload: Mapping[str, object]) -> ResultT:
        if (get_origin(self.result_type) or self.result_type) in (dict, Mapping):
            return cast(ResultT, dict(payload))
        return cast(ResultT, parse(self.result_type, payload, extra="ignore"))

    def read_params(self, payload: Mapping[str, object]) -> ParamsT:
        """Of all that a provider tells of a call, what the parameters have a place for."""
        if self.params_type is NoneType:
            return cast(ParamsT, None)
        return cast(ParamsT, parse(self.params_type, payload, extra="ignore", where=self.type))

    def default_result(self, payload: Mapping[str, object]) -> ToolResult[ResultT]:
        """Without a hook and without a handler."""
        raise self._fault("has neither a handler nor handle_provider_output, and the provider has called it")

    def _check_hook(self, hook: Callable[..., Any]) -> None:
        wanted = "write it as (result: Result, context: ToolContext) -> ToolResult[Result]"
        try:
            inspect.signature(hook).bind(object(), object())
        except (TypeError, ValueError) as error:
            raise self._fault(f"handle_provider_output: {error}; {wanted}") from None
        first = annotated_result(hook, self.result_type)
        if first is not None and first != self.result_type:
            raise self._fault(f"handle_provider_output: takes {first!r}, and the tool's result is {self.result_type!r}")


def annotated_result(hook: Callable[..., Any], *known: Any) -> Any | None:
    """The type of result that a hook says it takes, where it can be read."""
    try:
        hints = hints_of(hook, *known)
    except NameError:
        return None
    first = next(iter(inspect.signature(hook).parameters), "")
    return hints.get(first) or next(iter(get_args(hints.get("return"))), None)
