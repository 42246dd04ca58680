"""Old things go by the settings, a bounded part at a time, by one gateway at a time."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from belljar.config import Settings
from belljar.gateway import app
from belljar.gateway.store import retention
from belljar.gateway.store.base import FileRecord, Page, ResponseRecord
from belljar.gateway.store.local_store import open_store

NOW = int(time.time())


def file(id: str, at: int) -> FileRecord:
    return FileRecord(id=id, owner="ann", filename="f", purpose="user_data", created_at=at, size=1, blob="b")


def test_what_is_not_set_is_kept() -> None:
    settings = Settings(keep_responses=60, keep_files=3600)
    assert retention.find_limits(settings, 10_000.9) == {"responses": 9940, "files": 6400}
    assert retention.find_limits(Settings(), 10_000) == {}


def test_a_turn_is_bounded_and_one_gateways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)

    async def run() -> None:
        records, _ = open_store(tmp_path)
        for number in range(20):
            await records.add_file(file(f"file-{number}", 5))
        assert await retention.remove_old(records, {"files": 10}, "gw_1", batches=2) == {"files": 6}
        assert await records.take_turn(retention.TURN, "gw_2", 60), "it was given back"
        assert await retention.remove_old(records, {"files": 10}, "gw_1") is None
        seen: list[int] = []
        gone = await retention.remove_old(records, {"files": 10}, "gw_2", progress=lambda _, count: seen.append(count))
        assert gone == {"files": 14}
        assert seen == [3, 6, 9, 12, 14]
        await records.close()

    asyncio.run(run())


def test_a_gateway_removes_what_the_settings_say(tmp_path: Path) -> None:
    async def run() -> None:
        records, blobs = open_store(tmp_path)
        for name, at in (("old", NOW - 100_000), ("new", NOW)):
            await records.add_file(file(f"file-{name}", at))
            await records.add_response(ResponseRecord(id=f"resp_{name}", owner="ann", created_at=at, status="failed"))
        await app.clean(records, blobs, Settings(keep_files=86400), "gw_1")
        assert [one.id for one in await records.list_files("ann", Page())] == ["file-new"]
        assert await records.get_response("resp_old", "ann") is not None, "kept, as nothing is set for responses"
        await records.close()

    asyncio.run(run())
