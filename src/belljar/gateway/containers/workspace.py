"""The files of a container on both sides: put into a sandbox, and what a cell changed taken into the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, cast

from msgspec import structs

from belljar.errors import BelljarError, Fenced, Lost, NotFound, OperatorError, Refused, StorageExceeded, WorkspaceError
from belljar.gateway.containers import names
from belljar.gateway.containers.policy import Policy
from belljar.gateway.store import blob_slices
from belljar.gateway.store.base import Blob, Blobs, Change, ContainerFileRecord, Hold, Records, Seen, Version
from belljar.sandbox import explain
from belljar.sandbox.base import MIB, Content, FileInfo, Sandbox, Spec, Workspace
from belljar.sandbox.outputs import FileChanged
from belljar.wire import ids

_PAGE = 4096
_UNKNOWN = -1
"""The size of a file of which it is not known how it looks in the sandbox."""
_AT_ONCE = 4
"""Files taken at the same time; the threads that do it are everybody's."""
_IN_A_GO = 500
"""Files put in place in one go to a thread: often enough that others get one. Two threads are no faster than one."""

Found: TypeAlias = FileInfo | FileChanged


class LeftOut(NamedTuple):
    """A file that a cell made and that could not be kept."""

    path: str
    size: int
    why: str


class Wanted(NamedTuple):
    """A file that is to be in a workspace, and where its bytes lie; of a blob of its own, all of them."""

    path: str
    blob: str
    part: blob_slices.Slice

    @classmethod
    def of(cls, path: str, blob: str, size: int) -> Wanted:
        return cls(path, blob, blob_slices.read(blob) or blob_slices.Slice(blob, 0, size))


class Unread(NotFound):
    """What is to be in the workspace is not in the store as it was kept."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path


class Known(NamedTuple):
    """A file that is both in the store and in the workspace, and how it looked there."""

    record: ContainerFileRecord
    size: int
    modified: float


@dataclass(slots=True, eq=False)
class Live:
    """A sandbox that holds a container, with the files it is known to have."""

    container_id: str
    spec: Spec
    sandbox: Sandbox
    close: Callable[[], Awaitable[None]]
    requirements: tuple[str, ...] = ()
    """Packages that it has beside the base environment."""
    known: dict[str, Known] = field(default_factory=dict)
    running: bool = False
    """A cell was begun, and what it changed has not been taken yet."""
    uncounted: int = 0
    """Cells that were begun, and are counted with the next change."""
    unseen: bool = False
    """Something may have changed that no cell told of: everything is compared before it is taken."""
    lost: bool = False
    given_up: bool = False
    """It was killed, whatever ran there: nothing that it did since is kept, nor told as if it were."""
    hold: Hold | None = None
    """By which its gateway has the container; None for a sandbox of one call, which needs none."""
    version: int = 0
    """Of the container, that it is known to have."""
    memory: str = ""
    """Of the container, for which it was made."""
    noted: int | None = None
    """The version of which the store says that it is, where it says at which place it is found."""

    @property
    def usable(self) -> bool:
        return not self.lost and self.sandbox.alive

    def reach(self, version: int, *, ours: bool) -> bool:
        """A change of `ours` made this version; False where another's before it is still to be looked at."""
        reached = ours and version == self.version + 1
        if reached:
            self.version = version
        return reached

    def note(self, record: ContainerFileRecord, info: FileInfo | FileChanged) -> None:
        self.known[record.path] = Known(record, info.size, info.modified)


class Collected(NamedTuple):
    taken: list[ContainerFileRecord]
    left_out: list[LeftOut]
    gone: list[ContainerFileRecord]
    """Files that were there before."""
    figures: list[ContainerFileRecord]
    version: int
    """Of the container, which has all of this."""
    released: list[str]
    """Blobs that it does not name any more, or never did."""


def room(sizes: Iterable[int]) -> int:
    """Bytes that files take in a workspace, which has whole pages."""
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


# -- into a sandbox ---------------------------------------------------------------------------------------------------


