"""A proxy between two programs on unix sockets, which loses answers and holds everything up when it is told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

SYNC = b"S\x00\x00\x00\x04"
"""How a statement ends in PostgreSQL's words; it commits by itself, outside a transaction."""
_SIMPLE = b"Q"
"""How one without values begins, such as BEGIN and COMMIT; nothing is sent before it is answered."""
_PIECE = 1 << 16


class Proxy:
    """Passes everything on between `path` and `target`, unless told otherwise."""

    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target
        self._losing: list[bytes] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        """Answers that did not arrive."""
        self.requests = 0
        """Round trips to PostgreSQL that were asked for."""

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, self.path)

    async def close(self) -> None:
        self._server.close()
        self._flowing.set()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.path.unlink(missing_ok=True)

    def lose_answer(self, to: bytes) -> None:
        """Of the next request that holds these bytes: it is made, its answer is not passed on, the connection ends."""
        self._losing.append(to)

    def hold_up(self) -> None:
        """Nothing goes through any more, in either direction, while connections stay."""
        self._flowing.clear()

    def let_through(self) -> None:
        self._flowing.set()

    def cut(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        try:
            await self._flowing.wait()
            there, away = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.close()
            self._writers.discard(writer)
            return
        self._writers.add(away)
        doomed = asyncio.Event()
        ways = {
            asyncio.create_task(self._pass_requests(reader, away, doomed)),
            asyncio.create_task(self._pass_answers(there, writer, doomed)),
        }
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, away):
            one.close()
            self._writers.discard(one)
        for way in ways:
            way.cancel()
        await asyncio.wait(ways)

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._flowing.wait()
                self.requests += data.count(SYNC) + data.startswith(_SIMPLE)
                found = next((one for one in self._losing if one in data), None)
                if found is not None:
                    self._losing.remove(found)
                    doomed.set()
                writer.write(data)
                await writer.drain()

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._flowing.wait()
                if doomed.is_set():
                    self.lost += 1
                    return
                writer.write(data)
                await writer.drain()
