"""Files that a provider's code made, opened: they came with the answer, or the vendor keeps them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

import msgspec
from msgspec import Struct

from belljar.dialects.deltas import HostedFile
from belljar.errors import Garbled, ProviderError
from belljar.gateway.upstream.adapter import Dialect
from belljar.gateway.upstream.answers import Answer, Broken
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.transport import Transport, whole

_ABOUT_BYTES = 64 * 1024


class Opened(Struct, frozen=True):
    """A file whose bytes are coming in."""

    name: str
    type: str
    chunks: AsyncIterator[bytes]


class _About(Struct, frozen=True):
    """What vendors say of a file; not all say all of it."""

    filename: str = ""
    mime_type: str = ""


class HostedFiles:
    """The files of one upstream."""

    def __init__(self, endpoint: Endpoint, transport: Transport, dialect: Dialect) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._dialect = dialect

    @asynccontextmanager
    async def open(self, file: HostedFile) -> AsyncIterator[Opened]:
        """Its name, its type and its bytes, never whole in memory. Raises a `ProviderError` that names the upstream."""
        if file.data is not None:
            yield Opened(file.name or "file", file.type, _inline(file.data))
            return
        if file.id is None or self._dialect.FILES is None:
            raise ProviderError(f"{self._endpoint.name} made a file and gave no way to fetch it")
        url = self._endpoint.url(self._dialect.FILES.replace("{id}", quote(file.id, safe="")))
        try:
            about = await self._about(url)
            answer = await self._get(f"{url}/content")
            try:
                name = file.name or about.filename or file.id
                yield Opened(name, about.mime_type or file.type, _streamed(answer))
            finally:
                answer.close()
        except Broken as broken:
            raise self._endpoint.unreachable(broken) from None
        except ProviderError as error:
            self._endpoint.hush(error)
            raise

    async def _about(self, url: str) -> _About:
        body = await whole(await self._get(url), _ABOUT_BYTES)
        try:
            return msgspec.json.decode(body, type=_About)
        except msgspec.DecodeError as error:
            raise Garbled(f"{self._endpoint.name} told of a file what cannot be read ({error})") from None

    async def _get(self, url: str) -> Answer:
        headers = {**self._endpoint.headers, "accept": "*/*"}
        answer = await self._transport.open(url, headers, timeout=self._endpoint.timeout)
        if answer.status != 200:
            said = await whole(answer, _ABOUT_BYTES)
            raise self._dialect.fault(answer.status, answer.headers, said, self._endpoint.name)
        return answer


async def _inline(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _streamed(answer: Answer) -> AsyncIterator[bytes]:
    while chunk := await answer.read():
        yield chunk
