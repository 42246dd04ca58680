"""OpenAI's containers API on loopback: flat files, cursor pages, no overwriting, and no unpacking of archives."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

from openai import OpenAI

_PARAMETER = re.compile(r'\b(name|filename)="([^"]*)"')


@dataclass
class Container:
    body: dict[str, Any]
    files: dict[str, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    """By id, oldest first."""


class FlatContainers:
    """A server while it is entered. Names lose their directories, as those of a server that is flat do.

    `extract`: what it makes of that field, which it does not know.
    """

    def __init__(self, extract: Literal["refuse", "ignore"] = "refuse") -> None:
        self.extract = extract
        self.containers: dict[str, Container] = {}
        self.requests: list[tuple[str, str]] = []
        """Methods and paths, without ids."""
        self.refusing = 0
        """How many requests to make a container are to be answered with a 400."""
        self.overloaded = 0
        """How many requests of any kind are to be answered with a 503."""
        self.held: dict[tuple[str, str], threading.Event] = {}
        """What a request waits for before it is answered, by how `requests` has it."""
        self.response = b"{}"
        """What /responses answers."""
        self._ids = count(1)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def client(self) -> OpenAI:
        return OpenAI(base_url=self.base_url, api_key="none", max_retries=0)

    def write(self, id: str, path: str, content: bytes) -> None:
        """As code in the container would."""
        container = self.containers[id]
        for old in [one for one, (body, _) in container.files.items() if body["path"] == f"/mnt/data/{path}"]:
            del container.files[old]
        self._keep(id, container, path, content, "assistant")

    def names(self, id: str) -> list[str]:
        return [body["path"] for body, _ in self.containers[id].files.values()]

    # -- the wire ------------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: list[str], query: dict[str, str], form: _Form) -> tuple[int, bytes]:
        asked = (method, "/".join(part for at, part in enumerate(path) if at in (0, 2, 4)))
        self.requests.append(asked)
        if asked in self.held:
            self.held[asked].wait()
        with self._lock:
            if self.overloaded:
                self.overloaded -= 1
                return _refusal(503, "Too much to do.")
            match method, path:
                case "POST", ["responses"]:
                    return 200, self.response
                case "POST", ["containers"]:
                    return self._create(json.loads(form.body))
                case "GET", ["containers"]:
                    wanted = [
                        one.body for one in self.containers.values() if query.get("name") in (None, one.body["name"])
                    ]
                    return 200, _page(wanted, query)
            container = self.containers.get(path[1])
            if container is None:
                return _refusal(404, f"Container with id '{path[1]}' not found.")
            match method, path[2:]:
                case "GET", []:
                    return 200, _json(container.body)
                case "DELETE", []:
                    del self.containers[path[1]]
                    return 200, _json({"id": path[1], "object": "container.deleted", "deleted": True})
                case "POST", ["files"]:
                    return self._add(path[1], container, form)
                case "GET", ["files"]:
                    return 200, _page([body for body, _ in container.files.values()], query)
            if path[3] not in container.files:
                return _refusal(404, f"File {path[3]} not found.")
            match method, path[4:]:
                case "GET", ["content"]:
                    return 200, container.files[path[3]][1]
                case "DELETE", []:
                    del container.files[path[3]]
                    return 200, _json({"id": path[3], "object": "container.file.deleted", "deleted": True})
        return _refusal(405, "no such route")

    def _create(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        if self.refusing:
            self.refusing -= 1
            return _refusal(400, "No containers today.")
        body = {
            **asked,
            "id": f"cntr_{next(self._ids)}",
            "object": "container",
            "created_at": next(self._ids),
            "status": "running",
        }
        self.containers[body["id"]] = Container(body)
        return 200, _json(body)

    def _add(self, id: str, container: Container, form: _Form) -> tuple[int, bytes]:
        if "extract" in form.fields and self.extract == "refuse":
            return _refusal(400, "Unknown parameter: 'extract'.")
        name, content = form.file
        return 200, _json(self._keep(id, container, name.rpartition("/")[2], content, "user"))

    def _keep(self, id: str, container: Container, path: str, content: bytes, source: str) -> dict[str, Any]:
        body: dict[str, Any] = {
            "id": f"cfile_{next(self._ids)}",
            "object": "container.file",
            "container_id": id,
            "created_at": next(self._ids),
            "bytes": len(content),
            "path": f"/mnt/data/{path}",
            "source": source,
        }
        container.files[body["id"]] = (body, content)
        return body

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
                path = asked.path.removeprefix("/v1/").split("/")
                status, data = api.answer(self.command, path, query, _Form(self.headers.get("content-type", ""), body))
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_DELETE = do_GET

            def log_message(self, *args: object) -> None:
                pass

        return Handler


class _Form:
    """A body: of a form, its fields and its file."""

    def __init__(self, content_type: str, body: bytes) -> None:
        self.body = body
        self.fields: dict[str, bytes] = {}
        self.file = ("", b"")
        _, form, boundary = content_type.partition("boundary=")
        for part in body.split(f"--{boundary}".encode())[1:-1] if form else ():
            head, _, content = part[2:-2].partition(b"\r\n\r\n")
            told = dict(_PARAMETER.findall(head.decode()))
            if "filename" in told:
                self.file = (told["filename"], content)
            else:
                self.fields[told["name"]] = content


def _page(found: list[dict[str, Any]], query: dict[str, str]) -> bytes:
    rows = found if query.get("order") == "asc" else found[::-1]
    at = next((n + 1 for n, row in enumerate(rows) if row["id"] == query.get("after")), 0)
    shown = rows[at : at + min(100, int(query.get("limit", "20")))]
    return _json(
        {
            "object": "list",
            "data": shown,
            "first_id": shown[0]["id"] if shown else "",
            "last_id": shown[-1]["id"] if shown else "",
            "has_more": at + len(shown) < len(rows),
        }
    )


def _refusal(status: int, message: str) -> tuple[int, bytes]:
    return status, _json({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}})


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
