"""The streamed answer of POST /chat/completions as deltas, as OpenAI and those who copied it write it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from belljar.errors import Garbled, ProviderError, Unreachable
from belljar.vendors import custom_tool
from belljar.vendors.deltas import (
    CallBegun,
    CallEnd,
    CallPiece,
    Delta,
    Finish,
    Refused,
    Text,
    Thought,
    ThoughtEnd,
    UsageDelta,
)
from belljar.vendors.errors import read_stream_error
from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.stream_decoder import StreamDecoder
from belljar.vendors.think_tags import ThinkTags
from belljar.vendors.vendor import GENERIC
from belljar.wire import codec, ids
from belljar.wire.items import Json, Reasoning, ReasoningText
from belljar.wire.responses import InputDetails, OutputDetails, Usage

_Reason: TypeAlias = Literal["stop", "calls", "length", "filtered"]

_REASONS: Mapping[str, _Reason] = MappingProxyType(
    {
        "length": "length",
        "max_tokens": "length",
        "content_filter": "filtered",
    }
)
_LEGACY = -1
"""The place of the one call of `function_call`, which knows no index."""


# -- the wire: only what is read --------------------------------------------------------------------------------------


class _Function(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Part(Struct, gc=False):
    """A part of the content, as Mistral's reasoning models write it."""

    text: str | None = None
    thinking: list[_Part] | None = None


class _Said(Struct, gc=False):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None


class _Logprobs(Struct, gc=False):
    content: tuple[Json, ...] | None = None


class _Choice(Struct, gc=False):
    index: int | None = None
    delta: _Said | None = None
    message: _Said | None = None
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


# -- the decoder ------------------------------------------------------------------------------------------------------


class _OpenCall:
    """A call that is being written."""

    __slots__ = ("begun", "call_id", "custom", "index", "name", "pieces", "place")

    def __init__(self, index: int, place: int | None) -> None:
        self.index = index
        self.place = place
        """Where the server says it belongs, if it says so."""
        self.call_id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.begun = False
        self.custom = False


