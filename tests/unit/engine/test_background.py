"""Runs without their caller: a follower sees an event once it is on record, so that a crash loses nothing it saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

import pytest
from tests.unit.store.conftest import response

from belljar.errors import OperatorError
from belljar.gateway.engine.background import Background
from belljar.gateway.engine.loop import Run
from belljar.gateway.store.sqlite import SqliteRecords
from belljar.wire.events import Event, TextDelta


def delta(number: int) -> TextDelta:
    return TextDelta(sequence_number=number, item_id="msg_1", output_index=0, content_index=0, delta=str(number))


class Spoken:
    """A run that says one list of events after the other, and one of its own at an error that is thrown in."""

    id = "resp_1"

    async def events(self) -> AsyncGenerator[list[Event], None]:
        try:
            yield [delta(0), delta(1)]
            yield [delta(2)]
        except OperatorError:
            yield [delta(2)]


class SlowRecords(SqliteRecords):
    """Keeps events when it is let, or not at all."""

    fails = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def add_events(self, response_id: str, events: Sequence[tuple[int, bytes]]) -> None:
        self.asked.set()
        await self.let.wait()
        if self.fails:
            self.fails = False
            raise OperatorError("the disk is full")
        await super().add_events(response_id, events)


@pytest.mark.parametrize("fails", [False, True])
def test_a_follower_sees_an_event_once_it_is_on_record(tmp_path: Path, fails: bool) -> None:
    async def main() -> None:
        records = SlowRecords(tmp_path / "records.db")
        records.fails = fails
        await records.put_response(response("resp_1", status="in_progress"))
        background = Background(records)
        background.start(cast(Run, Spoken()), "local")
        async with aclosing(background.follow("resp_1", -1)) as frames:
            first = asyncio.ensure_future(anext(frames))
            await records.asked.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not first.done()
            records.let.set()
            seen = [*await first]
            async for more in frames:
                seen += more
        assert len(seen) == 3
        kept = await records.get_events("resp_1", -1)
        assert [number for number, _ in kept] == ([2] if fails else [0, 1, 2])
        assert [frame for _, frame in kept] == seen[-len(kept) :]
        await records.close()

    asyncio.run(main())
