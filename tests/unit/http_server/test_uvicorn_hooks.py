"""What we replace of uvicorn is still called by it; where it is not, this fails, and the server does not start."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from belljar.errors import BadSettings
from belljar.gateway.server.wording import Wording
from belljar.http_server import run, uvicorn_hooks, uvicorn_protocol
from belljar.http_server.asgi import STOPPING, Receive, Scope, Send
from belljar.http_server.body_reader import LARGE
from belljar.http_server.reply import Answer, Reply
from belljar.http_server.request import Request
from belljar.http_server.sender import Sender

ROOT = Path(__file__).parents[3]
PATIENCE = 20.0
OWNERS = (uvicorn_protocol.Protocol, uvicorn_protocol.SocketProtocol, run.Server)
MUCH = b"x" * (16 << 20)
"""More than a connection takes at once."""
HOOKS = {(owner, name) for owner in OWNERS for name, _ in uvicorn_hooks.hooks_of(owner)}


async def read_all(request: Request) -> Answer:
    size = 0
    while data := await request.read():
        size += len(data)
        if (rest := request.take()) is not None:
            buffer = memoryview(bytearray(1 << 16))
            while count := await asyncio.to_thread(rest.read, buffer):
                size += count
            rest.close()
            break
    return Reply(200, MUCH if request.path == "/much" else str(size).encode())


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers how large a body was; a WebSocket stays open until the server ends, or is refused at /no.

    At /much both say much.
    """
    match scope["type"]:
        case "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        case "http":
            request = Request(scope, receive, patience=PATIENCE)
            await Sender(request, send, Wording()).answer(read_all(request))
        case "websocket" if scope["raw_path"] == b"/no":
            await send({"type": "websocket.http.response.start", "status": 404, "headers": []})
            await send({"type": "websocket.http.response.body", "body": b""})
        case "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            if scope["raw_path"] == b"/much":
                await send({"type": "websocket.send", "bytes": MUCH})
                await receive()  # that it has gone
                return
            while await receive() != STOPPING:
                pass
            await send({"type": "websocket.close", "code": 1012})


@contextlib.contextmanager
def served() -> Iterator[tuple[int, Callable[[], None]]]:
    """The port of a server with all hooks, and how to stop it, which happens at the end too."""
    listener = socket.create_server(("127.0.0.1", 0))
    port: int = listener.getsockname()[1]
    listening, stop = threading.Event(), threading.Event()

    async def main() -> None:
        server = run.Server(run.config(app, Wording(), "127.0.0.1", port, drain=PATIENCE))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        await server.listening
        listening.set()
        await asyncio.to_thread(stop.wait)
        server.stop()
        await serving

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert listening.wait(PATIENCE)
        yield port, stop.set
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def said(port: int, data: bytes) -> bytes:
    """All that a server answers to this, up to its end."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as wire:
        wire.sendall(data)
        return b"".join(iter(lambda: wire.recv(1 << 16), b""))


def counted(owner: type, name: str, calls: Counter[tuple[type, str]]) -> Callable[..., Any]:
    whole = vars(owner)[name]

    def counting(self: object, *given: Any, **more: Any) -> Any:
        calls[owner, name] += 1
        return whole(self, *given, **more)

    return counting


def test_uvicorn_calls_every_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[tuple[type, str]] = Counter()
    expected = HOOKS | {(uvicorn_protocol.Protocol, "_take")}
    with monkeypatch.context() as patched:
        patched.setattr(run, "check_hooks", lambda owners: None)
        for owner, name in expected:
            patched.setattr(owner, name, counted(owner, name, calls))
        with served() as (port, stop):
            head = b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
            with socket.create_connection(("127.0.0.1", port), PATIENCE):
                pass  # which is heard before the next is answered
            assert said(port, head % 3 + b"abc").endswith(b"\r\n\r\n3")
            assert said(port, head % (2 * LARGE) + b"x" * 2 * LARGE).endswith(b"\r\n\r\n%d" % (2 * LARGE))
            assert b'"message":"This is not a valid HTTP request."' in said(port, b"hello\r\n\r\n")
            offer = b"POST / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n"
            assert b"\r\n\r\n2" in said(port, offer + b"ab" + b"no request\r\n\r\n")
            much = b"GET /much HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            assert said(port, much).endswith(b"\r\n\r\n" + MUCH)
            with connect(f"ws://127.0.0.1:{port}/much", open_timeout=PATIENCE, max_size=None) as opened:
                assert opened.recv(PATIENCE) == MUCH
            with pytest.raises(InvalidStatus, match="404"):
                connect(f"ws://127.0.0.1:{port}/no")
            with connect(f"ws://127.0.0.1:{port}/", open_timeout=PATIENCE) as opened:
                stop()
                with pytest.raises(ConnectionClosed) as ended:
                    opened.recv(PATIENCE)
    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == 1012
    missed = {f"{owner.__name__}.{name}" for owner, name in expected - set(calls)}
    assert missed == set(), f"uvicorn {uvicorn.__version__} no longer calls them: read what it does instead"


def test_another_version_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uvicorn, "__version__", "0.99.1")
    with pytest.raises(BadSettings, match=re.escape("0.99.1 is installed")) as refused:
        run.config(app, Wording(), "127.0.0.1", 0)
    assert f"uvicorn=={uvicorn_hooks.VERSION}.*" in str(refused.value)


@pytest.mark.parametrize(("owner", "name"), sorted(HOOKS, key=str))
def test_a_method_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    for above in owner.__mro__[1:]:
        if name in vars(above) and above is not object:
            monkeypatch.delattr(above, name)
    if hasattr(super(owner, owner), name):
        pytest.fail(f"{name} could not be taken away")
    with pytest.raises(BadSettings, match=f"{owner.__name__}.{name}"):
        run.config(app, Wording(), "127.0.0.1", 0)


def test_one_that_takes_other_things_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpToolsProtocol, "on_url", lambda self, url, more: None)
    with pytest.raises(BadSettings, match=r"Protocol\.on_url"):
        run.config(app, Wording(), "127.0.0.1", 0)


def test_what_is_declared_and_locked_is_that_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [declared] = [one for one in map(Requirement, project["project"]["dependencies"]) if one.name == "uvicorn"]
    major, minor = map(int, uvicorn_hooks.VERSION.split("."))
    assert set(str(declared.specifier).split(",")) == {f">={major}.{minor}", f"<{major}.{minor + 1}"}
    [locked] = re.findall(r"^uvicorn==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked in declared.specifier
