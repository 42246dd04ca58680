"""Blobs in a bucket, on two servers: what a kill, a broken connection, a rival or a full cache leaves."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.helpers.coroutine_tests import until
from tests.helpers.databases import Database, open_database
from tests.helpers.s3 import CREDENTIALS, Proxy, S3Server, Trouble

from belljar.errors import NotFound, StoreUnavailable
from belljar.gateway.store.base import Blob, FileRecord
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.blob_slices import Slice, whole
from belljar.gateway.store.s3.blobs import S3Blobs
from belljar.gateway.store.s3.upload import RESERVED

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
PART = 5 * MIB  # the least that servers take
LARGE = 11 * MIB


async def at_once(seconds: float) -> None:
    """A pause before another try that takes no time."""


class Store:
    """Records of their own, and blobs below a prefix of their own; `reopen` is another gateway over both."""

    def __init__(self, server: S3Server, place: Path, database: Database) -> None:
        self.server = server
        self.place = place
        self.prefix = os.urandom(8).hex()
        self.address = database.address
        self.records = database.records
        self.pass_time = database.pass_time
        self.index = self.records.blob_index()
        self._opened: list[S3Blobs] = []

    def open(self, url: str | None = None, *, cache: str = "cache", size: int = 256 * MIB, **options: Any) -> S3Blobs:
        bucket = self.server.open(self.prefix, url, sleep=at_once, silence=options.pop("silence", 30.0))
        blobs = S3Blobs(bucket, options.pop("index", self.index), BlobCache(self.place / cache, size), part=PART)
        self._opened.append(blobs)
        return blobs

    def open_cold(self, url: str | None = None) -> S3Blobs:
        """Another gateway, which has no copy of anything and keeps none."""
        return self.open(url, cache=f"cold {len(self._opened)}", size=1)

    def objects(self) -> dict[str, int]:
        return self.server.objects(self.prefix)

    async def close(self) -> None:
        for blobs in self._opened:
            await blobs.close()
        await self.records.close()


@pytest.fixture
def store(
    request: pytest.FixtureRequest, s3_server: S3Server, runner: asyncio.Runner, tmp_path: Path
) -> Iterator[Store]:
    kind = {"moto": "sqlite", "rclone": "postgres"}[s3_server.name]
    made = Store(s3_server, tmp_path, open_database(kind, tmp_path, request, runner))
    yield made
    runner.run(made.close())


@asynccontextmanager
async def proxied(store: Store) -> AsyncIterator[Proxy]:
    async with Proxy(store.server.url).serving() as proxy:
        yield proxy


def name_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def adopt(blobs: S3Blobs, data: bytes) -> Blob:
    async with blobs.write() as writer:
        for start in range(0, len(data), 1_000_000):
            await writer.write(data[start : start + 1_000_000])
        return await writer.finish()


async def read(blobs: S3Blobs, name: str, **part: int) -> bytes:
    return b"".join([chunk async for chunk in blobs.stream(name, **part)])


async def read_local(blobs: S3Blobs, name: str) -> bytes:
    async with blobs.local([name]) as places:
        place = places[name]
        if isinstance(place, NotFound):
            raise place
        return place.read_bytes()


async def name(store: Store, *blobs: Blob) -> None:
    for blob in blobs:
        await store.records.add_file(
            FileRecord(
                id=f"file-{blob.name}",
                owner="ann",
                filename="f",
                purpose="user_data",
                created_at=5,
                size=blob.size,
                blob=blob.name,
            )
        )


READS: dict[str, Callable[[S3Blobs, str], Any]] = {"streamed": read, "copied": read_local}

# -- what is left -----------------------------------------------------------------------------------------------------

UPLOAD = """
import asyncio, os, sys
from pathlib import Path
from tests.helpers.databases import open_again
from tests.helpers.s3 import S3Server
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.s3.blobs import S3Blobs

