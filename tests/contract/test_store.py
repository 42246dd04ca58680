"""The suite of the ports `Records` and `Blobs`: every test here runs over every store in `STORES`."""

from __future__ import annotations

import asyncio
import hashlib
import io
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from belljar.errors import InvalidRequest, NotFound, OperatorError
from belljar.gateway.store import blob_slices, open_store
from belljar.gateway.store.base import (
    Blob,
    Blobs,
    Change,
    ContainerFileRecord,
    ContainerRecord,
    ConversationRecord,
    FileRecord,
    FileRef,
    ItemRecord,
    KeyRecord,
    Order,
    Page,
    Records,
    ResponseRecord,
    Version,
)
from belljar.gateway.store.blob_slices import Slice

MIB = 1 << 20
STORES: dict[str, Callable[[Path], tuple[Records, Blobs]]] = {"sqlite": open_store}


class Store(NamedTuple):
    records: Records
    blobs: Blobs


@pytest.fixture(params=list(STORES))
def store(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Store]:
    made = Store(*STORES[request.param](tmp_path / "store"))
    yield made
    runner.run(made.records.close())


@pytest.fixture
def records(store: Store) -> Records:
    return store.records


@pytest.fixture
def blobs(store: Store) -> Blobs:
    return store.blobs


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
    await records.put_response(whole)
    assert await records.get_response("resp_2", "ann") == whole
    plain = response("resp_3")
    await records.put_response(plain)
    assert await records.get_response("resp_3", "ann") == plain
    assert await records.get_response("RESP_3", "ann") is None


async def test_a_response_is_written_again(records: Records) -> None:
    first = response("resp_1", status="queued", background=True)
    await records.put_response(first)
    await records.put_response(replace(first, status="completed", output=b"[1]", created_at=9, owner="ben"))
    assert await records.get_response("resp_1", "ann") == replace(first, status="completed", output=b"[1]")


async def test_nobody_sees_what_is_another_owners(records: Records) -> None:
    await records.put_response(response("resp_1"))
    await records.put_conversation(conversation())
    await records.put_container(container())
    await records.put_file(file("file-1"))
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
        await records.put_response(turn)
    assert await records.chain("resp_4", "ann") == turns
    assert await records.chain("resp_0", "ann") == turns[:1]
    assert [turn.id for turn in await records.chain("resp_fork", "ann")] == ["resp_0", "resp_1", "resp_fork"]
    assert await records.chain("resp_none", "ann") == []

    await records.delete_response("resp_1", "ann")
    assert await records.chain("resp_4", "ann") == turns[2:]


async def test_a_chain_ends_where_another_owner_begins(records: Records) -> None:
    await records.put_response(response("resp_1", owner="ben"))
    await records.put_response(response("resp_2", "resp_1"))
    assert [turn.id for turn in await records.chain("resp_2", "ann")] == ["resp_2"]


async def test_a_chain_that_bites_its_tail_ends(records: Records) -> None:
    await records.put_response(response("resp_1", "resp_2"))
    await records.put_response(response("resp_2", "resp_1"))
    assert [turn.id for turn in await records.chain("resp_2", "ann")] == ["resp_1", "resp_2"]


async def test_what_is_unfinished(records: Records) -> None:
    for status in ("queued", "in_progress", "completed", "failed", "incomplete", "cancelled"):
        await records.put_response(response(f"resp_{status}", status=status, owner=status))
    assert [found.status for found in await records.unfinished()] == ["queued", "in_progress"]
    await records.put_response(response("resp_queued", owner="queued"))
    assert [found.status for found in await records.unfinished()] == ["in_progress"]


