"""The files of a container on both sides: put into a sandbox whole, and what a cell changed taken into the store."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, cast

from belljar.errors import BelljarError, Lost, NotFound, OperatorError, Refused
from belljar.gateway.containers import names
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.slots import Held
from belljar.gateway.store import slices
from belljar.gateway.store.base import Blob, Blobs, ContainerFileRecord, Records
from belljar.sandbox import explain
from belljar.sandbox.base import FileInfo, Workspace
from belljar.sandbox.outputs import FileChanged
from belljar.wire import ids

_PAGE = 4096
_AT_ONCE = 4
"""Files taken at the same time; the threads that do it are everybody's."""

Found: TypeAlias = FileInfo | FileChanged


class LeftOut(NamedTuple):
    """A file that a cell made and that could not be kept."""

    path: str
    size: int
    why: str


class Collected(NamedTuple):
    taken: list[ContainerFileRecord]
    left_out: list[LeftOut]


def room(sizes: Iterable[int]) -> int:
    """Bytes that files take in a workspace, which has whole pages."""
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


# -- into a sandbox ---------------------------------------------------------------------------------------------------


async def restore(held: Held, files: Sequence[ContainerFileRecord], blobs: Blobs) -> None:
    """Put every file in place; `Refused` if one of them cannot be, since half a workspace is worse than none."""
    here = [record for record in files if not names.is_figure(record)]
    needed, disk = room(record.size for record in here), held.spec.limits.disk
    if needed > disk:
        raise Refused(
            f"the files of container {held.id} need {explain.size(needed)} and its workspace holds "
            f"{explain.size(disk)}; delete some of them, or use a larger memory_limit"
        )
    for record in here:
        try:
            info = await write(held.sandbox.files, record.path, record.blob, blobs)
        except Lost:
            raise
        except BelljarError as error:
            raise _incomplete(record, str(error)) from error
        if info.size != record.size:
            raise _incomplete(record, f"it has {info.size} bytes instead of {record.size}")
        held.note(record, info)


def _incomplete(record: ContainerFileRecord, why: str) -> Refused:
    return Refused(
        f"the file {names.shown(record.path)} of container {record.container_id} could not be put back ({why}), and "
        f"nothing is run without it; upload it again, or delete {record.id}"
    )


async def write(workspace: Workspace, path: str, blob: str, blobs: Blobs) -> FileInfo:
    """A blob as a file of the workspace."""
    async with opened(blob, blobs) as file:
        return await workspace.write(path, file)


@asynccontextmanager
async def opened(blob: str, blobs: Blobs) -> AsyncIterator[BinaryIO]:
    """A blob as a file of this machine, for whoever reads in a thread."""
    part = slices.read(blob)
    place = blobs.path(blob if part is None else part.whole)
    if place is not None:
        with _open(place) as file:
            yield file if part is None else cast(BinaryIO, slices.SliceFile(file, part))
        return
    with await asyncio.to_thread(tempfile.TemporaryFile) as spool:
        async for chunk in blobs.stream(blob):
            await asyncio.to_thread(spool.write, chunk)
        await asyncio.to_thread(spool.seek, 0)
        yield spool


def _open(place: Path) -> BinaryIO:
    """In the caller's thread: it takes a tenth of the time of a hop to another."""
    try:
        return place.open("rb")
    except FileNotFoundError:
        raise NotFound("its bytes are gone from the store") from None


# -- out of a sandbox -------------------------------------------------------------------------------------------------


