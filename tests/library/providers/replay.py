"""A server on a port of this machine that answers what a test wrote down, whatever the vendor."""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import yaml
from tests.helpers.wire_meaning import meaning

RECORDINGS = Path(__file__).parents[2] / "recordings"


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def meaning(self) -> Any:
        """The body without what is only spelling."""
        return meaning(self.json)


@dataclass(frozen=True)
class Reply:
    """One answer: a JSON value, events of a stream, or bytes."""

    json: Any = None
    events: Sequence[Any] | None = None
    data: bytes | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    until: threading.Event | None = None
    """Nothing is answered before this is set."""

    @property
    def body(self) -> bytes:
        if self.data is not None:
            return self.data
        if self.events is None:
            return json.dumps(self.json).encode()
        return b"".join(_frame(event) for event in self.events)

    @property
    def kind(self) -> str:
        return "text/event-stream" if self.events is not None else "application/json"


def _frame(event: Any) -> bytes:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


class Replay:
    """Answers in order; every request is kept."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._replies: deque[Reply] = deque()
        self._open: list[socket.socket] = []
        replay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                replay._open.append(self.connection)

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                replay.asked.append(Asked(self.command, self.path, headers, body))
                reply = replay._next()
                if reply.until is not None:
                    reply.until.wait()
                try:
                    self.send_response(reply.status)
                    for name, value in {"content-type": reply.kind, **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(reply.body)))
                    self.end_headers()
                    self.wfile.write(reply.body)
                except OSError:  # the client hung up, as a test of timeouts wants
                    self.close_connection = True

            do_GET = do_POST = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def play(self, *replies: Reply) -> None:
        self._replies.extend(replies)

    def _next(self) -> Reply:
        if not self._replies:
            return Reply({"error": {"message": "the script has no further reply"}}, status=418)
        return self._replies.popleft()

    @property
    def left(self) -> int:
        return len(self._replies)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        for connection in self._open:  # a client may keep one alive for longer than we do
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()


def recorded(name: str) -> Any:
    """A recording: a whole answer, the events of a stream, or the exchanges of a session."""
    path = RECORDINGS / name
    if path.suffix == ".txt":
        return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return yaml.safe_load(path.read_text()) if path.suffix == ".yaml" else json.loads(path.read_text())