async def test_events_go_with_their_response(records: Records) -> None:
    events = [(number, b"event %d" % number) for number in range(12)]
    await records.put_response(response("resp_1"))
    await records.put_response(response("resp_10"))
    await records.add_events("resp_1", events[:3])
    await records.add_events("resp_1", events[3:])
    await records.add_events("resp_1", [])
    await records.add_events("resp_10", [(0, b"other")])
    assert await records.get_events("resp_1", -1) == events
    assert await records.get_events("resp_1", 9) == events[10:]
    assert await records.get_events("resp_1", 99) == []

    await records.put_response(response("resp_1", status="failed"))
    assert await records.get_events("resp_1", -1) == events
    await records.delete_response("resp_1", "ann")
    with pytest.raises(NotFound, match="'resp_1' not found"):
        await records.add_events("resp_1", events)
    await records.put_response(response("resp_1"))
    assert await records.get_events("resp_1", -1) == []
    assert await records.get_events("resp_10", -1) == [(0, b"other")]


# Conversations


async def test_a_conversation_and_its_metadata(records: Records) -> None:
    await records.put_conversation(conversation(metadata={"ключ": "значение", "a": ""}))
    assert await records.get_conversation("conv_1", "ann") == conversation(metadata={"ключ": "значение", "a": ""})
    await records.put_conversation(conversation(metadata={}))
    assert await records.get_conversation("conv_1", "ann") == conversation()


async def test_items_go_with_their_conversation(records: Records) -> None:
    items = [item(f"msg_{n}") for n in (3, 1, 2)]
    for id in ("conv_1", "conv_2"):
        await records.put_conversation(conversation(id))
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
    await records.put_conversation(conversation())
    assert await records.all_items("conv_1") == []
    assert await records.all_items("conv_2") == items


@pytest.mark.parametrize("twice", [["msg_2", "msg_1", "msg_3"], ["msg_2", "msg_2"]])
async def test_an_item_is_in_a_conversation_once(records: Records, twice: list[str]) -> None:
    await records.put_conversation(conversation())
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
    await records.put_container(whole)
    assert await records.get_container("cntr_1", "ann") == whole
    await records.put_container(replace(whole, deleted=False, auto=False, requirements=(), cells=0, version=9))
    kept = replace(whole, deleted=False, auto=False)
    assert await records.get_container("cntr_1", "ann") == kept, "what has versions is not written over"


async def test_touching_a_container(records: Records) -> None:
    await records.put_container(container(cells=2))
    await records.touch_container("cntr_1", 9)
    assert await records.get_container("cntr_1", "ann") == container(last_active_at=9, cells=2)
    await records.touch_container("cntr_1", 8, 1)
    assert await records.get_container("cntr_1", "ann") == container(last_active_at=9, cells=3)
    await records.touch_container("cntr_none", 8, 1)
    assert await records.get_container("cntr_none", "ann") is None


async def test_containers_by_name(records: Records) -> None:
    for id, name, deleted in (("cntr_1", "a", False), ("cntr_2", "b", False), ("cntr_3", "a", True)):
        await records.put_container(container(id, name=name, deleted=deleted))
    assert [found.id for found in await records.list_containers("ann", Page())] == ["cntr_2", "cntr_1"]
    assert [found.id for found in await records.list_containers("ann", Page(), "a")] == ["cntr_1"]
    assert await records.list_containers("ann", Page(), "A") == []


async def test_a_newer_file_at_the_same_path_keeps_its_id(records: Records) -> None:
    await records.put_container(container())
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

    await records.put_container(container("cntr_2"))
    elsewhere = container_file("cfile_3", "a/b.csv", container_id="cntr_2")
    assert await put(records, elsewhere) == [elsewhere]


async def test_of_many_files_those_that_were_there_keep_their_ids(records: Records) -> None:
    await records.put_container(container())
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
    await records.put_container(container())
    for number, path in enumerate(paths):
        [kept] = await put(records, container_file(f"cfile_{number}", path))
        assert kept.id == f"cfile_{number}"
    assert [found.path for found in await records.all_container_files("cntr_1")] == paths


async def test_files_go_with_their_container(records: Records) -> None:
    for id in ("cntr_1", "cntr_2"):
        await records.put_container(container(id))
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
    await records.put_container(container())
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
    await records.put_container(container(requirements=("polars",)))
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
    await records.put_container(container())
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


