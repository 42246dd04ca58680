"""Stop sequences, kept for every model: an answer ends before the first of them, whatever its provider does of that."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from belljar.gateway.engine.tokens import estimate
from belljar.vendors.deltas import AnsweringModel, Delta, Finish, Text, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire.items import Message
from belljar.wire.responses import Usage


class WithStops:
    """A model whose text ends at the request's stop sequences. An `AnsweringModel` itself: nobody else need know.

    Many providers stop by themselves; others have no word for it (OpenAI's Responses API), or take only a few. A model
    that went on is hung up on, so that nobody pays for words that nobody reads; what it had spent is then estimated.
    """

    def __init__(self, model: AnsweringModel) -> None:
        self._model = model

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        stops: Sequence[str] = request.sampling.given_members().get("stop", ())
        async with aclosing(self._model.ask(request)) as answer:
            if not stops:
                async for batch in answer:
                    yield batch
                return
            watch = StopScanner(stops)
            async for batch in answer:
                out: list[Delta] = []
                for delta in batch:
                    out += watch.feed(delta)
                    if watch.stopped:
                        break
                if watch.stopped:
                    yield [*out, Finish("stop"), UsageDelta(_estimate_usage(request, watch.said))]
                    return
                if out:
                    yield out


class StopScanner:
    """Text as it comes, held back as long as it may be the beginning of a stop sequence."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held: list[Text] = []
        self.said = ""
        self.stopped = False

    def feed(self, delta: Delta) -> list[Delta]:
        """What may go on. Once `stopped`, nothing that comes after counts."""
        if not isinstance(delta, Text):
            return [*self._release(len(self._held)), delta]
        self._held.append(delta)
        text = "".join(one.text for one in self._held)
        # The one that is complete first, as a model that heeds them would stop there; of several the longest.
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._cut(min(found)[1])
        safe, whole = len(text) - self._count_open(text), 0
        for one in self._held:
            safe -= len(one.text)
            if safe < 0:
                break
            whole += 1
        return self._release(whole)

    def _count_open(self, text: str) -> int:
        """Characters at the end that a stop sequence may begin with."""
        return max(
            next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
            for stop in self._stops
        )

    def _release(self, count: int) -> list[Delta]:
        out: list[Delta] = [*self._held[:count]]
        self.said += "".join(one.text for one in self._held[:count])
        del self._held[:count]
        return out

    def _cut(self, at: int) -> list[Delta]:
        out: list[Delta] = []
        for one in self._held:
            if at >= len(one.text):
                out.append(one)
            elif at > 0:
                out.append(Text(one.text[:at]))
            at -= len(one.text)
            if at <= 0:
                break
        self.said += "".join(one.text for one in out if isinstance(one, Text))
        return out


def _estimate_usage(request: ModelRequest, said: str) -> Usage:
    asked = estimate(request.plain_items, request.instructions, request.tools)
    answered = estimate([Message(role="assistant", content=said)])
    return Usage(input_tokens=asked, output_tokens=answered, total_tokens=asked + answered)
