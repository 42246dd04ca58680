"""Blobs that a power cut may have taken: read whole before they are believed, and never served wrong."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from belljar.errors import NotFound
from belljar.gateway.store import blob_verification, directory
from belljar.gateway.store.base import Blob, FileRecord
from belljar.gateway.store.blob_slices import Slice
from belljar.gateway.store.blob_verification import Trust
from belljar.gateway.store.directory import DirectoryBlobs
from belljar.gateway.store.local_store import open_store

DATA = os.urandom(3 << 20)
NAME = hashlib.sha256(DATA).hexdigest()
HOUR = 3600


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    yield data


def adopted(blobs: DirectoryBlobs, data: bytes) -> Blob:
    return asyncio.run(blobs.adopt(chunks(data)))


def kept(blobs: DirectoryBlobs, data: bytes) -> Blob:
    return asyncio.run(blobs.keep([data, b"another"]))[0]


def streamed(blobs: DirectoryBlobs, name: str) -> bytes:
    async def read() -> bytes:
        return b"".join([chunk async for chunk in blobs.stream(name)])

    return asyncio.run(read())


def placed(blobs: DirectoryBlobs, name: str) -> bytes:
    path = blobs.path(name)
    assert path is not None
    return path.read_bytes()


def part(blobs: DirectoryBlobs, name: str) -> bytes:
    return streamed(blobs, Slice(name, 0, 5).blob.name)


def place(root: Path) -> Path:
    return root / NAME[:2] / NAME[2:]


Keep = Callable[[DirectoryBlobs, bytes], Blob]
Read = Callable[[DirectoryBlobs, str], bytes]
READS = [streamed, placed, part]


@pytest.mark.parametrize("keep", [adopted, kept])
@pytest.mark.parametrize("read", READS)
def test_what_is_whole_after_a_power_cut_is_as_before(tmp_path: Path, keep: Keep, read: Read) -> None:
    keep(DirectoryBlobs(tmp_path, Trust("one")), DATA)
    then = place(tmp_path).stat().st_mtime_ns - 9 * HOUR * 10**9
    os.utime(place(tmp_path), ns=(then, then))
    blobs = DirectoryBlobs(tmp_path, Trust("other"))
    assert DATA.startswith(read(blobs, NAME))
    assert Trust("other").has(place(tmp_path).stat())
    assert time.time() - place(tmp_path).stat().st_mtime > 8 * HOUR  # it is no younger for having been read


@pytest.mark.parametrize(
    "left", [b"", DATA[:-1], bytes(len(DATA)), DATA + b"\0"], ids=["empty", "short", "other", "long"]
)
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("keep", [adopted, kept])
def test_what_a_power_cut_damaged_is_told_until_it_comes_again(
    tmp_path: Path, left: bytes, read: Read, keep: Keep
) -> None:
    adopted(DirectoryBlobs(tmp_path, Trust("one")), DATA)
    before = place(tmp_path).stat()
    place(tmp_path).write_bytes(left)
    os.utime(place(tmp_path), ns=(before.st_atime_ns, before.st_mtime_ns))  # the kernel had that on the disk in time
    blobs = DirectoryBlobs(tmp_path, Trust("other"))
    for _ in range(2):
        with pytest.raises(NotFound, match=f"damaged.*{len(left)} bytes.*send the file again"):
            read(blobs, NAME)
    keep(blobs, DATA)
    assert DATA.startswith(read(blobs, NAME))
    assert list((tmp_path / "incoming").iterdir()) == []


def test_what_a_power_cut_took_is_not_there(tmp_path: Path) -> None:
    adopted(DirectoryBlobs(tmp_path, Trust("one")), DATA)
    place(tmp_path).unlink()
    blobs = DirectoryBlobs(tmp_path, Trust("other"))
    assert blobs.path(NAME) is None
    with pytest.raises(NotFound):
        streamed(blobs, NAME)


def test_what_was_kept_since_the_machine_started_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process takes nothing with it: the bytes are the kernel's."""
    adopted(DirectoryBlobs(tmp_path, Trust("one")), DATA)
    monkeypatch.setattr(directory, "digest_file", None)
    inode = place(tmp_path).stat().st_ino
    again = DirectoryBlobs(tmp_path, Trust("one"))
    assert [read(again, NAME)[:5] for read in READS] == [DATA[:5]] * 3
    adopted(again, DATA)
    assert place(tmp_path).stat().st_ino == inode


def test_nobody_waits_for_the_disk_but_for_files_that_live_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []

    def note(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "fdatasync", note)
    records, blobs = open_store(tmp_path)

    async def run() -> None:
        await blobs.adopt(chunks(DATA))
        await blobs.keep([b"small"])
        assert synced == []
        for id in ("file-1", "file-2"):
            record = FileRecord(id=id, owner="a", filename="f", purpose="p", created_at=1, size=len(DATA), blob=NAME)
            await blobs.settle(NAME)
            await records.add_file(record)
        await records.close()

    asyncio.run(run())
    root = tmp_path / "blobs"
    assert synced == [str(place(root)), str(place(root).parent), str(root)]  # and once


@pytest.mark.parametrize("again", [adopted, kept])
def test_what_is_on_the_disk_for_sure_is_believed_after_any_power_cut(tmp_path: Path, again: Keep) -> None:
    blobs = DirectoryBlobs(tmp_path, Trust("one"))
    adopted(blobs, DATA)
    asyncio.run(blobs.settle(NAME))
    again(DirectoryBlobs(tmp_path, Trust("two")), DATA)
    assert Trust("three").has(place(tmp_path).stat())


def test_what_is_damaged_or_gone_cannot_be_settled(tmp_path: Path) -> None:
    blobs = DirectoryBlobs(tmp_path)
    adopted(blobs, DATA)
    place(tmp_path).write_bytes(b"")
    with pytest.raises(NotFound, match="damaged"):
        asyncio.run(blobs.settle(NAME))
    place(tmp_path).unlink()
    asyncio.run(blobs.settle(NAME))
    asyncio.run(blobs.settle("no name of a blob"))
    assert blobs.path(NAME) is None


def test_without_an_id_of_the_boot_every_start_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    Trust().give(tmp_path / "file")
    assert Trust().has((tmp_path / "file").stat())
    monkeypatch.setattr(blob_verification, "_BOOT", tmp_path / "nothing")
    assert not Trust().has((tmp_path / "file").stat())
