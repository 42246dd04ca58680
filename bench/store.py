"""Compare blobs in a bucket with blobs in a directory, and records in PostgreSQL with what its disk takes to flush.

`.venv/bin/python bench/store.py`, or with `--quick`. The servers run beside us, `rclone serve s3` and a PostgreSQL that
flushes at every commit; their work counts too. Of each measure the median of several turns, both kinds in turn, so that
a busy minute is busy for both. Exit 1 if a bar is missed.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.helpers import postgres, s3

from belljar.database_address import DatabaseAddress
from belljar.gateway.store.base import Blob, Blobs, ResponseRecord
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.local_store import open_local_blobs, open_local_records
from belljar.gateway.store.postgres.records import PostgresRecords
from belljar.gateway.store.s3.blobs import S3Blobs

MIB = 1 << 20
BAR = 1.5
"""Milliseconds that keeping a response may take above one flush of the disk that PostgreSQL's log is on."""


async def write(blobs: Blobs, data: bytes) -> Blob:
    async with blobs.write() as writer:
        for start in range(0, len(data), MIB):
            await writer.write(data[start : start + MIB])
        return await writer.finish()


async def read(blobs: Blobs, name: str, start: int = 0) -> int:
    return sum([len(chunk) async for chunk in blobs.stream(name, start=start)])


async def measure(blobs: Blobs, cold: Blobs, large: int, files: int) -> dict[str, float]:
    """Seconds of each; `cold` has the same blobs and no copies of them."""
    found: dict[str, float] = {}

    async def timed(what: str, act: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await act()
        found[what] = time.perf_counter() - began

    data = os.urandom(large)
    small = [os.urandom(3000) for _ in range(20)]
    kept: list[Blob] = []

    async def write_small() -> None:
        kept.extend([await write(blobs, one) for one in small])

    async def write_large() -> None:
        kept.append(await write(blobs, data))

    await timed("20 small blobs written", write_small)
    await timed(f"{large // MIB} MB written", write_large)
    await timed(f"{files} small files kept", lambda: blobs.keep([b"%d" % one * 200 for one in range(files)]))
    name = kept[-1].name
    await timed(f"{large // MIB} MB read, written here", lambda: read(blobs, name))
    await timed(f"{large // MIB} MB read, without a copy", lambda: read(cold, name))
    await timed("its last byte, without a copy", lambda: read(cold, name, large - 1))
    return found


async def compare(place: Path, server: s3.S3Server, turns: int, large: int, files: int) -> None:
    ratios: dict[str, list[float]] = {}
    for turn in range(turns):
        here = place / str(turn)
        records = open_local_records(here)
        directory = open_local_blobs(here)
        prefix = os.urandom(8).hex()
        index = records.blob_index()
        bucket = S3Blobs(server.open(prefix), index, BlobCache(here / "cache", 1 << 30))
        cold = S3Blobs(server.open(prefix), index, BlobCache(here / "cold", 1))
        plain = await measure(directory, directory, large, files)
        for what, seconds in (await measure(bucket, cold, large, files)).items():
            ratios.setdefault(what, []).append(seconds / plain[what])
        for one in (bucket, cold, directory, records):
            await one.close()
    for what, found in ratios.items():
        print(f"{what:36} {median(found):8.2f} times a directory")


def flush(file: int) -> None:
    """As PostgreSQL does for a commit: a page over what is there, and on the disk when it returns."""
    os.pwrite(file, b"x" * 8192, 0)
    os.fdatasync(file)


async def compare_records(server: postgres.Postgres, count: int) -> bool:
    """A response of 3.4 kB kept by one caller, alone and with 31 others, in turn with flushes of the same disk."""
    records = await PostgresRecords.open(DatabaseAddress(await server.empty_store()))
    flushes: list[float] = []
    alone: list[float] = []
    together: list[float] = []
    file = os.open(server.place / "flushed", os.O_RDWR | os.O_CREAT, 0o600)

    async def keep() -> None:
        id = os.urandom(8).hex()
        await records.add_response(
            ResponseRecord(id=id, owner="", created_at=1, status="completed", body=os.urandom(3400))
        )

    try:
        for _ in range(count):
            began = time.perf_counter()
            await asyncio.to_thread(flush, file)
            between = time.perf_counter()
            await keep()
            alone.append(1000 * (time.perf_counter() - between))
            flushes.append(1000 * (between - began))
        for _ in range(count // 10):
            began = time.perf_counter()
            await asyncio.gather(*(keep() for _ in range(32)))
            together.append(1000 * (time.perf_counter() - began))
    finally:
        os.close(file)
        await records.close()
    above = median(one - floor for one, floor in zip(alone, flushes, strict=True))
    met = above <= BAR
    print(f"{'one flush of the disk':36} {median(flushes):8.2f} ms")
    print(f"{'a response kept in PostgreSQL':36} {median(alone):8.2f} ms, {above:.2f} ms above a flush", end="")
    print(f" (bar: {BAR} ms, {'met' if met else 'MISSED'})")
    print(f"{'32 at once':36} {median(together):8.2f} ms, {median(together) / median(alone):.1f} times one")
    return met


def main() -> None:
    quick = "--quick" in sys.argv
    with postgres.running("fsync=on", "synchronous_commit=on", "full_page_writes=on") as database:
        met = asyncio.run(compare_records(database, 50 if quick else 500))
    with tempfile.TemporaryDirectory() as place, s3.running("rclone", Path(place) / "rclone") as server:
        turns, large, files = (2, 16 * MIB, 1000) if quick else (5, 100 * MIB, 20_000)
        asyncio.run(compare(Path(place), server, turns, large, files))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
