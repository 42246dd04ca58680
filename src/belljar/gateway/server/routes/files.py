"""/v1/files: upload, list, fetch, delete."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import get_args

from belljar.errors import InvalidRequest, NotFound
from belljar.gateway.server import objects, uploads
from belljar.gateway.server.bodies import CONTENT, UploadForm, describe_page
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.quota import Quotas
from belljar.gateway.server.request import Request
from belljar.gateway.store.base import Blobs, FileRecord, Records
from belljar.http_server import downloads
from belljar.http_server.multipart import MULTIPART
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.routing import Content, Operation, Parameter, Route, json_of
from belljar.wire import error_messages
from belljar.wire.answers import Deleted, ListPage
from belljar.wire.codec import encode
from belljar.wire.files import File, Purpose

_PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
_ANCHOR, _SECONDS = "expires_after[anchor]", "expires_after[seconds]"
_FIELDS = {"purpose", _ANCHOR, _SECONDS}
_SHORTEST, _LONGEST = 3600, 2_592_000
_MOST = 10_000


_FORM = (Content(UploadForm, "multipart/form-data"),)
_LISTED = (*describe_page(_MOST), Parameter("purpose", str, "Only those of this purpose."))


class FileRoutes:
    def __init__(
        self,
        records: Records,
        blobs: Blobs,
        quotas: Quotas,
        options: ServerOptions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._blobs = blobs
        self._quotas = quotas
        self._options = options
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route("POST", "/v1/files", self.create, Operation("Upload one", json_of(File), _FORM)),
            Route("GET", "/v1/files", self.index, Operation("All of them", json_of(ListPage[File]), query=_LISTED)),
            Route("GET", "/v1/files/{id}", self.get, Operation("One of them", json_of(File))),
            Route("DELETE", "/v1/files/{id}", self.delete, Operation("Delete it", json_of(Deleted))),
            Route("GET", "/v1/files/{id}/content", self.send_content, CONTENT),
        ]

    async def create(self, request: Request) -> Answer:
        if request.content_type != MULTIPART:
            raise InvalidRequest("Send the file as 'multipart/form-data' with the parts 'purpose' and 'file'.")
        owner = request.caller.owner
        limit = await uploads.SizeLimit.of(self._quotas, owner, self._options.largest_upload)
        async with uploads.receive_form(request, self._blobs, limit) as form:
            purpose, life = _read_form(form.fields)
            if form.file is None:
                raise error_messages.missing("file")
            record = await uploads.store_file(
                self._records,
                self._blobs,
                self._quotas,
                await form.file.keep(),
                owner=owner,
                filename=form.file.filename,
                purpose=purpose,
                type=form.file.type,
                now=int(self._clock()),
                life=life,
            )
        return Reply(200, encode(objects.build_file(record)))

    async def index(self, request: Request) -> Answer:
        page = request.query.read_page(default=_MOST, most=_MOST)
        rows = await self._records.list_files(request.caller.owner, page, request.query.get("purpose"))
        return Reply(200, objects.encode_page(rows, page.limit, objects.build_file))

    async def get(self, request: Request) -> Answer:
        return Reply(200, encode(objects.build_file(await self._find(request))))

    async def delete(self, request: Request) -> Answer:
        record = await self._find(request)
        if not await self._records.delete_file(record.id, record.owner):
            raise _build_absent(record.id)
        await self._blobs.remove_unused(self._records, [record.blob])
        return Reply(200, objects.encode_deleted(record.id, "file"))

    async def send_content(self, request: Request) -> Answer:
        record = await self._find(request)
        download = downloads.Download(
            filename=record.filename,
            type=record.type,
            size=record.size,
            blob=record.blob,
            read=lambda start, stop: self._blobs.stream(record.blob, start=start, stop=stop),
        )
        return downloads.deliver(request, download)

    async def _find(self, request: Request) -> FileRecord:
        id = request.params["id"]
        record = await self._records.get_file(id, request.caller.owner)
        if record is None:
            raise _build_absent(id)
        return record


def _build_absent(id: str) -> NotFound:
    return NotFound(f"No such File object: {id}", param="id")


def _read_form(fields: dict[str, str]) -> tuple[str, int | None]:
    """The purpose, and the seconds until the file expires."""
    for name in fields:
        if name not in _FIELDS:
            raise error_messages.unknown(name)
    if "purpose" not in fields:
        raise error_messages.missing("purpose")
    if fields["purpose"] not in _PURPOSES:
        raise error_messages.not_one_of("purpose", fields["purpose"], _PURPOSES)
    if _ANCHOR not in fields and _SECONDS not in fields:
        return fields["purpose"], None
    if _ANCHOR not in fields or _SECONDS not in fields:
        raise error_messages.missing("expires_after.seconds" if _ANCHOR in fields else "expires_after.anchor")
    if fields[_ANCHOR] != "created_at":
        raise error_messages.not_one_of("expires_after.anchor", fields[_ANCHOR], ["created_at"])
    return fields["purpose"], _read_lifetime(fields[_SECONDS])


def _read_lifetime(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 15):
        raise error_messages.wrong_type("expires_after.seconds", ["an integer"], text)
    seconds = int(text)
    if seconds < _SHORTEST:
        raise error_messages.out_of_range("expires_after.seconds", seconds, _SHORTEST, decimal=False)
    if seconds > _LONGEST:
        raise error_messages.out_of_range("expires_after.seconds", seconds, _LONGEST, decimal=False)
    return seconds
