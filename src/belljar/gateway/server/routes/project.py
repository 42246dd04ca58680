"""/belljar/project: the page's way to the operator's project: browse it, attach from it, save into it when asked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from belljar.errors import InvalidRequest, WorkspaceError
from belljar.files import approval
from belljar.files.approval import Proposal
from belljar.files.project import Entry, Project
from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, spool
from belljar.gateway.server import objects, uploads
from belljar.gateway.server.interfaces import Services
from belljar.gateway.server.options import Options
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes.container_downloads import Named, Produced, chosen
from belljar.gateway.store.base import Blobs, FileRecord
from belljar.http_server import filenames
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Operation, Parameter, Route, json_of
from belljar.sandbox.mime import guess_type
from belljar.visible import visible
from belljar.wire import error_messages, ids
from belljar.wire.codec import encode
from belljar.wire.files import File
from belljar.wire.items import Json

_MOST = 2000
"""Entries of a directory that are listed."""
_MOST_FILES = 1000
_PIECE = 1 << 20


_BROWSE = Operation(
    "A directory of the project",
    json_of(dict),
    query=(Parameter("path", str, "The directory."), Parameter("hidden", bool, "With what begins with a dot.")),
)


class ProjectRoutes:
    """Every key of the gateway sees the same project: who sets it, shares it."""

    def __init__(
        self,
        root: Path,
        services: Services,
        quotas: Quotas,
        options: Options,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._project = Project(root)
        self._produced = Produced(services)
        self._records = services.records
        self._blobs = services.blobs
        self._quotas = quotas
        self._options = options
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/belljar/project", self.browse, _BROWSE),
            Route(
                "POST",
                "/belljar/project/attach",
                self.attach,
                Operation("Upload a file of the project", json_of(File), json_of(dict)),
            ),
            Route(
                "POST",
                "/belljar/project/propose",
                self.propose,
                Operation("What would be saved where", json_of(dict), json_of(dict)),
            ),
            Route(
                "POST",
                "/belljar/project/save",
                self.save,
                Operation("Save what was approved", json_of(dict), json_of(dict)),
            ),
        ]

    async def browse(self, request: Request) -> Answer:
        """`?path=` names the directory, `?hidden=true` shows what begins with a dot."""
        path = request.query.get("path") or ""
        with _told(path):
            found = await asyncio.to_thread(self._project.entries, path, hidden=request.query.flag("hidden"))
        entries = [_shown(path, one) for one in found[:_MOST]]
        return Reply(200, encode({"path": path, "entries": entries, "left_out": max(0, len(found) - _MOST)}))

    async def attach(self, request: Request) -> Answer:
        """A file of the project becomes an uploaded file, as if the browser had sent it."""
        body, owner = await request.json(self._options.largest_body), request.caller.owner
        path = _text(body, "path")
        room = await uploads.Room.of(self._quotas, owner, self._options.largest_upload)
        with _told(path), await asyncio.to_thread(self._project.open_file, path) as file:
            room.check(os.fstat(file.fileno()).st_size)
            blob = await self._blobs.adopt(_pieces(file, room))
        name = filenames.filename(path, param="path")
        record = FileRecord(
            id=ids.new("file"),
            owner=owner,
            filename=name,
            purpose="user_data",
            created_at=int(self._clock()),
            size=blob.size,
            blob=blob.name,
            type=guess_type(name),
        )
        await self._records.put_file(record)
        return Reply(200, encode(objects.file(record)))

    async def propose(self, request: Request) -> Answer:
        """What would be saved where. `rename` gives some of them other places; nothing is written."""
        body = await request.json(self._options.largest_body)
        files = await self._files(body, request.caller.owner)
        with _told("rename"):
            shown = await asyncio.to_thread(self._propose, body, files)
        return Reply(200, encode({"project": str(self._project.root), "proposals": shown}))

    async def save(self, request: Request) -> Answer:
        """Write what was approved: as it was shown, or not at all."""
        body = await request.json(self._options.largest_body)
        files = await self._files(body, request.caller.owner)
        with _told("save"):
            saved = await asyncio.to_thread(self._save, body, files)
        told = [
            {
                "name": visible(one.name),
                "path": str(one.path.relative_to(self._project.root)),
                "overwrote": one.overwrote,
            }
            for one in saved
        ]
        return Reply(200, encode({"saved": told}))

    def _propose(self, body: dict[str, Json], files: Sequence[_Output]) -> list[dict[str, Any]]:
        proposals = self._look(files, _places(body, "rename"))
        shown = approval.proposals_as_json(proposals)
        for one, file, proposal in zip(shown, files, proposals, strict=True):
            one["seen"] = None if proposal.state is None else self._seen(file, proposal.destination)
        return shown

    def _save(self, body: dict[str, Json], files: Sequence[_Output]) -> list[approval.Saved]:
        proposals = self._look(files, _places(body, "save"))
        approved = approval.approval_from_json(body, proposals)
        approval.check(proposals, approved, self._project)
        for one in cast(list[dict[str, Json]], body["save"]):
            number = one["number"]
            if one.get("seen") != self._seen(files[number - 1], approved.chosen[number]):
                raise InvalidRequest(
                    f"{approved.chosen[number]!r} or what would be saved there has changed since you were asked. "
                    "Look at it again.",
                    param="save",
                    fault="changed",
                )
        return approval.save(proposals, approved, self._project)

    async def _files(self, body: dict[str, Json], owner: str) -> list[_Output]:
        wanted = body.get("file_ids")
        if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
            raise error_messages.wrong_type("file_ids", ["a list of texts"], wanted)
        if len(wanted) > _MOST_FILES:
            raise InvalidRequest(f"file_ids: more than {_MOST_FILES} at once. Save them in parts.", param="file_ids")
        files = chosen(await self._produced.of(_text(body, "container_id"), owner), wanted)
        fetched = _Fetching(self._blobs, asyncio.get_running_loop())
        return [_Output(one.record.blob, fetched.output(one)) for one in files]

    def _look(self, files: Sequence[_Output], places: dict[int, str]) -> list[Proposal]:
        proposals = approval.propose([one.file for one in files], self._project)
        for number, place in places.items():
            if 1 <= number <= len(proposals) and proposals[number - 1].destination != place:
                proposals = approval.renamed(proposals, number, place, self._project)
        return proposals

    def _seen(self, file: _Output, destination: str) -> str:
        """Stands for what was shown: this content, for this place, in place of what is there."""
        told = "\0".join((file.blob, destination, self._project.stamp(destination)))
        return hashlib.sha256(told.encode()).hexdigest()


class _Output(NamedTuple):
    """A file that code made, and the digest of its content."""

    blob: str
    file: CodeExecutionOutputFile


class _Fetching:
    """Blobs are the event loop's, and proposals are made in threads: this hands the bytes over, piece by piece."""

    def __init__(self, blobs: Blobs, loop: asyncio.AbstractEventLoop) -> None:
        self._blobs = blobs
        self._loop = loop

    def output(self, file: Named) -> CodeExecutionOutputFile:
        record = file.record

        def download() -> FileDownloadResult:
            return FileDownloadResult(file.name, record.type, self._fetched(record.blob))

        return CodeExecutionOutputFile(
            file_id=record.id, filename=file.name, size=record.size, mime_type=record.type, download=download
        )

    def _fetched(self, blob: str) -> BinaryIO:
        chunks, target = self._blobs.stream(blob), spool()

        async def following() -> bytes:
            return await anext(chunks, b"")

        while piece := asyncio.run_coroutine_threadsafe(following(), self._loop).result():
            target.write(piece)
        return target


