"""An answer ends before the first stop sequence, however the model sends it, and nothing else is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.engine.stop_sequences import StopScanner, WithStops
from belljar.vendors.deltas import CallBegun, CallEnd, Delta, Finish, Text, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire.items import Message
from belljar.wire.requests import Sampling
from belljar.wire.responses import Usage


class Scripted:
    def __init__(self, *batches: list[Delta]) -> None:
        self._batches = batches
        self.hung_up = True

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        for batch in self._batches:
            yield batch
        self.hung_up = False


def answered(model: Scripted, *stops: str) -> list[Delta]:
    async def ask() -> list[Delta]:
        asked = ModelRequest(
            model="m", items=(Message(role="user", content="hi"),), sampling=Sampling(stop=stops or None)
        )
        return [delta async for batch in WithStops(model).ask(asked) for delta in batch]

    return asyncio.run(ask())


def said(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


@given(st.text("ab\n"), st.lists(st.text("ab\n", min_size=1), min_size=1, max_size=3), st.lists(st.integers(0, 20)))
def test_any_split_gives_the_same_text(text: str, stops: list[str], cuts: list[int]) -> None:
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    watch = StopScanner(stops)
    out: list[Delta] = []
    for begin, end in pairwise(at):
        out += watch.feed(Text(text[begin:end]))
        if watch.stopped:
            break
    ends = [(where + len(stop), where) for stop in stops if (where := text.find(stop)) >= 0]
    assert watch.stopped == bool(ends)
    if not ends:
        out += watch.feed(Finish("stop"))
    expected = text[: min(ends)[1]] if ends else text
    assert said(out) == watch.said == expected


def test_a_model_that_goes_on_is_hung_up_on_and_its_tokens_are_estimated() -> None:
    model = Scripted([Text("Thought: look\nObser")], [Text("vation: lies"), Text(" and more")], [Finish("length")])
    *text, finish, spent = answered(model, "\nObservation:")
    assert said(text) == "Thought: look"
    assert finish == Finish("stop")
    assert isinstance(spent, UsageDelta)
    assert spent.usage.output_tokens > 0
    assert model.hung_up


@pytest.mark.parametrize("stops", [(), ("never",)])
def test_what_has_no_stop_in_it_goes_on_as_it_came(stops: tuple[str, ...]) -> None:
    whole: list[Delta] = [
        Text("a nev", ({"token": "a"},)),
        CallBegun(0, "call_1", "f"),
        CallEnd(0, "{}"),
        Finish("calls"),
        UsageDelta(Usage()),
    ]
    model = Scripted(*([delta] for delta in whole))
    assert answered(model, *stops) == whole
    assert not model.hung_up