class ChatDecoder(StreamDecoder):
    """One answer.

    `Finish` comes with the end of the stream, as some servers go on after the `finish_reason`. A call that was cut
    off by the limit of tokens or by a filter has no `CallEnd`. Calls of the functions in `custom` are turned back
    into free text.
    """

    def __init__(
        self,
        profile: ServerProfile = GENERIC.profile,
        upstream: str = "the model's server",
        *,
        custom: Collection[str] = (),
        new_id: Callable[[], str] = lambda: ids.new("call"),
    ) -> None:
        super().__init__(upstream)
        self._custom = custom
        self._new_id = new_id
        self._tags = ThinkTags() if profile.think_tags else None
        self._thoughts: list[str] = []
        self._call: _OpenCall | None = None
        self._calls = 0
        self._ids: set[str] = set()
        self._places: set[int | None] = set()
        self._reason: str | None = None
        self._usage: _Usage | None = None
        self._answered = False
        self._done = False

    def _take(self, payload: bytes, out: list[Delta]) -> None:
        if self._done:
            return
        if payload == b"[DONE]":
            self._finish(out)
            return
        chunk = _decode(payload)
        if chunk.error:
            raise read_stream_error(chunk.error, self._upstream)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not chunk.choices:
            self._check(payload)
            return
        for choice in chunk.choices:
            if not choice.index:
                self._take_choice(choice, out)

    def _check(self, payload: bytes) -> None:
        """A chunk that says nothing may be an error in a shape of its own."""
        data = codec.decode(payload)
        if data.get("object") == "error" or data.get("type") == "error":
            raise read_stream_error(data, self._upstream)

    def _take_choice(self, choice: _Choice, out: list[Delta]) -> None:
        self._answered = True
        said = choice.delta or choice.message
        if said is not None:
            thought = said.reasoning_content or said.reasoning
            if thought:
                self._think(thought, out)
            if isinstance(said.content, list):
                self._say_parts(said.content, out)
            elif said.content:
                self._say(said.content, choice.logprobs, out)
            if said.refusal:
                self._end_thought(out)
                out.append(Refused(said.refusal))
            if said.tool_calls:
                for n, call in enumerate(said.tool_calls):
                    place = call.index if choice.message is None else n
                    self._piece(place, call.id or "", call.function or _Function(), out)
            if said.function_call is not None:
                self._piece(_LEGACY, "", said.function_call, out)
        if choice.finish_reason:
            self._reason = choice.finish_reason

    # -- text and reasoning

    def _say(self, text: str, logprobs: _Logprobs | None, out: list[Delta]) -> None:
        if self._tags is not None:
            thought, text = self._tags.feed(text)
            if self._tags.over:
                self._tags = None
            if thought:
                self._think(thought, out)
            if not text:
                return
        if self._thoughts:
            self._end_thought(out)
        out.append(Text(text, logprobs.content or ()) if logprobs is not None else Text(text))

    def _say_parts(self, parts: list[_Part], out: list[Delta]) -> None:
        for part in parts:
            if thought := "".join(one.text or "" for one in part.thinking or ()):
                self._think(thought, out)
            if part.text:
                self._say(part.text, None, out)

    def _think(self, thought: str, out: list[Delta]) -> None:
        self._thoughts.append(thought)
        out.append(Thought(thought))

    def _end_thought(self, out: list[Delta]) -> None:
        if self._thoughts:
            out.append(ThoughtEnd(Reasoning(content=(ReasoningText(text="".join(self._thoughts)),))))
            self._thoughts = []

    # -- calls

    def _piece(self, place: int | None, call_id: str, function: _Function, out: list[Delta]) -> None:
        given = function.arguments
        arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode() if given else ""
        name = function.name or ""
        call = self._call
        if call is not None and place != call.place and place in self._places and not (call_id or name):
            if arguments:
                raise Garbled(f"{self._upstream} mixed up the arguments of parallel calls; ask for one call at a time")
            return
        if call is None or self._is_new(call, place, call_id, name, arguments):
            self._end_call(out)
            call = self._call = _OpenCall(self._calls, place)
            self._places.add(place)
            self._calls += 1
        call.call_id = call.call_id or call_id
        if not call.begun and name != call.name:
            call.name += name
        if not arguments:
            return
        call.pieces.append(arguments)
        if not call.begun:
            if call.name:
                self._begin_call(call, out)
        elif not call.custom:
            out.append(CallPiece(call.index, arguments))

    def _is_new(self, call: _OpenCall, place: int | None, call_id: str, name: str, arguments: str) -> bool:
        """Servers repeat ids and names in every fragment, or put every call in the first place."""
        if place != call.place or (call_id and call.call_id and call_id != call.call_id):
            return True
        return bool(name and arguments and call.pieces) and _is_whole("".join(call.pieces))

    def _begin_call(self, call: _OpenCall, out: list[Delta]) -> None:
        self._end_thought(out)
        if not call.call_id or call.call_id in self._ids:
            call.call_id = self._new_id()
        self._ids.add(call.call_id)
        call.begun = True
        call.custom = call.name in self._custom
        out.append(CallBegun(call.index, call.call_id, call.name, call.custom))
        if call.pieces and not call.custom:
            out.append(CallPiece(call.index, "".join(call.pieces)))

    def _end_call(self, out: list[Delta], *, cut: bool = False) -> None:
        call, self._call = self._call, None
        if call is None:
            return
        arguments = "".join(call.pieces)
        if not call.name:
            if arguments:
                raise Garbled(f"{self._upstream} sent a tool call without a name")
            self._calls -= 1
            return
        if not call.begun:
            self._begin_call(call, out)
        if cut and not _is_whole(arguments):
            return
        if call.custom:
            arguments = custom_tool.read_input(arguments)
            out.append(CallPiece(call.index, arguments))
        elif not arguments.strip():
            arguments += "{}"
            out.append(CallPiece(call.index, "{}"))
        out.append(CallEnd(call.index, arguments))

    # -- the end

    def _finish(self, out: list[Delta]) -> None:
        self._done = True
        if self._tags is not None:
            thought, text = self._tags.end()
            if thought:
                self._think(thought, out)
            if text:
                out.append(Text(text))
        self._end_thought(out)
        reason = _REASONS.get(self._reason or "", "stop")
        self._end_call(out, cut=reason != "stop")
        self._check_reason()
        out.append(Finish("calls" if reason == "stop" and self._calls else reason))
        if self._usage is not None:
            out.append(UsageDelta(_convert_usage(self._usage)))

    def _check_reason(self) -> None:
        if not self._answered:
            raise Garbled(f"{self._upstream} ended its answer without having said anything")
        if self._reason in ("error", "abort"):
            raise ProviderError(f"{self._upstream} broke off its answer without saying why")
        if self._reason == "insufficient_system_resource":
            raise Unreachable(f"{self._upstream} broke off its answer for want of capacity; try again later")

    def _end(self, out: list[Delta]) -> None:
        if self._done:
            return
        if self._reason is None:
            raise Garbled(f"{self._upstream} ended the stream in the middle of the answer")
        self._finish(out)


def _is_whole(arguments: str) -> bool:
    try:
        return isinstance(codec.decode(arguments), dict)
    except msgspec.DecodeError:
        return False


def _convert_usage(usage: _Usage) -> Usage:
    asked, answered = usage.prompt_tokens or 0, usage.completion_tokens or 0
    prompt = usage.prompt_tokens_details or _PromptDetails()
    completion = usage.completion_tokens_details or _CompletionDetails()
    return Usage(
        input_tokens=asked,
        input_tokens_details=InputDetails(
            cached_tokens=prompt.cached_tokens or usage.prompt_cache_hit_tokens or 0,
            cache_write_tokens=prompt.cache_write_tokens or 0,
        ),
        output_tokens=answered,
        output_tokens_details=OutputDetails(reasoning_tokens=completion.reasoning_tokens or 0),
        total_tokens=usage.total_tokens or asked + answered,
    )
