"""A model server that speaks one of our dialects, as a `Model`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Protocol
from urllib.parse import quote

from belljar.config import Upstream
from belljar.dialects import anthropic, chat, gemini, openai, xai
from belljar.dialects.deltas import Decoder, Delta, ModelRequest
from belljar.dialects.premises import Premises
from belljar.dialects.quirks import Quirks
from belljar.errors import BadSettings, ProviderError
from belljar.gateway.upstream import itself
from belljar.gateway.upstream.answers import Answer, Broken
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.transport import Transport, whole

_FAULT_BYTES = 64 * 1024


class Dialect(Protocol):
    """A vendor's wire: where it is spoken, and its pure translation. A module of `belljar.dialects` is one."""

    LIST: str
    """Where its models are listed."""
    PATH: str
    """Where it is asked; `{model}` stands for the name of the model."""
    PREMISES: Premises | None
    """The sandbox in which it runs code itself, where it does."""

    def headers(self, key: str | None, base_url: str, quirks: Quirks, /) -> Mapping[str, str]:
        """What goes with every request beside what all wires have: how the key is shown, which version is spoken."""
        ...

    def encode(self, request: ModelRequest, quirks: Quirks, /) -> bytes: ...

    def decoder(self, request: ModelRequest, quirks: Quirks, upstream: str, /) -> Decoder: ...

    def fault(self, status: int, headers: Mapping[str, str], body: bytes, upstream: str, /) -> ProviderError: ...


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {"chat": chat, "openai": openai, "anthropic": anthropic, "gemini": gemini, "xai": xai}
)


class DialectModel:
    """Any model of one upstream: the request names which."""

    def __init__(self, upstream: Upstream, transport: Transport) -> None:
        if upstream.dialect not in DIALECTS:
            raise BadSettings(
                f"upstreams.{upstream.name}.dialect: {upstream.dialect!r} is none of {', '.join(DIALECTS)}; change it"
            )
        self._dialect = DIALECTS[upstream.dialect]
        self.endpoint = Endpoint(upstream, self._dialect.headers)
        self.list_url = self.endpoint.url(self._dialect.LIST)
        self._transport = transport
        transport.prepare(self.list_url)

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn. Closing the generator closes the connection, so that the model stops."""
        endpoint, dialect = self.endpoint, self._dialect
        body: bytes | None = dialect.encode(request, endpoint.quirks)
        decoder = dialect.decoder(request, endpoint.quirks, endpoint.name)
        url = endpoint.url(dialect.PATH.replace("{model}", quote(request.model, safe="")))
        headers = itself.passed_on(endpoint.headers, request.hops)
        answer: Answer | None = None
        try:
            while body is not None:
                answer = await self._transport.post(url, headers, body, timeout=endpoint.timeout)
                if answer.status != 200:
                    said = await whole(answer, _FAULT_BYTES)
                    raise dialect.fault(answer.status, answer.headers, said, endpoint.name)
                while data := await answer.read():
                    if batch := decoder.feed(data):
                        yield batch
                if batch := decoder.close():
                    yield batch
                body = decoder.resume()
        except Broken as broken:
            raise endpoint.unreachable(broken) from None
        except ProviderError as error:
            endpoint.hush(error)
            raise
        finally:
            if answer is not None:
                answer.close()