async def restore(live: Live, files: Sequence[ContainerFileRecord], blobs: Blobs) -> None:
    """Put every file in place; `Refused` if one of them cannot be, since half a workspace is worse than none."""
    here = [record for record in files if not names.is_figure(record)]
    needed, disk = room(record.size for record in here), live.spec.limits.disk
    if needed > disk:
        raise Refused(
            f"the files of container {live.container_id} need {explain.size(needed)} and its workspace holds "
            f"{explain.size(disk)}, half of its memory_limit; some of them have to be deleted first"
        )
    wanted = [Wanted.of(record.path, record.blob, record.size) for record in here]
    try:
        infos = await write(live.sandbox.files, wanted, blobs, [])
    except Unread as error:
        [record] = [record for record in here if record.path == error.path]
        raise _incomplete(record, str(error)) from error
    except Lost:
        raise
    except BelljarError as error:
        raise Refused(
            f"the files of container {live.container_id} could not all be put back ({error}), and nothing is run "
            "without them; delete the one that is named"
        ) from error
    for record, info in zip(here, infos, strict=True):
        if info.size != record.size:
            raise _incomplete(record, f"it has {info.size} bytes instead of {record.size}")
        live.note(record, info)


def _incomplete(record: ContainerFileRecord, why: str) -> Refused:
    return Refused(
        f"the file {names.shown(record.path)} of container {record.container_id} could not be put back ({why}), and "
        f"nothing is run without it; upload it again, or delete {record.id}"
    )


async def write(workspace: Workspace, wanted: Sequence[Wanted], blobs: Blobs, passed: list[str]) -> list[FileInfo]:
    """Blobs as files of the workspace, in their order. Should one fail, `passed` tells which are in place.

    Raises `Unread` where the store is at fault, else what the workspace raises.
    """
    infos: list[FileInfo] = []
    for start in range(0, len(wanted), _IN_A_GO):
        some = wanted[start : start + _IN_A_GO]
        async with blobs.local([one.part.whole for one in some]) as places:
            infos += await workspace.write_many(_contents([(one, _place(one, places)) for one in some], passed))
    return infos


def _place(one: Wanted, places: Mapping[str, Path | NotFound]) -> Path:
    place = places[one.part.whole]
    if isinstance(place, NotFound):
        raise Unread(one.path, str(place)) from place
    return place


def _contents(wanted: Sequence[tuple[Wanted, Path]], passed: list[str]) -> Iterator[tuple[str, Content]]:
    """Paths and bytes: parts of one archive are read from it one after the other, as they lie there."""
    opened, file = None, -1
    try:
        for one, place in wanted:
            if place != opened:
                if file >= 0:
                    os.close(file)
                    file = -1
                opened, file = place, _open(one, place)
            yield one.path, _bytes(file, one)
            passed.append(one.path)  # the next is asked for
    finally:
        if file >= 0:
            os.close(file)


def _open(one: Wanted, place: Path) -> int:
    try:
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unread(one.path, "its bytes are gone from the store") from None


def _bytes(file: int, one: Wanted) -> Content:
    pieces = _pieces(file, one)
    return b"".join(pieces) if one.part.size <= MIB else pieces


def _pieces(file: int, one: Wanted) -> Iterator[bytes]:
    _, start, size = one.part
    done = 0
    while done < size:
        data = os.pread(file, min(MIB, size - done), start + done)
        if not data:
            raise Unread(one.path, f"it has {done} bytes instead of {size}")
        done += len(data)
        yield data


@asynccontextmanager
async def opened(blob: str, blobs: Blobs) -> AsyncIterator[BinaryIO]:
    """A blob as a file of this machine, for whoever reads in a thread."""
    part = blob_slices.read(blob)
    whole = blob if part is None else part.whole
    async with blobs.local([whole]) as places:
        place = places[whole]
        if isinstance(place, NotFound):
            raise place
        try:
            file = await asyncio.to_thread(place.open, "rb")
        except FileNotFoundError:
            raise NotFound("its bytes are gone from the store") from None
        with file:
            yield file if part is None else cast(BinaryIO, blob_slices.SliceFile(file, part))


async def write_incoming(
    live: Live, incoming: Sequence[tuple[str, Blob]], blobs: Blobs, passed: list[str]
) -> dict[str, FileInfo]:
    """Files from outside, put beside those that are there; a sandbox that is lost has none of them."""
    wanted = [Wanted.of(path, blob.name, blob.size) for path, blob in incoming]
    try:
        infos = await write(live.sandbox.files, wanted, blobs, passed)
    except Lost:
        live.lost = True  # whoever uses the container next gets another, with these files in it
        return {}
    return {one.path: info for one, info in zip(wanted, infos, strict=True)}


async def undo(live: Live, passed: Sequence[str], blobs: Blobs) -> None:
    """What was at these paths before is there again, as far as that can be."""
    for path in passed:
        known = live.known.get(path)
        with suppress(BelljarError):
            if known is None:
                await live.sandbox.files.delete(path)
            else:
                before = Wanted.of(path, known.record.blob, known.record.size)
                [info] = await write(live.sandbox.files, [before], blobs, [])
                live.note(known.record, info)