async def test_one_number_is_given_once(records: Records) -> None:
    await records.put_container(container())
    changes = [Change(put=[container_file(f"cfile_{n}")]) for n in range(20)]
    made = await asyncio.gather(*(records.change_container("cntr_1", change) for change in changes))
    assert sorted(one.version for one in made if one is not None) == list(range(1, 21))
    for one in filter(None, made):
        before, after = [await records.get_version("cntr_1", number) for number in (one.version - 1, one.version)]
        assert before is not None
        assert after is not None
        assert set(after.files) - set(before.files) == {one.files[0].path}


async def test_of_a_path_that_is_put_twice_at_once_the_last_counts(records: Records) -> None:
    await records.put_container(container())
    [first, last] = await put(records, container_file("cfile_1", "a"), container_file("cfile_2", "a", blob="c"))
    assert (first.id, last.id) == ("cfile_1", "cfile_1")
    newest, oldest = await records.get_version("cntr_1", 1), await records.get_version("cntr_1", 0)
    assert newest is not None
    assert oldest is not None
    assert (newest.files, oldest.files) == ({"a": FileRef("cfile_1", "c")}, {})


async def test_versions_go_with_their_container(records: Records) -> None:
    await records.put_container(container())
    await put(records, container_file("cfile_1"))
    await records.delete_container("cntr_1", "ann")
    assert await records.get_version("cntr_1", 1) is None
    await records.put_container(container())
    await put(records, container_file("cfile_2"))
    found = await records.get_version("cntr_1", 1)
    assert found is not None
    assert found.files == {"cfile_2": FileRef("cfile_2", "b")}


# Files


async def test_files_by_purpose_and_expiry(records: Records) -> None:
    kept = file("file-1", filename="日本.csv", type="text/csv", size=1 << 40)
    await records.put_file(kept)
    await records.put_file(file("file-2", purpose="vision", expires_at=100))
    await records.put_file(file("file-3", expires_at=101))
    assert await records.get_file("file-1", "ann") == kept
    assert [found.id for found in await records.list_files("ann", Page(), "user_data")] == ["file-3", "file-1"]
    assert await records.expire_files(99) == 0
    assert await records.expire_files(100) == 1
    assert [found.id for found in await records.list_files("ann", Page())] == ["file-3", "file-1"]


async def test_bytes_of_an_owner(records: Records) -> None:
    assert await records.bytes_of("ann") == 0
    for number, (owner, size) in enumerate([("ann", 1), ("ann", 2), ("ben", 1000)]):
        await records.put_file(file(f"file-{number}", owner=owner, size=size))
        await records.put_container(container(f"cntr_{number}", owner=owner))
        await put(records, container_file(f"cfile_{number}", container_id=f"cntr_{number}", size=size * 10))
    assert (await records.bytes_of("ann"), await records.bytes_of("ben")) == (33, 11_000)
    await put(records, container_file("cfile_new", "cfile_0", container_id="cntr_0", size=100))
    await records.delete_container("cntr_1", "ann")
    await records.delete_file("file-0", "ann")
    assert await records.bytes_of("ann") == 102


async def test_which_blobs_are_unused(records: Records) -> None:
    await records.put_file(file("file-1", blob="by file"))
    await records.put_container(container())
    await put(records, container_file("cfile_1", blob="by container"))
    many = [f"blob {number}" for number in range(2000)]
    assert await records.unused_blobs(["by file", *many, "by container"]) == many
    assert await records.unused_blobs([]) == []
    await records.delete_container("cntr_1", "ann")
    assert await records.unused_blobs(["by file", "by container"]) == ["by container"]


# Lists in pages


