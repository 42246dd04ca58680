"""The suite of the port `Blobs`: every test here runs over every place in `PLACES`."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from tests.helpers.databases import Database, PassTime, open_database
from tests.helpers.s3 import S3Server

from belljar.errors import NotFound
from belljar.gateway.store import blob_slices
from belljar.gateway.store.base import Blob, Blobs, FileRecord, Old, Records
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.blob_slices import Slice
from belljar.gateway.store.local_store import open_local_blobs
from belljar.gateway.store.s3.blobs import S3Blobs

MIB = 1 << 20
HOUR = 3600.0


@dataclass(frozen=True)
class Place:
    records: Records
    blobs: Blobs
    pass_time: PassTime


@dataclass(frozen=True)
class Kind:
    """A way to keep blobs. Where the cache holds nothing, every byte that is read comes from the server."""

    server: str | None
    database: str = "sqlite"
    cache: int = 1

    def open(self, place: Path, database: Database, servers: Callable[[str], S3Server]) -> Place:
        if self.server is None:
            return Place(database.records, open_local_blobs(place), partial(age_files, place))
        cache = BlobCache(place / "cache", self.cache)
        blobs = S3Blobs(servers(self.server).open(), database.records.blob_index(), cache)
        return Place(database.records, blobs, database.pass_time)


async def age_files(place: Path, seconds: float) -> None:
    for path in (place / "blobs").rglob("*"):
        if path.is_file():
            at = path.stat().st_mtime_ns - int(seconds) * 10**9
            os.utime(path, ns=(at, at))


PLACES = {
    "directory": Kind(None),
    "moto": Kind("moto"),
    "rclone": Kind("rclone", "postgres"),
    "cached": Kind("rclone", cache=64 * MIB),
}


@pytest.fixture(params=list(PLACES))
def place(
    request: pytest.FixtureRequest,
    runner: asyncio.Runner,
    tmp_path: Path,
    s3_servers: Callable[[str], S3Server],
) -> Iterator[Place]:
    kind = PLACES[request.param]
    database = open_database(kind.database, tmp_path, request, runner)
    made = kind.open(tmp_path, database, s3_servers)
    yield made
    runner.run(made.blobs.close())
    runner.run(made.records.close())


@pytest.fixture
def records(place: Place) -> Records:
    return place.records


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.blobs


def file(id: str, blob: str) -> FileRecord:
    return FileRecord(id=id, owner="ann", filename="f", purpose="user_data", created_at=5, size=1, blob=blob)


async def _all(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [0, 1, 65_536, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
@pytest.mark.parametrize("piece", [1000, 65_536, 10 * MIB])
async def test_a_blob_comes_back_as_it_went(blobs: Blobs, size: int, piece: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    blob = await blobs.adopt(_pieces(data, piece))
    assert blob == Blob(hashlib.sha256(data).hexdigest(), size)
    chunks = [chunk async for chunk in blobs.stream(blob.name)]
    assert b"".join(chunks) == data
    assert all(len(chunk) == MIB for chunk in chunks[:-1])
    assert await _all(blobs.stream(blob.name, chunk=700_000)) == data
    async with blobs.local([blob.name, "0" * 64]) as places:
        place = places[blob.name]
        assert isinstance(place, Path)
        assert place.read_bytes() == data
        assert isinstance(places["0" * 64], NotFound)


async def test_a_range_of_a_blob(blobs: Blobs) -> None:
    data = bytes(range(251)) * (3 * MIB // 251)
    blob = await blobs.adopt(_pieces(data, MIB))
    part = Slice(blob.name, 1000, 2 * MIB).blob.name
    whole = data[1000 : 1000 + 2 * MIB]
    ranges = [
        (0, None),
        (0, 0),
        (5, 5),
        (5, 6),
        (MIB - 1, MIB + 1),
        (1, 2 * MIB + 9),
        (2 * MIB - 3, None),
        (9 * MIB, None),
    ]
    for start, stop in ranges:
        assert await _all(blobs.stream(blob.name, start=start, stop=stop)) == data[start:stop]
        assert await _all(blobs.stream(part, start=start, stop=stop)) == whole[start:stop]
        assert await _all(blobs.stream(blob.name, start=start, stop=stop, chunk=70_001)) == data[start:stop]


async def test_nothing_is_there_until_a_blob_is_finished(blobs: Blobs) -> None:
    data = b"x" * (2 * MIB)
    name = hashlib.sha256(data).hexdigest()
    async with blobs.write() as writer:
        await writer.write(data)
        with pytest.raises(NotFound):
            await _all(blobs.stream(name))
    with pytest.raises(NotFound):
        await _all(blobs.stream(name))
    async with blobs.write() as writer:
        await writer.write(data)
        assert await writer.finish() == Blob(name, len(data))
    assert await _all(blobs.stream(name)) == data


@pytest.mark.parametrize("before", [0, 5, MIB + 1])
async def test_what_is_read_in_a_thread_comes_back_as_it_went(blobs: Blobs, before: int) -> None:
    data = bytes(range(251)) * (3 * MIB // 251)
    source = io.BytesIO(data[before:])
    async with blobs.write() as writer:
        await writer.write(data[:before])
        await writer.drain(lambda buffer: source.readinto(buffer[:700_001]))
        await writer.write(b"end")
        blob = await writer.finish()
    assert await _all(blobs.stream(blob.name)) == data + b"end"


async def test_a_read_that_fails_is_told_and_nothing_is_kept(blobs: Blobs) -> None:
    def read(buffer: memoryview) -> int:
        raise EOFError("gone")

    async with blobs.write() as writer:
        await writer.write(b"x")
        with pytest.raises(EOFError, match="gone"):
            await writer.drain(read)
    with pytest.raises(NotFound):
        await _all(blobs.stream(hashlib.sha256(b"x").hexdigest()))


@pytest.mark.parametrize("name", ["0" * 64, "", "..", "../records.db", "incoming", "A" * 64, "0" * 63, "0" * 64 + "\n"])
async def test_there_is_no_such_blob(blobs: Blobs, name: str) -> None:
    with pytest.raises(NotFound, match="There is no content"):
        await anext(blobs.stream(name))
    async with blobs.local([name]) as places:
        assert isinstance(places[name], NotFound)
    await blobs.settle(name)


async def test_a_part_of_a_blob_is_a_blob(blobs: Blobs) -> None:
    data = bytes(range(251)) * (3 * MIB // 251)
    whole = await blobs.adopt(_pieces(data, MIB))
    for start, size in ((0, 0), (0, 5), (7, MIB), (9, MIB + 1), (len(data) - 3, 3), (len(data), 0)):
        part = Slice(whole.name, start, size)
        assert blob_slices.read(part.blob.name) == part
        assert part.blob.size == size
        assert await _all(blobs.stream(part.blob.name)) == data[start : start + size]
        assert await _all(blobs.stream(part.blob.name, chunk=700_000)) == data[start : start + size]
    with pytest.raises(NotFound, match="There is no content"):
        await anext(blobs.stream(Slice("0" * 64, 0, 1).blob.name))


@pytest.mark.parametrize("name", ["0" * 64, "", f"{'0' * 64}@1", f"{'0' * 64}@-1+1", f"{'0' * 64}@1+1\n", "x@1+1"])
def test_no_part_of_a_blob(name: str) -> None:
    assert blob_slices.read(name) is None
    assert blob_slices.whole(name) == name


async def test_what_a_record_names_is_kept(records: Records, blobs: Blobs) -> None:
    blob = await blobs.adopt(_pieces(b"data", 4))
    await records.add_file(file("file-1", blob.name))
    assert await blobs.remove_unused(records, [blob.name, "0" * 64]) == 0
    assert await blobs.sweep(records) == 0
    assert await _all(blobs.stream(blob.name)) == b"data"


async def test_a_blob_that_is_not_named_yet_is_kept(records: Records, blobs: Blobs) -> None:
    blob = await blobs.adopt(_pieces(b"data", 4))
    assert await blobs.remove_unused(records, [blob.name]) == 0
    assert await blobs.sweep(records) == 0
    assert await _all(blobs.stream(blob.name)) == b"data"


async def test_what_nobody_names_goes_after_some_minutes(place: Place) -> None:
    blob, named = [await place.blobs.adopt(_pieces(data, 9)) for data in (b"data", b"named")]
    await place.records.add_file(file("file-1", named.name))
    await place.pass_time(301)
    part = Slice(blob.name, 1, 2).blob.name
    assert await place.blobs.remove_unused(place.records, [part, blob.name, named.name, "", "0" * 64]) == 1
    with pytest.raises(NotFound):
        await _all(place.blobs.stream(blob.name))
    async with place.blobs.local([blob.name, named.name]) as places:
        assert isinstance(places[blob.name], NotFound)
        assert isinstance(places[named.name], Path)
    assert await place.blobs.adopt(_pieces(b"data", 4)) == blob, "the same bytes again"
    assert await _all(place.blobs.stream(blob.name)) == b"data"


async def test_what_was_forgotten_is_swept_after_an_hour(place: Place) -> None:
    forgotten = [await place.blobs.adopt(_pieces(b"data %d" % number, 9)) for number in range(5)]
    named = await place.blobs.adopt(_pieces(b"named", 9))
    await place.records.add_file(file("file-1", named.name))
    await place.pass_time(HOUR - 10)
    assert await place.blobs.sweep(place.records) == 0
    await place.pass_time(20)
    again = await place.blobs.adopt(_pieces(b"data 0", 9))
    assert again == forgotten[0]
    assert await place.blobs.count_unused(place.records) == Old(4, 4 * 6)
    assert await place.blobs.sweep(place.records) == 4
    assert await place.blobs.count_unused(place.records) == Old(0, 0)
    for blob in forgotten[1:]:
        with pytest.raises(NotFound):
            await _all(place.blobs.stream(blob.name))
    assert await _all(place.blobs.stream(again.name)) == b"data 0"
    assert await _all(place.blobs.stream(named.name)) == b"named"


@pytest.mark.parametrize("size", [0, 1, 3000, 700_000])
async def test_many_small_contents_at_once(blobs: Blobs, size: int) -> None:
    contents = [b"one", b"", b"x" * size, *(b"%d" % number * size for number in range(20)), b"one"]
    kept = await blobs.keep(contents)
    assert [blob.size for blob in kept] == [len(content) for content in contents]
    assert kept[0] == kept[-1]
    assert await asyncio.gather(*(_all(blobs.stream(blob.name)) for blob in kept)) == contents
    wholes = [blob_slices.whole(blob.name) for blob in kept]
    async with blobs.local(wholes) as places:
        for blob, whole, content in zip(kept, wholes, contents, strict=True):
            path = places[whole]
            assert isinstance(path, Path)
            start = 0 if (part := blob_slices.read(blob.name)) is None else part.start
            assert path.read_bytes()[start : start + blob.size] == content
    assert await blobs.keep([]) == []
    assert await blobs.keep([b"alone"]) == [Blob(hashlib.sha256(b"alone").hexdigest(), 5)]


async def test_writers_and_readers_of_the_same_bytes_at_once(blobs: Blobs) -> None:
    data = b"same" * MIB
    made = await asyncio.gather(*(blobs.adopt(_pieces(data, 300_000)) for _ in range(6)))
    assert set(made) == {Blob(hashlib.sha256(data).hexdigest(), len(data))}
    read = await asyncio.gather(*(_all(blobs.stream(made[0].name)) for _ in range(6)))
    assert set(read) == {data}


async def test_a_writer_that_leaves_early_leaves_nothing(blobs: Blobs) -> None:
    data = os.urandom(20 * MIB)
    async with blobs.write() as writer:
        for start in range(0, len(data), MIB):
            await writer.write(data[start : start + MIB])
    with pytest.raises(ValueError, match="given up"):
        await writer.write(b"more")
    with pytest.raises(NotFound):
        await _all(blobs.stream(hashlib.sha256(data).hexdigest()))


@pytest.mark.parametrize("drained", [False, True])
async def test_a_large_blob(blobs: Blobs, drained: bool) -> None:
    data = os.urandom(20 * MIB + 7)
    source = io.BytesIO(data)
    async with blobs.write() as writer:
        if drained:
            await writer.drain(source.readinto)
        else:
            while piece := source.read(1_000_001):
                await writer.write(piece)
        blob = await writer.finish()
    assert blob == Blob(hashlib.sha256(data).hexdigest(), len(data))
    assert await _all(blobs.stream(blob.name)) == data
    assert await _all(blobs.stream(blob.name, start=9 * MIB, stop=9 * MIB + 5)) == data[9 * MIB :][:5]
