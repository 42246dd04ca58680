"""The routes of the sandbox server: who may ask, for what, and every failure as JSON."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from aiohttp import web

from belljar.errors import BelljarError, InvalidRequest, Lost, NoneFree, NotFound, TooLarge
from belljar.sandbox.base import MIB
from belljar.sandbox.codec import read_cell, read_requirements, read_spec, refuse_unknown, tell_package
from belljar.sandbox.server import cells, files
from belljar.sandbox.server.activity import Running
from belljar.sandbox.server.auth import Guard
from belljar.sandbox.server.description import describe
from belljar.sandbox.server.execute import LARGEST_BODY, execute
from belljar.sandbox.server.health import Health
from belljar.sandbox.server.http import Handle, answer, expect, failure, nothing, read_json, read_whole
from belljar.sandbox.server.leases import Leases

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource

_LARGEST_CELL = 64 * MIB
"""Bytes of a request to run code: what 8 Mi characters of nearly all writing come to, escaped."""
_LARGEST_REQUEST = MIB
_STOPPING = "the sandbox server is stopping; ask another, or again later"
_log = logging.getLogger("belljar.sandbox.server")


class App:
    """Answers requests. Holds the sandboxes of its clients, not the jail that they are from."""

    def __init__(self, source: LocalSource, guard: Guard, health: Health, *, ping: float) -> None:
        self.health = health
        self.running = Running()
        self.leases = Leases(source, self.running, ping=ping)
        self._source = source
        self._guard = guard
        self._ping = ping

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. A client that leaves cancels this."""
        try:
            return await self._handle(request)
        except ConnectionError:  # the client's: there is nobody left to tell
            raise
        except BelljarError as error:
            if request.writer.output_size > 0:
                _log.warning("an answer broke off: %s", error)
                raise ConnectionError("the answer has begun") from error
            return failure(error)
        except Exception as error:
            _log.exception("a request failed")
            if request.writer.output_size > 0:
                raise ConnectionError("the answer has begun") from error
            return failure(BelljarError("the sandbox server failed; its log says how"))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._guard.check_browser(request.headers)
        path = request.raw_path.partition("?")[0]
        if path in ("/health", "/healthz"):
            methods: Mapping[str, Handle] = {"GET": self._health}
        else:
            self._guard.check_token(request.headers)
            methods = self._find(path)
        handler = methods.get(request.method)
        if handler is None:
            allowed = ", ".join(methods)
            wrong = InvalidRequest(f"method: {request.method[:80]!r} is not for {path[:80]!r}; use {allowed}")
            return failure(wrong, 405, {"Allow": allowed})
        await expect(request)
        return await handler(request)

    def _find(self, path: str) -> Mapping[str, Handle]:
        """What can be done with a path, by method."""
        match path.split("/", 5)[1:]:
            case ["execute"]:
                return {"POST": self._execute}
            case ["openapi.json"]:
                return {"GET": self._describe}
            case ["v1", "packages"]:
                return {"GET": self._packages}
            case ["v1", "sandboxes"]:
                return {"POST": self._make}
            case ["v1", "sandboxes", id]:
                return {"GET": partial(self._look, id), "DELETE": partial(self._drop, id)}
            case ["v1", "sandboxes", id, "cells"]:
                return {"POST": partial(self._run, id)}
            case ["v1", "sandboxes", id, "interrupt"]:
                return {"POST": partial(self._interrupt, id)}
            case ["v1", "sandboxes", id, "restart"]:
                return {"POST": partial(self._restart, id)}
            case ["v1", "sandboxes", id, "packages"]:
                return {"POST": partial(self._install, id)}
            case ["v1", "sandboxes", id, "files"]:
                return {"GET": partial(self._list, id), "PUT": partial(self._write_many, id)}
            case ["v1", "sandboxes", id, "files", encoded]:
                name = os.fsdecode(unquote_to_bytes(encoded))
                return {
                    "GET": partial(self._read, id, name),
                    "PUT": partial(self._write, id, name),
                    "DELETE": partial(self._delete, id, name),
                }
        raise NotFound(f"path: there is no {path[:80]!r}; the interface is under /v1, and /execute and /health")

    # -- the server ---------------------------------------------------------------------------------------------------

    async def _health(self, request: web.BaseRequest) -> web.StreamResponse:
        return self.health.answer()

    async def _describe(self, request: web.BaseRequest) -> web.StreamResponse:
        return answer(200, describe())

    async def _packages(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.health.wait()
        return answer(200, {"packages": [tell_package(one) for one in self._source.packages]})

    async def _execute(self, request: web.BaseRequest) -> web.StreamResponse:
        """Errors are texts here: the interface is not ours."""
        try:
            body = await read_whole(request, LARGEST_BODY)
            await self.health.wait()
        except (TooLarge, InvalidRequest) as error:
            return answer(error.status, {"error": f"invalid request: {error}"})
        except BelljarError as error:
            return answer(error.status, {"error": str(error)})
        if self.health.stopping:
            return answer(503, {"error": _STOPPING})
        with self.running:
            return answer(*await execute(self._source, body))

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    async def _make(self, request: web.BaseRequest) -> web.StreamResponse:
        spec = read_spec(await read_json(request, _LARGEST_REQUEST))
        await self.health.wait()
        if self.health.stopping:
            raise NoneFree(_STOPPING)
        return await self.leases.hold(request, spec)

    async def _look(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        return answer(200, {"id": id, "alive": self.leases.find(id).alive})

    async def _drop(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        await self.leases.drop(id)
        return nothing()

    async def _run(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        lease = self.leases.find(id)
        cell = read_cell(await read_json(request, _LARGEST_CELL))
        self._refuse_when_stopping()
        return await cells.stream(request, lease, cell, ping=self._ping)

    async def _interrupt(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        self.leases.find(id).sandbox.interrupt()
        return nothing()

    async def _restart(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        lease = self.leases.find(id)
        self._refuse_when_stopping()
        with lease.used():
            await lease.sandbox.restart()
        return nothing()

    async def _install(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        lease = self.leases.find(id)
        told = await read_json(request, _LARGEST_REQUEST)
        refuse_unknown(told, ("requirements",))
        if "requirements" not in told:
            raise InvalidRequest('requirements: it is missing; give names such as ["rich"]', param="requirements")
        self._refuse_when_stopping()
        with lease.used():
            await lease.sandbox.install(read_requirements(told))
        return nothing()

    def _refuse_when_stopping(self) -> None:
        if self.health.stopping:
            raise Lost(_STOPPING)

    # -- files --------------------------------------------------------------------------------------------------------

    async def _list(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        return await files.list_all(self.leases.find(id))

    async def _write_many(self, id: str, request: web.BaseRequest) -> web.StreamResponse:
        return await files.write_many(request, self.leases.find(id))

    async def _write(self, id: str, name: str, request: web.BaseRequest) -> web.StreamResponse:
        return await files.write(request, self.leases.find(id), name)

    async def _read(self, id: str, name: str, request: web.BaseRequest) -> web.StreamResponse:
        return await files.read(request, self.leases.find(id), name)

    async def _delete(self, id: str, name: str, request: web.BaseRequest) -> web.StreamResponse:
        return await files.delete(self.leases.find(id), name)
