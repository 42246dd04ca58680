"""Names of functions, which every wire wants in its own form: one that does not fit goes out changed, and returns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from msgspec import structs

from belljar.vendors.deltas import CallBegun, Decoder, Delta
from belljar.vendors.request import ModelRequest, Verbatim
from belljar.wire.items import CustomToolCall, FunctionCall
from belljar.wire.tools import AllowedTools, Choice, CustomTool, FunctionTool

CHAT = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What servers of chat completions take."""
LONG = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""What the Responses API and Anthropic take."""
GEMINI = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")

_Named = TypeVar("_Named", bound=FunctionTool | CustomTool | FunctionCall | CustomToolCall | Choice)


def fit_names(request: ModelRequest, form: re.Pattern[str]) -> ModelRequest:
    """The request with names that fit: of the tools, of the choice among them, and of calls that were made."""
    fits = form.fullmatch
    if all(map(fits, _list_declared_names(request))) and all(map(fits, _list_called_names(request))):
        return request

    def fit(one: _Named) -> _Named:
        name = one.name
        return one if not isinstance(name, str) or fits(name) else structs.replace(one, name=_make_name(name))

    choice = request.tool_choice
    if isinstance(choice, Choice):
        choice = fit(choice)
    elif isinstance(choice, AllowedTools):
        choice = structs.replace(choice, tools=tuple(map(fit, choice.tools)))
    return structs.replace(
        request,
        items=tuple(fit(item) if isinstance(item, FunctionCall | CustomToolCall) else item for item in request.items),
        tools=tuple(fit(tool) if isinstance(tool, FunctionTool | CustomTool) else tool for tool in request.tools),
        tool_choice=choice,
    )


def _list_declared_names(request: ModelRequest) -> Iterator[str]:
    return (tool.name for tool in request.tools if isinstance(tool, FunctionTool | CustomTool))


def _list_called_names(request: ModelRequest) -> Iterator[str]:
    # By exact types: a struct needs 170 ns to say that it is no instance, and a conversation can be long.
    return (item.name for item in request.items if type(item) is FunctionCall or type(item) is CustomToolCall)


def restore_names(request: ModelRequest, form: re.Pattern[str], make: Callable[[ModelRequest], Decoder]) -> Decoder:
    """The decoder that is made for the request as it went out, telling of calls by the names that were declared."""
    changed = {_make_name(name): name for name in _list_declared_names(request) if not form.fullmatch(name)}
    return _Restoring(make(fit_names(request, form)), changed) if changed else make(request)


class _Restoring:
    def __init__(self, decoder: Decoder, names: Mapping[str, str]) -> None:
        self._decoder = decoder
        self._names = names

    def feed(self, data: bytes) -> list[Delta]:
        return [self._restore_name(delta) for delta in self._decoder.feed(data)]

    def close(self) -> list[Delta]:
        return [self._restore_name(delta) for delta in self._decoder.close()]

    def resume(self) -> bytes | None:
        return self._decoder.resume()

    def verbatim(self) -> Verbatim | None:
        return self._decoder.verbatim()

    def _restore_name(self, delta: Delta) -> Delta:
        if isinstance(delta, CallBegun) and delta.name in self._names:
            return structs.replace(delta, name=self._names[delta.name])
        return delta


def _make_name(name: str) -> str:
    """A name that fits every wire, and that no other name becomes."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:6]
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name[:57])
    begun = plain if re.match("[a-zA-Z_]", plain) else f"_{plain}"
    return f"{begun[:57]}_{digest}"