async def delete(live: Live, path: str) -> None:
    """A file that is deleted from outside; the code may have been faster."""
    if live.known.pop(path, None) is not None:
        with suppress(NotFound, WorkspaceError, Lost):
            await live.sandbox.files.delete(path)


async def take_over(
    live: Live,
    found: Sequence[FileInfo],
    before: Version | None,
    files: Sequence[ContainerFileRecord],
    blobs: Blobs,
) -> None:
    """Know a sandbox that another gateway had, with what was `found` in it; `before` is the version that it was of.

    What others changed in the store since is brought in. What differs beside that was its code's doing, and is for
    `collect` to take: nothing is known of how those files look.
    """
    here = {record.path: record for record in files if not names.is_figure(record)}
    known = {} if before is None else before.files
    ours = {path: record for path, record in here.items() if path in known and known[path].blob == record.blob}
    for path, record in ours.items():
        live.known[path] = Known(record, _UNKNOWN, 0.0)
    for info in found:
        kept = ours.get(info.name)
        if kept is not None and (kept.size, kept.modified) == (info.size, info.modified):
            live.note(kept, info)
        elif info.name in known and info.name not in here:  # deleted in the store
            with suppress(NotFound, WorkspaceError, Lost):
                await live.sandbox.files.delete(info.name)
    await reconcile(live, files, blobs)
    live.unseen = True


async def reconcile(live: Live, files: Sequence[ContainerFileRecord], blobs: Blobs) -> None:
    """Bring the workspace up to what others changed in the store since."""
    here = {record.path: record for record in files if not names.is_figure(record)}
    for path in [path for path in live.known if path not in here]:
        await delete(live, path)
    newer = [
        record
        for path, record in here.items()
        if (known := live.known.get(path)) is None or known.record.blob != record.blob
    ]
    wanted = [Wanted.of(record.path, record.blob, record.size) for record in newer]
    for record, info in zip(newer, await write(live.sandbox.files, wanted, blobs, []), strict=True):
        live.note(record, info)


# -- out of a sandbox -------------------------------------------------------------------------------------------------


async def collect(
    live: Live,
    changed: Sequence[Found],
    figures: Sequence[ContainerFileRecord],
    records: Records,
    blobs: Blobs,
    policy: Policy,
    now: int,
    note: bytes | None = None,
    left: int | None = None,
) -> Collected:
    """Take what changed into the store, and forget there what is gone from the workspace: as one change.

    Where a cell was left before it told what it changed (`live.unseen`), everything is compared instead. `figures` are
    no files of the workspace, and kept with the rest. `note` tells where the sandbox is found that has all of it.
    `left` is how many bytes the owner may store yet; None for any number.
    """
    gone: list[ContainerFileRecord] = []
    took: list[tuple[Found, Blob]] = []
    left_out: list[LeftOut] = []
    lost = False
    try:
        if live.unseen or live.known:  # else nothing can have gone: a listing costs more than a small cell
            listed = await live.sandbox.files.list()
            present = {info.name for info in listed}
            gone = [known.record for path, known in live.known.items() if path not in present]
            if live.unseen:
                changed = [info for info in listed if not _is_known(live, info)]
    except Lost as error:
        left_out, lost = [LeftOut(info.name, info.size, str(error)) for info in changed], True
    else:
        if left is not None:
            left += sum(record.size for record in gone) - sum(record.size for record in figures)
        chosen, left_out = _choose(live, changed, policy, left)
        results = await _take_all(live, chosen, blobs, policy)
        for result in results:
            if isinstance(result, OperatorError):
                raise result
        left_out += [result for result in results if isinstance(result, LeftOut)]
        found = [(info, result) for info, result in zip(chosen, results, strict=True) if isinstance(result, Blob)]
        took = [(info, blob) for info, blob in found if not _recognise(live, info, blob)]
    if live.given_up:
        raise Fenced(f"the sandbox of container {live.container_id} was given up before its files were kept")
    put = [*(_record(live, info, blob, now) for info, blob in took), *figures]
    there = {info.name: live.known[info.name].record for info, _ in took if info.name in live.known}
    seen = Seen(version=live.version, files=there, sandbox=note)
    counted = live.uncounted
    # Of what is gone, that of which a newer one was put there meanwhile stays.
    change = Change(put=put, gone=gone, ran=live.running, cells=counted, at=now, hold=live.hold, seen=seen)
    if put:
        change = structs.replace(change, most=policy.bytes_per_owner)
    released = [*(record.blob for record in gone), *(record.blob for record in there.values())]
    try:
        made = await records.change_container(live.container_id, change)
    except StorageExceeded as error:  # others of its owner's were quicker
        left_out += [LeftOut(record.path, record.size, str(error)) for record in put]
        released = [*(record.blob for record in gone), *(record.blob for record in put)]
        took = []
        made = await records.change_container(live.container_id, structs.replace(change, put=(), most=None))
    assert made is not None, "it is made of whatever version there is"
    live.uncounted -= counted
    ours = bool(made.files or made.gone or live.running)
    if live.reach(made.version, ours=ours) and note is not None:
        live.noted = made.version
    for record in gone:
        del live.known[record.path]
    taken, shown = made.files[: len(took)], made.files[len(took) :]
    for (info, _), record in zip(took, taken, strict=True):
        live.note(record, info)
    live.running, live.unseen = False, lost and live.unseen
    return Collected([*taken], left_out, gone, [*shown], made.version, released)


