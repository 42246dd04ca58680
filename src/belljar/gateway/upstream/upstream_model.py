"""A model server that speaks one of our dialects, as a `Model`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from urllib.parse import quote

from msgspec import structs

from belljar.config import Upstream
from belljar.errors import ProviderError
from belljar.gateway.upstream import loop_guard
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.http_response import ConnectionFailed, HttpResponse
from belljar.gateway.upstream.transport import Transport
from belljar.vendors.chat import tools_in_prompt
from belljar.vendors.deltas import Decoder, Delta, UsageDelta
from belljar.vendors.request import ModelRequest

_LEAST_TOKENS = 3
"""No chat template makes fewer of anything: a server that says so does not count."""


class DialectModel:
    """Any model of one upstream: the request names which."""

    def __init__(self, upstream: Upstream, transport: Transport) -> None:
        self._may_lack_tools = upstream.dialect == "chat"
        self.endpoint = Endpoint(upstream)
        self.list_url = self.endpoint.url(self.endpoint.dialect.list_path)
        self._transport = transport
        self._deaf: dict[str, bool] = {}
        """Models that are known to be given tools by this server, or not to be."""
        self._trying = asyncio.Lock()
        transport.prepare(self.list_url)

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn. Closing the generator closes the connection, so that the model stops."""
        if self._may_lack_tools and await self._is_deaf(request):
            request = structs.replace(request, in_words=True)
        try:
            async with aclosing(self._ask(request)) as answer:
                async for batch in answer:
                    yield batch
            return
        except _NoTools:
            self._deaf[request.model] = True
        async with aclosing(self._ask(structs.replace(request, in_words=True))) as answer:
            async for batch in answer:
                yield batch

    async def _ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        endpoint, dialect = self.endpoint, self.endpoint.dialect
        body: bytes | None = dialect.encode(request)
        decoder = dialect.decoder(request)
        url = endpoint.url(dialect.path.replace("{model}", quote(request.model, safe="")))
        headers = loop_guard.add_hops(endpoint.headers, request.hops)
        by_protocol = bool(self._may_lack_tools and request.tools and not request.in_words)

        def meaning(status: int, headers: Mapping[str, str], said: bytes) -> Exception:
            if by_protocol and tools_in_prompt.refuses_tools(status, said):
                return _NoTools()
            error = dialect.fault(status, headers, said)
            endpoint.explain(error, status)
            return error

        try:
            while body is not None:
                answer = await self._transport.post(url, headers, body, timeout=endpoint.timeout, meaning=meaning)
                async with aclosing(self._read(answer, decoder)) as batches:
                    async for batch in batches:
                        yield batch
                body = decoder.resume()
        except ConnectionFailed as broken:
            raise endpoint.build_unreachable(broken) from None

    async def _read(self, answer: HttpResponse, decoder: Decoder) -> AsyncGenerator[list[Delta], None]:
        try:
            while data := await answer.read():
                if batch := decoder.feed(data):
                    yield batch
            if batch := decoder.close():
                yield batch
        except ProviderError as error:
            self.endpoint.explain(error)
            raise
        finally:
            answer.close()

    # -- whether tools reach a model

    async def _is_deaf(self, request: ModelRequest) -> bool:
        """Whether it is known not to be given tools; tried out before the first that it would be."""
        model = request.model
        if self.endpoint.vendor.profile.drops_tools and request.tools and model not in self._deaf:
            async with self._trying:
                if model not in self._deaf:
                    await self._try(model)
        return self._deaf.get(model, False)

    async def _try(self, model: str) -> None:
        """What cannot be found out is left open: whoever asks is told what is wrong."""
        try:
            without, with_one = [await self._length(trial) for trial in tools_in_prompt.make_trials(model)]
        except _NoTools:
            self._deaf[model] = True
        except ProviderError:
            return
        else:
            self._deaf[model] = without == with_one > _LEAST_TOKENS

    async def _length(self, trial: ModelRequest) -> int:
        """Of the prompt as the model had it, in tokens; 0 where its server does not count."""
        spent = 0
        async with aclosing(self._ask(trial)) as answer:
            async for batch in answer:
                spent = next((delta.usage.input_tokens for delta in batch if isinstance(delta, UsageDelta)), spent)
        return spent


class _NoTools(Exception):
    """The server refuses to give this model tools."""
