"""`ScriptedModel`: a model that plays a script and records what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from belljar.testing.chunks import chunks, words
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Delta, Finish, Text, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire.responses import Usage


class Call(Struct, frozen=True):
    """The model calls a function; made by `call`."""

    name: str
    arguments: str


def call(name: str, /, **arguments: object) -> Call:
    """A step of a script: the model calls the function with these arguments."""
    return Call(name, json.dumps(arguments))


Step: TypeAlias = str | Call | Delta | BaseException | asyncio.Event
"""Text, said word by word; a call; any delta as it is; an exception to raise; an event to wait for."""


class ScriptedModel:
    """Plays one turn of its script each time it is asked. How a turn ends is added where the script does not say."""

    def __init__(self, turns: Iterable[Sequence[Step]]) -> None:
        self._turns = iter(turns)
        self._calls = 0
        self.requests: list[ModelRequest] = []
        """What it was asked, in order."""
        self.abandoned = 0
        """Turns that nobody wanted to hear to the end."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        self.requests.append(request)
        turn = next(self._turns, None)
        if turn is None:
            raise AssertionError(f"the script has no turn {len(self.requests)}")
        said: list[Delta] = []
        index = 0
        try:
            for step in turn:
                if isinstance(step, BaseException):
                    raise step
                if isinstance(step, asyncio.Event):
                    await step.wait()
                    continue
                for delta in self._deltas(step, index):
                    said.append(delta)
                    yield [delta]
                index += isinstance(step, Call)
            yield [delta for delta in _end_turn(said) if not any(isinstance(one, type(delta)) for one in said)]
        except (GeneratorExit, asyncio.CancelledError):
            self.abandoned += 1
            raise

    def _deltas(self, step: str | Call | Delta, index: int) -> Iterator[Delta]:
        if isinstance(step, str):
            yield from map(Text, words(step))
        elif isinstance(step, Call):
            self._calls += 1
            yield CallBegun(index, f"call_{self._calls}", step.name)
            yield from (CallPiece(index, piece) for piece in chunks(step.arguments))
            yield CallEnd(index, step.arguments)
        else:
            yield step


def _end_turn(said: Sequence[Delta]) -> list[Delta]:
    called = any(isinstance(delta, CallBegun) for delta in said)
    written = sum(isinstance(delta, Text | CallPiece) for delta in said)
    usage = Usage(input_tokens=1, output_tokens=written, total_tokens=1 + written)
    return [Finish("calls" if called else "stop"), UsageDelta(usage)]
