"""`belljar gc`: tells what is too old and what nothing names, and removes it when told to."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Command, Served
from tests.helpers.postgres import Postgres

from belljar.database_address import DatabaseAddress
from belljar.gateway.store.base import ContainerRecord, FileRecord, Records, ResponseRecord
from belljar.gateway.store.local_store import open_local_blobs, open_local_records
from belljar.gateway.store.postgres.records import PostgresRecords

DAY = 86400


@pytest.fixture(params=["sqlite", "postgres"])
def state(request: pytest.FixtureRequest, belljar: Command, tmp_path: Path) -> Path:
    """A store with a response, a container and a file of forty days ago, and the same of today; its directory."""
    place = tmp_path / "state"
    belljar.environment["BELLJAR_STATE_DIR"] = str(place)
    address = None
    if request.param == "postgres":
        postgres: Postgres = request.getfixturevalue("postgres")
        address = postgres.address(asyncio.run(postgres.make_database()))
        belljar.environment["BELLJAR_DATABASE"] = address
    asyncio.run(_fill(place, address))
    return place


async def _fill(place: Path, address: str | None) -> None:
    local = open_local_records(place)
    records: Records = local if address is None else await PostgresRecords.open(DatabaseAddress(address))
    blobs = open_local_blobs(place)
    now = int(time.time())
    for name, at in (("old", now - 40 * DAY), ("new", now)):
        writer = blobs.write()
        async with writer:
            await writer.write(name.encode())
            blob = await writer.finish()
        if name == "old":
            path = place / "blobs" / blob.name[:2] / blob.name[2:]
            os.utime(path, (at, at))
        await records.add_response(ResponseRecord(id=f"resp_{name}", owner="", created_at=at, status="completed"))
        await records.create_container(
            ContainerRecord(id=f"cntr_{name}", owner="", name="c", created_at=at, last_active_at=at)
        )
        await records.add_file(
            FileRecord(
                id=f"file-{name}", owner="", filename="f", purpose="user_data", created_at=at, size=3, blob=blob.name
            )
        )
    if address is not None:
        await records.close()
    await local.close()


KEEP = ("--keep-responses", "30d", "--keep-containers", "4w", "--keep-files", "720h")


def test_it_tells_and_then_removes(belljar: Command, state: Path) -> None:
    told = belljar("gc", *KEEP)
    assert (told.returncode, told.stderr) == (0, "")
    assert "responses   1 older than 30 days" in told.stdout
    assert "containers  1 older than 28 days" in told.stdout
    assert "files       1 older than 30 days, 3 bytes" in told.stdout
    assert "events      kept for ever" in told.stdout
    assert "Nothing was removed" in told.stdout
    removed = json.loads(belljar("gc", *KEEP, "--delete", "--json").stdout)
    assert removed["deleted"] is True
    assert [removed[kind]["count"] for kind in ("responses", "containers", "files", "unused")] == [1, 1, 1, 1]
    left = json.loads(belljar("gc", *KEEP, "--json").stdout)
    assert [left[kind]["count"] for kind in ("responses", "containers", "files", "unused")] == [0, 0, 0, 0]
    blobs = list((state / "blobs").glob("??/*"))
    assert [path.read_bytes() for path in blobs] == [b"new"]


@pytest.mark.parametrize("state", ["sqlite"], indirect=True)
def test_without_settings_all_is_kept(belljar: Command, state: Path) -> None:
    told = json.loads(belljar("gc", "--delete", "--json").stdout)
    assert told == {"deleted": True, "unused": {"count": 0, "bytes": 0}}
    belljar.environment["BELLJAR_KEEP_RESPONSES"] = "30d"
    assert json.loads(belljar("gc", "--json").stdout)["responses"]["count"] == 1
    for wrong in ("1", "-5d", "month", "30 d d"):
        ran = belljar("gc", f"--keep-files={wrong}")
        assert ran.returncode == 2
        assert "keep_files" in ran.stderr
        assert "such as 12h, 30d or 8w, or none (--keep-files)" in ran.stderr


def test_a_directory_without_a_store_is_told_and_left_alone(belljar: Command, tmp_path: Path) -> None:
    ran = belljar("gc", "--state-dir", str(tmp_path / "misspelt"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"state_dir: there is no store in {tmp_path / 'misspelt'}" in ran.stderr
    assert not (tmp_path / "misspelt").exists()


def test_what_is_refused_or_not_to_be_stored_leaves_nothing(belljar: Command, tmp_path: Path) -> None:
    belljar.environment["BELLJAR_STATE_DIR"] = str(tmp_path / "state")
    belljar.environment["BELLJAR_LARGEST_UPLOAD"] = "1k"
    with belljar.serve() as served:
        for asked in (
            {"model": "belljar", "input": "hello", "store": False},
            {"model": "belljar", "input": "hello", "store": False, "stream": True},
        ):
            with served.stream("/v1/responses", json.dumps(asked).encode()) as lines:
                assert "".join(lines)
        for refused in (
            {"model": "nobody's", "input": "hello"},
            {"model": "belljar", "input": "hello", "previous_response_id": "resp_none"},
            {"model": "belljar", "input": "hello", "conversation": "conv_none"},
            {"model": "belljar", "input": "hello", "tools": [{"type": "code_interpreter", "container": "cntr_none"}]},
            {"model": "belljar", "input": 5},
        ):
            assert 400 <= served.ask("/v1/responses", json.dumps(refused).encode())[0] < 500, refused
        assert served.ask("/v1/containers", b'{"name": "c", "file_ids": ["file-none"]}')[0] == 400
        assert served.ask("/v1/conversations", b'{"items": [{"type": "nothing"}]}')[0] == 400
        for size, purpose in ((5000, "user_data"), (5, "nothing"), (5, "")):
            assert 400 <= _upload(served, b"x" * size, purpose) < 500
        found = sqlite3.connect(tmp_path / "state/records.db")
        tables = [name for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        counts = {name: found.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
        found.close()
        assert {name: count for name, count in counts.items() if count} == {"gateways": 1, "secrets": counts["secrets"]}
        assert list((tmp_path / "state/blobs").glob("??/*")) == []
        assert list((tmp_path / "state/blobs/incoming").iterdir()) == []


def _upload(served: Served, content: bytes, purpose: str) -> int:
    lines = [
        b"--x",
        b'content-disposition: form-data; name="file"; filename="f"',
        b"",
        content,
        b"--x",
        b'content-disposition: form-data; name="purpose"',
        b"",
        purpose.encode(),
        b"--x--",
        b"",
    ]
    return served.ask("/v1/files", b"\r\n".join(lines), Content_Type="multipart/form-data; boundary=x")[0]
