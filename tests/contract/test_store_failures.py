"""PostgreSQL that fails: answers that are lost, a server that is away, versions side by side, a pooler, TLS."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import pytest
from tests.contract.test_store import container, container_file, conversation, file, item, key, response
from tests.helpers.certificates import own_certificate
from tests.helpers.coroutine_tests import until
from tests.helpers.postgres import Postgres
from tests.helpers.postgres_proxy import PostgresProxy, encrypting, standing_before

from belljar.database_address import DatabaseAddress
from belljar.errors import BadSettings, StoreUnavailable
from belljar.gateway.store.base import Blob, Change, GatewayRecord, Hold, Page, Records, Seen
from belljar.gateway.store.postgres import changes, connections, schema
from belljar.gateway.store.postgres import statements as sql
from belljar.gateway.store.postgres.records import PostgresRecords
from belljar.gateway.store.postgres.schema import MIGRATIONS, Migration

Act: TypeAlias = Callable[[Records], Awaitable[Any]]
GATEWAY = GatewayRecord(id="gw_1", address="http://here")
OUTCOME = re.compile(r'"(n|until|started_at|touched|token|finished_at|due)": ("[^"]*"|\d+|null)')
"""What differs between two times that the same is done."""


class Case(NamedTuple):
    name: str
    statement: str
    act: Act
    prepare: Act | None = None
    repeatable: bool = True
    """Whether it is told the same the second time; else only what is stored is the same."""


async def _conversation(records: Records) -> None:
    await records.create_conversation(conversation(), [item("msg_0")])


async def _running(records: Records) -> None:
    await _conversation(records)
    await records.beat(GATEWAY, 60)
    running = response("resp_1", status="in_progress", background=True, holder="gw_1", conversation_id="conv_1")
    await records.add_response(running)
    await records.add_events("resp_1", "gw_1", [(0, b"{}")])


async def _held(records: Records) -> None:
    await records.create_container(container())
    await records.beat(GATEWAY, 60)
    await records.hold_container("cntr_1", "ann", "gw_1")
    await records.change_container("cntr_1", Change(put=[container_file("cfile_1", size=10)]))


async def _file(records: Records) -> None:
    await records.add_file(file("file_1", size=10, expires_at=3))


async def _reserved(records: Records) -> None:
    await records.blob_index().reserve(["object"], 60)


HOLD = Hold("gw_1", 1)
ENDED = response("resp_1", status="completed", background=True, holder="gw_1", conversation_id="conv_1", body=b"{1}")
CHANGE = Change(
    put=[container_file("cfile_2", size=5), container_file("cfile_9", path="cfile_1", size=7)],
    requirements=("six",),
    ran=True,
    hold=HOLD,
    most=1000,
)
SEEN = Change(
    put=[container_file("cfile_2", size=5), container_file("cfile_9", path="cfile_1", size=7)],
    ran=True,
    cells=2,
    at=9,
    hold=HOLD,
    seen=Seen(version=1, files={"cfile_1": container_file("cfile_1", size=10)}, sandbox=b"here"),
)
CASES = [
    Case("beat", sql.BEAT.sql, lambda r: r.beat(GATEWAY, 60), repeatable=False),
    Case("leave", sql.LEAVE.sql, lambda r: r.leave("gw_1"), _held),
    Case("add_response", sql.ADD_RESPONSE.sql, lambda r: r.add_response(response("resp_2"))),
    Case(
        "add_response with items",
        sql.ADD_RESPONSE_WITH_ITEMS.sql,
        lambda r: r.add_response(response("resp_2", conversation_id="conv_1"), [item("msg_1"), item("msg_2")]),
        _conversation,
    ),
    Case(
        "end_response",
        sql.END_RESPONSE.sql,
        lambda r: r.end_response(ENDED, items=[item("msg_1")], events=[(1, b"{}"), (2, b"{}")]),
        _running,
    ),
    Case(
        "end_response of a dead gateway's",
        sql.END_ABANDONED.sql,
        lambda r: r.end_response(ENDED, events=[(1, b"{}")], abandoned=True),
        lambda r: _all(_running(r), r.leave("gw_1")),
    ),
    Case("add_events", sql.ADD_EVENTS.sql, lambda r: r.add_events("resp_1", "gw_1", [(1, b"a"), (2, b"b")]), _running),
    Case("delete_response", sql.DELETE_RESPONSE.sql, lambda r: r.delete_response("resp_1", "ann"), _running),
    Case(
        "create_conversation",
        sql.CREATE_CONVERSATION.sql,
        lambda r: r.create_conversation(conversation("conv_2"), [item("msg_1")]),
    ),
    Case(
        "update_conversation",
        sql.UPDATE_CONVERSATION.sql,
        lambda r: r.update_conversation("conv_1", "ann", {"a": "b"}),
        _conversation,
    ),
    Case(
        "add_items", sql.ADD_ITEMS.sql, lambda r: r.add_items("conv_1", [item("msg_1"), item("msg_2")]), _conversation
    ),
    Case("delete_item", sql.DELETE_ITEM.sql, lambda r: r.delete_item("conv_1", "msg_0"), _conversation),
    Case(
        "delete_conversation",
        sql.DELETE_CONVERSATION.sql,
        lambda r: r.delete_conversation("conv_1", "ann"),
        _conversation,
    ),
    Case("create_container", sql.CREATE_CONTAINER.sql, lambda r: r.create_container(container("cntr_2"))),
    Case("update_container", sql.UPDATE_CONTAINER.sql, lambda r: r.update_container("cntr_1", memory="4g"), _held),
    Case("touch_container", sql.TOUCH_CONTAINER.sql, lambda r: r.touch_container("cntr_1", 9, 1), _held),
    Case("touch_container, held", sql.TOUCH_HELD.sql, lambda r: r.touch_container("cntr_1", 9, 1, HOLD), _held),
    Case("note_sandbox", sql.NOTE_SANDBOX.sql, lambda r: r.note_sandbox("cntr_1", HOLD, b"here"), _held),
    Case("release_container", sql.RELEASE_CONTAINER.sql, lambda r: r.release_container("cntr_1", HOLD), _held),
    Case("change_container", "COMMIT", lambda r: r.change_container("cntr_1", CHANGE), _held),
    Case(
        "change_container, deleting",
        "COMMIT",
        lambda r: r.change_container("cntr_1", Change(gone=[container_file("cfile_1", size=10)])),
        _held,
    ),
    Case("change_container, seen", changes.MAKE_SEEN, lambda r: r.change_container("cntr_1", SEEN), _held),
    Case("delete_container", sql.DELETE_CONTAINER.sql, lambda r: r.delete_container("cntr_1", "ann"), _held),
    Case("add_file", sql.ADD_FILE.sql, lambda r: r.add_file(file("file_2", size=30), 40), _file),
    Case("delete_file", sql.DELETE_FILE.sql, lambda r: r.delete_file("file_1", "ann"), _file),
    Case("expire_files", sql.EXPIRE_FILES.sql, lambda r: r.expire_files(3), _file, repeatable=False),
    Case("put_key", sql.PUT_KEY.sql, lambda r: r.put_key(key("key_1"))),
    Case("agree", sql.AGREE.sql, lambda r: r.agree("name", b"value")),
    Case("reserve", "INSERT INTO belljar.garbage", lambda r: r.blob_index().reserve(["object"], 60)),
    Case("finish", "INSERT INTO belljar.blobs", lambda r: r.blob_index().finish(Blob("b", 3), "object"), _reserved),
]


async def _all(*acts: Awaitable[Any]) -> None:
    for act in acts:
        await act


@pytest.fixture(scope="module")
def server(postgres: Postgres, runner: asyncio.Runner) -> Postgres:
    runner.run(postgres.empty_store())
    return postgres


@asynccontextmanager
async def behind(proxy: PostgresProxy, database: str) -> AsyncIterator[PostgresRecords]:
    records = await PostgresRecords.open(DatabaseAddress(proxy.address(database)))
    try:
        yield records
    finally:
        await records.close()


def name_of(address: str) -> str:
    return address.partition("?")[0].rpartition("/")[2]


async def dump(address: str) -> list[str]:
    """All that is stored."""
    connection = await asyncpg.connect(address)
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'belljar' ORDER BY 1")
    found: list[str] = []
    for (table,) in tables:
        rows = await connection.fetch(f"SELECT to_jsonb(t)::text FROM belljar.{table} AS t")
        found += sorted(f"{table}: {OUTCOME.sub('', row[0])}" for row in rows)
    await connection.close()
    return found


# An answer that is lost


@pytest.mark.parametrize("case", CASES, ids=[one.name for one in CASES])
async def test_a_write_whose_answer_is_lost_is_made_once(server: Postgres, case: Case) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        if case.prepare is not None:
            await case.prepare(records)
        result, stored = await case.act(records), await dump(address)
        for arrived in (True, False):
            await server.empty_store()
            if case.prepare is not None:
                await case.prepare(records)
            lost = proxy.lost
            proxy.lose(case.statement, arrived=arrived)
            again = await case.act(records)
            assert proxy.lost == lost + 1
            assert await dump(address) == stored, f"arrived: {arrived}"
            if case.repeatable:
                assert again == result, f"arrived: {arrived}"


async def test_who_holds_a_container_again_has_the_epoch_that_counts(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        await records.create_container(container())
        await records.beat(GATEWAY, 60)
        proxy.lose(sql.HOLD_CONTAINER.sql, arrived=True)
        held = await records.hold_container("cntr_1", "ann", "gw_1")
        assert held is not None
        assert (held.holder, held.epoch) == ("gw_1", 2)
        await records.note_sandbox("cntr_1", Hold("gw_1", 2), b"here")


async def test_writes_of_one_batch_are_each_made_once(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        proxy.lose(sql.ADD_FILE.sql, arrived=True)
        await asyncio.gather(*(records.add_file(file(f"file_{n}", size=10), 100) for n in range(5)))
        assert proxy.lost == 1
        assert await records.bytes_of("ann") == 50
        assert len(await records.list_files("ann", Page())) == 5


async def test_a_change_made_in_between_is_not_undone_by_the_second_try(server: Postgres) -> None:
    """The item was added, its answer lost; before the second try somebody adds more."""
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        await records.create_conversation(conversation())
        proxy.lose(sql.ADD_ITEMS.sql, arrived=True)
        adding = asyncio.create_task(records.add_items("conv_1", [item("msg_1"), item("msg_2")]))
        await until(lambda: proxy.lost == 1, "the answer is lost")
        other = await PostgresRecords.open(DatabaseAddress(address))
        await other.add_items("conv_1", [item("msg_3")])
        await other.close()
        await adding
        assert sorted(one.id for one in await records.all_items("conv_1")) == ["msg_1", "msg_2", "msg_3"]


# A server that is away


async def test_a_server_that_is_back_in_time_is_waited_for(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        await records.add_response(response("resp_1"))
        proxy.away = True
        proxy.cut()
        reading = asyncio.create_task(records.get_response("resp_1", "ann"))
        writing = asyncio.create_task(records.add_response(response("resp_2")))
        await until(lambda: proxy.refused >= 2, "both have tried")
        proxy.away = False
        assert await reading == response("resp_1")
        await writing
        assert await records.get_response("resp_2", "ann") == response("resp_2")


async def test_a_server_that_stays_away_is_told_and_found_again(
    server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    monkeypatch.setattr(connections, "_LOOK", 0.05)
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        await records.add_response(response("resp_1"))
        proxy.away = True
        proxy.cut()
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: records.get_response("resp_1", "ann"),
            lambda: records.add_response(response("resp_2")),
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailable) as told:
                await attempt()
            assert told.value.after is not None
            assert told.value.after > 0
        proxy.away = False
        found = None
        while found is None:
            try:
                found = await records.get_response("resp_1", "ann")
            except StoreUnavailable:
                await asyncio.sleep(0.01)
        assert found == response("resp_1")
        assert await records.get_response("resp_2", "ann") is None, "what was refused has not been done"


async def test_a_server_that_comes_while_a_gateway_starts(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy:
        proxy.away = True
        opening = asyncio.create_task(PostgresRecords.open(DatabaseAddress(proxy.address(name_of(address)))))
        await until(lambda: proxy.refused > 0, "the gateway has tried")
        proxy.away = False
        records = await opening
        assert await records.keys() == []
        await records.close()


async def test_what_was_acknowledged_outlives_a_crash(server: Postgres) -> None:
    address = await server.empty_store()
    connection = await asyncpg.connect(address)
    await connection.execute(f"ALTER DATABASE {name_of(address)} SET synchronous_commit = on")
    await connection.close()
    records = await PostgresRecords.open(DatabaseAddress(address))
    try:
        await asyncio.gather(*(records.add_response(response(f"resp_{n}")) for n in range(50)))
        crash = asyncio.create_task(asyncio.to_thread(server.crash))
        writing = asyncio.create_task(records.add_response(response("resp_50")))
        await crash
        await writing
        for number in range(51):
            assert await records.get_response(f"resp_{number}", "ann") is not None
    finally:
        await records.close()


# Versions


async def test_gateways_that_start_at_once_make_the_tables_once(server: Postgres) -> None:
    address = DatabaseAddress(server.address(await server.make_database()))
    several = await asyncio.gather(*(PostgresRecords.open(address) for _ in range(4)))
    await several[0].put_key(key("key_1"))
    assert [await one.keys() for one in several] == [[key("key_1")]] * 4
    for one in several:
        await one.close()


async def test_an_older_gateway_runs_beside_a_newer_one(server: Postgres) -> None:
    address = server.address(await server.make_database())
    older = await PostgresRecords.open(DatabaseAddress(address))
    connection = await asyncpg.connect(address)
    expanded = [*MIGRATIONS, Migration("ALTER TABLE belljar.keys ADD COLUMN color text NOT NULL DEFAULT 'red'")]
    await asyncio.gather(*(older.put_key(key(f"key_{n}")) for n in range(3)), schema.migrate(connection, "", expanded))
    await older.put_key(key("key_3"))
    assert len(await older.keys()) == 4
    await older.close()
    started_again = await PostgresRecords.open(DatabaseAddress(address))
    assert len(await started_again.keys()) == 4
    contracted = [*expanded, Migration("ALTER TABLE belljar.keys DROP COLUMN shown", needs=len(MIGRATIONS) + 1)]
    await schema.migrate(connection, "", contracted)
    await connection.close()
    await started_again.close()
    with pytest.raises(BadSettings, match="was changed by a newer Belljar"):
        await PostgresRecords.open(DatabaseAddress(address))


# A pooler

_KEPT_IN_A_SESSION = re.compile(
    r"^\s*(SET(?! LOCAL)|LISTEN|UNLISTEN|PREPARE|DECLARE|LOAD|DISCARD|CREATE\s+TEMP)|pg_advisory_lock|set_config", re.I
)


async def test_behind_a_pooler_nothing_is_kept_in_a_session(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place, pooled=True) as proxy:
        new = await server.make_database()
        for database in (new, name_of(address)):
            async with behind(proxy, database) as records:
                assert records.pool.pooled
                await _running(records)
                await _held(records)
                await asyncio.gather(*(records.add_file(file(f"file_{n}")) for n in range(3)))
                await records.change_container("cntr_1", CHANGE)
                await records.end_response(ENDED)
        assert len(proxy.asked) > 50
        assert {one.name for one in proxy.asked} == {""}, "no statement has a name"
        for one in proxy.asked:
            assert one.in_transaction or not _KEPT_IN_A_SESSION.search(one.sql), one.sql
            assert one.in_transaction or "BEGIN" in one.sql or "SET LOCAL" not in one.sql, one.sql
            assert one.in_transaction or "advisory" not in one.sql, one.sql


async def test_without_a_pooler_statements_are_prepared_once(server: Postgres) -> None:
    address = await server.empty_store()
    async with standing_before(server.place) as proxy, behind(proxy, name_of(address)) as records:
        for number in range(3):
            await records.add_response(response(f"resp_{number}"))
        assert not records.pool.pooled
        named = {one.name for one in proxy.asked if one.sql == sql.ADD_RESPONSE.sql}
        assert len(named) == 1
        assert "" not in named


# TLS


async def test_the_servers_certificate_is_checked(server: Postgres, tmp_path: Path) -> None:
    certificate, context = own_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    another, _ = own_certificate(tmp_path / "other")
    database = name_of(await server.empty_store())
    async with encrypting(server.place, context) as port:

        async def connect(options: str, host: str = "127.0.0.1") -> None:
            address = DatabaseAddress(f"postgresql://postgres@{host}:{port}/{database}?{options}")
            records = await PostgresRecords.open(address)
            assert await records.keys() == []
            await records.close()

        await connect(f"sslmode=verify-full&sslrootcert={certificate}")
        await connect("sslmode=require")
        for options, host in (
            (f"sslmode=verify-full&sslrootcert={another}", "127.0.0.1"),
            (f"sslmode=verify-full&sslrootcert={certificate}", "localhost"),
        ):
            with pytest.raises(BadSettings, match="its certificate is not trusted") as told:
                await connect(options, host)
            assert "check sslmode and sslrootcert" in str(told.value)
        with pytest.raises(BadSettings, match=r"nowhere\.pem"):
            await connect(f"sslmode=verify-full&sslrootcert={tmp_path}/nowhere.pem")
