"""A proxy between two programs on unix sockets, which loses answers and holds everything up when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SYNC = b"S\x00\x00\x00\x04"
"""How a statement ends in PostgreSQL's words; it commits by itself, outside a transaction."""
_PIECE = 1 << 16


class Statements:
    """What one connection asks of PostgreSQL: each statement as it is sent, by its text."""

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
        self._texts: dict[bytes, str] = {}
        self._bound = ""

    def feed(self, data: bytes) -> Iterator[str]:
        """Those that end in these bytes: each is a round trip."""
        self._rest += data
        head = 1 if self._begun else 0  # the first message has no type before its length
        while len(self._rest) >= head + 4:
            end = head + int.from_bytes(self._rest[head : head + 4])
            if len(self._rest) < end:
                return
            kind, body, self._rest = self._rest[:head], self._rest[head + 4 : end], self._rest[end:]
            self._begun, head = True, 1
            name, _, more = body.partition(b"\0")
            match kind:
                case b"P":
                    self._texts[name] = more.partition(b"\0")[0].decode()
                case b"B":
                    self._bound = self._texts.get(more.partition(b"\0")[0], "")
                case b"S":
                    yield self._bound
                case b"Q":
                    yield name.decode()


class Proxy:
    """Passes everything on between `path` and `target`, unless told otherwise."""

    def __init__(self, path: Path, target: Path, *, database: bool = False) -> None:
        self.path = path
        self._target = target
        self._database = database
        self._losing: list[bytes] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0
        """Answers that did not arrive."""
        self.statements: list[str] = []
        """What a database was asked, each of which is a round trip."""

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
        statements = Statements()
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                await self._flowing.wait()
                if self._database:
                    self.statements += statements.feed(data)
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
