"""A gateway's back rooms for tests: a store in a directory, containers over it, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belljar.gateway.containers import Containers, Policy, Use
from belljar.gateway.interpreter import CellResult, Interpreter
from belljar.gateway.store.base import Blob, ContainerFileRecord, ContainerRecord, FileRecord, Page
from belljar.gateway.store.directory import DirectoryBlobs
from belljar.gateway.store.local_store import open_store
from belljar.gateway.store.sqlite import SqliteRecords
from belljar.sandbox.base import Attached, Cell, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.outputs import Run, fold
from belljar.sandbox.packages import Installed

OWNER = "key_me"
ALL = Page(limit=1000, order="asc")


class Clock:
    """Time as the test wants it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_minutes(self, minutes: float) -> None:
        self.now += minutes * 60


class Counting:
    """A source that remembers which of its sandboxes are alive."""

    def __init__(self, source: SandboxSource) -> None:
        self._source = source
        self.alive: list[Sandbox] = []
        self.made = 0

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[Sandbox]:
        async with self._source.acquire(spec, epoch=epoch, wait=wait) as sandbox:
            self.made += 1
            with self._counted(sandbox):
                yield sandbox

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        async with self._source.attach(handle, epoch) as attached:
            with self._counted(attached.sandbox):
                yield attached

    @contextmanager
    def _counted(self, sandbox: Sandbox) -> Iterator[None]:
        self.alive.append(sandbox)
        try:
            yield
        finally:
            self.alive.remove(sandbox)

    async def close(self) -> None:
        await self._source.close()


@dataclass
class House:
    """Containers and what they stand on."""

    containers: Containers
    interpreter: Interpreter
    records: SqliteRecords
    blobs: DirectoryBlobs
    source: Counting
    clock: Clock

    async def container(self, owner: str = OWNER, memory: str = "1g") -> ContainerRecord:
        return await self.containers.create(owner, name="test", memory=memory)

    async def blob(self, data: bytes) -> Blob:
        async with self.blobs.write() as writer:
            await writer.write(data)
            return await writer.finish()

    async def upload(self, name: str, data: bytes, id: str) -> FileRecord:
        blob = await self.blob(data)
        file = FileRecord(
            id=id, owner=OWNER, filename=name, purpose="user_data", created_at=0, size=blob.size, blob=blob.name
        )
        await self.records.add_file(file)
        return file

    async def put(self, container: ContainerRecord, name: str, data: bytes) -> ContainerFileRecord:
        return await self.containers.put_file(container, name, await self.blob(data))

    async def run(self, container: ContainerRecord, code: str) -> Run:
        """One use, one cell, its files taken."""
        async with self.containers.use(container) as use:
            return await run_in(use, code)

    async def value(self, container: ContainerRecord, code: str) -> object:
        run = await self.run(container, code)
        assert run.ok, run.exit
        return eval(run.text, {"__builtins__": {}})

    async def files(self, container: ContainerRecord) -> dict[str, bytes]:
        """All files as the store has them, by path."""
        return {
            file.path: b"".join([chunk async for chunk in self.containers.stream_file(container, file)])
            for file in await self.containers.list_files(container, ALL)
        }

    async def call(
        self, container: ContainerRecord, code: str, requirements: Sequence[str] = (), **more: Any
    ) -> CellResult:
        """The tool, run to its end."""
        *_, last = [output async for output in self.interpreter.run(container, code, requirements, **more)]
        assert isinstance(last, CellResult)
        return last


async def run_in(use: Use, code: str, timeout: float | None = None) -> Run:
    run = fold([output async for output in use.run(Cell(code, timeout))])
    await use.collect(run.files)
    return run


@asynccontextmanager
async def opened(
    source: SandboxSource, directory: Path, policy: Policy | None = None, clock: Clock | None = None
) -> AsyncIterator[House]:
    """A house over the store in this directory, which may be one that was there before."""
    policy, clock = policy or Policy(), clock or Clock()
    records, blobs = open_store(directory)
    counting = Counting(source)
    containers = Containers(
        records, blobs, counting, policy, clock=clock, stateless=lambda: getattr(source, "stateless", False)
    )
    interpreter = Interpreter(containers, policy, lambda: (Installed("numpy", "2.0"), Installed("pandas", "2.2")))
    try:
        yield House(containers, interpreter, records, blobs, counting, clock)
    finally:
        await containers.close()
        await records.close()
        assert not counting.alive
