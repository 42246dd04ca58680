"""Files of a provider's own sandbox: uploaded to the vendor for code that it runs, and opened where that made some."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from belljar.errors import Declined, Garbled, ProviderError
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.http_response import ConnectionFailed, HttpResponse
from belljar.gateway.upstream.multipart_form import MultipartForm
from belljar.gateway.upstream.origins import origin_of
from belljar.gateway.upstream.transport import Transport, read_whole
from belljar.vendors.hosted_sandbox import HostedSandbox
from belljar.vendors.request import HostedFile

_ABOUT_BYTES = 64 * 1024
_POLLS = 120
_PAUSE = 0.5
"""Seconds between two looks at a file that the vendor is still reading."""
_RELIED_ON = 60 * 60
"""Seconds that an upload is taken to be there: vendors keep one for longer, but somebody may delete it."""
_MOST_UPLOADS = 1_000
_T = TypeVar("_T", bound=Struct)


class OpenedFile(Struct, frozen=True):
    """A file whose bytes are coming in."""

    name: str
    """Empty where the vendor gave it none."""
    type: str
    chunks: AsyncIterator[bytes]
    path: str = ""
    """Where it lies in the vendor's container, if that is told: no other file lies there."""


class _ResumableFile(Struct, frozen=True):
    name: str = ""
    uri: str = ""
    state: str = ""


class _About(Struct, frozen=True):
    """What vendors say of a file; not all say all of it."""

    id: str = ""
    filename: str = ""
    mime_type: str = ""
    path: str = ""
    file: _ResumableFile = _ResumableFile()


