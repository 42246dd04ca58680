"""`belljar move`: from one machine's directory to PostgreSQL and a bucket, resumable, compared, and refused in time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.cli.conftest import Command
from tests.contract.test_store import container, container_file, conversation, file, item, key, response
from tests.helpers import s3
from tests.helpers.postgres import Postgres

from belljar.database_address import DatabaseAddress
from belljar.errors import BadSettings, InvalidRequest
from belljar.gateway.store.base import Change, Page, Records
from belljar.gateway.store.local_store import open_store
from belljar.gateway.store.postgres import move
from belljar.gateway.store.postgres.records import PostgresRecords

CONTENT = os.urandom(100_000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    with s3.running("rclone", tmp_path_factory.mktemp("s3") / "rclone") as running:
        yield running


@pytest.fixture
def state(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def address(postgres: Postgres) -> str:
    return postgres.address(asyncio.run(postgres.make_database()))


async def fill(place: Path) -> None:
    """Something of everything, more than a batch of some."""
    records, blobs = open_store(place)
    async with (writer := blobs.write()):
        await writer.write(CONTENT)
        blob = await writer.finish()
    await asyncio.gather(*(records.add_response(response(f"resp_{n}", owner="")) for n in range(450)))
    running = response("running", status="in_progress", background=True, holder="gw_1")
    await records.add_response(running)
    await records.add_events("running", "gw_1", [(n, b"%d" % n) for n in range(3)])
    await records.create_conversation(conversation(metadata={"a": "b"}), [item("msg_1"), item("msg_2")])
    await records.create_conversation(conversation("conv_2"))
    await records.add_items("conv_1", [item("msg_3")])
    await records.delete_item("conv_1", "msg_2")
    await records.create_container(container(name="a\0b"))
    await records.hold_container("cntr_1", "ann", "gw_1")
    await records.change_container("cntr_1", Change(put=[container_file("cfile_1", blob=f"{blob.name}@3+7", size=7)]))
    await records.change_container("cntr_1", Change(put=[container_file("cfile_2", blob="0" * 64)], ran=True))
    await records.add_file(file("file-1", owner="", filename="f.bin", blob=blob.name, size=len(CONTENT)))
    await records.put_key(key("key_1", revoked_at=7))
    await records.secret("seal")
    await records.close()


async def read_all(records: Records) -> list[object]:
    found: list[object] = [await records.get_response(f"resp_{n}", "") for n in range(450)]
    found += [await records.get_response("running", "ann"), await records.get_events("running", -1)]
    found += [await records.get_conversation(id, "ann") for id in ("conv_1", "conv_2")]
    found += [await records.all_items("conv_1"), await records.get_version("cntr_1", 1), await records.keys()]
    box = await records.get_container("cntr_1", "ann")
    assert box is not None
    found += [replace(box, holder=None, name=box.name.replace("\0", "\ufffd"))]
    found += [await records.all_container_files("cntr_1"), await records.list_files("", Page())]
    return [*found, await records.bytes_of("ann"), await records.bytes_of(""), await records.secret("seal")]


async def read_both(place: Path, address: str) -> list[list[object]]:
    local, _ = open_store(place)
    there = await PostgresRecords.open(DatabaseAddress(address))
    found = [await read_all(local), await read_all(there)]
    await local.close()
    await there.close()
    return found


def test_a_gateway_finds_all_of_it_there(
    belljar: Command, state: Path, address: str, server: s3.S3Server, tmp_path: Path
) -> None:
    bucket = f"s3://{s3.BUCKET}/{os.urandom(8).hex()}"
    belljar.environment |= {**s3.VARIABLES, "BELLJAR_BLOBS_ENDPOINT": server.url}
    ran = belljar("move", "--state-dir", str(state), "--to-database", address, "--to-blobs", bucket)
    assert ran.returncode == 0, ran.stderr
    assert "responses: 451 of 451" in ran.stderr
    assert f"{'0' * 64}: its bytes were not here any more" in ran.stderr
    assert f"1 files with their bytes are in {bucket}" in ran.stdout
    here, there = asyncio.run(read_both(state, address))
    assert here == there
    again = belljar("move", "--state-dir", str(state), "--to-database", address, "--to-blobs", bucket)
    assert again.returncode == 2
    assert "all of this was moved" in again.stderr
    belljar.environment |= {"BELLJAR_DATABASE": address, "BELLJAR_STATE_DIR": str(tmp_path / "another machine")}
    with belljar.serve("--blobs", bucket) as served:
        assert served.ask("/v1/responses/resp_449")[0] == 401, "the keys were moved too"
        served.end(signal.SIGTERM)
    assert asyncio.run(_find_status(address, "running")) == "failed", "its gateway is no more"


async def _find_status(address: str, id: str) -> str:
    records = await PostgresRecords.open(DatabaseAddress(address))
    found = await records.get_response(id, "ann")
    await records.close()
    assert found is not None
    return found.status


def test_without_a_bucket_the_bytes_stay(belljar: Command, state: Path, address: str, tmp_path: Path) -> None:
    told = json.loads(belljar("move", "--state-dir", str(state), "--to-database", address, "--json").stdout)
    assert told["records"]["responses"] == 451
    belljar.environment |= {"BELLJAR_DATABASE": address}
    belljar.environment["BELLJAR_STATE_DIR"] = str(tmp_path / "elsewhere")
    refused = belljar("serve", "--port", "0")
    assert refused.returncode == 3
    assert "the files that this database names are in a directory of another machine" in refused.stderr


def test_what_broke_off_goes_on(state: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(move, "BATCH", 100)

    def stop(what: str, done: int, total: int) -> None:
        if (what, done) == ("responses", 200):
            raise KeyboardInterrupt

    steps: list[tuple[str, int]] = []

    async def run() -> None:
        path, to = state / "records.db", DatabaseAddress(address)
        with pytest.raises(KeyboardInterrupt):
            await move.move_records(path, to, stop)
        with pytest.raises(BadSettings, match="is not finished"):
            await PostgresRecords.open(to)
        target, counts = await move.move_records(path, to, lambda what, done, total: steps.append((what, done)))
        await move.finish(target)
        await target.close()
        assert counts["responses"] == 451
        records = await PostgresRecords.open(to)
        await records.add_response(response("resp_new"))
        await records.add_items("conv_1", [item("msg_4")])
        assert [one.id for one in await records.all_items("conv_1")] == ["msg_1", "msg_3", "msg_4"]
        await records.close()

    asyncio.run(run())
    assert [done for what, done in steps if what == "responses"] == [200, 300, 400, 451]


def test_what_differs_is_told(state: Path, address: str) -> None:
    async def run() -> None:
        path, to = state / "records.db", DatabaseAddress(address)
        target, _ = await move.move_records(path, to, lambda *_: None)
        await target.pool.fetch("UPDATE belljar.files SET filename = 'another' RETURNING 1")
        await target.close()
        with pytest.raises(Exception, match=r"files: 1 rows here and 1 in .* are not the same"):
            await move.move_records(path, to, lambda *_: None)

    asyncio.run(run())


def test_it_refuses_what_would_go_wrong(belljar: Command, state: Path, address: str, tmp_path: Path) -> None:
    async def use() -> None:
        records = await PostgresRecords.open(DatabaseAddress(address))
        await records.put_key(key("key_9"))
        await records.close()

    asyncio.run(use())
    there = ("--state-dir", str(state), "--to-database", address)
    for arguments, code, message in (
        (there, 2, "is in use or not empty; name an empty one"),
        (("--state-dir", str(tmp_path), "--to-database", address), 2, "there is no store in"),
        (("--state-dir", str(state)), 2, "to_database: say where to"),
        ((*there[:2], "--to-database", "mysql://x"), 2, "to_database: the value is not an address such as"),
        ((*there[:2], "--to-database", "postgresql://a:secret@db/x"), 2, "has a password in it"),
        ((*there[:2], "--to-database-file", "/nowhere"), 2, "to_database_file: /nowhere cannot be read"),
        ((*there, "--to-blobs", "here"), 2, "blobs: 'here' is not a bucket such as"),
    ):
        ran = belljar("move", *arguments)
        assert ran.returncode == code, (arguments, ran.stderr)
        assert message in ran.stderr
        assert "secret" not in ran.stderr
        assert "Traceback" not in ran.stderr
    belljar.environment["BELLJAR_STATE_DIR"] = str(state)
    with belljar.serve():
        ran = belljar("move", "--to-database", address)
        assert ran.returncode == 2
        assert "is in use by process" in ran.stderr
        assert "stop it first" in ran.stderr


def test_a_target_of_another_move_is_refused(state: Path, address: str, tmp_path: Path) -> None:
    async def run() -> None:
        to = DatabaseAddress(address)
        target, _ = await move.move_records(state / "records.db", to, lambda *_: None)
        await target.close()
        await fill(tmp_path / "other")
        with pytest.raises(InvalidRequest, match="was moved from elsewhere"):
            await move.move_records(tmp_path / "other/records.db", to, lambda *_: None)

    asyncio.run(run())
