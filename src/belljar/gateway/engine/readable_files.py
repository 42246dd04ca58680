"""Files that a model reads itself: sent along in its request, or uploaded to its vendor before."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator
from urllib.parse import unquote_to_bytes

from msgspec import UNSET, structs

from belljar.errors import InvalidRequest
from belljar.gateway.store.base import Blobs, FileRecord
from belljar.gateway.upstream.models import ModelRoute
from belljar.http_server.downloads import is_media_type
from belljar.sandbox.mime import guess_type
from belljar.vendors.file_reading import FileReading
from belljar.wire.items import InputFile

_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.ASCII)
_UNKNOWN = "application/octet-stream"


class ReadableFiles:
    """What one model is given to read; it says so where that cannot be."""

    def __init__(self, route: ModelRoute, reading: FileReading, blobs: Blobs, model: str) -> None:
        self._files = route.files
        self._reading = reading
        self._blobs = blobs
        self._model = model

    @classmethod
    def of(cls, route: ModelRoute, blobs: Blobs, model: str) -> ReadableFiles | None:
        """None for a model that reads none."""
        reading = route.traits.reading
        return None if reading is None else cls(route, reading, blobs, model)

    async def give_kept(self, part: InputFile, file: FileRecord, where: str) -> InputFile:
        """A file that was uploaded to us, as its vendor takes it."""
        kind = self._check(file.filename, file.type, file.size, where)
        if self._reading.uploaded:
            id = await self._upload(file.blob, file.filename, kind, self._blobs.stream(file.blob), file.size)
            return InputFile(file_id=id)
        url = data_url(kind, b"".join([chunk async for chunk in self._blobs.stream(file.blob)]))
        return structs.replace(part, file_id=UNSET, file_data=url, filename=file.filename)

    async def give_data(self, part: InputFile, sent: str, where: str) -> InputFile:
        """A file that came in the request, as its vendor takes it."""
        param = f"{where}.file_data"
        told, data = read_data_url(sent, param)
        name = part.filename if isinstance(part.filename, str) and part.filename else "file"
        kind = self._check(name, told, len(data), param)
        if self._reading.uploaded:
            id = await self._upload(hashlib.sha256(data).hexdigest(), name, kind, _once(data), len(data))
            return InputFile(file_id=id)
        return part if kind == told else structs.replace(part, file_data=data_url(kind, data))

    async def _upload(self, content: str, name: str, kind: str, chunks: AsyncIterator[bytes], size: int) -> str:
        assert self._files is not None, "who wants uploads has a place for them"
        return await self._files.upload_once(content, name, kind, chunks, size)

    def _check(self, name: str, told: str, size: int, param: str) -> str:
        """The type, by the name where that alone tells it."""
        reading = self._reading
        kind = told.partition(";")[0].strip()
        if kind in ("", _UNKNOWN):
            kind = guess_type(name)
        if not reading.reads(kind):
            raise InvalidRequest(
                f"Unsupported value: '{param}'. {name!r} is {kind}, and the model '{self._model}' reads only"
                f" {', '.join(one + '*' if one[-1] == '/' else one for one in reading.types)}. Add the code_interpreter"
                " tool and let code read it.",
                param=param,
                fault="unsupported_value",
            )
        check_size(name, size, reading.largest, param)
        return kind


def check_size(name: str, size: int, largest: int, param: str) -> None:
    if size > largest:
        raise InvalidRequest(
            f"Invalid value for '{param}': {name!r} has {size} bytes; {largest} are the most that go to a model. Add"
            " the code_interpreter tool and let code read it.",
            param=param,
            fault="file_too_large",
        )


def data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def read_data_url(url: str, param: str) -> tuple[str, bytes]:
    """The MIME type and the bytes; bare base64 is taken too, as some clients send it."""
    found = _DATA_URL.match(url)
    try:
        if found is None:
            return _UNKNOWN, base64.b64decode(url, validate=True)
        if found[1] and not is_media_type(found[1]):
            raise ValueError("no MIME type")
        if ";base64" in found[2]:
            return found[1] or "text/plain", base64.b64decode(url[found.end() :], validate=True)
        return found[1] or "text/plain", unquote_to_bytes(url[found.end() :])
    except (binascii.Error, ValueError):
        raise InvalidRequest(
            f"Invalid file data: '{param}'. Expected a base64-encoded data URL with a valid file, such as"
            " 'data:text/csv;base64,YSxiCg=='.",
            param=param,
            fault="invalid_value",
        ) from None


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
