"""A model server that speaks one of our dialects, as a `Model`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from urllib.parse import quote

from msgspec import structs

from belljar.config import Upstream
from belljar.errors import ProviderError
from belljar.gateway.upstream import loop_guard
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.http_response import ConnectionFailed, HttpResponse
from belljar.gateway.upstream.transport import Transport, read_whole
from belljar.vendors.chat import tools_in_prompt
from belljar.vendors.deltas import Delta, UsageDelta
from belljar.vendors.request import ModelRequest

_MODEL = "{model}"
"""In the path of a dialect: where the model's name belongs."""
_LEAST_TOKENS = 3
"""No chat template makes fewer of anything: a server that says so does not count."""


class DialectModel:
    """Any model of one upstream: the request names which."""

    def __init__(self, upstream: Upstream, transport: Transport) -> None:
        self._may_lack_tools = upstream.dialect == "chat"
        self.endpoint = Endpoint(upstream)
        self.list_url = self.endpoint.url(self.endpoint.dialect.list_path)
        self._url = self.endpoint.url(self.endpoint.dialect.path)
        self._transport = transport
        self._deaf: dict[str, bool] = {}
        """Models that are known to be given tools by this server, or not to be."""
        self._trying = asyncio.Lock()
        transport.prepare(self.list_url)

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """One turn. Closing the generator closes the connection, so that the model stops."""
        if self._may_lack_tools and await self._is_deaf(request):
            request = structs.replace(request, in_words=True)
        endpoint, dialect = self.endpoint, self.endpoint.dialect
        try:
            answer = await self._post(request, dialect.encode(request))
        except _NoTools:
            self._deaf[request.model] = True
            request = structs.replace(request, in_words=True)
            answer = await self._post(request, dialect.encode(request))
        decoder = dialect.decoder(request)
        while True:
            try:
                while data := await answer.read():
                    if batch := decoder.feed(data):
                        yield batch
                if batch := decoder.close():
                    yield batch
            except ConnectionFailed as broken:
                raise endpoint.build_unreachable(broken) from None
            except ProviderError as error:
                endpoint.explain(error)
                raise
            finally:
                answer.close()
            body = decoder.resume()
            if body is None:
                return
            answer = await self._post(request, body)

    async def _post(self, request: ModelRequest, body: bytes) -> HttpResponse:
        """The answer, once its head is there; `_NoTools` where the server refuses the tools that are declared."""
        endpoint, url = self.endpoint, self._url
        if _MODEL in url:
            url = url.replace(_MODEL, quote(request.model, safe=""))
        by_protocol = bool(self._may_lack_tools and request.tools and not request.in_words)

        def meaning(status: int, headers: Mapping[str, str], said: bytes) -> Exception:
            if by_protocol and tools_in_prompt.refuses_tools(status, said):
                return _NoTools()
            error = endpoint.dialect.fault(status, headers, said)
            endpoint.explain(error, status)
            return error

        headers = loop_guard.add_hops(endpoint.headers, request.hops)
        try:
            return await self._transport.post(url, headers, body, timeout=endpoint.timeout, meaning=meaning)
        except ConnectionFailed as broken:
            raise endpoint.build_unreachable(broken) from None

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
        endpoint, dialect = self.endpoint, self.endpoint.dialect
        answer = await self._post(trial, dialect.encode(trial))
        try:
            said = await read_whole(answer)
        except ConnectionFailed as broken:
            raise endpoint.build_unreachable(broken) from None
        decoder = dialect.decoder(trial)
        counted = (delta.usage for delta in (*decoder.feed(said), *decoder.close()) if isinstance(delta, UsageDelta))
        return next((usage.input_tokens for usage in counted), 0)


class _NoTools(Exception):
    """The server refuses to give this model tools."""