async def main():
    name, url, prefix, place, address = sys.argv[1:]
    records = await open_again(address)
    bucket = S3Server(name, url).open(prefix)
    blobs = S3Blobs(bucket, records.blob_index(), BlobCache(Path(place) / "cache", 1 << 30))
    async with blobs.write() as small:
        await small.write(b"small")
        print((await small.finish()).name, flush=True)
    async with blobs.write() as writer:
        for number in range(1000):
            await writer.write(os.urandom(1 << 20))
            print(number, flush=True)

asyncio.run(main())
"""


async def test_what_a_killed_gateway_left_is_swept(store: Store) -> None:
    given = (store.server.name, store.server.url, store.prefix, str(store.place), store.address)
    command = [sys.executable, "-W", "error", "-c", UPLOAD, *given]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    assert child.stdout is not None
    assert (await child.stdout.readline()).strip().decode() == name_of(b"small")
    while int(await child.stdout.readline()) < 40:
        pass
    child.kill()
    await child.communicate()
    assert len(store.objects()) == 1
    assert len(store.server.uploads(store.prefix)) == 1
    assert list((store.place / "cache/incoming").iterdir()) != []
    blobs = store.open(cache="other")
    assert await blobs.sweep(store.records) == 0, "it may still be under way"
    assert len(store.server.uploads(store.prefix)) == 1
    await store.pass_time(RESERVED + 1)
    assert await blobs.sweep(store.records) == 2, "the upload, and the blob that nobody named"
    assert store.objects() == {}
    assert store.server.uploads(store.prefix) == []
    assert await store.index.take_garbage() == []


async def test_an_upload_that_is_given_up_is_aborted(store: Store) -> None:
    blobs = store.open()
    async with blobs.write() as writer:
        for _ in range(11):
            await writer.write(os.urandom(MIB))
        assert len(store.server.uploads(store.prefix)) == 1
    await blobs.close()
    assert store.server.uploads(store.prefix) == []
    assert store.objects() == {}
    assert list((store.place / "cache/incoming").iterdir()) == []


async def test_an_upload_that_is_cancelled_while_it_drains_is_aborted(store: Store) -> None:
    blobs = store.open()
    going = True

    def read_on(buffer: memoryview) -> int:
        if not going:
            raise EOFError
        return len(buffer)

    async def upload() -> None:
        async with blobs.write() as writer:
            await writer.drain(read_on)

    task = asyncio.create_task(upload())
    await until(lambda: bool(store.server.uploads(store.prefix)), "the upload has begun")
    going = False
    task.cancel()
    await asyncio.wait({task})
    await blobs.close()
    assert store.server.uploads(store.prefix) == []
    assert store.objects() == {}


@pytest.mark.parametrize("size", [5, 3 * MIB, LARGE])
async def test_an_object_that_never_became_a_blob_is_swept(store: Store, size: int) -> None:
    """As a kill between the last byte and the row leaves it, or a database that does not answer."""

    class Down:
        def __getattr__(self, name: str) -> Any:
            return getattr(store.index, name)

        async def finish(self, blob: Blob, object: str) -> str | None:
            raise StoreUnavailable("down")

    data = os.urandom(size)
    blobs = store.open(index=Down())
    with pytest.raises(StoreUnavailable, match="down"):
        await adopt(blobs, data)
    assert [*store.objects().values()] == [size]
    with pytest.raises(NotFound):
        await read(blobs, name_of(data))
    await store.pass_time(RESERVED + 1)
    await store.open(cache="other").sweep(store.records)
    assert store.objects() == {}


async def test_an_upload_that_takes_too_long_is_refused_and_leaves_nothing(store: Store) -> None:
    blobs = store.open()
    async with blobs.write() as writer:
        for _ in range(11):
            await writer.write(os.urandom(MIB))
        await store.pass_time(RESERVED + 1)
        with pytest.raises(StoreUnavailable, match="took more than 6 hours and was given up; send it again"):
            await writer.finish()
    await store.open(cache="other").sweep(store.records)
    assert store.objects() == {}


async def test_an_upload_that_was_aborted_under_its_writer_is_refused(store: Store) -> None:
    blobs = store.open()
    async with blobs.write() as writer:
        for _ in range(11):
            await writer.write(os.urandom(MIB))
        other = store.open(cache="other")
        assert await other.sweep(store.records) == 0
        await store.pass_time(RESERVED + 1)
        assert await other.sweep(store.records) == 1
        with pytest.raises(StoreUnavailable, match=r"given up|\(500; tried"):  # moto knows no word for it
            await writer.finish()
    assert store.objects() == {}


# -- rivals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 3 * MIB, LARGE])
async def test_of_two_gateways_that_write_the_same_bytes_one_object_is_left(store: Store, size: int) -> None:
    data = os.urandom(size)
    gateways = [store.open(cache=f"cache {number}") for number in range(3)]
    made = await asyncio.gather(*(adopt(one, data) for one in gateways))
    assert set(made) == {Blob(name_of(data), size)}
    for one in gateways:
        await one.close()
    assert [*store.objects().values()] == [size]
    assert await read(store.open_cold(), name_of(data)) == data


async def test_bytes_that_are_there_are_not_sent_again(store: Store) -> None:
    async with proxied(store) as proxy:
        blobs = store.open(proxy.url)
        await adopt(blobs, b"data")
        await blobs.keep([b"one", b"two"])
        before = proxy.asked["PUT"]
        await adopt(blobs, b"data")
        await blobs.keep([b"one", b"two"])
        assert proxy.asked["PUT"] == before == 2


async def test_removing_and_writing_at_once(store: Store) -> None:
    """Whoever was told that a blob is kept finds it, with whichever gateway."""
    gateways = [store.open(cache=f"cache {number}", size=1) for number in range(3)]
    contents = [b"data %d" % number for number in range(15)]
    for data in contents:
        await adopt(gateways[0], data)
    for _ in range(3):
        await store.pass_time(301)
        jobs = [
            job
            for data in contents
            for job in (
                adopt(gateways[0], data),
                gateways[1].remove_unused(store.records, [name_of(data)]),
                adopt(gateways[2], data),
            )
        ]
        await asyncio.gather(*jobs)
        for data in contents:
            assert await read(gateways[1], name_of(data)) == data
    for one in gateways:
        await one.close()
    assert len(store.objects()) == len(contents)
    cold = store.open_cold()
    for data in contents:
        assert await read(cold, name_of(data)) == data


async def test_a_reader_follows_a_blob_that_was_written_anew(store: Store) -> None:
    """Removed, and its object deleted, after a reader was told of that one."""
    data = os.urandom(100)
    async with proxied(store) as proxy:
        writer, reader = store.open(), store.open_cold(proxy.url)
        blob = await adopt(writer, data)

        async def replace(request: web.Request) -> None:
            proxy.hold = None
            await store.pass_time(301)
            assert await writer.remove_unused(store.records, [blob.name]) == 1
            assert await adopt(writer, data) == blob
            await writer._collect()

        proxy.hold = replace
        assert await read(reader, blob.name) == data
    await writer.close()
    assert len(store.objects()) == 1


# -- a server that fails ----------------------------------------------------------------------------------------------

TROUBLES: list[Trouble] = ["503", "reset", "lost answer"]


@pytest.mark.parametrize("trouble", [*TROUBLES, "half"])
@pytest.mark.parametrize("size", [5, LARGE])
async def test_every_request_fails_once_and_nobody_notices(store: Store, trouble: Trouble, size: int) -> None:
    data = os.urandom(size)
    async with proxied(store) as proxy:
        seen: set[object] = set()

        def fail(request: web.Request) -> Trouble | None:
            kind = (request.method, request.path, str(request.query), request.headers.get("range"))
            if kind in seen:
                return None
            seen.add(kind)
            return trouble

        proxy.trouble = fail
        blobs = store.open(proxy.url)
        blob = await adopt(blobs, data)
        cold = store.open_cold(proxy.url)
        assert await read(cold, blob.name) == data
        assert await read(cold, blob.name, start=size - 2) == data[-2:]
        assert await read_local(cold, blob.name) == data
        await store.pass_time(RESERVED + 1)
        await blobs.sweep(store.records)
        await blobs.close()
    assert store.objects() == {}
    assert store.server.uploads(store.prefix) == []


@pytest.mark.parametrize("trouble", [*TROUBLES, "silence"])
async def test_a_server_that_stays_broken_is_told_after_a_few_tries(store: Store, trouble: Trouble) -> None:
    data = os.urandom(100)
    blob = await adopt(store.open(), data)
    async with proxied(store) as proxy:
        broken = store.open(proxy.url, cache="other", silence=0.2)
        proxy.trouble = lambda request: trouble
        jobs = [broken.sweep(store.records), adopt(broken, b"other")]
        jobs += [read(broken, blob.name), read_local(broken, blob.name)]
        for job in jobs:
            with pytest.raises(StoreUnavailable, match=r"does not answer as it should .* tried [1-6] times"):
                await job
        proxy.trouble = lambda request: None
        assert await read(broken, blob.name) == data
        assert await read_local(broken, blob.name) == data
        assert await adopt(broken, b"other") == Blob(name_of(b"other"), 5)


@pytest.mark.parametrize(
    ("trouble", "how"),
    [
        ("lying half", "streamed"),
        ("lying half", "copied"),
        ("garbage", "streamed"),
        ("garbage", "copied"),
        ("other bytes", "copied"),  # a stream is compared by its size alone
    ],
)
async def test_other_bytes_are_never_given_out(store: Store, trouble: Trouble, how: str) -> None:
    data = os.urandom(3 * MIB)
    blob = await adopt(store.open(), data)
    async with proxied(store) as proxy:
        reader = store.open_cold(proxy.url)
        proxy.fail(1, trouble)
        assert await READS[how](reader, blob.name) == data
        proxy.fail(1000, trouble)
        with pytest.raises(NotFound, match="damaged, in s3://"):
            await READS[how](reader, blob.name)


async def test_an_object_that_somebody_else_deleted(store: Store) -> None:
    blob = await adopt(store.open(), b"data")
    [key] = store.objects()
    store.server.client.delete_object(Bucket="belljar", Key=f"{store.prefix}/{key}")
    for how in READS.values():
        with pytest.raises(NotFound, match="damaged, since its object is gone"):
            await how(store.open_cold(), blob.name)


async def test_a_stream_that_breaks_goes_on_from_there(store: Store) -> None:
    data = os.urandom(8 * MIB)
    blob = await adopt(store.open(), data)
    async with proxied(store) as proxy:
        reader = store.open_cold(proxy.url)
        proxy.fail(4, "half")
        assert await read(reader, blob.name) == data
        assert proxy.asked["GET"] == 5
        assert proxy.passed <= len(data) + 5


async def test_the_end_of_a_large_blob_is_read_alone(store: Store) -> None:
    data = os.urandom(LARGE)
    blob = await adopt(store.open(), data)
    part = Slice(blob.name, 3 * MIB, 7 * MIB).blob
    async with proxied(store) as proxy:
        reader = store.open_cold(proxy.url)
        assert await read(reader, blob.name, start=len(data) - 3) == data[-3:]
        assert await read(reader, part.name, start=5, stop=9) == data[3 * MIB :][5:9]
        assert await read(reader, blob.name, start=len(data)) == b""
        assert proxy.passed == 7
        assert proxy.asked.total() == 2


async def test_a_reader_that_leaves_costs_no_more(store: Store) -> None:
    data = os.urandom(LARGE)
    blob = await adopt(store.open(), data)
    reader = store.open_cold()
    for _ in range(3):
        async with aclosing(reader.stream(blob.name)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                assert chunk == data[:MIB]
                break
    assert await read(reader, blob.name) == data


async def test_whoever_writes_waits_for_the_server(store: Store) -> None:
    """No more is taken than two parts that are under way, one that is read and one that comes in."""
    async with proxied(store) as proxy:
        blobs = store.open(proxy.url)
        answered = 0

        async def slowly(request: web.Request) -> None:
            nonlocal answered
            if "partNumber" in request.query:
                await asyncio.sleep(0.05)
                answered += 1

        proxy.hold = slowly
        taken = 0
        worst = 0

        def read_on(buffer: memoryview) -> int:
            nonlocal taken, worst
            size = min(len(buffer), 40 * MIB - taken)
            taken += size
            worst = max(worst, taken - answered * PART)
            return size

        async with blobs.write() as writer:
            await writer.drain(read_on)
            assert (await writer.finish()).size == 40 * MIB
        assert worst <= 4 * PART
        taken = answered = worst = 0
        async with blobs.write() as writer:
            while taken < 40 * MIB:
                await writer.write(bytes(MIB))
                taken += MIB
                worst = max(worst, taken - answered * PART)
        assert worst <= 4 * PART


async def test_no_secret_is_logged_or_told(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    async with proxied(store) as proxy:
        blobs = store.open(proxy.url)
        for status, body in ((403, "<Error><Code>SignatureDoesNotMatch</Code></Error>"), (503, ""), (400, "?")):
            proxy.answer = status, body
            for job in (adopt(blobs, b"data"), blobs.sweep(store.records)):
                with pytest.raises(StoreUnavailable) as caught:
                    await job
                told.append(f"{caught.value!r} {caught.value.__cause__!r}")
        proxy.answer = None
        await adopt(blobs, b"data")
    shown = caplog.text + " ".join(told) + repr(CREDENTIALS)
    assert CREDENTIALS.secret_key not in shown
    assert "Signature=" not in shown


# -- the cache --------------------------------------------------------------------------------------------------------


async def test_a_blob_is_fetched_once_for_all_who_want_it(store: Store) -> None:
    data = [os.urandom(MIB) for _ in range(4)]
    blobs = [await adopt(store.open(), one) for one in data]
    async with proxied(store) as proxy:
        reader = store.open(proxy.url, cache="other")

        async def use() -> None:
            async with reader.local([blob.name for blob in blobs] * 2) as places:
                for blob, one in zip(blobs, data, strict=True):
                    place = places[blob.name]
                    assert isinstance(place, Path)
                    assert place.read_bytes() == one

        await asyncio.gather(*(use() for _ in range(10)))
        assert proxy.asked == {"GET": 4}
        assert await read(reader, blobs[0].name, start=5, stop=9) == data[0][5:9]
        again = store.open(proxy.url, cache="other")
        assert await read_local(again, blobs[0].name) == data[0]
        assert proxy.asked == {"GET": 4}, "a restart keeps what was fetched"


async def test_what_was_written_here_is_not_fetched(store: Store) -> None:
    async with proxied(store) as proxy:
        blobs = store.open(proxy.url)
        for data in (b"small", os.urandom(3 * MIB), os.urandom(LARGE)):
            blob = await adopt(blobs, data)
            assert await read_local(blobs, blob.name) == data
            assert await read(blobs, blob.name) == data
        assert proxy.asked["GET"] == 0


@pytest.mark.parametrize("harm", [b"", b"x" * 3 * MIB, None])
async def test_a_damaged_copy_is_noticed_and_fetched_again(store: Store, harm: bytes | None) -> None:
    data = os.urandom(3 * MIB)
    blobs = store.open()
    blob = await adopt(blobs, data)
    copy = store.place / "cache" / blob.name[:2] / blob.name[2:]
    for how in READS.values():
        if harm is None:
            copy.unlink(missing_ok=True)
        else:
            copy.write_bytes(harm)
        assert await how(blobs, blob.name) == data


async def test_a_cache_stays_within_its_size_but_for_what_is_in_use(store: Store) -> None:
    contents = [os.urandom(MIB) for _ in range(10)]
    blobs = [await adopt(store.open(), data) for data in contents]
    reader = store.open(cache="small", size=4 * MIB)

    def copies() -> int:
        return sum(path.stat().st_size for path in (store.place / "small").glob("??/*"))

    async with reader.local([blobs[0].name, blobs[1].name]) as pinned:
        for blob, data in zip(blobs, contents, strict=True):
            assert await read_local(reader, blob.name) == data
            assert copies() <= 4 * MIB
        for number in (0, 1):
            place = pinned[blobs[number].name]
            assert isinstance(place, Path)
            assert place.read_bytes() == contents[number]
    async with reader.local([blob.name for blob in blobs]) as all_of_them:
        for blob, data in zip(blobs, contents, strict=True):
            place = all_of_them[blob.name]
            assert isinstance(place, Path)
            assert place.read_bytes() == data
    assert copies() <= 4 * MIB


async def test_a_cache_that_two_gateways_share(store: Store) -> None:
    contents = [os.urandom(300_000) for _ in range(12)]
    blobs = [await adopt(store.open(), data) for data in contents]
    gateways = [store.open(cache="small", size=MIB) for _ in range(2)]

    async def use(reader: S3Blobs, number: int) -> None:
        async with reader.local([blobs[number].name]) as places:
            place = places[blobs[number].name]
            assert isinstance(place, Path)
            await asyncio.sleep(0.01)
            assert place.read_bytes() == contents[number]

    await asyncio.gather(*(use(one, number % 12) for number in range(60) for one in gateways))
    assert {path.name for path in (store.place / "small/used").rglob("*") if path.is_file()} == set()


async def test_what_another_gateway_removed_goes_from_the_cache_too(store: Store) -> None:
    first, second = store.open(cache="one"), store.open(cache="two")
    kept, gone = await adopt(first, b"kept"), await adopt(first, b"gone")
    await name(store, kept)
    for blob in (kept, gone):
        await read_local(second, blob.name)
    await store.pass_time(3601)
    assert await first.sweep(store.records) == 1
    assert await second.sweep(store.records) == 0
    for blobs in (first, second):
        assert await read(blobs, kept.name) == b"kept"
        with pytest.raises(NotFound):
            await read(blobs, gone.name)
    assert sorted(path.name for path in store.place.glob("???/??/*")) == [kept.name[2:]] * 2


# -- many small files -------------------------------------------------------------------------------------------------


async def test_twenty_thousand_small_files_in_a_few_requests(store: Store) -> None:
    contents = [b"file %d " % number * (number % 50) for number in range(20_000)]
    async with proxied(store) as proxy:
        writer = store.open(proxy.url)
        kept = await writer.keep(contents)
        assert proxy.asked.total() <= 5
        reader = store.open(proxy.url, cache="other")
        wholes = {whole(blob.name) for blob in kept}
        async with reader.local([*wholes]) as places:
            found = {one: place.read_bytes() for one, place in places.items() if isinstance(place, Path)}
        assert proxy.asked.total() <= 10
    for blob, data in zip(kept, contents, strict=True):
        start = int(blob.name.partition("@")[2].partition("+")[0])
        assert found[whole(blob.name)][start : start + blob.size] == data


async def test_a_pack_lives_as_long_as_a_part_of_it_is_named(store: Store) -> None:
    from belljar.gateway.store.base import Change, ContainerFileRecord, ContainerRecord

    blobs = store.open()
    kept = await blobs.keep([b"one", b"two", b"three"])
    await store.records.create_container(
        ContainerRecord(id="cntr_1", owner="ann", name="c", created_at=5, last_active_at=5)
    )
    files = [
        ContainerFileRecord(
            id=f"cfile_{number}",
            container_id="cntr_1",
            path=f"{number}",
            created_at=5,
            size=blob.size,
            modified=1.5,
            source="user",
            blob=blob.name,
        )
        for number, blob in enumerate(kept)
    ]
    await store.records.change_container("cntr_1", Change(put=files))
    await store.pass_time(3601)
    for file in files:
        assert await blobs.sweep(store.records) == 0
        await store.records.change_container("cntr_1", Change(gone=[file]))
        await blobs.remove_unused(store.records, [file.blob])
    await blobs.close()
    assert store.objects() == {}
