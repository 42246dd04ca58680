"""/belljar/project: the page's way to the operator's project: browse it, attach from it, save into it when asked."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from belljar.errors import InvalidRequest, WorkspaceError
from belljar.files import approval
from belljar.files.approval import Proposal
from belljar.files.project import Entry, Project
from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, spool
from belljar.gateway.server import objects, uploads
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.page_bodies import (
    AttachBody,
    ProjectEntry,
    ProjectListing,
    ProposeBody,
    SaveBody,
    SavedFile,
    SavedFiles,
    ShownProposal,
    ShownProposals,
)
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.server.routes.container_downloads import DownloadRoutes, NamedFile, choose_files
from belljar.gateway.store.base import Blobs
from belljar.http_server import filenames
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Operation, Parameter, Route, json_of
from belljar.sandbox.mime import guess_type
from belljar.visible import visible
from belljar.wire.codec import encode
from belljar.wire.conversion import fit
from belljar.wire.files import File

_MOST = 2000
"""Entries of a directory that are listed."""
_PIECE = 1 << 20
_Body = TypeVar("_Body", bound=msgspec.Struct)


_BROWSE = Operation(
    "A directory of the project",
    json_of(ProjectListing),
    query=(Parameter("path", str, "The directory."), Parameter("hidden", bool, "With what begins with a dot.")),
)


class ProjectRoutes:
    """Every key of the gateway sees the same project: who sets it, shares it."""

    def __init__(
        self,
        root: Path,
        services: ServerServices,
        quotas: Quotas,
        options: ServerOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._project = Project(root)
        self._downloads = DownloadRoutes(services)
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
                Operation("Upload a file of the project", json_of(File), json_of(AttachBody)),
            ),
            Route(
                "POST",
                "/belljar/project/propose",
                self.propose,
                Operation("What would be saved where", json_of(ShownProposals), json_of(ProposeBody)),
            ),
            Route(
                "POST",
                "/belljar/project/save",
                self.save,
                Operation("Save what was approved", json_of(SavedFiles), json_of(SaveBody)),
            ),
        ]

    async def browse(self, request: Request) -> Answer:
        """`?path=` names the directory, `?hidden=true` shows what begins with a dot."""
        path = request.query.get("path") or ""
        with _report_refusals(path):
            found = await asyncio.to_thread(self._project.entries, path, hidden=request.query.flag("hidden"))
        entries = tuple(_describe_entry(path, one) for one in found[:_MOST])
        return Reply(200, encode(ProjectListing(path=path, entries=entries, left_out=max(0, len(found) - _MOST))))

    async def attach(self, request: Request) -> Answer:
        """A file of the project becomes an uploaded file, as if the browser had sent it."""
        body, owner = await self._read_body(request, AttachBody), request.caller.owner
        path = body.path
        limit = await uploads.SizeLimit.of(self._quotas, owner, self._options.largest_upload)
        with _report_refusals(path), await asyncio.to_thread(self._project.open_file, path) as file:
            limit.check(os.fstat(file.fileno()).st_size)
            blob = await self._blobs.adopt(_read_pieces(file, limit))
        name = filenames.filename(path, param="path")
        record = await uploads.store_file(
            self._records,
            self._blobs,
            self._quotas,
            blob,
            owner=owner,
            filename=name,
            purpose="user_data",
            type=guess_type(name),
            now=int(self._clock()),
        )
        return Reply(200, encode(objects.build_file(record)))

    async def propose(self, request: Request) -> Answer:
        """What would be saved where. `rename` gives some of them other places; nothing is written."""
        body = await self._read_body(request, ProposeBody)
        files = await self._find_outputs(body.container_id, body.file_ids, request.caller.owner)
        with _report_refusals("rename"):
            shown = await asyncio.to_thread(self._propose, body, files)
        return Reply(200, encode(ShownProposals(project=str(self._project.root), proposals=shown)))

    async def save(self, request: Request) -> Answer:
        """Write what was approved: as it was shown, or not at all."""
        body = await self._read_body(request, SaveBody)
        files = await self._find_outputs(body.container_id, body.file_ids, request.caller.owner)
        with _report_refusals("save"):
            saved = await asyncio.to_thread(self._save, body, files)
        root = self._project.root
        told = [
            SavedFile(name=visible(one.name), path=str(one.path.relative_to(root)), overwrote=one.overwrote)
            for one in saved
        ]
        return Reply(200, encode(SavedFiles(saved=tuple(told))))

    async def _read_body(self, request: Request, kind: type[_Body]) -> _Body:
        return await request.json(self._options.largest_body, lambda body: fit(body, kind, ""))

    def _propose(self, body: ProposeBody, files: Sequence[_Output]) -> tuple[ShownProposal, ...]:
        proposals = self._make_proposals(files, {one.number: one.destination for one in body.rename})
        shown: list[ShownProposal] = []
        for told, file, one in zip(approval.proposals_as_json(proposals), files, proposals, strict=True):
            seen = None if one.state is None else self._hash_shown(file, one.destination)
            shown.append(msgspec.convert({**told, "seen": seen}, ShownProposal))
        return tuple(shown)

    def _save(self, body: SaveBody, files: Sequence[_Output]) -> list[approval.Saved]:
        places = {one.number: one.destination for one in body.save if isinstance(one.destination, str)}
        proposals = self._make_proposals(files, places)
        approved = approval.approval_from_json({"save": list(map(msgspec.to_builtins, body.save))}, proposals)
        approval.check(proposals, approved, self._project)
        for one in body.save:
            place = approved.chosen[one.number]
            if one.seen != self._hash_shown(files[one.number - 1], place):
                raise InvalidRequest(
                    f"{place!r} or what would be saved there has changed since you were asked. Look at it again.",
                    param="save",
                    fault="changed",
                )
        return approval.save(proposals, approved, self._project)

    async def _find_outputs(self, container_id: str, file_ids: Sequence[str], owner: str) -> list[_Output]:
        files = choose_files(await self._downloads.list_files(container_id, owner), file_ids)
        fetcher = _Fetcher(self._blobs, asyncio.get_running_loop())
        return [_Output(one.record.blob, fetcher.make_output(one)) for one in files]

    def _make_proposals(self, files: Sequence[_Output], places: dict[int, str]) -> list[Proposal]:
        proposals = approval.propose([one.file for one in files], self._project)
        for number, place in places.items():
            if 1 <= number <= len(proposals) and proposals[number - 1].destination != place:
                proposals = approval.rename_proposal(proposals, number, place, self._project)
        return proposals

    def _hash_shown(self, file: _Output, destination: str) -> str:
        """Stands for what was shown: this content, for this place, in place of what is there."""
        told = "\0".join((file.blob, destination, self._project.stamp(destination)))
        return hashlib.sha256(told.encode()).hexdigest()


class _Output(NamedTuple):
    """A file that code made, and the digest of its content."""

    blob: str
    file: CodeExecutionOutputFile


class _Fetcher:
    """Blobs are the event loop's, and proposals are made in threads: this hands the bytes over, piece by piece."""

    def __init__(self, blobs: Blobs, loop: asyncio.AbstractEventLoop) -> None:
        self._blobs = blobs
        self._loop = loop

    def make_output(self, file: NamedFile) -> CodeExecutionOutputFile:
        record = file.record

        def download() -> FileDownloadResult:
            return FileDownloadResult(file.name, record.type, self._fetch(record.blob))

        return CodeExecutionOutputFile(
            file_id=record.id, filename=file.name, size=record.size, mime_type=record.type, download=download
        )

    def _fetch(self, blob: str) -> BinaryIO:
        chunks, target = self._blobs.stream(blob), spool()

        async def read_next() -> bytes:
            return await anext(chunks, b"")

        while piece := asyncio.run_coroutine_threadsafe(read_next(), self._loop).result():
            target.write(piece)
        return target


def _describe_entry(directory: str, entry: Entry) -> ProjectEntry:
    return ProjectEntry(
        name=entry.name,
        path=f"{directory}/{entry.name}" if directory else entry.name,
        kind=entry.kind,
        size=entry.size,
        modified=int(entry.modified),
        type=guess_type(entry.name) if entry.kind == "file" else None,
    )


async def _read_pieces(file: BinaryIO, limit: uploads.SizeLimit) -> AsyncIterator[bytes]:
    """The limit holds for a file that grows while it is read, too."""
    size = 0
    while piece := await asyncio.to_thread(file.read, _PIECE):
        size += len(piece)
        limit.check(size)
        yield piece


@contextmanager
def _report_refusals(path: str) -> Iterator[None]:
    """What the system refuses is told to the caller: they are his own files."""
    try:
        yield
    except WorkspaceError as error:
        raise InvalidRequest(str(error), param="path") from None
    except OSError as error:
        raise InvalidRequest(f"{path!r}: {error.strerror or error}; choose another", param="path") from None
