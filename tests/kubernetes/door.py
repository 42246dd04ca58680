"""A door before an API server that does what networks and busy servers do: refuse, drop, lose answers, cut watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

from belljar.sandbox.kubernetes.access import ClusterAccess


@dataclass
class Fault:
    """What is done to the next `times` requests with this method; for a watch, the method is WATCH."""

    method: str
    status: int = 0
    """Answered in place of the server; 0 for a connection that is closed."""
    forwarded: bool = False
    """The server hears of it all the same: only the answer is lost."""
    body: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    event: Mapping[str, object] | None = None
    """For a watch: said in place of all else, and then it ends."""
    times: int = 1


class Door:
    """Passes everything on to `access`, but for what `faults` say. `asked` are the methods, in order."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self.faults: list[Fault] = []
        self.asked: list[str] = []
        self._watches: set[asyncio.Transport] = set()

    @property
    def access(self) -> ClusterAccess:
        """How the server is reached by this door."""
        return ClusterAccess(f"http://127.0.0.1:{self._port}")

    def cut_watches(self) -> None:
        for one in self._watches:
            one.abort()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Door]:
        self._session = aiohttp.ClientSession(auto_decompress=False)
        runner = web.ServerRunner(web.Server(self._handle, handler_cancellation=True), shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self._port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()
            await self._session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        watching = request.query.get("watch") == "1"
        method = "WATCH" if watching else request.method
        self.asked.append(method)
        fault = next((one for one in self.faults if one.method == method and one.times > 0), None)
        if fault is not None:
            fault.times -= 1
            if fault.forwarded:
                await self._pass_on(request, None)
            return await self._fail(request, fault)
        response = web.StreamResponse()
        transport = request.transport
        if watching and transport is not None:
            self._watches.add(transport)
        try:
            await self._pass_on(request, response)
        finally:
            self._watches.discard(transport)
        return response

    async def _fail(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        if fault.event is not None:
            return web.Response(body=json.dumps(fault.event).encode() + b"\n")
        if fault.status:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        assert request.transport is not None
        request.transport.abort()
        await asyncio.sleep(0)
        raise ConnectionResetError

    async def _pass_on(self, request: web.BaseRequest, response: web.StreamResponse | None) -> None:
        kept = ("Content-Type", "Accept")
        headers = {**self._access.headers(), **{one: request.headers[one] for one in kept if one in request.headers}}
        try:
            answer = await self._session.request(
                request.method,
                URL(self._access.url + request.path_qs, encoded=True),
                data=await request.read(),
                headers=headers,
                ssl=self._access.tls or True,
            )
        except aiohttp.ClientError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from None
        async with answer:
            if response is None:
                await answer.read()
                return
            response.set_status(answer.status)
            for name in ("Content-Type", "Date", "Retry-After"):
                if name in answer.headers:
                    response.headers[name] = answer.headers[name]
            await response.prepare(request)
            try:
                async for data in answer.content.iter_any():
                    await response.write(data)
            except aiohttp.ClientError:
                if request.transport is not None:
                    request.transport.abort()
                raise ConnectionResetError from None
            await response.write_eof()
