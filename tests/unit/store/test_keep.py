"""Many small blobs at once: as if each had been written alone."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from belljar.errors import BelljarError
from belljar.gateway.store.base import Blob
from belljar.gateway.store.directory import DirectoryBlobs


def kept(root: Path, contents: Sequence[bytes]) -> list[Blob]:
    return asyncio.run(DirectoryBlobs(root).keep(contents))


def test_they_are_kept_by_their_content_each_once(tmp_path: Path) -> None:
    contents = [b"one", b"", b"two", b"one"]
    found = kept(tmp_path, contents)
    assert found == [Blob(hashlib.sha256(content).hexdigest(), len(content)) for content in contents]
    blobs = DirectoryBlobs(tmp_path)
    for blob, content in zip(found, contents, strict=True):
        path = blobs.path(blob.name)
        assert path is not None
        assert path.read_bytes() == content
    assert list((tmp_path / "incoming").iterdir()) == []
    assert kept(tmp_path, []) == []


def test_what_is_there_is_not_written_again_but_counts_as_new(tmp_path: Path) -> None:
    [blob] = kept(tmp_path, [b"one"])
    path = DirectoryBlobs(tmp_path).path(blob.name)
    assert path is not None
    before = path.stat().st_ino
    then = 10**9 + path.stat().st_mtime_ns % 10**9
    os.utime(path, ns=(then, then))
    assert kept(tmp_path, [b"one", b"two"])[0] == blob
    assert path.stat().st_ino == before
    assert path.stat().st_mtime > 2


def test_a_failure_leaves_nothing_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = DirectoryBlobs(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "utime", full)
    with pytest.raises(BelljarError):
        asyncio.run(blobs.keep([b"one", b"two"]))
    assert list((tmp_path / "incoming").iterdir()) == []
