"""The suite of the ports `Records` and `Blobs`: every test here runs over every store in `STORES`."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.helpers.databases import KINDS, Database, PassTime, open_database

from belljar.errors import Fenced, InvalidRequest, NotFound, OperatorError, StorageExceeded
from belljar.gateway.store.base import (
    Change,
    Changed,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    FileRef,
    FoundContainer,
    GatewayRecord,
    Hold,
    ItemRecord,
    Kept,
    KeyRecord,
    Old,
    Order,
    Page,
    Records,
    ResponseRecord,
    SandboxRow,
    Seen,
    Version,
)
from belljar.gateway.store.blob_slices import Slice


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Database]:
    made = open_database(request.param, tmp_path, request, runner)
    yield made
    runner.run(made.records.close())


@pytest.fixture
def pass_time(store: Database) -> PassTime:
    return store.pass_time


@pytest.fixture
def records(store: Database) -> Records:
    return store.records


def response(id: str, previous: str | None = None, **fields: Any) -> ResponseRecord:
    return ResponseRecord(
        **{"owner": "ann", "created_at": 5, "status": "completed", **fields}, id=id, previous_id=previous
    )


def conversation(id: str = "conv_1", **fields: Any) -> ConversationRecord:
    return ConversationRecord(**{"owner": "ann", "created_at": 5, **fields}, id=id)


def container(id: str = "cntr_1", **fields: Any) -> ContainerRecord:
    return ContainerRecord(**{"owner": "ann", "name": "c", "created_at": 5, "last_active_at": 5, **fields}, id=id)


def container_file(id: str, path: str | None = None, **fields: Any) -> ContainerFileRecord:
    given = {"container_id": "cntr_1", "created_at": 5, "size": 1, "modified": 1.5, "source": "user", "blob": "b"}
    return ContainerFileRecord(**{**given, **fields}, id=id, path=id if path is None else path)


async def put(records: Records, *files: ContainerFileRecord) -> list[ContainerFileRecord]:
    """Into their container, as one change."""
    changed = await records.change_container(files[0].container_id, Change(put=files))
    assert changed is not None
    return [*changed.files]


async def take_away(records: Records, *files: ContainerFileRecord) -> list[ContainerFileRecord]:
    changed = await records.change_container(files[0].container_id, Change(gone=files))
    assert changed is not None
    return [*changed.gone]


def file(id: str, **fields: Any) -> FileRecord:
    given = {"owner": "ann", "filename": "f.csv", "purpose": "user_data", "created_at": 5, "size": 1, "blob": "b"}
    return FileRecord(**{**given, **fields}, id=id)


def item(id: str) -> ItemRecord:
    return ItemRecord(id=id, body=b'{"id":"%s"}' % id.encode())


def key(id: str, **fields: Any) -> KeyRecord:
    return KeyRecord(**{"name": "k", "digest": f"digest of {id}", "shown": "wxyz", "created_at": 5, **fields}, id=id)


# Responses


async def test_a_response_comes_back_as_it_went(records: Records) -> None:
    whole = response(
        "resp_2",
        "resp_1",
        background=True,
        conversation_id="conv_1",
        container_id="cntr_1",
        container_version=7,
        input=b'[{"a":"\xc3\xa9"}]',
        output=b"\x00\xff",
        body=b"x" * 100_000,
    )
    await records.add_response(whole)
    assert await records.get_response("resp_2", "ann") == whole
    plain = response("resp_3")
    await records.add_response(plain)
    assert await records.get_response("resp_3", "ann") == plain
    assert await records.get_response("RESP_3", "ann") is None


async def test_a_response_ends_once(records: Records) -> None:
    begun = response("resp_1", status="in_progress", background=True, holder="gw_1")
    await records.add_response(begun)
    done = replace(begun, status="completed", output=b"[1]", body=b"{1}", container_id="cntr_1", container_version=3)
    assert await records.end_response(replace(done, created_at=9, owner="ben", previous_id="resp_0")) is True
    assert await records.get_response("resp_1", "ann") == done, "what it is does not change with its end"
    for status in ("cancelled", "failed", "in_progress", "completed"):
        assert await records.end_response(replace(done, status=status, output=b"[2]")) is False
    assert await records.get_response("resp_1", "ann") == done
    assert await records.end_response(response("resp_none")) is False
    assert await records.get_response("resp_none", "ann") is None


async def test_a_response_that_was_deleted_does_not_come_back(records: Records) -> None:
    begun = response("resp_1", status="queued", holder="gw_1")
    await records.add_response(begun)
    await records.delete_response("resp_1", "ann")
    assert await records.end_response(replace(begun, status="completed")) is False
    assert await records.get_response("resp_1", "ann") is None


async def test_only_its_holder_ends_a_response(records: Records) -> None:
    begun = response("resp_1", status="queued", background=True, holder="gw_1")
    await records.add_response(begun)
    assert await records.end_response(replace(begun, status="failed", holder="gw_2")) is False
    assert await records.end_response(replace(begun, status="failed", holder=None)) is False
    assert await records.end_response(replace(begun, status="failed")) is True


async def test_a_response_and_its_items_are_kept_together(records: Records) -> None:
    await records.create_conversation(conversation(), [item("msg_1")])
    turn = response("resp_1", conversation_id="conv_1")
    with pytest.raises(InvalidRequest, match="'msg_1' is in conversation"):
        await records.add_response(turn, [item("msg_2"), item("msg_1")])
    with pytest.raises(NotFound, match="'conv_2' not found"):
        await records.add_response(replace(turn, conversation_id="conv_2"), [item("msg_2")])
    assert await records.get_response("resp_1", "ann") is None
    await records.add_response(turn, [item("msg_2"), item("msg_3")])
    begun = response("resp_2", status="queued", conversation_id="conv_1", holder="gw_1")
    await records.add_response(begun)
    with pytest.raises(InvalidRequest, match="'msg_1' is in conversation"):
        await records.end_response(replace(begun, status="completed"), items=[item("msg_4"), item("msg_1")])
    assert await records.get_response("resp_2", "ann") == begun
    assert await records.end_response(replace(begun, status="completed"), items=[item("msg_4")]) is True
    assert await records.end_response(replace(begun, status="completed"), items=[item("msg_5")]) is False
    assert [one.id for one in await records.all_items("conv_1")] == ["msg_1", "msg_2", "msg_3", "msg_4"]


async def test_a_response_that_is_added_again_is_what_it_was(records: Records) -> None:
    """The answer to the first try may have been lost on its way."""
    await records.create_conversation(conversation())
    turn = response("resp_1", conversation_id="conv_1")
    await records.add_response(turn, [item("msg_1")])
    await records.add_response(replace(turn, status="failed"), [item("msg_1")])
    assert await records.get_response("resp_1", "ann") == turn
    assert await records.all_items("conv_1") == [item("msg_1")]


async def test_nobody_sees_what_is_another_owners(records: Records) -> None:
    await records.add_response(response("resp_1"))
    await records.create_conversation(conversation())
    await records.create_container(container())
    await records.add_file(file("file-1"))
    for owner, there in (("ben", False), ("ANN", False), ("", False), ("ann", True)):
        assert (await records.get_response("resp_1", owner) is not None) is there
        assert bool(await records.chain("resp_1", owner)) is there
        assert (await records.get_conversation("conv_1", owner) is not None) is there
        assert (await records.get_container("cntr_1", owner) is not None) is there
        assert (await records.get_file("file-1", owner) is not None) is there
        assert bool(await records.list_containers(owner, Page())) is there
        assert bool(await records.list_files(owner, Page())) is there
        assert await records.delete_response("resp_1", owner) is there
        assert await records.delete_conversation("conv_1", owner) is there
        assert await records.delete_container("cntr_1", owner) is there
        assert await records.delete_file("file-1", owner) is there
    assert await records.delete_response("resp_1", "ann") is False
    assert await records.get_response("resp_1", "ann") is None


async def test_a_chain_is_told_from_its_beginning(records: Records) -> None:
    turns = [response(f"resp_{n}", f"resp_{n - 1}" if n else None, created_at=9 - n) for n in range(5)]
    for turn in (*turns, response("resp_other"), response("resp_fork", "resp_1")):
        await records.add_response(turn)
    assert await records.chain("resp_4", "ann") == turns
    assert await records.chain("resp_0", "ann") == turns[:1]
    assert [turn.id for turn in await records.chain("resp_fork", "ann")] == ["resp_0", "resp_1", "resp_fork"]
    assert await records.chain("resp_none", "ann") == []

    await records.delete_response("resp_1", "ann")
    assert await records.chain("resp_4", "ann") == turns[2:]


async def test_a_chain_ends_where_another_owner_begins(records: Records) -> None:
    await records.add_response(response("resp_1", owner="ben"))
    await records.add_response(response("resp_2", "resp_1"))
    assert [turn.id for turn in await records.chain("resp_2", "ann")] == ["resp_2"]


async def test_a_chain_that_bites_its_tail_ends(records: Records) -> None:
    await records.add_response(response("resp_1", "resp_2"))
    await records.add_response(response("resp_2", "resp_1"))
    assert [turn.id for turn in await records.chain("resp_2", "ann")] == ["resp_1", "resp_2"]


async def test_events_go_with_their_response(records: Records) -> None:
    events = [(number, b"event %d" % number) for number in range(12)]
    await records.add_response(response("resp_1", holder="gw_1"))
    await records.add_response(response("resp_10", holder="gw_1"))
    await records.add_events("resp_1", "gw_1", events[:3])
    await records.add_events("resp_1", "gw_1", events[3:])
    await records.add_events("resp_1", "gw_1", [])
    await records.add_events("resp_10", "gw_1", [(0, b"other")])
    assert await records.get_events("resp_1", -1) == events
    assert await records.get_events("resp_1", 9) == events[10:]
    assert await records.get_events("resp_1", 99) == []

    await records.delete_response("resp_1", "ann")
    with pytest.raises(NotFound, match="'resp_1' not found"):
        await records.add_events("resp_1", "gw_1", events)
    await records.add_response(response("resp_1", holder="gw_1"))
    assert await records.get_events("resp_1", -1) == []
    assert await records.get_events("resp_10", -1) == [(0, b"other")]


async def test_nobody_but_its_holder_tells_events(records: Records) -> None:
    await records.add_response(response("resp_1", status="in_progress", holder="gw_1"))
    with pytest.raises(Fenced):
        await records.add_events("resp_1", "gw_2", [(0, b"event")])
    assert await records.get_events("resp_1", -1) == []


# Gateways


async def test_a_gateway_lives_as_long_as_it_said(records: Records, pass_time: PassTime) -> None:
    one, other = (GatewayRecord(id=f"gw_{n}", address=f"http://{n}", version="1") for n in range(2))
    began = await records.now()
    at = await records.beat(one, 6.0)
    assert at is not None
    assert at >= began
    await records.beat(other, 60.0)
    assert await records.get_gateways() == [one, other]
    await pass_time(5.0)
    assert await records.beat(one, 6.0) is not None
    await pass_time(5.0)
    assert await records.get_gateways() == [one, other]
    await pass_time(2.0)
    assert await records.get_gateways() == [other]
    assert await records.beat(one, 6.0) is None, "it is taken for dead, and must not come back under this id"
    assert await records.get_gateways() == [other]
    await records.leave(other.id)
    assert await records.get_gateways() == []
    await records.leave(other.id)


async def test_what_a_dead_gateway_worked_on_is_ended_by_others(records: Records, pass_time: PassTime) -> None:
    for n in (1, 2):
        await records.beat(GatewayRecord(id=f"gw_{n}"), 6.0 * n)
        for status in ("queued", "in_progress", "completed", "failed"):
            begun = response(f"resp_{n}_{status}", status=status, background=True, holder=f"gw_{n}")
            await records.add_response(begun)
            await records.add_events(begun.id, f"gw_{n}", [(0, b"begun")])
    assert await records.abandoned() == []
    mine = response("resp_1_queued", status="failed", background=True, holder="gw_1")
    assert await records.end_response(mine, abandoned=True) is False, "its holder lives"

    await pass_time(7.0)
    found = await records.abandoned()
    assert sorted(one.id for one in found) == ["resp_1_in_progress", "resp_1_queued"]
    assert len(await records.abandoned(limit=1)) == 1
    assert await records.end_response(mine, events=[(0, b"failed")], abandoned=True) is False, "the number is taken"
    assert await records.end_response(mine, events=[(1, b"failed")], abandoned=True) is True
    assert await records.get_response(mine.id, "ann") == replace(mine, holder=None)
    assert await records.get_events(mine.id, -1) == [(0, b"begun"), (1, b"failed")]
    assert [one.id for one in await records.abandoned()] == ["resp_1_in_progress"]

    # It was only stopped for a while.
    with pytest.raises(Fenced):
        await records.add_events(mine.id, "gw_1", [(1, b"more")])
    assert await records.end_response(replace(mine, status="completed")) is False
    assert await records.get_events(mine.id, -1) == [(0, b"begun"), (1, b"failed")]


async def test_a_container_is_held_by_one_gateway(records: Records, pass_time: PassTime) -> None:
    for n in (1, 2):
        await records.beat(GatewayRecord(id=f"gw_{n}"), 6.0 * n)
    await records.create_container(container())
    assert await records.hold_container("cntr_none", "ann", "gw_1") is None
    assert await records.hold_container("cntr_1", "ben", "gw_1") is None
    first = await records.hold_container("cntr_1", "ann", "gw_1")
    assert first == container(holder="gw_1", epoch=1)
    await records.note_sandbox("cntr_1", Hold("gw_1", 1), b"where")
    held = container(holder="gw_1", epoch=1, sandbox=b"where")
    assert await records.hold_container("cntr_1", "ann", "gw_2") == held, "who has it lives"
    assert await records.get_container("cntr_1", "ann") == held
    await records.create_container(container(id="cntr_2", owner="ben", sandbox=b"there"))
    await records.create_container(container(id="cntr_3", deleted=True))
    found = await records.find_sandboxes(["cntr_1", "cntr_2", "cntr_3", "cntr_none"])
    assert sorted(found, key=lambda one: one.id) == [
        SandboxRow("cntr_1", 1, b"where"),
        SandboxRow("cntr_2", None, b"there"),
    ]
    assert await records.find_sandboxes([]) == []

    await pass_time(7.0)
    assert await records.hold_container("cntr_1", "ann", "gw_2") == replace(held, holder="gw_2", epoch=2)
    late = Hold("gw_1", 1)
    for write in (
        records.note_sandbox("cntr_1", late, b"mine"),
        records.touch_container("cntr_1", 99, 1, late),
        records.change_container("cntr_1", Change(put=[container_file("cfile_1")], hold=late)),
    ):
        with pytest.raises(Fenced):
            await write
    assert await records.release_container("cntr_1", late) is False
    assert await records.get_container("cntr_1", "ann") == replace(held, holder="gw_2", epoch=2)
    assert await records.all_container_files("cntr_1") == []


async def test_who_holds_a_container_writes_and_lets_it_go(records: Records) -> None:
    await records.beat(GatewayRecord(id="gw_1"), 60.0)
    await records.beat(GatewayRecord(id="gw_2"), 60.0)
    await records.create_container(container())
    await records.hold_container("cntr_1", "ann", "gw_1")
    hold = Hold("gw_1", 1)
    await records.touch_container("cntr_1", 9, 1, hold)
    changed = await records.change_container("cntr_1", Change(put=[container_file("cfile_1")], ran=True, hold=hold))
    assert changed is not None
    assert changed.version == 1
    again = await records.hold_container("cntr_1", "ann", "gw_1")
    assert again is not None
    assert again.epoch == 2, "an earlier use of its own is over as well"
    with pytest.raises(Fenced):
        await records.touch_container("cntr_1", 9, 1, hold)
    assert await records.release_container("cntr_1", Hold("gw_1", 2)) is True
    free = await records.get_container("cntr_1", "ann")
    assert free == container(epoch=2, cells=1, version=1, last_active_at=9)
    taken = await records.hold_container("cntr_1", "ann", "gw_2")
    assert taken is not None
    assert (taken.holder, taken.epoch) == ("gw_2", 3)


async def test_a_gateway_that_leaves_holds_nothing(records: Records) -> None:
    await records.beat(GatewayRecord(id="gw_1"), 60.0)
    for id in ("cntr_1", "cntr_2"):
        await records.create_container(container(id))
        await records.hold_container(id, "ann", "gw_1")
    await records.leave("gw_1")
    found = await records.get_container("cntr_1", "ann")
    assert found == container(epoch=1)
    with pytest.raises(Fenced):
        await records.touch_container("cntr_2", 9, 0, Hold("gw_1", 1))
    with pytest.raises(Fenced):
        await records.update_container("cntr_2", hosted=b"there", hold=Hold("gw_1", 1))
    held = await records.hold_container("cntr_2", "ann", "gw_1")
    assert held is not None
    assert await records.update_container("cntr_2", hosted=b"there", hold=Hold("gw_1", held.epoch)) is True
    assert await records.get_container("cntr_2", "ann") == replace(held, hosted=b"there")


async def test_a_deleted_container_is_nobodys(records: Records) -> None:
    await records.create_container(container())
    await records.hold_container("cntr_1", "ann", "gw_1")
    await records.delete_container("cntr_1", "ann")
    with pytest.raises(Fenced):
        await records.touch_container("cntr_1", 9, 1, Hold("gw_1", 1))
    with pytest.raises(NotFound):
        await records.change_container("cntr_1", Change(ran=True, hold=Hold("gw_1", 1)))
    assert await records.update_container("cntr_1", memory="4g") is False
    assert await records.get_container("cntr_1", "ann") is None


# Conversations


async def test_a_conversation_and_its_metadata(records: Records) -> None:
    await records.create_conversation(conversation(metadata={"ключ": "значение", "a": ""}))
    assert await records.get_conversation("conv_1", "ann") == conversation(metadata={"ключ": "значение", "a": ""})
    assert await records.update_conversation("conv_1", "ann", {"b": "c"}) is True
    assert await records.get_conversation("conv_1", "ann") == conversation(metadata={"b": "c"})
    assert await records.update_conversation("conv_1", "ben", {}) is False
    assert await records.update_conversation("conv_2", "ann", {}) is False
    assert await records.get_conversation("conv_1", "ann") == conversation(metadata={"b": "c"})


async def test_items_go_with_their_conversation(records: Records) -> None:
    items = [item(f"msg_{n}") for n in (3, 1, 2)]
    for id in ("conv_1", "conv_2"):
        await records.create_conversation(conversation(id))
        await records.add_items(id, items[:2])
        await records.add_items(id, items[2:])
    assert await records.all_items("conv_1") == items
    assert await records.get_item("conv_1", "msg_1") == item("msg_1")
    assert await records.delete_item("conv_1", "msg_1") is True
    assert await records.delete_item("conv_1", "msg_1") is False
    assert await records.get_item("conv_1", "msg_1") is None
    assert await records.all_items("conv_1") == [items[0], items[2]]
    assert await records.all_items("conv_2") == items

    await records.delete_conversation("conv_1", "ann")
    with pytest.raises(NotFound, match="'conv_1' not found"):
        await records.add_items("conv_1", items)
    await records.create_conversation(conversation())
    assert await records.all_items("conv_1") == []
    assert await records.all_items("conv_2") == items


@pytest.mark.parametrize("twice", [["msg_2", "msg_1", "msg_3"], ["msg_2", "msg_2"]])
async def test_an_item_is_in_a_conversation_once(records: Records, twice: list[str]) -> None:
    await records.create_conversation(conversation())
    await records.add_items("conv_1", [item("msg_1")])
    with pytest.raises(InvalidRequest, match=r"items: 'msg_[12]' is in conversation 'conv_1' already") as caught:
        await records.add_items("conv_1", [item(id) for id in twice])
    assert caught.value.param == "items"
    assert await records.all_items("conv_1") == [item("msg_1")]


# Containers and their files


async def test_a_container_comes_back_as_it_went(records: Records) -> None:
    whole = container(
        memory="4g",
        minutes=7,
        auto=True,
        network=b'{"type":"allowlist"}',
        requirements=("polars", "duckdb>=1"),
        cells=3,
        deleted=True,
    )
    await records.create_container(whole)
    assert await records.get_container("cntr_1", "ann") == whole


async def test_the_first_container_that_is_there_with_its_files(records: Records) -> None:
    await records.create_container(container(deleted=True))
    for id in ("cntr_2", "cntr_3", "cntr_4"):
        await records.create_container(container(id, version=9))
    files = [container_file(f"cfile_{n}", container_id="cntr_2", created_at=n) for n in (3, 1, 2)]
    await put(records, *files)
    await put(records, container_file("cfile_9", container_id="cntr_3"))
    asked = ["cntr_none", "cntr_1", "cntr_2", "cntr_3"]
    listed = tuple(sorted(files, key=lambda one: one.created_at))
    assert await records.find_container(asked, "ann") == FoundContainer(container("cntr_2", version=10), listed)
    assert await records.find_container(["cntr_4", "cntr_2"], "ann") == FoundContainer(container("cntr_4", version=9))
    assert await records.find_container(asked, "ben") is None
    assert await records.find_container(asked[:2], "ann") is None
    assert await records.find_container([], "ann") is None


async def test_a_chain_with_the_container_that_the_newest_names(records: Records) -> None:
    await records.create_container(container("cntr_1"))
    await records.create_container(container("cntr_2"))
    await records.create_container(container("cntr_ben", owner="ben"))
    files = [container_file(f"cfile_{n}", container_id="cntr_2") for n in (3, 1, 2)]
    await put(records, *files)
    names = ["cntr_1", None, "cntr_2", None, None, "cntr_gone", "cntr_ben"]
    turns = [
        response(f"resp_{n}", f"resp_{n - 1}" if n else None, container_id=name, input=b"[%d]" % n)
        for n, name in enumerate(names)
    ]
    for turn in turns:
        await records.add_response(turn)
    first = FoundContainer(container("cntr_1"))
    second = FoundContainer(container("cntr_2", version=1), tuple(files))
    for _ in range(2):  # read, and known
        assert await records.chain_with_container("resp_4", "ann") == (turns[:5], second)
        assert await records.chain_with_container("resp_1", "ann") == (turns[:2], first)
        assert await records.chain_with_container("resp_5", "ann") == (turns[:6], None)
        assert await records.chain_with_container("resp_6", "ann") == (turns, None)
        assert await records.chain_with_container("resp_4", "ben") == ([], None)
        assert await records.chain("resp_4", "ann") == turns[:5]
    await records.delete_response("resp_1", "ann")
    assert await records.chain_with_container("resp_4", "ann") == (turns[2:5], second)
    assert await records.chain_with_container("resp_none", "ann") == ([], None)


async def test_what_is_updated_of_a_container_is_all_that_changes(records: Records) -> None:
    await records.create_container(container(cells=3, requirements=("polars",)))
    assert await records.update_container("cntr_1", memory="4g") is True
    assert await records.update_container("cntr_1", hosted=b"there") is True
    found = await records.get_container("cntr_1", "ann")
    assert found == container(cells=3, requirements=("polars",), memory="4g", hosted=b"there")


async def test_touching_a_container(records: Records) -> None:
    await records.create_container(container(cells=2))
    await records.touch_container("cntr_1", 9)
    assert await records.get_container("cntr_1", "ann") == container(last_active_at=9, cells=2)
    await records.touch_container("cntr_1", 8, 1)
    assert await records.get_container("cntr_1", "ann") == container(last_active_at=9, cells=3)
    await records.touch_container("cntr_none", 8, 1)
    assert await records.get_container("cntr_none", "ann") is None


async def test_containers_by_name(records: Records) -> None:
    for id, name, deleted in (("cntr_1", "a", False), ("cntr_2", "b", False), ("cntr_3", "a", True)):
        await records.create_container(container(id, name=name, deleted=deleted))
    assert [found.id for found in await records.list_containers("ann", Page())] == ["cntr_2", "cntr_1"]
    assert [found.id for found in await records.list_containers("ann", Page(), "a")] == ["cntr_1"]
    assert await records.list_containers("ann", Page(), "A") == []


async def test_a_newer_file_at_the_same_path_keeps_its_id(records: Records) -> None:
    await records.create_container(container())
    first = container_file("cfile_1", "a/b.csv")
    assert await put(records, first) == [first]
    newer = container_file(
        "cfile_2", "a/b.csv", created_at=9, size=7, modified=2.25, source="assistant", blob="c", type="text/csv"
    )
    kept = replace(newer, id="cfile_1", created_at=5)
    assert await put(records, newer) == [kept]
    assert await records.get_container_file("cntr_1", "cfile_1") == kept
    assert await records.get_container_file("cntr_1", "cfile_2") is None
    assert await records.get_container_file("cntr_2", "cfile_1") is None
    assert await records.all_container_files("cntr_1") == [kept]

    await records.create_container(container("cntr_2"))
    elsewhere = container_file("cfile_3", "a/b.csv", container_id="cntr_2")
    assert await put(records, elsewhere) == [elsewhere]


async def test_of_many_files_those_that_were_there_keep_their_ids(records: Records) -> None:
    await records.create_container(container())
    old = [container_file(f"cfile_{n}", f"{n}.csv") for n in range(2)]
    assert await put(records, *old) == old
    newer = [container_file(f"cfile_{n + 10}", f"{n}.csv", size=n + 7) for n in range(4)]
    kept = [replace(newer[0], id="cfile_0"), replace(newer[1], id="cfile_1"), *newer[2:]]
    assert await put(records, *newer) == kept
    assert await records.all_container_files("cntr_1") == kept


async def test_paths_are_exact(records: Records) -> None:
    accented = "café/Ångström.csv"
    paths = [
        unicodedata.normalize("NFC", accented),
        unicodedata.normalize("NFD", accented),
        accented.upper(),
        "日本語レポート.xlsx",
        "👩‍👩‍👧.png",
        "a.csv",
        "A.csv",
        "a.csv ",
        " a.csv",
        "a\n.csv",
        "straße",
        "strasse",
        "I",
        "ı",
        "%",
        "_",
        "'",
    ]
    await records.create_container(container())
    for number, path in enumerate(paths):
        [kept] = await put(records, container_file(f"cfile_{number}", path))
        assert kept.id == f"cfile_{number}"
    assert [found.path for found in await records.all_container_files("cntr_1")] == paths


async def test_files_go_with_their_container(records: Records) -> None:
    for id in ("cntr_1", "cntr_2"):
        await records.create_container(container(id))
        for name in ("x", "y"):
            await put(records, container_file(f"cfile_{id}{name}", name, container_id=id))
    first = container_file("cfile_cntr_1x", "x")
    assert await take_away(records, replace(first, container_id="cntr_2")) == []
    assert await take_away(records, replace(first, blob="older")) == []
    assert await take_away(records, first) == [first]
    assert await take_away(records, first) == []
    await records.delete_container("cntr_1", "ann")
    assert await records.get_container_file("cntr_1", "cfile_cntr_1y") is None
    assert len(await records.all_container_files("cntr_2")) == 2
    with pytest.raises(NotFound, match="'cntr_1' not found"):
        await put(records, container_file("cfile_late"))


# Versions of containers


async def test_every_change_makes_a_version_that_can_be_read_again(records: Records) -> None:
    await records.create_container(container())
    a, b = container_file("cfile_a", "a", blob="a1"), container_file("cfile_b", "b", blob="b1")
    newer = replace(a, id="cfile_new", blob="a2")
    await records.change_container("cntr_1", Change(put=[a, b]))
    await records.touch_container("cntr_1", 6, 1)
    await records.change_container("cntr_1", Change(put=[newer, container_file("cfile_c", "c")], gone=[b], ran=True))
    await records.change_container("cntr_1", Change(requirements=("polars",)))
    await records.touch_container("cntr_1", 6, 1)
    await records.change_container("cntr_1", Change(ran=True))
    await records.change_container("cntr_1", Change(put=[b], requirements=("polars", "duckdb")))
    first = {"a": FileRef("cfile_a", "a1"), "b": FileRef("cfile_b", "b1")}
    second = {"a": FileRef("cfile_a", "a2"), "c": FileRef("cfile_c", "b")}
    last = {**second, "b": FileRef("cfile_b", "b1")}
    assert [await records.get_version("cntr_1", number) for number in range(-1, 7)] == [
        None,
        Version(number=0, files={}, requirements=(), cells=0),
        Version(number=1, files=first, requirements=(), cells=0),
        Version(number=2, files=second, requirements=(), cells=1),
        Version(number=3, files=second, requirements=("polars",), cells=1),
        Version(number=4, files=second, requirements=("polars",), cells=2),
        Version(number=5, files=last, requirements=("polars", "duckdb"), cells=2),
        None,
    ]
    found = await records.get_container("cntr_1", "ann")
    assert found == container(last_active_at=6, cells=2, requirements=("polars", "duckdb"), version=5)


async def test_what_changes_nothing_makes_no_version(records: Records) -> None:
    await records.create_container(container(requirements=("polars",)))
    nothing = (
        Change(),
        Change(gone=[container_file("cfile_none")]),
        Change(requirements=("polars",)),
    )
    for change in nothing:
        changed = await records.change_container("cntr_1", change)
        assert changed is not None
        assert (changed.version, changed.gone) == (0, ())


async def test_a_change_of_a_version_that_is_no_more_is_not_made(records: Records) -> None:
    await records.create_container(container())
    first = await records.change_container("cntr_1", Change(requirements=("polars",), after=0))
    assert first is not None
    assert first.version == 1
    late = Change(requirements=("duckdb",), put=[container_file("cfile_1")], ran=True, after=0)
    assert await records.change_container("cntr_1", late) is None
    assert await records.all_container_files("cntr_1") == []
    found = await records.get_container("cntr_1", "ann")
    assert found == container(requirements=("polars",), version=1)
    with pytest.raises(NotFound, match="'cntr_2' not found"):
        await records.change_container("cntr_2", replace(late, put=[]))


A, B = container_file("cfile_a", "a", size=10, blob="a1"), container_file("cfile_b", "b", size=20)
SEEN = {
    "all": Seen(version=1, files={"a": A}, sandbox=b"here"),
    "an older version": Seen(version=0, files={"a": A}, sandbox=b"here"),
    "a newer version": Seen(version=2, files={"a": A}, sandbox=b"here"),
    "no file": Seen(version=1, sandbox=b"here"),
    "another file": Seen(version=1, files={"a": replace(A, id="cfile_x", size=99)}, sandbox=b"here"),
    "other content": Seen(version=1, files={"a": replace(A, blob="a0")}, sandbox=b"here"),
    "a file too many": Seen(version=1, files={"a": A, "c": replace(A, path="c")}, sandbox=b"here"),
    "nothing": None,
}


@pytest.mark.parametrize("seen", SEEN)
async def test_a_change_comes_to_the_same_whatever_was_seen(records: Records, seen: str) -> None:
    await records.create_container(container(cells=1))
    await records.change_container("cntr_1", Change(put=[A, B]))
    await records.hold_container("cntr_1", "ann", "gw_1")
    hold, c = Hold("gw_1", 1), container_file("cfile_c", "c", size=40)
    newer = replace(A, id="cfile_new", size=11, blob="a2", created_at=7)
    change = Change(put=[newer, c], gone=[B], ran=True, cells=2, at=9, hold=hold, seen=SEEN[seen])
    changed = await records.change_container("cntr_1", change)
    kept = replace(newer, id="cfile_a", created_at=5)
    assert changed == Changed(version=2, files=(kept, c), gone=(B,))
    assert await records.all_container_files("cntr_1") == [kept, c]
    assert await records.bytes_of("ann") == 51
    found = await records.get_container("cntr_1", "ann")
    noted = b"here" if (told := SEEN[seen]) is not None and told.version == 1 else b""
    assert found == container(last_active_at=9, cells=3, version=2, holder="gw_1", epoch=1, sandbox=noted)
    before, after = await records.get_version("cntr_1", 1), await records.get_version("cntr_1", 2)
    first = {"a": FileRef("cfile_a", "a1"), "b": FileRef("cfile_b", "b")}
    assert before == Version(number=1, files=first, requirements=(), cells=1)
    second = {"a": FileRef("cfile_a", "a2"), "c": FileRef("cfile_c", "b")}
    assert after == Version(number=2, files=second, requirements=(), cells=3)


async def test_who_has_seen_all_is_fenced_as_well(records: Records) -> None:
    await records.create_container(container())
    await records.hold_container("cntr_1", "ann", "gw_1")
    await records.hold_container("cntr_1", "ann", "gw_1")
    seen = Seen(version=0, sandbox=b"here")
    late = Change(put=[container_file("cfile_1")], ran=True, cells=1, at=9, hold=Hold("gw_1", 1), seen=seen)
    with pytest.raises(Fenced):
        await records.change_container("cntr_1", late)
    assert await records.get_container("cntr_1", "ann") == container(holder="gw_1", epoch=2)
    assert await records.all_container_files("cntr_1") == []
    await records.delete_container("cntr_1", "ann")
    with pytest.raises(NotFound, match="'cntr_1' not found"):
        await records.change_container("cntr_1", late)


async def test_of_several_who_have_seen_the_same_one_notes_its_sandbox(records: Records) -> None:
    await records.create_container(container())
    changes = [
        Change(put=[container_file(f"cfile_{n}")], ran=True, cells=1, seen=Seen(version=0, sandbox=b"%d" % n))
        for n in range(10)
    ]
    made = await asyncio.gather(*(records.change_container("cntr_1", change) for change in changes))
    versions = [one.version for one in made if one is not None]
    assert sorted(versions) == list(range(1, 11))
    found = await records.get_container("cntr_1", "ann")
    assert found == container(version=10, cells=10, sandbox=b"%d" % versions.index(1))
    assert len(await records.all_container_files("cntr_1")) == 10
    assert await records.bytes_of("ann") == 10


async def test_one_number_is_given_once(records: Records) -> None:
    await records.create_container(container())
    changes = [Change(put=[container_file(f"cfile_{n}")]) for n in range(20)]
    made = await asyncio.gather(*(records.change_container("cntr_1", change) for change in changes))
    assert sorted(one.version for one in made if one is not None) == list(range(1, 21))
    for one in filter(None, made):
        before, after = [await records.get_version("cntr_1", number) for number in (one.version - 1, one.version)]
        assert before is not None
        assert after is not None
        assert set(after.files) - set(before.files) == {one.files[0].path}


async def test_of_a_path_that_is_put_twice_at_once_the_last_counts(records: Records) -> None:
    await records.create_container(container())
    [first, last] = await put(records, container_file("cfile_1", "a"), container_file("cfile_2", "a", blob="c"))
    assert (first.id, last.id) == ("cfile_1", "cfile_1")
    newest, oldest = await records.get_version("cntr_1", 1), await records.get_version("cntr_1", 0)
    assert newest is not None
    assert oldest is not None
    assert (newest.files, oldest.files) == ({"a": FileRef("cfile_1", "c")}, {})


async def test_versions_go_with_their_container(records: Records) -> None:
    await records.create_container(container())
    await put(records, container_file("cfile_1"))
    await records.delete_container("cntr_1", "ann")
    assert await records.get_version("cntr_1", 1) is None
    await records.create_container(container())
    await put(records, container_file("cfile_2"))
    found = await records.get_version("cntr_1", 1)
    assert found is not None
    assert found.files == {"cfile_2": FileRef("cfile_2", "b")}


# Files


async def test_files_by_purpose_and_expiry(records: Records) -> None:
    kept = file("file-1", filename="日本.csv", type="text/csv", size=1 << 40)
    await records.add_file(kept)
    await records.add_file(file("file-2", purpose="vision", expires_at=100))
    await records.add_file(file("file-3", expires_at=101))
    assert await records.get_file("file-1", "ann") == kept
    assert [found.id for found in await records.list_files("ann", Page(), "user_data")] == ["file-3", "file-1"]
    assert await records.expire_files(99) == 0
    assert await records.expire_files(100) == 1
    assert [found.id for found in await records.list_files("ann", Page())] == ["file-3", "file-1"]


async def test_bytes_of_an_owner(records: Records) -> None:
    assert await records.bytes_of("ann") == 0
    for number, (owner, size) in enumerate([("ann", 1), ("ann", 2), ("ben", 1000)]):
        await records.add_file(file(f"file-{number}", owner=owner, size=size))
        await records.create_container(container(f"cntr_{number}", owner=owner))
        await put(records, container_file(f"cfile_{number}", container_id=f"cntr_{number}", size=size * 10))
    assert (await records.bytes_of("ann"), await records.bytes_of("ben")) == (33, 11_000)
    await put(records, container_file("cfile_new", "cfile_0", container_id="cntr_0", size=100))
    await records.delete_container("cntr_1", "ann")
    await records.delete_file("file-0", "ann")
    assert await records.bytes_of("ann") == 102


async def test_an_owner_has_no_more_bytes_than_it_may(records: Records) -> None:
    await records.create_container(container())
    await records.add_file(file("file-1", size=60), 100)
    with pytest.raises(StorageExceeded, match="may store 100 bytes"):
        await records.add_file(file("file-2", size=41), 100)
    assert await records.get_file("file-2", "ann") is None
    with pytest.raises(StorageExceeded):
        await records.change_container("cntr_1", Change(put=[container_file("cfile_1", size=41)], most=100))
    assert await records.all_container_files("cntr_1") == []
    await records.change_container("cntr_1", Change(put=[container_file("cfile_1", size=40)], most=100))
    smaller = Change(put=[container_file("cfile_1", size=39)], most=50)
    await records.change_container("cntr_1", smaller)
    assert await records.bytes_of("ann") == 99
    tried = [records.add_file(file(f"file-1{n}", owner="ben", size=30), 100) for n in range(8)]
    done = await asyncio.gather(*tried, return_exceptions=True)
    assert [one is None for one in done].count(True) == 3
    assert await records.bytes_of("ben") == 90


async def test_several_files_at_once(records: Records) -> None:
    for n in range(3):
        await records.add_file(file(f"file-{n}", owner="ben" if n == 2 else "ann"))
    found = await records.get_files(["file-1", "file-2", "file-none", "file-0"], "ann")
    assert [one.id for one in found] == ["file-1", "file-0"]


async def test_requests_of_a_minute_are_spent_once(records: Records) -> None:
    assert await records.spend_requests("ann", 7, 10, 25) == 10
    assert await records.spend_requests("ann", 7, 10, 25) == 10
    assert await records.spend_requests("ann", 7, 10, 25) == 5
    assert await records.spend_requests("ann", 7, 10, 25) == 0
    assert await records.spend_requests("ben", 7, 10, 25) == 10
    assert await records.spend_requests("ann", 8, 10, 25) == 10
    assert await records.spend_requests("ann", 7, 10, 25) == 10, "of the minute that is: one that is late gets of it"
    given = await asyncio.gather(*(records.spend_requests("cat", 9, 3, 20) for _ in range(10)))
    assert sum(given) == 20


async def test_responses_at_once_are_counted_over_all_gateways(records: Records, pass_time: PassTime) -> None:
    for n in (1, 2):
        await records.beat(GatewayRecord(id=f"gw_{n}"), 6.0 * n)
    some = [(f"place_{n}", f"gw_{1 + n % 2}") for n in range(12)]
    taken = await asyncio.gather(*(records.take_place("ann", *one, 5) for one in some))
    assert taken.count(True) == 5
    [first, *_] = [one for one, had in zip(some, taken, strict=True) if had]
    assert await records.take_place("ben", "place_ben", "gw_1", 5)
    assert await records.take_place("ann", *first, 5), "an answer that was lost, asked for again"
    assert not await records.take_place("ann", "place_x", "gw_1", 5)
    await records.give_place("ann", first[0])
    await records.give_place("ann", first[0])
    assert await records.take_place("ann", "place_x", "gw_2", 5)
    assert not await records.take_place("ann", "place_y", "gw_2", 5)
    mine = {one for (one, gateway), had in zip(some, taken, strict=True) if had and gateway == "gw_2"} - {first[0]}
    await pass_time(7.0)
    more = [await records.take_place("ann", f"place_z{n}", "gw_2", 5) for n in range(5)]
    assert more.count(True) == 5 - len(mine) - 1, "those of the gateway that died are free"


async def test_which_blobs_are_unused(records: Records) -> None:
    await records.add_file(file("file-1", blob="by file"))
    await records.create_container(container())
    await put(records, container_file("cfile_1", blob="by container"))
    many = [f"blob {number}" for number in range(2000)]
    assert await records.unused_blobs(["by file", *many, "by container"]) == many
    assert await records.unused_blobs([]) == []
    await records.delete_container("cntr_1", "ann")
    assert await records.unused_blobs(["by file", "by container"]) == ["by container"]


async def test_a_blob_is_used_as_long_as_a_part_of_it_is(records: Records) -> None:
    names = ["a" * 64, "b" * 64, "c" * 64]
    await records.create_container(container())
    for id, name in (("cfile_1", names[0]), ("cfile_2", names[0]), ("cfile_3", names[1])):
        await put(records, container_file(id, blob=Slice(name, len(id), 5).blob.name))
    assert await records.unused_blobs(names) == names[2:]
    await take_away(records, container_file("cfile_1", blob=Slice(names[0], len("cfile_1"), 5).blob.name))
    assert await records.unused_blobs(names) == names[2:]
    await take_away(records, container_file("cfile_2", blob=Slice(names[0], len("cfile_2"), 5).blob.name))
    assert await records.unused_blobs(names) == [names[0], names[2]]


# Lists in pages


async def _many_files(records: Records) -> Callable[[Page], Awaitable[list[FileRecord]]]:
    for number in range(7):
        await records.add_file(file(f"file-{number}", created_at=number // 3))
        await records.add_file(file(f"file-other-{number}", owner="ben"))
    return lambda page: records.list_files("ann", page)


async def _many_containers(records: Records) -> Callable[[Page], Awaitable[list[ContainerRecord]]]:
    for number in range(7):
        await records.create_container(container(f"cntr_{number}", created_at=number // 3))
        await records.create_container(container(f"cntr_other_{number}", owner="ben"))
    return lambda page: records.list_containers("ann", page)


async def _many_container_files(records: Records) -> Callable[[Page], Awaitable[list[ContainerFileRecord]]]:
    for owner in ("1", "other"):
        await records.create_container(container(f"cntr_{owner}"))
        for number in range(7):
            await put(
                records, container_file(f"cfile_{owner}_{number}", container_id=f"cntr_{owner}", created_at=number // 3)
            )
    await put(records, container_file("cfile_newer", "cfile_1_0", created_at=99))
    return lambda page: records.list_container_files("cntr_1", page)


async def _many_items(records: Records) -> Callable[[Page], Awaitable[list[ItemRecord]]]:
    for owner in ("1", "other"):
        await records.create_conversation(conversation(f"conv_{owner}"))
        await records.add_items(f"conv_{owner}", [item(f"msg_{owner}_{number}") for number in range(7)])
    return lambda page: records.list_items("conv_1", page)


LISTS: dict[str, tuple[Any, str]] = {
    "files": (_many_files, "file-other-0"),
    "containers": (_many_containers, "cntr_other_0"),
    "container files": (_many_container_files, "cfile_other_0"),
    "items": (_many_items, "msg_other_0"),
}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("kind", LISTS)
async def test_pages_make_up_the_list(records: Records, kind: str, order: Order, limit: int) -> None:
    pages = await LISTS[kind][0](records)
    whole = [found.id for found in await pages(Page(order=order, limit=100))]
    assert [int(id[-1]) for id in whole] == (list(range(7)) if order == "asc" else list(range(6, -1, -1)))

    seen: list[str] = []
    after = None
    while True:
        found = [one.id for one in await pages(Page(order=order, limit=limit, after=after))]
        assert len(found) <= limit + 1
        seen += found[:limit]
        if len(found) <= limit:
            break
        after = seen[-1]
    assert seen == whole

    seen = [whole[-1]]
    while True:
        found = [one.id for one in await pages(Page(order=order, limit=limit, before=seen[0]))]
        assert len(found) <= limit + 1
        seen = found[:limit] + seen
        if len(found) <= limit:
            break
    assert seen == whole


@pytest.mark.parametrize("kind", LISTS)
async def test_between_two_cursors(records: Records, kind: str) -> None:
    pages = await LISTS[kind][0](records)
    ids = [found.id for found in await pages(Page(order="asc"))]
    found = await pages(Page(order="asc", after=ids[1], before=ids[5]))
    assert [one.id for one in found] == ids[2:5]


@pytest.mark.parametrize("param", ["after", "before"])
@pytest.mark.parametrize("kind", LISTS)
async def test_a_cursor_that_is_not_in_the_list(records: Records, kind: str, param: str) -> None:
    fill, others = LISTS[kind]
    pages = await fill(records)
    for cursor in ("none", "", others):
        with pytest.raises(InvalidRequest, match=f"{param}: nothing in this list has the id {cursor!r}") as caught:
            await pages(Page(after=cursor) if param == "after" else Page(before=cursor))
        assert caught.value.param == param


# Keys and secrets


async def test_keys_are_listed_in_the_order_they_were_made(records: Records) -> None:
    made = [key("key_b"), key("key_a", last_used_at=7), key("key_c", revoked_at=8)]
    for one in made:
        await records.put_key(one)
    assert await records.keys() == made
    assert await records.get_key("digest of key_a") == made[1]
    assert await records.get_key("digest") is None


async def test_a_revoked_key_stays_revoked(records: Records) -> None:
    await records.put_key(key("key_1"))
    await records.put_key(key("key_1", revoked_at=50))
    await records.put_key(key("key_1", last_used_at=60))
    await records.put_key(key("key_1", last_used_at=40))
    assert await records.keys() == [key("key_1", last_used_at=60, revoked_at=50)]


async def test_a_secret_is_made_once(records: Records) -> None:
    first, again, other = await asyncio.gather(records.secret("a"), records.secret("a"), records.secret("b"))
    assert len(first) == 32
    assert first == again == await records.secret("a")
    assert first != other


async def test_the_first_word_is_what_all_agree_on(records: Records) -> None:
    told = await asyncio.gather(*(records.agree("a", f"word {number}".encode()) for number in range(5)))
    assert len(set(told)) == 1
    assert await records.agree("a", b"later") == told[0]
    assert await records.agree("b", b"later") == b"later"


# Retention


async def remove_all(records: Records, kind: Kept, before: int, limit: int = 2) -> int:
    """As long as there is something; what was told before is what went."""
    told = (await records.count_old(kind, before)).count
    gone = 0
    while some := await records.remove_old(kind, before, limit):
        gone += some
    assert gone == told
    return gone


async def test_a_chain_stays_whole_while_its_youngest_is_kept(records: Records) -> None:
    for chain, youngest in (("a", 50), ("b", 9)):
        await records.add_response(response(f"{chain}_1", created_at=5, body=b"12345"))
        await records.add_response(response(f"{chain}_2", f"{chain}_1", created_at=8))
        await records.add_response(response(f"{chain}_3", f"{chain}_2", created_at=youngest))
    await records.add_response(response("running", status="in_progress", holder="gw_1", created_at=1))
    old = await records.count_old("responses", 10)
    assert (old.count, old.size) == (3, 3 * 4 + 5 + 2 * 2)
    assert await remove_all(records, "responses", 10, limit=1) == 3
    assert [one.id for one in await records.chain("a_3", "ann")] == ["a_1", "a_2", "a_3"]
    assert await records.chain("b_3", "ann") == []
    assert await records.get_response("running", "ann") is not None
    assert await records.remove_old("responses", 10) == 0


async def test_events_go_before_their_response(records: Records) -> None:
    await records.beat(GatewayRecord(id="gw_1"), 60)
    for id, at in (("old", 5), ("young", 50), ("running", 5)):
        await records.add_response(response(id, status="in_progress", holder="gw_1", background=True, created_at=at))
        await records.add_events(id, "gw_1", [(0, b"one"), (1, b"two")])
        if id != "running":
            await records.end_response(response(id, holder="gw_1", background=True, created_at=at))
    assert await records.count_old("events", 10) == Old(2, 6)
    assert await remove_all(records, "events", 10) == 2
    assert await records.get_events("old", -1) == []
    assert len(await records.get_events("young", -1)) == len(await records.get_events("running", -1)) == 2
    assert await records.get_response("old", "ann") is not None


async def test_containers_that_nobody_has_go_with_their_files(records: Records, pass_time: PassTime) -> None:
    await records.beat(GatewayRecord(id="gw_1"), 60)
    for id, used in (("idle", 5), ("held", 5), ("used", 50)):
        await records.create_container(container(id, last_active_at=used))
        await put(records, container_file(f"file of {id}", container_id=id, size=100))
    await records.hold_container("held", "ann", "gw_1")
    assert await records.count_old("containers", 10) == Old(1, 100)
    assert await remove_all(records, "containers", 10) == 1
    assert await records.get_container("idle", "ann") is None
    assert await records.all_container_files("idle") == []
    assert await records.bytes_of("ann") == 200
    await pass_time(61)
    assert await remove_all(records, "containers", 10) == 1, "its gateway lives no more"
    assert await records.bytes_of("ann") == 100


async def test_old_files_go(records: Records) -> None:
    for number in range(5):
        await records.add_file(file(f"file_{number}", created_at=number, size=10))
    assert await records.count_old("files", 3) == Old(3, 30)
    assert await remove_all(records, "files", 3) == 3
    assert [one.id for one in await records.list_files("ann", Page(order="asc"))] == ["file_3", "file_4"]
    assert await records.bytes_of("ann") == 20


async def test_one_has_the_turn_until_it_is_over(records: Records, pass_time: PassTime) -> None:
    told = await asyncio.gather(*(records.take_turn("sweep", who, 60) for who in ("a", "b", "c")))
    assert sorted(told) == [False, False, True]
    first = "abc"[told.index(True)]
    other = next(who for who in "abc" if who != first)
    assert await records.take_turn("sweep", first, 60)
    assert await records.take_turn("another", other, 60)
    assert await records.take_turn("sweep", first, 0)
    assert await records.take_turn("sweep", other, 60)
    assert not await records.take_turn("sweep", first, 60)
    await pass_time(61)
    assert await records.take_turn("sweep", first, 60)


# Writing


async def test_a_write_that_fails_hurts_no_other(records: Records) -> None:
    await records.create_conversation(conversation())
    await records.add_items("conv_1", [item("msg_1")])
    good = [records.add_response(response(f"resp_{number}")) for number in range(20)]
    bad = [
        records.add_items("conv_1", [item("msg_2"), item("msg_1")]),
        records.add_response(response("\ud800")),
        records.add_file(file("file-1", size=1 << 70)),
        records.add_events("resp_none", "gw_1", [(1, b"")]),
    ]
    done = await asyncio.gather(*good[:10], *bad, *good[10:], return_exceptions=True)
    assert [type(one) for one in done] == [
        *[type(None)] * 10,
        InvalidRequest,
        UnicodeEncodeError,
        OverflowError,
        NotFound,
        *[type(None)] * 10,
    ]
    for number in range(20):
        assert await records.get_response(f"resp_{number}", "ann") == response(f"resp_{number}")
    assert await records.all_items("conv_1") == [item("msg_1")]


async def test_who_stops_waiting_does_not_stop_the_write(records: Records) -> None:
    task = asyncio.create_task(records.add_response(response("resp_1")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await records.add_response(response("resp_2"))
    assert await records.get_response("resp_1", "ann") == response("resp_1")


async def test_closing_finishes_what_was_begun(store: Database) -> None:
    writes = [asyncio.create_task(store.records.add_response(response(f"resp_{number}"))) for number in range(100)]
    await asyncio.sleep(0)
    await store.records.close()
    await asyncio.gather(*writes)
    with pytest.raises(OperatorError, match="closed"):
        await store.records.add_response(response("resp_late"))
    with pytest.raises(OperatorError, match="closed"):
        await store.records.get_response("resp_1", "ann")
