"""A model server on a local port that plays a script."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self, TypeAlias, cast

import httptools
from msgspec import Struct, field

from belljar.testing import server_kinds
from belljar.testing.chunks import words
from belljar.testing.gemini_wire import GeminiWire
from belljar.testing.rules import RULES, refusal
from belljar.testing.scripted import Call
from belljar.testing.wires import ChatWire, MessagesWire, ResponsesWire, Wire


class Break:
    """A step of a reply: the connection breaks here."""


BREAK: Final = Break()

ReplyStep: TypeAlias = str | Call | float | threading.Event | bytes | Break
"""Text; a call; seconds to pause; an event to wait for; bytes as they are; `BREAK`."""


class Reply(Struct, frozen=True, kw_only=True):
    """One answer of the server: steps of a stream, or with a `body` that and nothing else."""

    steps: Sequence[ReplyStep] = ()
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    before: float | threading.Event = 0.0
    """What comes first, before even the status: a pause, or an event to wait for."""


class Received(Struct, frozen=True, kw_only=True):
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    """By name in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, bytes]:
        """The fields of a form; an upload under `file`, with its name under `filename`."""
        boundary = b"--" + self.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        found: dict[str, bytes] = {}
        for part in self.body.split(boundary)[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            words = dict(re.findall(rb'\b(name|filename)="([^"]*)"', head))
            if b"filename" in words:
                found["filename"] = words[b"filename"]
            found[words[b"name"].decode()] = data.removesuffix(b"\r\n")
        return found

    def asks(self, what: str) -> bool:
        """Whether this is the end of its path."""
        return self.path.partition("?")[0].endswith((f"/{what}", f":{what}"))


_WIRES: Mapping[str, type[Wire]] = MappingProxyType(
    {
        "chat/completions": ChatWire,
        "responses": ResponsesWire,
        "messages": MessagesWire,
        "streamGenerateContent": GeminiWire,
    }
)
"""By the end of the path at which each is spoken."""


class LoopbackUpstream:
    """A model server on a port of this machine, in a thread: every wire we speak, and a list of models.

    Each POST takes the next reply of the script: a `Reply`, its steps, or a single step; one to compact a conversation
    wants a `Reply` with a body. With the name of a vendor of
    `rules.RULES` it refuses what that vendor refuses, and takes no reply for it. With a `kind` of `kinds.KINDS` it says
    of itself what that server says: `ollama`, `lm_studio`, `vllm`, `llama_cpp`.
    """

    def __init__(
        self,
        script: Iterable[Reply | ReplyStep | Sequence[ReplyStep]] = (),
        *,
        models: Iterable[str] | None = ("sim",),
        files: Mapping[str, tuple[str, bytes]] | None = None,
        vendor: str | None = None,
        kind: str | None = None,
        port: int = 0,
    ) -> None:
        self._script = iter(script)
        self._rule = None if vendor is None else RULES[vendor]
        self.files = dict(files or {})
        """What its code made and what it was given: each file's name and bytes, by its id."""
        self._announced = ""
        self.uploads: Reply | None = None
        """What an upload is answered with, instead of being taken."""
        self.placing: Reply | None = None
        """What is answered to putting an upload into a container, instead of doing so."""
        self.models = None if models is None else list(models)
        """What GET /models lists; with None there is no such list."""
        self.loading = False
        """Whether it answers everything with the 503 of a llama.cpp that still reads its model."""
        self._kind = server_kinds.KINDS[kind]
        self._port = port
        self.base_url = ""
        self.requests: list[Received] = []
        self.connections = 0
        """That were made to it, in all."""
        self.abandoned = threading.Event()
        """A client hung up before its reply was complete."""
        self._turns = count(1)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="loopback upstream")

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._open: set[_Connection] = set()
        server = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self._port)
        self.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for connection in tuple(self._open):
            connection.abort()
        await server.wait_closed()

    def _next(self, received: Received) -> Reply:
        self.requests.append(received)
        if self.loading:
            return Reply(status=503, body=server_kinds.LOADING)
        if received.method == "GET":
            if received.path in self._kind.pages:
                return Reply(body=self._kind.pages[received.path])
            if received.asks("models") and not received.path.startswith("/api/") and self.models is not None:
                if "pageSize" in received.path:
                    return _googles_list(self.models)
                return Reply(body=server_kinds.list_models(self._kind, self.models))
            return next((_file(id, *self.files[id], received) for id in self.files if id in received.path), _MISSING)
        if received.asks("files"):
            return self._answer_upload(received)
        if not any(map(received.asks, (*_WIRES, "responses/compact"))):
            return _MISSING
        if self._rule is not None and (refused := refusal(self._rule, received.body)) is not None:
            return Reply(status=400, body=refused)
        reply = next(self._script, _OVER)
        if isinstance(reply, Reply):
            return reply
        if isinstance(reply, str | bytes) or not isinstance(reply, Sequence):
            return Reply(steps=[reply])
        return Reply(steps=reply)

    def _answer_upload(self, received: Received) -> Reply:
        """An upload gets an id; one that is put into a container gets a place."""
        instead = self.placing if "/containers/" in received.path else self.uploads
        if instead is not None:
            return instead
        if "/containers/" in received.path:
            id = received.json["file_id"]
            return Reply(body=json.dumps({"id": f"c{id}", "path": f"/mnt/data/{self.files[id][0]}"}).encode())
        match received.headers.get("x-goog-upload-command"):
            case "start":
                self._announced = received.json["file"]["display_name"]
                return Reply(body=b"", headers={"x-goog-upload-url": f"{self.base_url}/upload/files"})
            case str():
                id = f"given{len(self.files)}"
                self.files[id] = (self._announced, received.body)
                kept = {"name": f"files/{id}", "uri": f"{self.base_url}/files/{id}", "state": "ACTIVE"}
                return Reply(body=json.dumps({"file": kept}).encode())
        id, form = f"file_given{len(self.files)}", received.form
        self.files[id] = (form["filename"].decode(), form["file"])
        return _file(id, *self.files[id], received)