async def collect(
    held: Held, changed: Sequence[Found], records: Records, blobs: Blobs, policy: Policy, now: int
) -> Collected:
    """Take what changed into the store, and forget there what is gone from the workspace.

    Where a cell was left before it told what it changed (`held.stale`), everything is compared instead.
    """
    try:
        if held.stale or held.known:  # else nothing can have gone: a listing costs more than a small cell
            listed = await held.sandbox.files.list()
            await _forget(held, {info.name for info in listed}, records)
            if held.stale:
                changed = [info for info in listed if not _is_known(held, info)]
    except Lost as error:
        return Collected([], [LeftOut(info.name, info.size, str(error)) for info in changed])
    chosen, left_out = _choose(held, changed, policy)
    results = await _take_all(held, chosen, blobs, policy)
    for result in results:
        if isinstance(result, OperatorError):
            raise result
    left_out += [result for result in results if isinstance(result, LeftOut)]
    took = [(info, result) for info, result in zip(chosen, results, strict=True) if isinstance(result, Blob)]
    taken = await asyncio.gather(*(_record(held, info, blob, records, now) for info, blob in took))
    for (info, _), record in zip(took, taken, strict=True):
        held.note(record, info)
    held.open = held.stale = False
    return Collected(list(taken), left_out)


def _is_known(held: Held, info: FileInfo) -> bool:
    known = held.known.get(info.name)
    return known is not None and (known.size, known.modified) == (info.size, info.modified)


async def _forget(held: Held, present: set[str], records: Records) -> None:
    for path in [path for path in held.known if path not in present]:
        record = held.known[path].record
        found = await records.get_container_file(held.id, record.id)
        if found is not None and found.blob == record.blob:  # else a newer one was put there meanwhile
            await records.delete_container_file(held.id, record.id)
        del held.known[path]


def _choose(held: Held, changed: Sequence[Found], policy: Policy) -> tuple[list[Found], list[LeftOut]]:
    """What may be kept by its size and number, and what not."""
    chosen: list[Found] = []
    left_out: list[LeftOut] = []
    disk = held.spec.limits.disk
    largest = disk if policy.largest_file is None else policy.largest_file
    budget = disk if policy.max_bytes is None else policy.max_bytes
    for info in changed:
        if not _is_utf8(info.name):
            why = "its name is not UTF-8"
        elif len(chosen) == policy.max_files:
            why = f"{policy.max_files} files of one cell are kept at most"
        elif info.size > largest:
            why = f"one file may have {explain.size(largest)}"
        elif info.size > budget:
            why = f"of this cell's files, only {explain.size(budget)} more are kept"
        else:
            budget -= info.size
            chosen.append(info)
            continue
        left_out.append(LeftOut(info.name, info.size, why))
    return chosen, left_out


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _take_all(
    held: Held, chosen: Sequence[Found], blobs: Blobs, policy: Policy
) -> list[Blob | LeftOut | OperatorError | None]:
    """Their bytes, a few files at a time: most of it is waiting for the disk. None for what is gone again already."""
    turns = asyncio.Semaphore(_AT_ONCE)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + policy.collect_timeout

    async def take(info: Found) -> Blob | LeftOut | OperatorError | None:
        async with turns:
            if loop.time() >= deadline:
                return LeftOut(info.name, info.size, f"keeping the others took {policy.collect_timeout:g} s")
            try:
                return await _take(held.sandbox.files, info.name, blobs)
            except NotFound:
                return None
            except OperatorError as error:
                return error
            except BelljarError as error:
                return LeftOut(info.name, info.size, str(error))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(take(info)) for info in chosen]
    return [task.result() for task in tasks]


async def _take(workspace: Workspace, name: str, blobs: Blobs) -> Blob:
    async with blobs.write() as writer:
        async with aclosing(cast(AsyncGenerator[bytes, None], workspace.stream(name))) as chunks:
            async for chunk in chunks:
                await writer.write(chunk)
        return await writer.finish()


async def _record(held: Held, info: Found, blob: Blob, records: Records, now: int) -> ContainerFileRecord:
    return await records.put_container_file(
        ContainerFileRecord(
            id=ids.new("cfile"),
            container_id=held.id,
            path=info.name,
            created_at=now,
            size=blob.size,
            modified=info.modified,
            source="assistant",
            blob=blob.name,
            type=info.type,
        )
    )
