"""Files that are to be put into a container: where each goes, whether they fit, and how they are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from belljar.errors import InvalidRequest, TooLarge
from belljar.gateway.containers import names, workspace
from belljar.gateway.store.base import Blob, ContainerFileRecord, FileRecord
from belljar.sandbox import explain
from belljar.wire import ids


class Incoming(NamedTuple):
    """A file that is to be put at a path."""

    path: str
    blob: Blob
    type: str
    source: Literal["user", "assistant"] = "user"
    id: str | None = None


def find_places(
    container_id: str, there: Mapping[str, ContainerFileRecord], files: Sequence[FileRecord]
) -> tuple[list[str], list[Incoming]]:
    """Where each of these uploaded files is to be, and what of them is not there yet."""
    by_id = {record.id: record for record in there.values()}
    blobs = {path: record.blob for path, record in there.items()}
    paths: list[str] = []
    incoming: list[Incoming] = []
    for file in files:
        id = names.placed_id(container_id, file.id)
        if id in by_id:
            paths.append(by_id[id].path)
            continue
        path = names.checked(file.filename)
        if blobs.get(path, file.blob) != file.blob or names.clashing([*blobs, path]):
            path = names.checked(names.apart(path, file.id))
        paths.append(path)
        if path not in blobs:
            blobs[path] = file.blob
            incoming.append(Incoming(path, Blob(file.blob, file.size), file.type, id=id))
    return paths, incoming


def check_fit(there: Mapping[str, ContainerFileRecord], incoming: Sequence[Incoming], disk: int) -> None:
    """Beside those that are there, in a workspace that holds so much."""
    sizes = {record.path: record.size for record in there.values()} | {one.path: one.blob.size for one in incoming}
    if clash := names.clashing(sizes):
        raise InvalidRequest(
            f"file: {names.shown(clash)} would be a file and a directory at once; choose another name", param="file"
        )
    needed = workspace.room(sizes.values())
    if incoming and needed > disk:
        raise TooLarge(
            f"file: {names.shown(incoming[-1].path)} does not fit: the container's files would have "
            f"{explain.size(needed)} and its workspace holds {explain.size(disk)}; delete some, or use a "
            "container with a larger memory_limit"
        )


def make_records(container_id: str, incoming: Sequence[Incoming], now: float) -> list[ContainerFileRecord]:
    """As they are kept, each under an id of its own where it has none."""
    new = ids.several("cfile", len(incoming))
    return [_make_record(container_id, one, one.id or id, now) for one, id in zip(incoming, new, strict=True)]


def make_figure(container_id: str, shown: Incoming, now: float) -> ContainerFileRecord:
    """A picture as a file named by its id.

    It is in the store alone: in the workspace, code that takes every picture there would meet it.
    """
    id = ids.new("cfile")
    return _make_record(container_id, shown._replace(path=f"{id}.{shown.type.partition('/')[2]}"), id, now)


def _make_record(container_id: str, file: Incoming, id: str, now: float) -> ContainerFileRecord:
    return ContainerFileRecord(
        id=id,
        container_id=container_id,
        path=file.path,
        created_at=int(now),
        size=file.blob.size,
        modified=now,
        source=file.source,
        blob=file.blob.name,
        type=file.type,
    )
