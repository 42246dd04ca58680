"""The suite of the port `BlobIndex`: every test here runs over every kind of database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.databases import KINDS, Database, open_database

from belljar.gateway.store.base import (
    Blob,
    Change,
    ContainerFileRecord,
    ContainerRecord,
    FileRecord,
    Records,
)
from belljar.gateway.store.blob_index import BlobIndex, Stored
from belljar.gateway.store.blob_slices import Slice

A, B, C = (Blob(letter * 64, size) for letter, size in (("a", 1), ("b", 2), ("c", 3)))


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Database]:
    made = open_database(request.param, tmp_path, request, runner)
    yield made
    runner.run(made.records.close())


@pytest.fixture
def index(opened: Database) -> BlobIndex:
    return opened.records.blob_index()


async def keep(index: BlobIndex, *blobs: Blob) -> None:
    for blob in blobs:
        await index.reserve([f"object of {blob.name}"], 60)
        assert await index.finish(blob, f"object of {blob.name}") == f"object of {blob.name}"


async def name_by_file(records: Records, id: str, blob: str) -> None:
    await records.add_file(
        FileRecord(id=id, owner="ann", filename="f", purpose="user_data", created_at=5, size=1, blob=blob)
    )


async def name_by_container(records: Records, id: str, blob: str) -> None:
    file = ContainerFileRecord(
        id=id, container_id="cntr_1", path=id, created_at=5, size=1, modified=1.5, source="user", blob=blob
    )
    assert await records.change_container("cntr_1", Change(put=[file]))


async def test_a_finished_blob_is_found(index: BlobIndex) -> None:
    await index.reserve(["one", "two"], 60)
    assert await index.find([A.name, B.name]) == {}
    assert await index.finish(A, "one") == "one"
    assert await index.finish(A, "one") == "one", "an answer that was lost is asked for again"
    assert await index.find([A.name, B.name]) == {A.name: Stored("one", 1)}
    assert await index.find([]) == {}
    assert await index.take_garbage() == []


async def test_an_object_that_was_never_reserved_is_no_blob(index: BlobIndex) -> None:
    assert await index.finish(A, "one") is None
    assert await index.find([A.name]) == {}


async def test_of_the_same_bytes_the_first_object_stays(index: BlobIndex) -> None:
    await index.reserve(["one", "two", "three"], 60)
    assert await index.finish(A, "one") == "one"
    assert await index.finish(A, "two") == "one"
    assert await index.finish(A, "two") == "one"
    assert await index.find([A.name]) == {A.name: Stored("one", 1)}
    assert await index.take_garbage() == ["two"]


async def test_of_many_writers_of_the_same_bytes_one_wins(index: BlobIndex) -> None:
    objects = [f"object {number}" for number in range(20)]
    await index.reserve(objects, 60)
    winners = set(await asyncio.gather(*(index.finish(A, one) for one in objects)))
    assert len(winners) == 1
    assert {*await index.take_garbage()} == {*objects} - winners


async def test_what_was_not_finished_in_time_is_garbage_for_good(opened: Database, index: BlobIndex) -> None:
    await index.reserve(["one", "two"], 60)
    await opened.pass_time(59)
    assert await index.take_garbage() == []
    assert await index.finish(A, "one") == "one"
    await opened.pass_time(2)
    assert await index.finish(B, "two") is None
    assert await index.take_garbage() == ["two"]
    await opened.pass_time(-30)  # a clock that is set back
    assert await index.finish(B, "two") is None
    assert await index.take_garbage() == ["two"], "until somebody says that it is gone"
    await index.forget(["two", "never there"])
    assert await index.take_garbage() == []


async def test_a_late_writer_of_bytes_that_are_there_is_told_where(opened: Database, index: BlobIndex) -> None:
    await index.reserve(["one"], 60)
    await opened.pass_time(61)
    await keep(index, A)
    assert await index.finish(A, "one") == f"object of {A.name}"


async def test_what_is_reserved_is_not_forgotten(index: BlobIndex) -> None:
    await index.reserve(["one"], 60)
    await index.forget(["one"])
    assert await index.finish(A, "one") == "one"


async def test_which_objects_may_still_be_finished(opened: Database, index: BlobIndex) -> None:
    await index.reserve(["finished", "late", "lost", "reserved"], 60)
    await index.finish(A, "finished")
    await index.finish(A, "lost")
    asked = ["finished", "late", "lost", "reserved", "never there"]
    assert await index.find_reserved(asked) == {"late", "reserved"}
    await opened.pass_time(61)
    assert await index.find_reserved(asked) == set()
    assert await index.find_reserved([]) == set()


async def test_garbage_comes_in_portions(opened: Database, index: BlobIndex) -> None:
    await index.reserve([f"object {number}" for number in range(25)], 60)
    await opened.pass_time(61)
    first = await index.take_garbage(limit=10)
    assert len(first) == 10
    await index.forget(first)
    rest = await index.take_garbage()
    assert len({*first, *rest}) == 25


async def test_what_no_record_names_is_removed_when_it_is_old(opened: Database, index: BlobIndex) -> None:
    records = opened.records
    await keep(index, A, B, C)
    await records.create_container(ContainerRecord(id="cntr_1", owner="ann", name="c", created_at=5, last_active_at=5))
    await name_by_file(records, "file-1", A.name)
    await name_by_container(records, "cfile_1", Slice(B.name, 1, 1).blob.name)
    names = [A.name, B.name, C.name, "0" * 64]
    assert await index.remove_unused(names, 60) == []
    await opened.pass_time(61)
    assert await index.remove_unused(names, 60) == [C.name]
    assert sorted(await index.find(names)) == [A.name, B.name]
    assert await index.take_garbage() == [f"object of {C.name}"]
    await records.delete_container("cntr_1", "ann")
    await records.delete_file("file-1", "ann")
    assert sorted(await index.remove_unused(names, 60)) == [A.name, B.name]
    assert await index.find(names) == {}
    assert len(await index.take_garbage()) == 3


async def test_what_is_finished_or_renewed_again_is_new(opened: Database, index: BlobIndex) -> None:
    await keep(index, A, B, C)
    await opened.pass_time(61)
    assert await index.list_older(60) == [A.name, B.name, C.name]
    await index.reserve(["again"], 60)
    assert await index.finish(A, "again") == f"object of {A.name}"
    assert await index.renew([B.name, "0" * 64]) == {B.name: Stored(f"object of {B.name}", 2)}
    assert await index.renew(["0" * 64]) == {}
    assert await index.list_older(60) == [C.name]
    assert await index.remove_unused([A.name, B.name, C.name], 60) == [C.name]


async def test_a_blob_that_was_removed_comes_back_in_another_object(opened: Database, index: BlobIndex) -> None:
    await keep(index, A)
    await opened.pass_time(61)
    assert await index.remove_unused([A.name], 60) == [A.name]
    assert await index.renew([A.name]) == {}
    await index.reserve(["again"], 60)
    assert await index.finish(A, "again") == "again"
    assert await index.find([A.name]) == {A.name: Stored("again", 1)}
    assert await index.take_garbage() == [f"object of {A.name}"]


async def test_removing_and_renewing_at_once(opened: Database, index: BlobIndex) -> None:
    """Whoever is told that a blob is there keeps it; whoever is not finds nothing left of it."""
    for number in range(20):
        await keep(index, Blob(f"{number:064}", 1))
    await opened.pass_time(61)
    names = [f"{number:064}" for number in range(20)]
    jobs = [step for name in names for step in (index.renew([name]), index.remove_unused([name], 60))]
    results = await asyncio.gather(*jobs)
    for name, renewed, removed in zip(names, results[::2], results[1::2], strict=True):
        assert bool(renewed) != bool(removed)
        assert bool(await index.find([name])) == bool(renewed)


async def test_old_blobs_are_listed_by_pages(opened: Database, index: BlobIndex) -> None:
    names = [f"{number:064}" for number in range(25)]
    for name in names:
        await keep(index, Blob(name, 1))
    assert await index.list_older(60) == []
    await opened.pass_time(61)
    first = await index.list_older(60, limit=10)
    assert first == names[:10]
    assert await index.list_older(60, after=first[-1]) == names[10:]


async def test_thousands_at_once(index: BlobIndex) -> None:
    await index.reserve([f"object {number}" for number in range(2000)], 60)
    names = [f"{number:064}" for number in range(2000)]
    await asyncio.gather(*(index.finish(Blob(name, 1), f"object {int(name)}") for name in names))
    assert len(await index.find(names)) == 2000
    assert len(await index.renew(names)) == 2000
    assert len(await index.remove_unused(names, -1)) == 2000
