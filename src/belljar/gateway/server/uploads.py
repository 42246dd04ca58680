"""Uploads: a form's file, or a body that is one, goes into a blob as it comes in, never whole in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

from belljar.errors import InvalidRequest, TooLarge
from belljar.gateway.server.quota import Quotas
from belljar.gateway.store.base import Blob, Blobs, BlobWriter, FileRecord, Records, storage_exceeded
from belljar.http_server import filenames
from belljar.http_server.body_reader import CutOff, Rest, Stalled
from belljar.http_server.multipart import FormReader, PartBegun, PartEnded, Piece
from belljar.http_server.request import Gone, Request
from belljar.wire import error_messages, ids

_LARGEST_FIELD = 1 << 16
_MOST_FIELDS = 32
_FRAME = 1 << 16
"""What a form may need beside its file: boundaries, headers, small fields."""


class IncomingFile:
    """A file: all of it has come, none of it is kept before `keep`."""

    def __init__(self, filename: str, type: str, writer: BlobWriter) -> None:
        self.filename = filename
        self.type = type
        self.size = 0
        self._writer = writer

    async def add(self, data: bytes) -> None:
        self.size += len(data)
        await self._writer.write(data)

    async def add_rest(self, rest: Rest) -> None:
        self.size += rest.size
        try:
            await self._writer.drain(rest.read)
        finally:
            rest.stop()

    async def keep(self) -> Blob:
        return await self._writer.finish()


class ReceivedForm:
    """What came: plain fields and at most one file."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.file: IncomingFile | None = None


class SizeLimit:
    """How large a file may be: by the server's limit and by what the owner's quota leaves."""

    def __init__(self, largest: int, left: int | None, most: int | None) -> None:
        """`left` is what is left of `most`."""
        self._largest = largest
        self._left = left
        self._most = most

    @classmethod
    async def of(cls, quotas: Quotas, owner: str, largest: int) -> SizeLimit:
        return cls(largest, await quotas.count_bytes_left(owner), quotas.bytes)

    def check(self, size: int) -> None:
        """Raise where this many bytes are too many."""
        if size > self._largest:
            raise TooLarge(
                f"The file is larger than {self._largest} bytes, the most that is accepted. Send a smaller one."
            )
        if self._left is not None and self._most is not None and size > self._left:
            raise storage_exceeded(self._most)


@asynccontextmanager
async def receive_form(request: Request, blobs: Blobs, limit: SizeLimit) -> AsyncIterator[ReceivedForm]:
    """The form of a request. Leaving without `keep`, or by an error, leaves nothing behind."""
    reader = FormReader(request.headers.get(b"content-type", b""))
    if request.length is not None:
        limit.check(request.length - _FRAME)
    form = ReceivedForm()
    async with AsyncExitStack() as stack:
        field, value = "", b""
        while data := await request.read():
            for event in reader.feed(data):
                match event:
                    case PartBegun(name, filename, kind) if filename is not None:
                        form.file = IncomingFile(
                            _check_filename(form, name, filename), kind, await stack.enter_async_context(blobs.write())
                        )
                        field = ""
                    case PartBegun(name):
                        field, value = _check_field(form, name), b""
                    case Piece(piece) if field:
                        value += piece
                        if len(value) > _LARGEST_FIELD:
                            raise error_messages.too_long(field, "string", _LARGEST_FIELD, len(value))
                    case Piece(piece) if form.file is not None:
                        await form.file.add(piece)
                        limit.check(form.file.size)
                    case PartEnded() if field:
                        form.fields[field] = _decode_field(field, value)
        reader.close()
        yield form


@asynccontextmanager
async def receive_body(request: Request, blobs: Blobs, limit: SizeLimit, filename: str) -> AsyncIterator[IncomingFile]:
    """The body of a request as a file. Leaving without `keep`, or by an error, leaves nothing behind."""
    if request.length is not None:
        limit.check(request.length)
    with ExitStack() as last:
        async with blobs.write() as writer:
            file = IncomingFile(filename, request.content_type.decode("latin-1"), writer)
            while data := await request.read():
                await file.add(data)
                limit.check(file.size)
                if (rest := request.take()) is not None:
                    last.callback(rest.close)
                    try:
                        await file.add_rest(rest)
                    except CutOff:
                        raise Gone from None
                    except Stalled:
                        raise request.stalled() from None
                    request.finished = True
            yield file


async def store_file(
    records: Records,
    blobs: Blobs,
    quotas: Quotas,
    blob: Blob,
    *,
    owner: str,
    filename: str,
    purpose: str,
    type: str,
    now: int,
    life: int | None = None,
) -> FileRecord:
    """Keep content that has come as a file of its owner's, for so many seconds where `life` says."""
    record = FileRecord(
        id=ids.new("file"),
        owner=owner,
        filename=filename,
        purpose=purpose,
        created_at=now,
        size=blob.size,
        blob=blob.name,
        type=type,
        expires_at=None if life is None else now + life,
    )
    await blobs.settle(blob.name)
    await records.add_file(record, quotas.bytes)
    return record


def _check_filename(form: ReceivedForm, field: str, filename: str) -> str:
    if field != "file":
        raise error_messages.unknown(field)
    if form.file is not None:
        raise InvalidRequest("The form holds more than one 'file'. Send them one by one.", param="file")
    return filenames.filename(filename)


def _check_field(form: ReceivedForm, name: str) -> str:
    if name == "file":
        raise InvalidRequest(
            "Invalid 'file': it has no filename, so it is not a file. Send it as a file part.",
            param="file",
            fault="invalid_type",
        )
    if len(form.fields) >= _MOST_FIELDS:
        raise InvalidRequest(f"The form has more than {_MOST_FIELDS} fields.")
    return name


def _decode_field(field: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"Invalid '{field}': not UTF-8.", param=field, fault="invalid_value") from None
