"""Responses that go on without their caller, and streams that can be taken up again at any event."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Literal, TypeAlias

from belljar.errors import Fenced
from belljar.gateway.engine.run import Run
from belljar.gateway.store.base import Records
from belljar.wire.codec import sse
from belljar.wire.events import Event

_log = logging.getLogger("belljar.engine")


Frame: TypeAlias = tuple[int, bytes]
"""An event by its number, as it is sent."""


class _Job:
    """A run in progress: its frames so far, and a signal for those who wait for more."""

    def __init__(self, run: Run, place: AsyncExitStack) -> None:
        self.run = run
        self.holder = run.holder or ""
        self.place = place
        """What it has while it runs, such as one of the responses that its owner may have at once."""
        self.frames: list[Frame] = []
        self.unkept: list[Frame] = []
        """Those after them that could not be put on record yet."""
        self.over = False
        self.ended: Literal["cancelled", "stopped"] | None = None
        """By whom, where it is not left to its own end."""
        self.task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    def show(self, frames: list[Frame]) -> None:
        """To those who follow."""
        self.frames += frames
        self.wake()

    def end(self, how: Literal["cancelled", "stopped"]) -> None:
        """Once: a second time would interrupt the keeping of what there is."""
        if self.ended is None and self.task is not None:
            self.ended = how
            self.task.cancel()

    def wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def wait_for_news(self) -> None:
        await self._news.wait()


class Background:
    """All detached runs of this process."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._jobs: dict[str, _Job] = {}
        self._beginning: set[str] = set()

    @contextmanager
    def reserve(self, id: str) -> Iterator[None]:
        """Of a run that is on record before it is started."""
        self._beginning.add(id)
        try:
            yield
        finally:
            self._beginning.discard(id)

    def has(self, id: str) -> bool:
        """Whether this process works on it."""
        return id in self._jobs or id in self._beginning

    def start(self, run: Run, place: AsyncExitStack) -> None:
        job = self._jobs[run.id] = _Job(run, place)
        job.task = asyncio.create_task(self._work(job), name=f"background {run.id}")

    async def _work(self, job: _Job) -> None:
        try:
            async with aclosing(job.run.events()) as events:
                batch = await anext(events, None)
                while batch is not None:
                    try:
                        await self._keep(job, batch)
                    except Exception as error:  # noqa: BLE001 - the run ends with it, and says so
                        batch = await events.athrow(error)
                    else:
                        batch = await anext(events, None)
        except asyncio.CancelledError:
            said = await (job.run.cancel() if job.ended == "cancelled" else job.run.stop())
            await self._keep(job, said)
            raise
        except Fenced as error:
            _log.warning("%s", error)
        except Exception:  # noqa: BLE001 - the last door of a background task
            _log.exception("response %s broke and could not be kept", job.run.id)
        finally:
            job.over = True
            job.wake()
            self._jobs.pop(job.run.id, None)
            await job.place.aclose()

    async def _keep(self, job: _Job, events: list[Event]) -> None:
        """On record first: who resumes after a crash must not miss what then takes the number of an unkept event."""
        job.unkept += [(event.sequence_number, sse(event)) for event in events]
        await self._records.add_events(job.run.id, job.holder, job.unkept)
        frames, job.unkept = job.unkept, []
        job.show(frames)

    async def cancel(self, id: str) -> bool:
        """Stop it and wait until that is on record; False if it is not running here."""
        job = self._jobs.get(id)
        if job is None or job.task is None:
            return False
        job.end("cancelled")
        await asyncio.wait({job.task})
        return True

    async def follow(self, id: str, after: int) -> AsyncGenerator[list[Frame], None]:
        """The frames after the event numbered `after`: those that were, then those that come while it runs here."""
        job = self._jobs.get(id)
        at = 0
        while job is not None:
            if at < len(job.frames):
                fresh, at = job.frames[at:], len(job.frames)
                yield [one for one in fresh if one[0] > after]
            elif job.over:
                return
            else:
                await job.wait_for_news()

    async def close(self, patience: float) -> None:
        """Let runs finish for a while; those that do not have failed."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
            for job in self._jobs.values():
                job.end("stopped")
            await asyncio.wait(tasks)