def _fault(status: int, message: str) -> Reply:
    return Reply(status=status, body=json.dumps({"error": {"message": message, "type": "server_error"}}).encode())


_OVER = _fault(400, "the script has no further reply")
_MISSING = _fault(404, "there is no such path")


def _googles_list(models: Sequence[str]) -> Reply:
    data = [{"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]} for name in models]
    other = {"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]}
    return Reply(body=json.dumps({"models": [*data, other]}).encode())


def _file(id: str, name: str, data: bytes, received: Received) -> Reply:
    about: dict[str, Any] = {"id": id, "type": "file", "filename": name, "mime_type": "", "size_bytes": len(data)}
    if "/containers/" in received.path:
        about = {"id": id, "object": "container.file", "path": f"/mnt/data/{name}", "bytes": None}
    return Reply(body=data if received.asks("content") else json.dumps(about).encode())


class _Connection(asyncio.Protocol):
    """One connection to the server: parses requests, plays replies."""

    def __init__(self, upstream: LoopbackUpstream) -> None:
        self._upstream = upstream
        self._parser = httptools.HttpRequestParser(self)
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._upstream.connections += 1
        self._upstream._open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._upstream._open.discard(self)
        if self._task and not self._task.done():
            self._upstream.abandoned.set()
            self._task.cancel()

    def abort(self) -> None:
        if self._task:
            self._task.cancel()
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:  # not HTTP, such as the beginning of TLS
            self._transport.abort()

    def on_message_begin(self) -> None:
        self._path, self._headers, self._body = b"", dict[str, str](), b""

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        received = Received(
            method=self._parser.get_method().decode(),
            path=self._path.decode(),
            headers=self._headers,
            body=self._body,
        )
        reply = self._upstream._next(received)
        kind = next((wire for path, wire in _WIRES.items() if received.asks(path)), ChatWire)
        wire = kind(next(self._upstream._turns))
        self._task = asyncio.get_running_loop().create_task(self._play(reply, wire))

    async def _play(self, reply: Reply, wire: Wire) -> None:
        await _pass(reply.before)
        if reply.body is not None:
            self._head(reply, "application/json", f"content-length: {len(reply.body)}")
            self._transport.write(reply.body)
            return
        self._head(reply, "text/event-stream", "transfer-encoding: chunked")
        self._send(wire.begin())
        for step in reply.steps:
            if isinstance(step, Break):
                self._transport.abort()
                return
            if isinstance(step, str):
                for word in words(step):
                    self._send(wire.text(word))
            elif isinstance(step, Call):
                self._send(wire.call(step))
            elif isinstance(step, bytes):
                self._send(step)
            else:
                await _pass(step)
        self._send(wire.end())
        self._transport.write(b"0\r\n\r\n")

    def _head(self, reply: Reply, kind: str, framing: str) -> None:
        lines = [f"HTTP/1.1 {reply.status} Scripted", f"content-type: {kind}", framing]
        lines += [f"{name}: {value}" for name, value in reply.headers.items()]
        self._transport.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _send(self, data: bytes) -> None:
        if data:  # an empty piece would be the last
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))


async def _pass(pause: float | threading.Event) -> None:
    if isinstance(pause, threading.Event):
        while not pause.is_set():  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.002)
    else:
        await asyncio.sleep(pause)
