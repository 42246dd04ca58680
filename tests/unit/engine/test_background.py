"""Runs without their caller: a follower sees an event once it is on record, so that a crash loses nothing it saw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace
from tests.unit.store.conftest import response

from belljar.errors import OperatorError
from belljar.gateway.engine import run
from belljar.gateway.engine.background import Background
from belljar.gateway.engine.run import Run
from belljar.gateway.engine.service import Engine
from belljar.gateway.membership import Membership
from belljar.gateway.store.sqlite import SqliteRecords
from belljar.wire.events import Event, TextDelta


def delta(number: int) -> TextDelta:
    return TextDelta(sequence_number=number, item_id="msg_1", output_index=0, content_index=0, delta=str(number))


class Spoken:
    """A run that says one list of events after the other, and one of its own at an error that is thrown in."""

    id = "resp_1"
    holder = "gw_1"

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

    async def add_events(self, response_id: str, holder: str, events: Sequence[tuple[int, bytes]]) -> None:
        self.asked.set()
        await self.let.wait()
        if self.fails:
            self.fails = False
            raise OperatorError("the disk is full")
        await super().add_events(response_id, holder, events)


@pytest.mark.parametrize("fails", [False, True])
def test_a_follower_sees_an_event_once_it_is_on_record(tmp_path: Path, fails: bool) -> None:
    async def main() -> None:
        records = SlowRecords(tmp_path / "records.db")
        records.fails = fails
        await records.add_response(response("resp_1", status="in_progress", holder="gw_1"))
        background = Background(records)
        background.start(cast(Run, Spoken()), AsyncExitStack())
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
        assert kept == seen, "what was not kept at first is kept with what follows"
        await records.close()

    asyncio.run(main())


def test_what_runs_here_is_not_given_up_though_others_take_us_for_dead(tmp_path: Path) -> None:
    """The heartbeat was late: then our own responses look like those of a gateway that died."""

    async def main() -> None:
        records = SqliteRecords(tmp_path / "records.db")
        engine = Engine(cast(Any, SimpleNamespace(records=records, membership=Membership(records))))
        await records.add_response(replace(response("resp_1"), status="in_progress", background=True, holder="gw_1"))
        with engine._background.reserve("resp_1"):
            assert await engine.recover() == 0
        assert await engine.recover() == 1
        await records.close()

    asyncio.run(main())


def test_another_end_takes_the_number_of_one_that_was_not_kept() -> None:
    told = run._replace_end([delta(5), delta(6), delta(7)], [delta(8), delta(9)])
    assert [(one.sequence_number, cast(TextDelta, one).delta) for one in told] == [
        (5, "5"), (6, "6"), (7, "8"), (8, "9"),
    ]  # fmt: skip
    assert run._replace_end([], [delta(8)]) == [delta(8)]
