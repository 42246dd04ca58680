"""All vendors on one port of this machine: each under its own path, answering a word or the fault of the moment."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import urlsplit

from tests.library.providers import wires
from tests.library.providers.replay import Asked, Reply

from belljar.testing import server_kinds

VENDORS = ("openai", "anthropic", "gemini", "xai", "lm_studio", "ollama", "vllm")
MODELS: Mapping[str, str] = MappingProxyType(
    {
        "openai": "gpt-5.4",
        "anthropic": "claude-sonnet-5",
        "gemini": "gemini-3.6-flash",
        "xai": "grok-4.3",
        "lm_studio": "qwen3-8b",
        "ollama": "qwen3-8b",
        "vllm": "qwen3-8b",
    }
)
"""The one that is asked where it does not matter which."""
_HEARD = "Good."


@dataclass(frozen=True)
class Sent:
    """A request as it arrived, without the vendor's part of the path."""

    vendor: str
    asked: Asked

    @property
    def path(self) -> str:
        return self.asked.path.removeprefix(f"/{self.vendor}")

    @property
    def json(self) -> Any:
        return self.asked.json

    @property
    def key(self) -> str:
        """The key that it showed, wherever the vendor wants it."""
        headers = self.asked.headers
        return headers.get("x-api-key") or headers.get("x-goog-api-key") or headers["authorization"].split()[-1]


class Vendors:
    """The server while it is entered."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        """What models were asked, and files; not what lists were asked for."""
        self.fault: Reply | None = None
        """What everything but a list is answered with."""
        self.listed: dict[str, list[str]] = {vendor: [model] for vendor, model in MODELS.items()}
        """The models of each."""
        self._open: list[socket.socket] = []
        vendors = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                vendors._open.append(self.connection)

            def _answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = vendors._reply(Asked(self.command, self.path, headers, body))
                data = reply.body
                with suppress(OSError):  # a client that has heard enough hangs up
                    self.send_response(reply.status)
                    for name, value in {"content-type": reply.kind, **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02))

    def base_url(self, vendor: str) -> str:
        """As a person would write it: with the version of the API in it."""
        return f"http://127.0.0.1:{self._server.server_port}/{vendor}/v1"

    def root(self, vendor: str) -> str:
        """As the SDKs of Anthropic and Google want it: they add the version themselves."""
        return self.base_url(vendor).removesuffix("/v1")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._server.server_close()

    def _reply(self, asked: Asked) -> Reply:
        vendor = asked.path.split("/")[1]
        path = urlsplit(asked.path).path
        if asked.method == "GET" and path == f"/{vendor}/v1/models" and vendor in self.listed:
            return self._list(vendor)
        if asked.method == "GET" and "/files" not in path:  # somebody wonders what kind of server this is
            return Reply({"error": {"message": f"no such path: {path}"}}, status=404)
        self.sent.append(Sent(vendor, asked))
        if self.fault is not None:
            return self.fault
        if "/files" in path:
            return _file(vendor, asked)
        return _said(path, asked)

    def _list(self, vendor: str) -> Reply:
        names = self.listed[vendor]
        if vendor == "gemini":
            rows = [{"name": f"models/{name}", "supportedGenerationMethods": ["generateContent"]} for name in names]
            return Reply({"models": rows})
        kind = server_kinds.KINDS[vendor if vendor in server_kinds.KINDS else None]
        return Reply(data=server_kinds.list_models(kind, names))


def _said(path: str, asked: Asked) -> Reply:
    """A short answer on the wire that is spoken at the path, whole or as a stream."""
    if path.endswith(":streamGenerateContent"):
        return wires.gemini_streamed(_HEARD)
    if path.endswith(":generateContent"):
        return Reply(wires.gemini({"text": _HEARD}))
    streams = bool(asked.json.get("stream"))
    if path.endswith("/messages"):
        return wires.claude_streamed(_HEARD) if streams else Reply(wires.claude(wires.said(_HEARD)))
    if path.endswith("/responses"):
        return wires.streamed("resp_1", _HEARD) if streams else wires.responded("resp_1", wires.message(_HEARD))
    if path.endswith("/chat/completions"):
        return wires.chunks(_HEARD)
    return Reply({"error": {"message": f"no such path: {path}"}}, status=404)


def _file(vendor: str, asked: Asked) -> Reply:
    """One file, whatever is asked of it."""
    if vendor == "gemini":
        root = f"http://{asked.headers['host']}/gemini/v1"
        kept = {"name": "files/file1", "uri": f"{root}/files/file1", "state": "ACTIVE", "mimeType": "text/csv"}
        begun = {"x-goog-upload-url": f"{root}/files/up", "x-goog-upload-status": "active"}
        if asked.headers.get("x-goog-upload-command") == "start":
            return Reply({}, headers=begun)
        return Reply({"file": kept}, headers={"x-goog-upload-status": "final"})
    if vendor == "anthropic":
        about = {"type": "file", "mime_type": "text/csv", "size_bytes": 4, "created_at": "2026-11-15T12:00:00Z"}
        return Reply({"id": "file_1", "filename": _name(asked), "downloadable": False, **about})
    about = {"object": "file", "bytes": 4, "created_at": 1, "purpose": "user_data", "status": "processed"}
    return Reply({"id": "file_1", "filename": _name(asked), **about})


def _name(asked: Asked) -> str:
    _, found, rest = asked.body.partition(b'filename="')
    return rest.partition(b'"')[0].decode() if found else "table.csv"


def failing(status: int, body: Any, **headers: str) -> Reply:
    """An answer that no SDK and no gateway asks for again by itself."""
    told = {"x-should-retry": "false", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if isinstance(body, bytes):
        kind = "text/html" if body.startswith(b"<") else "text/plain"
        return Reply(data=body, status=status, headers={"content-type": kind, **told})
    return Reply(data=json.dumps(body).encode(), status=status, headers=told)