def _shown(directory: str, entry: Entry) -> dict[str, object]:
    return {
        "name": entry.name,
        "path": f"{directory}/{entry.name}" if directory else entry.name,
        "kind": entry.kind,
        "size": entry.size,
        "modified": int(entry.modified),
        "type": guess_type(entry.name) if entry.kind == "file" else None,
    }


async def _pieces(file: BinaryIO, room: uploads.Room) -> AsyncIterator[bytes]:
    """The limit holds for a file that grows while it is read, too."""
    size = 0
    while piece := await asyncio.to_thread(file.read, _PIECE):
        size += len(piece)
        room.check(size)
        yield piece


def _text(body: dict[str, Json], name: str) -> str:
    if name not in body:
        raise error_messages.missing(name)
    if not isinstance(body[name], str):
        raise error_messages.wrong_type(name, ["a string"], body[name])
    return cast(str, body[name])


def _places(body: dict[str, Json], name: str) -> dict[int, str]:
    """Numbers and the places that are asked for; what is not well formed is told by `approval_from_json`."""
    given: Any = body.get(name)
    some = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {
        one["number"]: one["destination"]
        for one in some
        if type(one.get("number")) is int and isinstance(one.get("destination"), str)
    }


@contextmanager
def _told(path: str) -> Iterator[None]:
    """What the system refuses is told to the caller: they are his own files."""
    try:
        yield
    except WorkspaceError as error:
        raise InvalidRequest(str(error), param="path") from None
    except OSError as error:
        raise InvalidRequest(f"{path!r}: {error.strerror or error}; choose another", param="path") from None
