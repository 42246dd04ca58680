"""Blobs on disk: who may read them, what goes and when, what a kill, a cancellation or a full disk leaves."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.store.conftest import Child, Children

from belljar.errors import NotFound
from belljar.gateway.store.base import Blob, Change, ContainerFileRecord, ContainerRecord, FileRecord
from belljar.gateway.store.blob_slices import Slice
from belljar.gateway.store.directory import DirectoryBlobs
from belljar.gateway.store.sqlite import SqliteRecords

MIB = 1 << 20
HOUR = 3600

WRITE = """
import asyncio, os, sys
from pathlib import Path
from belljar.gateway.store.directory import DirectoryBlobs

async def write(blobs):
    while True:
        async with blobs.write() as writer:
            for _ in range(5):
                await writer.write(os.urandom(500_000))
            print((await writer.finish()).name, flush=True)

async def main():
    blobs = DirectoryBlobs(Path(sys.argv[1]))
    await asyncio.gather(write(blobs), write(blobs))

asyncio.run(main())
"""

FILL = """
import asyncio, os, sys
from pathlib import Path
from belljar.errors import OperatorError
from belljar.gateway.store.directory import DirectoryBlobs

async def main():
    root = Path(sys.argv[1])
    blobs = DirectoryBlobs(root)
    try:
        async with blobs.write() as writer:
            for _ in range(100):
                await writer.write(bytes(1 << 20))
    except OperatorError as error:
        print(str(error).replace(str(root), "HERE"))
    print([path.name for path in root.rglob("*")])

