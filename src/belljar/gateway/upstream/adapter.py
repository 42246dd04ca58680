"""A model server that speaks one of our dialects, as a `Model`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Protocol

from belljar.config import Upstream
from belljar.dialects import chat, openai
from belljar.dialects.deltas import Decoder, Delta, ModelRequest
from belljar.dialects.quirks import Quirks
from belljar.errors import BadSettings, ProviderError
from belljar.gateway.upstream.answers import Answer, Broken
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.transport import Transport, whole

_FAULT_BYTES = 64 * 1024


class Dialect(Protocol):
    """A vendor's wire: where it is spoken, and its pure translation. A module of `belljar.dialects` is one."""

    PATH: str

    def encode(self, request: ModelRequest, quirks: Quirks, /) -> bytes: ...

    def decoder(self, request: ModelRequest, quirks: Quirks, upstream: str, /) -> Decoder: ...

    def fault(self, status: int, headers: Mapping[str, str], body: bytes, upstream: str, /) -> ProviderError: ...


DIALECTS: Mapping[str, Dialect] = MappingProxyType({"chat": chat, "openai": openai})


class DialectModel:
    """Any model of one upstream: the request names which."""

    def __init__(self, upstream: Upstream, transport: Transport) -> None:
        if upstream.dialect not in DIALECTS:
            raise BadSettings(
                f"upstreams.{upstream.name}.dialect: {upstream.dialect!r} is none of {', '.join(DIALECTS)}; change it"
            )
        self.endpoint = Endpoint(upstream)
        self._dialect = DIALECTS[upstream.dialect]
        self._url = self.endpoint.url(self._dialect.PATH)
        self._transport = transport
        transport.prepare(self._url)

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn. Closing the generator closes the connection, so that the model stops."""
        endpoint, dialect = self.endpoint, self._dialect
        body = dialect.encode(request, endpoint.quirks)
        answer: Answer | None = None
        try:
            answer = await self._transport.post(self._url, endpoint.headers, body, timeout=endpoint.timeout)
            if answer.status != 200:
                said = await whole(answer, _FAULT_BYTES)
                raise dialect.fault(answer.status, answer.headers, said, endpoint.name)
            decoder = dialect.decoder(request, endpoint.quirks, endpoint.name)
            while data := await answer.read():
                if batch := decoder.feed(data):
                    yield batch
            if batch := decoder.close():
                yield batch
        except Broken as broken:
            raise endpoint.unreachable(broken) from None
        except ProviderError as error:
            endpoint.hush(error)
            raise
        finally:
            if answer is not None:
                answer.close()