async def _many_files(records: Records) -> Callable[[Page], Awaitable[list[FileRecord]]]:
    for number in range(7):
        await records.put_file(file(f"file-{number}", created_at=number // 3))
        await records.put_file(file(f"file-other-{number}", owner="ben"))
    return lambda page: records.list_files("ann", page)


async def _many_containers(records: Records) -> Callable[[Page], Awaitable[list[ContainerRecord]]]:
    for number in range(7):
        await records.put_container(container(f"cntr_{number}", created_at=number // 3))
        await records.put_container(container(f"cntr_other_{number}", owner="ben"))
    return lambda page: records.list_containers("ann", page)


async def _many_container_files(records: Records) -> Callable[[Page], Awaitable[list[ContainerFileRecord]]]:
    for owner in ("1", "other"):
        await records.put_container(container(f"cntr_{owner}"))
        for number in range(7):
            await put(
                records, container_file(f"cfile_{owner}_{number}", container_id=f"cntr_{owner}", created_at=number // 3)
            )
    await put(records, container_file("cfile_newer", "cfile_1_0", created_at=99))
    return lambda page: records.list_container_files("cntr_1", page)


async def _many_items(records: Records) -> Callable[[Page], Awaitable[list[ItemRecord]]]:
    for owner in ("1", "other"):
        await records.put_conversation(conversation(f"conv_{owner}"))
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


# Writing


async def test_a_write_that_fails_hurts_no_other(records: Records) -> None:
    await records.put_conversation(conversation())
    await records.add_items("conv_1", [item("msg_1")])
    good = [records.put_response(response(f"resp_{number}")) for number in range(20)]
    bad = [
        records.add_items("conv_1", [item("msg_2"), item("msg_1")]),
        records.put_response(response("\ud800")),
        records.put_file(file("file-1", size=1 << 70)),
        records.add_events("resp_none", [(1, b"")]),
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
    task = asyncio.create_task(records.put_response(response("resp_1")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await records.put_response(response("resp_2"))
    assert await records.get_response("resp_1", "ann") == response("resp_1")


async def test_closing_finishes_what_was_begun(store: Store) -> None:
    writes = [asyncio.create_task(store.records.put_response(response(f"resp_{number}"))) for number in range(100)]
    await asyncio.sleep(0)
    await store.records.close()
    await asyncio.gather(*writes)
    with pytest.raises(OperatorError, match="closed"):
        await store.records.put_response(response("resp_late"))
    with pytest.raises(OperatorError, match="closed"):
        await store.records.get_response("resp_1", "ann")


# Blobs


async def _all(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def _pieces(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


@pytest.mark.parametrize("size", [0, 1, 65_536, MIB - 1, MIB, MIB + 1, 3 * MIB + 5])
@pytest.mark.parametrize("piece", [1000, 65_536, 10 * MIB])
async def test_a_blob_comes_back_as_it_went(blobs: Blobs, size: int, piece: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    data = data[:size]
    blob = await blobs.adopt(_pieces(data, piece))
    assert blob == Blob(hashlib.sha256(data).hexdigest(), size)
    chunks = [chunk async for chunk in blobs.stream(blob.name)]
    assert b"".join(chunks) == data
    assert all(len(chunk) == MIB for chunk in chunks[:-1])
    assert await _all(blobs.stream(blob.name, chunk=700_000)) == data
    path = blobs.path(blob.name)
    assert path is None or path.read_bytes() == data


async def test_nothing_is_there_until_a_blob_is_finished(blobs: Blobs) -> None:
    data = b"x" * (2 * MIB)
    name = hashlib.sha256(data).hexdigest()
    async with blobs.write() as writer:
        await writer.write(data)
        with pytest.raises(NotFound):
            await _all(blobs.stream(name))
    with pytest.raises(NotFound):
        await _all(blobs.stream(name))
    async with blobs.write() as writer:
        await writer.write(data)
        assert await writer.finish() == Blob(name, len(data))
    assert await _all(blobs.stream(name)) == data


@pytest.mark.parametrize("before", [0, 5, MIB + 1])
async def test_what_is_read_in_a_thread_comes_back_as_it_went(blobs: Blobs, before: int) -> None:
    data = bytes(range(251)) * (3 * MIB // 251)
    source = io.BytesIO(data[before:])
    async with blobs.write() as writer:
        await writer.write(data[:before])
        await writer.drain(lambda buffer: source.readinto(buffer[:700_001]))
        await writer.write(b"end")
        blob = await writer.finish()
    assert await _all(blobs.stream(blob.name)) == data + b"end"


async def test_a_read_that_fails_is_told_and_nothing_is_kept(blobs: Blobs) -> None:
    def read(buffer: memoryview) -> int:
        raise EOFError("gone")

    async with blobs.write() as writer:
        await writer.write(b"x")
        with pytest.raises(EOFError, match="gone"):
            await writer.drain(read)
    with pytest.raises(NotFound):
        await _all(blobs.stream(hashlib.sha256(b"x").hexdigest()))


@pytest.mark.parametrize("name", ["0" * 64, "", "..", "../records.db", "incoming", "A" * 64, "0" * 63, "0" * 64 + "\n"])
async def test_there_is_no_such_blob(blobs: Blobs, name: str) -> None:
    with pytest.raises(NotFound, match="There is no content"):
        await anext(blobs.stream(name))
    assert blobs.path(name) is None


async def test_a_part_of_a_blob_is_a_blob(blobs: Blobs) -> None:
    data = bytes(range(251)) * (3 * MIB // 251)
    whole = await blobs.adopt(_pieces(data, MIB))
    for start, size in ((0, 0), (0, 5), (7, MIB), (9, MIB + 1), (len(data) - 3, 3), (len(data), 0)):
        part = Slice(whole.name, start, size)
        assert blob_slices.read(part.blob.name) == part
        assert part.blob.size == size
        assert await _all(blobs.stream(part.blob.name)) == data[start : start + size]
        assert await _all(blobs.stream(part.blob.name, chunk=700_000)) == data[start : start + size]
        assert blobs.path(part.blob.name) is None
    with pytest.raises(NotFound, match="There is no content"):
        await anext(blobs.stream(Slice("0" * 64, 0, 1).blob.name))


@pytest.mark.parametrize("name", ["0" * 64, "", f"{'0' * 64}@1", f"{'0' * 64}@-1+1", f"{'0' * 64}@1+1\n", "x@1+1"])
def test_no_part_of_a_blob(name: str) -> None:
    assert blob_slices.read(name) is None
    assert blob_slices.whole(name) == name


async def test_a_blob_is_used_as_long_as_a_part_of_it_is(records: Records) -> None:
    names = ["a" * 64, "b" * 64, "c" * 64]
    await records.put_container(container())
    for id, name in (("cfile_1", names[0]), ("cfile_2", names[0]), ("cfile_3", names[1])):
        await put(records, container_file(id, blob=Slice(name, len(id), 5).blob.name))
    assert await records.unused_blobs(names) == names[2:]
    await take_away(records, container_file("cfile_1", blob=Slice(names[0], len("cfile_1"), 5).blob.name))
    assert await records.unused_blobs(names) == names[2:]
    await take_away(records, container_file("cfile_2", blob=Slice(names[0], len("cfile_2"), 5).blob.name))
    assert await records.unused_blobs(names) == [names[0], names[2]]


async def test_what_a_record_names_is_kept(records: Records, blobs: Blobs) -> None:
    blob = await blobs.adopt(_pieces(b"data", 4))
    await records.put_file(file("file-1", blob=blob.name))
    assert await blobs.remove_unused(records, [blob.name, "0" * 64]) == 0
    assert await blobs.sweep(records) == 0
    assert await _all(blobs.stream(blob.name)) == b"data"


async def test_a_blob_that_is_not_named_yet_is_kept(records: Records, blobs: Blobs) -> None:
    blob = await blobs.adopt(_pieces(b"data", 4))
    assert await blobs.remove_unused(records, [blob.name]) == 0
    assert await blobs.sweep(records) == 0
    assert await _all(blobs.stream(blob.name)) == b"data"