class HostedFiles:
    """The files of one upstream. What goes wrong is a `ProviderError` that names it."""

    def __init__(self, endpoint: Endpoint, transport: Transport, clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._dialect = endpoint.dialect
        self._clock = clock
        self._uploads: OrderedDict[tuple[str, str, str], tuple[str, float]] = OrderedDict()
        """Ids at the vendor with when they are no longer relied on, by content, name and type."""

    @property
    def premises(self) -> HostedSandbox | None:
        return self._dialect.sandbox

    async def upload_once(self, content: str, name: str, type: str, chunks: AsyncIterator[bytes], size: int) -> str:
        """Upload what is likely to be named again, as a conversation does in each of its requests.

        `content` stands for the bytes: the same is uploaded again after a while only.
        """
        key = (content, name, type)
        id, until = self._uploads.get(key, ("", 0.0))
        if not id or until < self._clock():
            id = await self.upload(name, type, chunks, size)
            self._uploads[key] = id, self._clock() + _RELIED_ON
        self._uploads.move_to_end(key)
        if len(self._uploads) > _MOST_UPLOADS:
            self._uploads.popitem(last=False)
        return id

    async def upload(self, name: str, type: str, chunks: AsyncIterator[bytes], size: int) -> str:
        """Give the vendor a file for its code to read; the id that it has there. Never whole in memory."""
        premises = self.premises
        if premises is None or premises.upload is None:
            raise ProviderError(f"{self._endpoint.name} has no place to upload a file to")
        if premises.resumable:
            with self._explain_errors():
                return await self._upload_in_steps(premises.upload, name, type, chunks, size)
        form = MultipartForm.of(premises.fields, name=name, type=type)
        headers = {**self._endpoint.headers, "accept": "application/json", "content-type": form.type}
        with self._explain_errors():
            answer = await self._transport.upload(
                self._endpoint.url(premises.upload),
                headers,
                form.around(chunks),
                size=form.size(size),
                timeout=self._endpoint.timeout,
            )
            about = await self._read(await self._check_answer(answer))
        if not about.id:
            raise Garbled(f"{self._endpoint.name} took a file and gave no id for it")
        return about.id

    async def _upload_in_steps(self, path: str, name: str, type: str, chunks: AsyncIterator[bytes], size: int) -> str:
        """Announce the file, send it where the answer says, and wait until it can be used; its address."""
        endpoint, transport = self._endpoint, self._transport
        about = {"file": {"display_name": name, "mime_type": type, "size_bytes": size}}
        told = {
            "x-goog-upload-protocol": "resumable",
            "x-goog-upload-command": "start",
            "x-goog-upload-header-content-length": str(size),
            "x-goog-upload-header-content-type": type,
        }
        url, headers, wait = endpoint.beside(path), dict(endpoint.headers), endpoint.timeout
        begun = await transport.post(
            url, {**headers, **told}, msgspec.json.encode(about), timeout=wait, meaning=self._dialect.fault
        )
        begun.close()
        target = begun.headers.get("x-goog-upload-url", "")
        if origin_of(target) != origin_of(url):  # the key goes along
            raise Garbled(f"{endpoint.name} gave no address of its own to send a file to")
        told = {"x-goog-upload-command": "upload, finalize", "x-goog-upload-offset": "0"}
        sent = await transport.upload(target, {**headers, **told}, chunks, size=size, timeout=wait)
        file = (await self._read(await self._check_answer(sent))).file
        for _ in range(_POLLS):
            if file.state != "PROCESSING":
                break
            await asyncio.sleep(_PAUSE)
            answer = await self._get(endpoint.url(f"/{quote(file.name)}"))
            file = self._decode(await read_whole(answer, _ABOUT_BYTES), _ResumableFile)
        if file.state not in ("ACTIVE", "") or not file.uri:
            raise Declined(f"{endpoint.name}: it could not make use of the file {name!r}", param="file")
        return file.uri

    async def place(self, container_id: str, file_id: str) -> str:
        """Put an upload into a container of the vendor's that is there already; where it lies in it."""
        premises = self._dialect.sandbox
        if premises is None or premises.placing is None:
            raise ProviderError(f"{self._endpoint.name} has no containers that files can be put into")
        url = self._endpoint.url(premises.placing.replace("{container}", quote(container_id, safe="")))
        body = msgspec.json.encode({"file_id": file_id})
        with self._explain_errors():
            answer = await self._transport.post(
                url, self._endpoint.headers, body, timeout=self._endpoint.timeout, meaning=self._dialect.fault
            )
            return (await self._read(answer)).path

    @asynccontextmanager
    async def open(self, file: HostedFile) -> AsyncIterator[OpenedFile]:
        """The name, the type and the bytes of what code made, never whole in memory."""
        if file.data is not None:
            yield OpenedFile(file.name or "", file.type, _stream_inline(file.data))
            return
        premises = self._dialect.sandbox
        if file.id is None or premises is None or premises.file is None:
            raise ProviderError(f"{self._endpoint.name} made a file and gave no way to fetch it")
        path = premises.file.replace("{id}", quote(file.id, safe=""))
        url = self._endpoint.url(path.replace("{container}", quote(file.container_id, safe="")))
        with self._explain_errors():
            known = file.name and not file.container_id  # of a container's file only the name alone is cited
            about = _About() if known else await self._read(await self._get(url))
            answer = await self._get(f"{url}/content")
            try:
                name = file.name or about.filename or file.id
                yield OpenedFile(name, about.mime_type or file.type, _stream_answer(answer), about.path)
            finally:
                answer.close()

    async def _read(self, answer: HttpResponse) -> _About:
        return self._decode(await read_whole(answer, _ABOUT_BYTES), _About)

    def _decode(self, body: bytes, kind: type[_T]) -> _T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise Garbled(f"{self._endpoint.name} told of a file what cannot be read ({error})") from None

    async def _get(self, url: str) -> HttpResponse:
        headers = {**self._endpoint.headers, "accept": "*/*"}
        return await self._check_answer(await self._transport.open(url, headers, timeout=self._endpoint.timeout))

    async def _check_answer(self, answer: HttpResponse) -> HttpResponse:
        if answer.status not in (200, 201):
            said = await read_whole(answer, _ABOUT_BYTES)
            raise self._dialect.fault(answer.status, answer.headers, said)
        return answer

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except ConnectionFailed as broken:
            raise self._endpoint.build_unreachable(broken) from None
        except ProviderError as error:
            self._endpoint.explain(error)
            raise


async def _stream_inline(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _stream_answer(answer: HttpResponse) -> AsyncIterator[bytes]:
    while chunk := await answer.read():
        yield chunk
