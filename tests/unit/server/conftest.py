"""A real uvicorn on loopback in a thread, whose application each test sets, and clients that speak raw bytes to it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import openai
import pytest
import uvicorn
from tests.unit.server.fakes import EngineServices

from belljar.gateway.server.app import GatewayApp
from belljar.gateway.server.options import ServerOptions
from belljar.gateway.server.wording import Wording
from belljar.http_server.asgi import Receive, Scope, Send
from belljar.http_server.run import config

PATIENCE = 20.0
FORM = {"content-type": "multipart/form-data; boundary=XyZ"}


def form(*parts: tuple[str, bytes]) -> bytes:
    """A body of that type; a part is the rest of its Content-Disposition, and its content."""
    written = b"".join(
        b"--XyZ\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % (head.encode(), data) for head, data in parts
    )
    return written + b"--XyZ--\r\n"


class Host:
    """The server; `app` answers."""

    def __init__(self) -> None:
        self.app: GatewayApp | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.server = uvicorn.Server(config(self, Wording(), "127.0.0.1", self.port, largest_body=1 << 20, drain=1))
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._listener]})
        self._ready = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            self.loop = asyncio.get_running_loop()
            await receive()
            await send({"type": "lifespan.startup.complete"})
            self._ready.set()
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            assert self.app is not None
            await self.app(scope, receive, send)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        self._listener.close()

    def do(self, what: Callable[[], object]) -> None:
        """In the server's own thread."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(what)

    def idle(self) -> bool:
        """Nothing is being answered."""
        return not self.server.server_state.tasks


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The body, which must be OpenAI's shape and nothing else."""
        assert self.headers["content-type"] == "application/json"
        assert self.json.keys() == {"error"}
        error: dict[str, Any] = self.json["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"]
        return error


class Wire:
    """A connection, byte by byte."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._read = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        told = {"host": "localhost"} | (headers or {})
        if body is not None and "transfer-encoding" not in told:
            told.setdefault("content-length", str(len(body)))
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b""))
        return self.answer(empty=method == "HEAD")

    def head(self) -> Answer:
        """Status and headers; the body is still to be read."""
        head, _, self._read = self.until(b"\r\n\r\n").partition(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in rest)}
        return Answer(int(line.split()[1]), headers, b"")

    def answer(self, *, empty: bool = False) -> Answer:
        answer = self.head()
        if empty or answer.status in (204, 304):
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            while chunk := self.chunk():
                answer.body += chunk
        else:
            answer.body = self.exactly(int(answer.headers["content-length"]))
        return answer

    def chunk(self) -> bytes:
        """One chunk as the server wrote it; empty at the end."""
        size, _, self._read = self.until(b"\r\n").partition(b"\r\n")
        data = self.exactly(int(size, 16) + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    def exactly(self, size: int) -> bytes:
        while len(self._read) < size:
            self._more()
        data, self._read = self._read[:size], self._read[size:]
        return data

    def until(self, mark: bytes) -> bytes:
        while mark not in self._read:
            self._more()
        return self._read

    def closed(self) -> bool:
        """The server has nothing more to say: waits until that is certain."""
        try:
            return not self._read and not self.socket.recv(1)
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(f"closed after {self._read!r}")
        self._read += data


class Gateway:
    """An app on the host, and ways to talk to it."""

    def __init__(self, host: Host, rooms: EngineServices, options: ServerOptions) -> None:
        self.host = host
        self.rooms = rooms
        self.app = host.app = GatewayApp(rooms.services, options)

    def wire(self) -> Wire:
        return Wire(self.host.port)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own; a body that is not bytes is sent as JSON."""
        told = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
            told.setdefault("content-type", "application/json")
        with self.wire() as wire:
            return wire.ask(method, path, body, told)

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.host.port}/v1", api_key=key, max_retries=0)


Opened = Callable[..., Gateway]


@pytest.fixture(scope="session")
def host() -> Iterator[Host]:
    host = Host()
    host.start()
    yield host
    host.stop()


@pytest.fixture
def opened(host: Host) -> Iterator[Opened]:
    """Opens a gateway; `keys=True` asks for keys, the rest are its options."""

    def build(*, keys: bool = False, **options: Any) -> Gateway:
        return Gateway(host, EngineServices(keys=keys), ServerOptions(**options))

    yield build
    host.app = None


@pytest.fixture
def gateway(opened: Opened) -> Gateway:
    return opened()
