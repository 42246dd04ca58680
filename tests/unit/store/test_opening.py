"""Opening the store: which directories will do."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from belljar.errors import BadSettings, OperatorError
from belljar.gateway.store import open_store


def test_a_new_directory_is_the_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        records, _ = open_store(directory)
    finally:
        os.umask(before)
    asyncio.run(records.close())
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert sorted(path.name for path in directory.iterdir()) == ["blobs", "records.db"]


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o2770])
def test_a_directory_that_will_do(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    directory.chmod(mode)
    records, _ = open_store(directory)
    asyncio.run(records.close())


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_directory_that_anybody_can_write(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    directory.chmod(mode)
    with pytest.raises(BadSettings, match=r"can be written by anybody .* chmod o-w"):
        open_store(directory)
    assert list(directory.iterdir()) == []


def test_a_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "store"
    directory.mkdir()
    if os.geteuid() == 0:
        os.chown(directory, 12345, 12345)
    else:  # who cannot give a directory away
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BadSettings, match="belongs to another user"):
        open_store(directory)


def test_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "store").touch()
    with pytest.raises(OperatorError, match="store cannot be used: File exists"):
        open_store(tmp_path / "store")