def _recognise(live: Live, info: Found, blob: Blob) -> bool:
    """Whether a file whose look was not known has the content that is kept of it; then its look is known."""
    known = live.known.get(info.name)
    if known is None or known.size != _UNKNOWN or known.record.blob != blob.name:
        return False
    live.note(known.record, info)
    return True


def _is_known(live: Live, info: FileInfo) -> bool:
    known = live.known.get(info.name)
    return known is not None and (known.size, known.modified) == (info.size, info.modified)


def _choose(
    live: Live, changed: Sequence[Found], policy: Policy, left: int | None
) -> tuple[list[Found], list[LeftOut]]:
    """What may be kept by its size and number, and what not; `left` is what its owner may store yet."""
    chosen: list[Found] = []
    left_out: list[LeftOut] = []
    disk = live.spec.limits.disk
    largest = disk if policy.largest_file is None else policy.largest_file
    budget = disk if policy.max_bytes is None else policy.max_bytes
    for info in changed:
        known = live.known.get(info.name)
        more = info.size if known is None else info.size - known.record.size
        if not _is_utf8(info.name):
            why = "its name is not UTF-8"
        elif len(chosen) == policy.max_files:
            why = f"{policy.max_files} files of one cell are kept at most"
        elif info.size > largest:
            why = f"one file may have {explain.size(largest)}"
        elif info.size > budget:
            why = f"of this cell's files, only {explain.size(budget)} more are kept"
        elif left is not None and more > max(left, 0):
            why = f"{explain.size(max(left, 0))} are left of what this key may store (quota_bytes)"
        else:
            budget -= info.size
            left = None if left is None else left - more
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
    live: Live, chosen: Sequence[Found], blobs: Blobs, policy: Policy
) -> list[Blob | LeftOut | OperatorError | None]:
    """Their bytes, a few files at a time: most of it is waiting for threads. None for what is gone again already."""
    turns = asyncio.Semaphore(_AT_ONCE)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + policy.collect_timeout

    async def take(info: Found) -> Blob | LeftOut | OperatorError | None:
        async with turns:
            if loop.time() >= deadline:
                return LeftOut(info.name, info.size, f"keeping the others took {policy.collect_timeout:g} s")
            try:
                return await _take(live.sandbox.files, info, blobs)
            except NotFound:
                return None
            except OperatorError as error:
                return error
            except BelljarError as error:
                return LeftOut(info.name, info.size, str(error))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(take(info)) for info in chosen]
    return [task.result() for task in tasks]


async def _take(workspace: Workspace, info: Found, blobs: Blobs) -> Blob:
    """As many of its bytes as were counted: a file may grow while it is read."""
    left = info.size
    async with blobs.write() as writer:
        async with aclosing(cast(AsyncGenerator[bytes, None], workspace.stream(info.name))) as chunks:
            async for chunk in chunks:
                await writer.write(chunk[:left])
                left -= len(chunk)
                if left <= 0:
                    break
        return await writer.finish()


def _record(live: Live, info: Found, blob: Blob, now: int) -> ContainerFileRecord:
    return ContainerFileRecord(
        id=ids.new("cfile"),
        container_id=live.container_id,
        path=info.name,
        created_at=now,
        size=blob.size,
        modified=info.modified,
        source="assistant",
        blob=blob.name,
        type=info.type,
    )
