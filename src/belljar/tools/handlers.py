"""Check that a function can be a tool's handler: its parameters and its return type."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from belljar.tools.context import ToolContext
from belljar.tools.result import ToolResult

_WANTED = "write it as (params: Params, *, context: ToolContext) -> ToolResult[Result], with def or async def"


def check_handler(handler: Callable[..., Any], params: Any, result: Any) -> str | None:
    """The fault, or None."""
    try:
        arguments = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError) as error:
        return f"has no signature: {error}"
    if any(is_one(_find_callable(handler)) for is_one in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
        return f"it yields, and a call has one result; {_WANTED}"
    positional = [a for a in arguments if a.kind in (a.POSITIONAL_ONLY, a.POSITIONAL_OR_KEYWORD)]
    others = [a for a in arguments if a not in positional]
    if len(positional) != 1:
        return f"takes {len(positional)} positional parameters, not one; {_WANTED}"
    if [a.name for a in others] != ["context"] or others[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        return f"takes no keyword-only context and nothing else; {_WANTED}"
    if others[0].default is not inspect.Parameter.empty:
        return "its context has a default, and is always given"
    try:
        hints = hints_of(handler, params, result)
    except NameError as error:
        return f"an annotation cannot be read: {error}"
    return _compare_hints(hints, positional[0].name, params, result)


def _compare_hints(hints: dict[str, Any], first: str, params: Any, result: Any) -> str | None:
    if hints.get(first) != params:
        kind = _format_type(hints.get(first))
        return f"{first} is annotated {kind}, and the tool's parameters are {_format_type(params)}"
    if hints.get("context") is not ToolContext:
        return f"context is annotated {_format_type(hints.get('context'))}, not ToolContext"
    returned = hints.get("return")
    if get_origin(returned) is not ToolResult or get_args(returned) not in ((result,), (_unwrap_awaitable(result),)):
        return f"it returns {_format_type(returned)}, and the tool's result is ToolResult[{_format_type(result)}]"
    return None


def hints_of(handler: Callable[..., Any], *known: Any) -> dict[str, Any]:
    """Its annotations, read; `known` are types whose names it may use without its module knowing them."""
    target = _find_callable(handler)
    try:
        return get_type_hints(target)
    except NameError:
        # A function inside a function sees names that its module does not; those of the tool's own types are known.
        local = {kind.__name__: kind for kind in (*known, ToolContext, ToolResult) if isinstance(kind, type)}
        return get_type_hints(target, localns=local)


def _find_callable(handler: Callable[..., Any]) -> Callable[..., Any]:
    return handler if inspect.isroutine(handler) else type(handler).__call__


def _unwrap_awaitable(result: Any) -> Any:
    return None if result is type(None) else result


def _format_type(kind: Any) -> str:
    return "nothing" if kind is None else kind.__name__ if isinstance(kind, type) else str(kind)
