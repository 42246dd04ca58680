"""What can be asked of the sandbox server: each path with its handler, and what it takes and gives."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote_to_bytes

from msgspec import Meta

from belljar import __version__
from belljar.errors import BelljarError, InvalidRequest, Lost, NoneFree, TooLarge
from belljar.http_server.cancel_on_disconnect import CancelOnDisconnect
from belljar.http_server.description import with_description
from belljar.http_server.openapi import About
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import ProtocolRefusal, Request
from belljar.http_server.routing import Content, Operation, Parameter, Route, json_of
from belljar.sandbox.base import GIB, MIB, FileInfo
from belljar.sandbox.codec import (
    EPOCH,
    Told,
    decode_attachment,
    decode_cell,
    decode_epoch,
    decode_request,
    decode_requirements,
    decode_spec,
    decode_terms,
    encode_json,
    encode_package,
    refuse_unknown,
)
from belljar.sandbox.server import bodies, cells, files
from belljar.sandbox.server.activity import Running
from belljar.sandbox.server.execute import LARGEST_BODY, execute
from belljar.sandbox.server.health import Health, HealthReport
from belljar.sandbox.server.leases import Access, Lease, Leases
from belljar.sandbox.server.lines import MEDIA
from belljar.sandbox.server.wording import STOPPING, plain

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource

_LARGEST_CELL = 64 * MIB
"""Bytes of a request to run code: what 8 Mi characters of nearly all writing come to, escaped."""
_LARGEST_REQUEST = MIB
_EPOCH = EPOCH.lower().encode()

ABOUT = About(
    title="Belljar sandbox server",
    version=__version__,
    description="Python under glass, over HTTP. `/v1` is a stateful sandbox that lives as long as the connection that "
    "asked for it, or with an epoch some time longer, for whoever attaches to it with a higher one; `/execute` runs "
    "code in a fresh one and answers once.",
    error=bodies.Failure,
    key="Where the server has a token.",
)
_ID = Parameter("id", Annotated[str, Meta(min_length=1, examples=["sbx_4f9c"])])
_NAME = Parameter(
    "name",
    Annotated[str, Meta(min_length=1, examples=["data.csv"])],
    "A path relative to /mnt/data. Percent-encode its bytes, which need not be UTF-8.",
)
_LIMIT = Parameter("limit", Annotated[int, Meta(ge=0)], "Refuse with 413 if it is larger.")
_HELD = Parameter(
    EPOCH, Annotated[int, Meta(ge=1)], "Under which the caller holds the sandbox; a lower one than its own is refused."
)
_FENCED = ((409, "Fenced: another has attached to it under a higher epoch"),)
_BYTES = (Content(None, files.BYTES),)


def _body(type: Any, *examples: Any) -> tuple[Content, ...]:
    return (Content(type, examples=examples),)


def _lines(type: Any, *examples: Any) -> tuple[Content, ...]:
    """OpenAPI 3.1 has no word for lines; the schema is that of each of them."""
    return (Content(type, MEDIA, examples),)


def _of_one(
    summary: str,
    gives: tuple[Content, ...] = (),
    takes: tuple[Content, ...] = (),
    *,
    done: tuple[int, str] = (204, "Done"),
    query: tuple[Parameter, ...] = (),
    path: tuple[Parameter, ...] = (_ID,),
) -> Operation:
    """What is done with one sandbox, by whoever holds it."""
    return Operation(summary, gives, takes, query, done=done, path=path, headers=(_HELD,), refuses=_FENCED)


class SandboxRoutes:
    """The handlers."""

    def __init__(self, source: LocalSource, health: Health, running: Running, leases: Leases, *, ping: float) -> None:
        self._source = source
        self._health = health
        self._running = running
        self._leases = leases
        self._ping = ping

    def routes(self) -> list[Route]:
        """All of them, and their description."""
        return with_description(ABOUT, [*self._server_routes(), *self._sandbox_routes(), *self._file_routes()])

    # -- the server ---------------------------------------------------------------------------------------------------

    def _server_routes(self) -> list[Route]:
        health = Operation(
            "How the server is; needs no token",
            _body(
                HealthReport,
                {
                    "status": "healthy", "mode": "python", "runtime_version": "3.11.2", "capacity": 256,
                    "current_load": 3, "uptime_seconds": 12, "belljar": __version__, "api": 2, "api_oldest": 1,
                    "isolation": "full", "spare": 2,
                },
            ),
            done=(200, "Ready"),
            also=((503, "Starting, stopping, or failed"),),
        )  # fmt: skip
        executes = Operation(
            "Run code in a fresh sandbox, and answer when it has ended",
            _body(
                bodies.Executed,
                {"status": "success", "stdout": "hello\n", "stderr": "", "exit_code": 0, "execution_time_ms": 3},
                {
                    "status": "error", "stdout": "", "stderr": "execution timed out after 5 seconds", "exit_code": -1,
                    "execution_time_ms": 5004, "files_produced": {"made.txt": "aGVsbG8="},
                },
            ),
            _body(
                bodies.ExecutionBody,
                {"code": "print(open('in.txt').read())", "files": {"in.txt": "aGVsbG8="}, "timeout_seconds": 5},
                {"code": "import humanize", "requirements": ["humanize>=4"], "memory": "4g"},
            ),
            done=(200, "It ran, or its packages cannot be had; `status` says how it went"),
            refuses=((429, "At capacity"),),
            error=bodies.PlainFailure,
        )  # fmt: skip
        packages = Operation("What is installed", json_of(bodies.PackageList), done=(200, "By name"))
        return [
            Route("GET", "/health", self.health, health, open=True),
            Route("GET", "/healthz", self.health, health, open=True),
            Route("POST", "/execute", self.execute, executes),
            Route("GET", "/v1/packages", self.packages, packages),
        ]

    async def health(self, request: Request) -> Answer:
        return self._health.answer()

    async def packages(self, request: Request) -> Answer:
        await self._health.wait()
        return Reply(200, encode_json({"packages": [encode_package(one) for one in self._source.packages]}))

    async def execute(self, request: Request) -> Answer:
        """Errors are texts here: the interface is not ours."""
        try:
            body = await request.body(LARGEST_BODY)
            with CancelOnDisconnect(request.gone):
                await self._health.wait()
                if self._health.stopping:
                    raise plain(503, STOPPING)
                with self._running:
                    status, told = await execute(self._source, body)
        except (TooLarge, InvalidRequest) as error:
            raise plain(error.status, f"invalid request: {error}") from None
        except BelljarError as error:
            raise plain(error.status, str(error)) from None
        except ProtocolRefusal as refusal:  # of the body by the kit
            raise plain(refusal.fault.status, refusal.fault.message) from None
        if status != 200:
            raise plain(status, str(told["error"]))
        return Reply(200, encode_json(told))

    # -- sandboxes ----------------------------------------------------------------------------------------------------

    def _sandbox_routes(self) -> list[Route]:
        one = "/v1/sandboxes/{id}"
        make = Operation(
            "Make a sandbox, and hold it for as long as the answer stays open",
            _lines(bodies.LeaseLine, {"id": "sbx_4f9c"}, {}, {"ended": "the sandbox server is stopping"}),
            _body(
                bodies.SpecBody,
                {},
                {"limits": {"memory": GIB, "timeout": None}, "packages": "none"},
                {"epoch": 7, "keep": 60, "wait": 30},
            ),
            done=(200, "The id on the first line; then empty objects; why it ended, if it did"),
        )
        attach = Operation(
            "Take a sandbox over and hold it: what runs is stopped, and its holder before is fenced",
            _lines(
                bodies.AttachedLine,
                {
                    "id": "sbx_4f9c",
                    "cells": 3,
                    "interpreter": 1,
                    "limits": {"memory": GIB},
                    "files": [{"name": "a.csv", "size": 8, "modified": 1790000000.5, "type": "text/csv"}],
                },
                {},
                {"ended": "taken over under epoch 9", "code": "fenced"},
            ),
            _body(bodies.AttachmentBody, {"epoch": 8}, {"epoch": 8, "keep": 600}),
            done=(200, "What it is like on the first line; then as the answer to whoever made it"),
            refuses=_FENCED,
            path=(_ID,),
        )
        listed = Operation(
            "All sandboxes, and whether anybody holds them",
            _body(
                bodies.SandboxList,
                {"sandboxes": [{"id": "sbx_4f9c", "epoch": 7, "idle_seconds": 12.5, "held": False}]},
            ),
            done=(200, "Those that live"),
        )
        look = _of_one(
            "Whether it lives",
            _body(bodies.SandboxState, {"id": "sbx_4f9c", "alive": True}),
            done=(200, "It does, or has just ended"),
        )
        run = _of_one(
            "Run a cell; closing the connection stops it",
            _lines(bodies.OutputLine, {"type": "stdout", "text": "42\n"}, {}),
            _body(bodies.CellBody, {"code": "print(6 * 7)"}, {"code": "x", "timeout": 2.5}),
            done=(200, "Outputs as they come; the last line is the exit or an error"),
        )
        install = _of_one(
            "Make packages importable from the next cell on",
            takes=_body(bodies.RequirementsBody, {"requirements": ["humanize>=4"]}),
        )
        return [
            Route("GET", "/v1/sandboxes", self.list_sandboxes, listed),
            Route("POST", "/v1/sandboxes", self.make, make),
            Route("GET", one, self.look, look),
            Route("DELETE", one, self.drop, _of_one("End it", done=(204, "It is gone"))),
            Route("POST", f"{one}/attach", self.attach, attach),
            Route("POST", f"{one}/cells", self.run, run),
            Route("POST", f"{one}/interrupt", self.interrupt, _of_one("Stop the running cell")),
            Route("POST", f"{one}/restart", self.restart, _of_one("A new interpreter, the same files")),
            Route("POST", f"{one}/packages", self.install, install),
        ]

    async def make(self, request: Request) -> Answer:
        told = await _read_json(request, _LARGEST_REQUEST)
        spec, terms = decode_spec(told), decode_terms(told)
        with CancelOnDisconnect(request.gone):
            await self._health.wait()
        if self._health.stopping:
            raise NoneFree(STOPPING)
        return self._leases.make(spec, terms)

    async def list_sandboxes(self, request: Request) -> Answer:
        return Reply(200, encode_json({"sandboxes": [_describe_lease(one) for one in self._leases.all()]}))

    async def look(self, request: Request) -> Answer:
        access = self._find(request)
        return Reply(200, encode_json({"id": access.sandbox.id, "alive": access.lease.alive}))

    async def attach(self, request: Request) -> Answer:
        id = request.params["id"]
        self._leases.find(id)
        terms = decode_attachment(await _read_json(request, _LARGEST_REQUEST))
        self._refuse_when_stopping()
        return self._leases.attach(id, terms)

    async def drop(self, request: Request) -> Answer:
        await self._leases.drop(request.params["id"], _epoch(request))
        return Reply(204)

    async def run(self, request: Request) -> Answer:
        access = self._find(request)
        cell = decode_cell(await _read_json(request, _LARGEST_CELL))
        self._refuse_when_stopping()
        return cells.stream_cell(access, cell, ping=self._ping)

    async def interrupt(self, request: Request) -> Answer:
        self._find(request).sandbox.interrupt()
        return Reply(204)

    async def restart(self, request: Request) -> Answer:
        access = self._find(request)
        self._refuse_when_stopping()
        with access.used(), CancelOnDisconnect(request.gone):
            await access.sandbox.restart()
        return Reply(204)

    async def install(self, request: Request) -> Answer:
        access = self._find(request)
        told = await _read_json(request, _LARGEST_REQUEST)
        refuse_unknown(told, ("requirements",))
        if "requirements" not in told:
            raise InvalidRequest('requirements: it is missing; give names such as ["rich"]', param="requirements")
        self._refuse_when_stopping()
        with access.used(), CancelOnDisconnect(request.gone):
            await access.sandbox.install(decode_requirements(told))
        return Reply(204)

    def _find(self, request: Request) -> Access:
        return Access(self._leases.find(request.params["id"]), _epoch(request))

    def _refuse_when_stopping(self) -> None:
        if self._health.stopping:
            raise Lost(STOPPING)

    # -- files --------------------------------------------------------------------------------------------------------

    def _file_routes(self) -> list[Route]:
        all = "/v1/sandboxes/{id}/files"
        one = f"{all}/{{name+}}"
        path = (_ID, _NAME)
        listed = json_of(bodies.FileList)
        lists = _of_one("All files", listed, done=(200, "Regular files, also of directories"))
        writes = (Content(None, files.TAR),)
        many = _of_one("Put many files in place", listed, writes, done=(200, "Those that were written"))
        reads = _of_one("A file's bytes", _BYTES, query=(_LIMIT,), done=(200, "Bytes"), path=path)
        put = _of_one("Put a file in place", json_of(FileInfo), _BYTES, done=(200, "What was written"), path=path)
        return [
            Route("GET", all, self.list_files, lists),
            Route("PUT", all, self.write_files, many),
            Route("GET", one, self.read_file, reads),
            Route("PUT", one, self.write_file, put),
            Route("DELETE", one, self.delete_file, _of_one("Remove a file", path=path)),
        ]

    async def list_files(self, request: Request) -> Answer:
        return await files.list_all(self._find(request))

    async def write_files(self, request: Request) -> Answer:
        return await files.write_many(request, self._find(request))

    async def write_file(self, request: Request) -> Answer:
        return await files.write(request, self._find(request), _name(request))

    async def read_file(self, request: Request) -> Answer:
        return await files.read(request, self._find(request), _name(request))

    async def delete_file(self, request: Request) -> Answer:
        return await files.delete(self._find(request), _name(request))


def _epoch(request: Request) -> int | None:
    told = request.headers.get(_EPOCH)
    return None if told is None else decode_epoch(told.decode("latin-1"))


def _describe_lease(lease: Lease) -> Told:
    return {
        "id": lease.sandbox.id,
        "epoch": lease.epoch,
        "idle_seconds": round(lease.idle, 3),
        "held": lease.held,
    }


def _name(request: Request) -> str:
    """Exact in every byte."""
    return os.fsdecode(unquote_to_bytes(request.params["name"]))


async def _read_json(request: Request, most: int) -> Told:
    return decode_request(await request.body(most))
