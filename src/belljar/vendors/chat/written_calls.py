"""Calls that a model writes into its answer, made of it while it streams: what may become one is held back.

What the first characters tell is never shown; other text goes on at once. What is told as `Text` and what the calls
were found in are together always the whole of what the model said.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from belljar.errors import ProviderError
from belljar.vendors import call_ids, custom_tool
from belljar.vendors.chat import call_openings
from belljar.vendors.chat.call_openings import Names
from belljar.vendors.chat.call_repair import MOST_BEFORE, Written, find_starts, find_written_calls
from belljar.vendors.chat.tools_in_prompt import makes_calls, speaks_in_words
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Decoder, Delta, Finish, Repaired, Text, UsageDelta
from belljar.vendors.request import ModelRequest, Verbatim
from belljar.wire.items import CodeInterpreterCall, FunctionCall, Message

MOST_HELD = 1024 * 1024
"""Characters: more is no call that anybody wrote."""
_WROTE_CODE = "wrote code without calling the tool"
_WROTE_CALL = "wrote the call into its answer"


def find_calls_in_text(request: ModelRequest, decoder: Decoder) -> Decoder:
    """The decoder of the answer to this request, with calls where the model only wrote them down."""
    names = Names.of(request)
    return decoder if request.tool_choice == "none" or not names.all else _Holding(request, names, decoder)


class _Holding:
    def __init__(self, request: ModelRequest, names: Names, decoder: Decoder) -> None:
        self._decoder = decoder
        self._names = names
        self._bare = request.text.format.type == "text"
        self._in_words = request.in_words
        self._makes_calls = makes_calls(request)
        self._ran = _codes_of_turn(request)
        offered = any(getattr(tool, "name", "") in names.code for tool in request.tools)
        self._blocks = offered and (not self._ran or speaks_in_words(request))
        self._said: list[str] = []
        self._held: deque[Text] = deque()
        self._shown = 0
        """Characters that were told as text."""
        self._start = 0
        """The place that may be the beginning of a call."""
        self._state: Literal["looking", "holding", "over"] = "looking"
        self._held_length = 0
        self._failure: ProviderError | None = None

    def feed(self, data: bytes) -> list[Delta]:
        if self._failure is not None:
            raise self._failure
        try:
            return self._read_deltas(self._decoder.feed(data))
        except ProviderError as failure:
            if not self._held:
                raise
            self._failure = failure
            return self._release_text()

    def close(self) -> list[Delta]:
        if self._failure is not None:
            raise self._failure
        return self._read_deltas(self._decoder.close())

    def resume(self) -> bytes | None:
        return self._decoder.resume()

    def verbatim(self) -> Verbatim | None:
        return self._decoder.verbatim()

    def _read_deltas(self, deltas: list[Delta]) -> list[Delta]:
        out: list[Delta] = []
        for delta in deltas:
            if type(delta) is Text:
                self._text(delta, out)
            elif type(delta) is Finish:
                self._finish(delta, out)
            else:
                if type(delta) is not UsageDelta:  # a call that is made, a thought: what was written before is not one
                    out += self._release_text()
                out.append(delta)
        return out

    # -- text

    def _text(self, delta: Text, out: list[Delta]) -> None:
        self._said.append(delta.text)
        if self._state == "over":
            out.append(delta)
            return
        self._held.append(delta)
        self._held_length += len(delta.text)
        if self._state == "looking":
            self._look(out)
        if self._held_length > MOST_HELD:
            out += self._release_text()

    def _look(self, out: list[Delta]) -> None:
        """Shows what cannot be the beginning of a call."""
        text = "".join(self._said)
        self._said = [text]
        for at in find_starts(text, self._start):
            told = call_openings.begins_call(text[at:], self._names, bare=self._bare)
            if told is not False:
                self._start = at
                self._state = "holding" if told else "looking"
                self._show(at, out)
                return
        self._start = len(text)
        self._show(len(text), out)
        if len(text) > MOST_BEFORE:
            self._state = "over"

    def _show(self, end: int, out: list[Delta]) -> None:
        """The text up to there."""
        while self._held and self._shown < end:
            piece = self._held.popleft()
            here, rest = piece.text[: end - self._shown], piece.text[end - self._shown :]
            out.append(Text(here, piece.logprobs) if rest else piece)
            self._shown += len(here)
            self._held_length -= len(here)
            if rest:
                self._held.appendleft(Text(rest))

    def _release_text(self) -> list[Delta]:
        """All of it, as it is not going to be a call."""
        if self._held:
            self._state = "over"
        out: list[Delta] = [*self._held]
        self._shown += self._held_length
        self._held.clear()
        self._held_length = 0
        return out

    # -- the end

    def _finish(self, finish: Finish, out: list[Delta]) -> None:
        written = self._find_calls() if finish.reason == "stop" else None
        if written is None:
            out += self._release_text()
            out.append(finish)
            return
        text = "".join(self._said)
        at = written.at if text[: written.at].strip() else 0
        self._show(len(text) if at < self._shown else at, out)  # what was begun to be shown is shown whole
        rest = "".join(piece.text for piece in self._held)
        for index, call in enumerate(written.calls):
            custom = call.name in self._names.custom
            arguments = custom_tool.read_input(call.arguments) if custom else call.arguments
            out += [
                Repaired(_WROTE_CALL if written.block is None else _WROTE_CODE, "" if index else rest),
                CallBegun(index, call_ids.new_written_id(), call.name, custom),
                CallPiece(index, arguments),
                CallEnd(index, arguments),
            ]
        out.append(Finish("calls"))

    def _find_calls(self) -> Written | None:
        text = "".join(self._said)
        written = find_written_calls(text, self._names, bare=self._bare, blocks=self._blocks, wrong=self._in_words)
        if written is None:
            return None
        if written.block is not None:
            return None if written.block.strip() in self._ran else written  # the code that ran is shown again
        return written if written.alone or not self._makes_calls else None


def _codes_of_turn(request: ModelRequest) -> frozenset[str]:
    """The code that ran since the user spoke."""
    codes: set[str] = set()
    for item in reversed(request.items):
        if type(item) is Message and item.role == "user":
            break
        if type(item) is CodeInterpreterCall:
            codes.add((item.code or "").strip())
        elif type(item) is FunctionCall:
            codes.add("")
    return frozenset(codes)
