"""What an owner may store bounds what is kept, whichever way it comes: by cells, pictures, archives or inline."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.houses import ALL, OWNER, House, opened, run_in
from tests.contract.test_containers import bare, few

from belljar.errors import StorageExceeded
from belljar.gateway.containers import released_blobs
from belljar.gateway.store import directory
from belljar.sandbox.base import KIB, MIB

MOST = MIB


def on_disk(house: House) -> int:
    """Bytes of all blobs."""
    return sum(os.path.getsize(path) for path in Path(house.blobs._root).glob("[0-9a-f][0-9a-f]/*"))


def fill(name: str, size: int, seed: int = 0) -> str:
    return f"import random\nopen({name!r}, 'wb').write(random.Random({seed}).randbytes({size}));"


async def test_what_cells_make_is_counted_and_no_more_is_kept_than_may_be(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released_blobs, "RECENT", 0.0)
    monkeypatch.setattr(
        directory, "RECENT", -2.0
    )  # a file's time may be up to a second ahead: its fraction has a meaning
    async with few(home, 1) as source, opened(source, tmp_path / "store", bare(bytes_per_owner=MOST)) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            for n in range(3):  # one after the other at the same path: only the last is there
                await run_in(use, fill("a", 600 * KIB, n))
                assert not use.left_out
            await house.containers.sweep()
            assert on_disk(house) < MOST
            await run_in(use, fill("b", 600 * KIB, 3))
            [left_out] = use.left_out
            assert left_out.path == "b"
            assert "quota_bytes" in left_out.why
            await run_in(use, "import os; os.remove('a')\n" + fill("c", 600 * KIB, 4))
            assert not use.left_out, "what goes makes room"
            assert await use.collect((), [(bytes(900 * KIB), "image/png")]) == []
            assert use.figures == ()
        assert [one.path for one in await house.containers.list_files(container, ALL)] == ["c"]
        assert await house.records.bytes_of(OWNER) == 600 * KIB
        await house.containers.sweep()
        assert on_disk(house) == 600 * KIB


async def test_a_file_that_grows_while_it_is_kept_is_kept_as_it_was_counted(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with few(home, 1) as source, opened(source, tmp_path / "store", bare()) as house:
        container = await house.container()
        async with house.containers.use(container) as use:
            await run_in(use, "1")
            files = type(house.source.alive[0].files)
            stream: Callable[..., AsyncIterator[bytes]] = files.stream

            async def grow(self: Any, name: str, **more: Any) -> AsyncIterator[bytes]:
                async for chunk in stream(self, name, **more):
                    yield chunk
                for _ in range(64):
                    yield bytes(MIB)

            monkeypatch.setattr(files, "stream", grow)
            await run_in(use, "open('log', 'wb').write(b'x' * 5000);")
        [kept] = await house.containers.list_files(container, ALL)
        assert kept.size == 5000
        assert (await house.files(container))["log"] == b"x" * 5000


async def test_an_archive_is_unpacked_no_further_than_there_is_room(home: Path, tmp_path: Path) -> None:
    async with few(home, 1) as source, opened(source, tmp_path / "store", bare(bytes_per_owner=MOST)) as house:
        container = await house.container()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for n in range(8):
                archive.writestr(f"{n}.txt", f"{n:07}\n" * (300 * KIB // 8))
        blob = await house.blob(packed.getvalue())
        with pytest.raises(StorageExceeded, match="quota_bytes"):
            await house.containers.extract(container, blob, "many.zip")
        assert await house.files(container) == {}
        assert on_disk(house) < 2 * MOST
        with pytest.raises(StorageExceeded, match="quota_bytes"):
            await house.containers.check_room(OWNER, MOST + 1)
        await house.containers.check_room(OWNER, MOST)