asyncio.run(main())
"""


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "blobs")


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SqliteRecords]:
    made = SqliteRecords(tmp_path / "records.db")
    yield made
    asyncio.run(made.close())


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


def keep(blobs: DirectoryBlobs, data: bytes, age: float = 0) -> Blob:
    blob = asyncio.run(blobs.adopt(chunks(data)))
    path = blobs.path(blob.name)
    assert path
    grow_old(path, age)
    return blob


def grow_old(path: Path, age: float) -> None:
    then = time.time() - age
    os.utime(path, (then, then))


def files(root: Path) -> list[Path]:
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def test_where_a_blob_lies_and_who_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        root = tmp_path / "blobs"
        blob = keep(DirectoryBlobs(root), b"data")
    finally:
        os.umask(before)
    digest = hashlib.sha256(b"data").hexdigest()
    assert blob.name == digest
    assert files(root) == [Path(digest[:2], digest[2:])]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_the_same_bytes_are_kept_once(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    first, again = keep(blobs, b"data"), keep(blobs, b"data")
    assert first == again
    keep(blobs, b"other")
    assert len(files(tmp_path)) == 2


def test_sweeping(blobs: DirectoryBlobs, records: SqliteRecords, tmp_path: Path) -> None:
    named, young, old, older = (
        keep(blobs, data, age * HOUR) for data, age in [(b"named", 9), (b"young", 0.9), (b"old", 1.1), (b"older", 99)]
    )
    asyncio.run(
        records.add_file(
            FileRecord(id="file-1", owner="a", filename="f", purpose="p", created_at=1, size=1, blob=named.name)
        )
    )
    incoming = tmp_path / "blobs/incoming"
    for name, age in (("left", 1.1), ("coming", 0.9)):
        (incoming / name).touch()
        grow_old(incoming / name, age * HOUR)
    stray = tmp_path / "blobs" / old.name[:2] / "README"
    stray.touch()
    grow_old(stray, 9 * HOUR)

    assert asyncio.run(blobs.sweep(records)) == 3
    assert [blobs.path(blob.name) is not None for blob in (named, young, old, older)] == [True, True, False, False]
    assert [path.name for path in incoming.iterdir()] == ["coming"]
    assert stray.exists()
    assert asyncio.run(blobs.sweep(records)) == 0


def test_removing_what_is_unused(blobs: DirectoryBlobs, records: SqliteRecords) -> None:
    named, young, old, bystander = (
        keep(blobs, data, age) for data, age in [(b"named", 999), (b"young", 200), (b"old", 400), (b"bystander", 999)]
    )
    asyncio.run(
        records.add_file(
            FileRecord(id="file-1", owner="a", filename="f", purpose="p", created_at=1, size=1, blob=named.name)
        )
    )
    names = [named.name, young.name, old.name, old.name, "../../etc/passwd", "0" * 64]
    assert asyncio.run(blobs.remove_unused(records, names)) == 1
    there = [blobs.path(blob.name) is not None for blob in (named, young, old, bystander)]
    assert there == [True, True, False, True]


def test_removing_what_no_part_of_is_used(blobs: DirectoryBlobs, records: SqliteRecords) -> None:
    used, unused = keep(blobs, b"used", 999), keep(blobs, b"unused", 999)
    parts = [Slice(blob.name, start, 2).blob for blob in (used, unused) for start in (0, 2)]
    container = ContainerRecord(id="cntr_1", owner="a", name="c", created_at=1, last_active_at=1)
    named = ContainerFileRecord(
        id="cfile_1",
        container_id="cntr_1",
        path="p",
        created_at=1,
        size=2,
        modified=1.0,
        source="user",
        blob=parts[0].name,
    )

    async def run() -> None:
        await records.create_container(container)
        await records.change_container("cntr_1", Change(put=[named]))
        assert await blobs.remove_unused(records, [part.name for part in parts]) == 1
        assert (blobs.path(used.name) is None, blobs.path(unused.name)) == (False, None)
        await records.change_container("cntr_1", Change(gone=[named]))
        assert await blobs.remove_unused(records, [parts[1].name]) == 1
        assert blobs.path(used.name) is None

    asyncio.run(run())


def test_bytes_that_come_again_are_young_again(blobs: DirectoryBlobs, records: SqliteRecords) -> None:
    blob = keep(blobs, b"data", 9 * HOUR)
    asyncio.run(blobs.adopt(chunks(b"data")))
    assert asyncio.run(blobs.sweep(records)) == 0
    assert blobs.path(blob.name)


def test_an_error_leaves_nothing(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield bytes(3 * MIB)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        asyncio.run(blobs.adopt(broken()))
    assert files(tmp_path) == []


@pytest.mark.parametrize("turns", range(0, 40, 3))
def test_a_cancellation_leaves_nothing(blobs: DirectoryBlobs, tmp_path: Path, turns: int) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MIB)

    async def run() -> None:
        task = asyncio.create_task(blobs.adopt(endless()))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert files(tmp_path) == []


def test_a_reader_that_leaves_early_leaves_no_file_open(blobs: DirectoryBlobs) -> None:
    blob = keep(blobs, bytes(5 * MIB))
    path = blobs.path(blob.name)

    def held() -> list[str]:
        return [link for fd in os.listdir("/proc/self/fd") if (link := _target(fd)) == str(path)]

    async def read() -> None:
        stream = blobs.stream(blob.name)
        assert len(await anext(stream)) == MIB
        assert len(held()) == 1
        del stream

    asyncio.run(read())
    assert held() == []


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_a_blob_removed_while_it_is_read_is_read_to_its_end(blobs: DirectoryBlobs, records: SqliteRecords) -> None:
    data = os.urandom(3 * MIB)
    blob = keep(blobs, data, 9 * HOUR)

    async def read() -> bytes:
        stream = blobs.stream(blob.name)
        first = await anext(stream)
        assert await blobs.sweep(records) == 1
        return first + b"".join([chunk async for chunk in stream])

    assert asyncio.run(read()) == data
    with pytest.raises(NotFound, match="There is no content"):
        asyncio.run(read())


def test_a_finished_blob_takes_no_more(blobs: DirectoryBlobs) -> None:
    async def run() -> None:
        async with blobs.write() as writer:
            await writer.finish()
            with pytest.raises(ValueError, match="finished"):
                await writer.write(bytes(MIB))

    asyncio.run(run())


def test_a_killed_writer_leaves_no_false_blob(start: Children, tmp_path: Path) -> None:
    root = tmp_path / "blobs"
    child = start(WRITE, root)
    assert child.stdout
    told = [child.stdout.readline().strip() for _ in range(5)]
    child.kill()
    child.communicate()
    there = [path for path in files(root) if path.parts[0] != "incoming"]
    assert {"".join(path.parts) for path in there} >= set(told)
    for path in there:
        assert hashlib.sha256((root / path).read_bytes()).hexdigest() == "".join(path.parts)


def test_a_full_disk(start_on_small_disk: Callable[[str], Child]) -> None:
    child = start_on_small_disk(FILL)
    told, _ = child.communicate()
    assert told.splitlines() == [
        "the disk of HERE is full; free some space there, or move it to a larger disk",
        "['incoming']",
    ]
    assert child.returncode == 0
