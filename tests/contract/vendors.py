"""Files APIs of the vendors on loopback: each speaks its own shapes, keeps what it is sent, and fails when told to."""

from __future__ import annotations

import json
import re
import ssl
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast
from urllib.parse import parse_qs, urlsplit

import anthropic
import httpx2
import openai
from google import genai
from google.genai.types import HttpOptions

_MODEL = re.compile(r"/v1/(responses|messages|models/.+:streamGenerateContent.*)")
NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@dataclass
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}

    @property
    def form(self) -> dict[str, bytes]:
        """Fields of a multipart body in their order; a file under `file`, its name under `filename`."""
        boundary = b"--" + self.headers["content-type"].partition("boundary=")[2].strip('"').encode()
        found: dict[str, bytes] = {}
        for part in self.body.split(boundary)[1:-1]:
            head, _, data = part.partition(b"\r\n\r\n")
            name = re.search(rb'name="([^"]*)"', head)
            filename = re.search(rb'filename="([^"]*)"', head)
            assert name
            if filename:
                found["filename"] = filename[1]
            found[name[1].decode()] = data.removesuffix(b"\r\n")
        return found


@dataclass
class Reply:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Promise more than is sent, and hang up."""


@dataclass
class Kept:
    id: str
    name: str
    data: bytes
    kind: str = "application/octet-stream"
    life: int | None = None
    made: bool = False
    """By code, not uploaded."""


@contextmanager
def sdk(provider: str, url: str) -> Iterator[Any]:
    """The vendor's SDK for this address. It reads no certificates, which would take longer than a test."""
    with httpx2.Client(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as http:
        match provider:
            case "anthropic":
                yield anthropic.Anthropic(api_key="k", base_url=url, http_client=http)
            case "gemini":
                options = HttpOptions(base_url=url, httpx_client=http)
                yield genai.Client(api_key="k", vertexai=False, http_options=options)
            case _:
                yield openai.OpenAI(api_key="k", base_url=url, http_client=http)


class Vendor:
    """A server; `trouble` is answered first, in its order."""

    prefix = ""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.kept: dict[str, Kept] = {}
        self.trouble: deque[Reply] = deque()
        self.answers: deque[Reply] = deque()
        """What the model says, in its order."""
        self._number = 0
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length)
                if len(body) < length:  # the client stopped in the middle
                    self.close_connection = True
                    return
                if self.headers.get("transfer-encoding") == "chunked":
                    raise AssertionError("the length of a file is known")
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                vendor.asked.append(asked)
                reply = vendor.trouble.popleft() if vendor.trouble else vendor.answer(asked)
                data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self._send(reply, data)

            def _send(self, reply: Reply, data: bytes) -> None:
                self.send_response(reply.status)
                kind = "application/octet-stream" if isinstance(reply.body, bytes) else "application/json"
                for name, value in {"content-type": kind, **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data) + 10 * reply.cut))
                self.end_headers()
                self.wfile.write(data)
                self.close_connection = reply.cut

            do_GET = do_POST = do_DELETE = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                if not isinstance(sys.exc_info()[1], OSError):  # a client that stops in the middle hangs up
                    super().handle_error(cast(Any, request), client_address)

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02))
        self.url = f"http://127.0.0.1:{self._server.server_port}{self.prefix}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def keep(self, name: str, data: bytes, *, id: str = "", **more: Any) -> Kept:
        self._number += 1
        kept = Kept(id or self.new_id(self._number), name, data, **more)
        self.kept[kept.id] = kept
        return kept

    def make(self, name: str, data: bytes) -> tuple[str, str | None]:
        """A file that code made: its id and its container's."""
        return self.keep(name, data, kind="text/csv", made=True).id, None

    def new_id(self, number: int) -> str:
        return f"file-{number}"

    def refusal(self, status: int, message: str = "no") -> Reply:
        return Reply({"error": {"message": message, "type": "server_error", "param": None, "code": None}}, status)

    def answer(self, asked: Asked) -> Reply:
        path = urlsplit(asked.path).path
        if _MODEL.fullmatch(path):
            return self.answers.popleft()
        for method, pattern, handle in self.routes():
            found = re.fullmatch(pattern, path)
            if found and method == asked.method:
                ids = [id for id in found.groups() if id is not None]
                if any(id not in self.kept for id in ids):
                    return self.absent(ids[0])
                return handle(asked, *(self.kept[id] for id in ids))
        return self.refusal(418, f"no route {asked.method} {asked.path}")

    def absent(self, id: str) -> Reply:
        return self.refusal(404, f"No such File object: {id}")

    def routes(self) -> list[tuple[str, str, Callable[..., Reply]]]:
        return [
            ("POST", "/v1/files", self.upload),
            ("GET", "/v1/files", self.index),
            ("GET", "/v1/files/([^/]+)", lambda asked, kept: Reply(self.told(kept))),
            ("DELETE", "/v1/files/([^/]+)", self.delete),
            ("GET", "/v1/files/([^/]+)/content", self.content),
        ]

    def upload(self, asked: Asked) -> Reply:
        raise NotImplementedError

    def index(self, asked: Asked) -> Reply:
        raise NotImplementedError

    def told(self, kept: Kept) -> dict[str, Any]:
        raise NotImplementedError

    def delete(self, asked: Asked, kept: Kept) -> Reply:
        del self.kept[kept.id]
        return Reply({"id": kept.id, "object": "file", "deleted": True})

    def content(self, asked: Asked, kept: Kept) -> Reply:
        return Reply(kept.data)


class OpenAI(Vendor):
    prefix = "/v1"
    container = "cntr_1"
    life = "expires_after[seconds]"

    def routes(self) -> list[tuple[str, str, Callable[..., Reply]]]:
        inside = f"/v1/containers/{self.container}/files/([^/]+)"
        return [
            *super().routes(),
            ("GET", inside, lambda asked, kept: Reply(self.told_in(kept))),
            ("GET", f"{inside}/content", self.content),
        ]

    def make(self, name: str, data: bytes) -> tuple[str, str | None]:
        return self.keep(name, data, id=f"cfile_{len(self.kept) + 1}", made=True).id, self.container

    def upload(self, asked: Asked) -> Reply:
        form = asked.form
        assert form["purpose"] in (b"user_data", b"assistants", b"vision")
        life = form.get(self.life)
        if life is not None:
            assert form.get("expires_after[anchor]") == (b"created_at" if "[" in self.life else None)
            assert list(form).index(self.life) < list(form).index("file")
        kept = self.keep(form["filename"].decode(), form["file"], life=life and int(life))
        return Reply(self.told(kept))

    def index(self, asked: Asked) -> Reply:
        """Two a page, so that there are pages."""
        files = [self.told(one) for one in self.kept.values() if not one.id.startswith("cfile_")]
        after = asked.query.get("after")
        start = [one["id"] for one in files].index(after) + 1 if after else 0
        page = files[start : start + 2]
        return Reply({"object": "list", "data": page, "has_more": len(files) > start + 2})

    def told(self, kept: Kept) -> dict[str, Any]:
        created = int(NOW.timestamp())
        return {
            "id": kept.id,
            "object": "file",
            "bytes": len(kept.data),
            "created_at": created,
            "filename": kept.name,
            "purpose": "user_data",
            "status": "processed",
            "expires_at": None if kept.life is None else created + kept.life,
        }

    def told_in(self, kept: Kept) -> dict[str, Any]:
        return {
            "id": kept.id,
            "object": "container.file",
            "container_id": self.container,
            "created_at": 1,
            "bytes": None,
            "path": f"/mnt/data/{kept.name}",
            "source": "assistant",
        }


class XAI(OpenAI):
    life = "expires_after"

    def make(self, name: str, data: bytes) -> tuple[str, str | None]:
        return self.keep(name, data, made=True).id, None


class Anthropic(Vendor):
    def new_id(self, number: int) -> str:
        return f"file_{number}"

    def refusal(self, status: int, message: str = "no") -> Reply:
        return Reply({"type": "error", "error": {"type": "api_error", "message": message}}, status)

    def upload(self, asked: Asked) -> Reply:
        form = asked.form
        life = form.get("expires_in_seconds")
        name = form["filename"].decode()
        return Reply(self.told(self.keep(name, form["file"], kind="text/csv", life=life and int(life))))

    def index(self, asked: Asked) -> Reply:
        files = [self.told(one) for one in self.kept.values()]
        start = int(asked.query.get("page", 0))
        more = len(files) > start + 2
        page = files[start : start + 2]
        return Reply({"data": page, "has_more": more, "next_page": str(start + 2) if more else None})

    def told(self, kept: Kept) -> dict[str, Any]:
        expires = None if kept.life is None else (NOW + timedelta(seconds=kept.life)).isoformat()
        return {
            "id": kept.id,
            "type": "file",
            "filename": kept.name,
            "mime_type": kept.kind,
            "size_bytes": len(kept.data),
            "created_at": NOW.isoformat(),
            "downloadable": kept.made,
            "expires_at": expires,
        }

    def delete(self, asked: Asked, kept: Kept) -> Reply:
        del self.kept[kept.id]
        return Reply({"id": kept.id, "type": "file_deleted"})


class Gemini(Vendor):
    def __init__(self) -> None:
        super().__init__()
        self._begun: dict[str, Kept] = {}
        self.processing = 1
        """How often a new file is not ready yet."""

    def new_id(self, number: int) -> str:
        return f"files/f{number}"

    def refusal(self, status: int, message: str = "no") -> Reply:
        return Reply({"error": {"code": status, "message": message, "status": "UNAVAILABLE"}}, status)

    def absent(self, id: str) -> Reply:
        message = f"You do not have permission to access the File {id} or it may not exist."
        return Reply({"error": {"code": 403, "message": message, "status": "PERMISSION_DENIED"}}, 403)

    def routes(self) -> list[tuple[str, str, Callable[..., Reply]]]:
        return [
            ("POST", "/upload/v1/files", self.begin),
            ("POST", r"/resume/\w+", self.upload),
            ("GET", "/v1/files", self.index),
            ("GET", "/v1/(files/[^/:]+):download", self.content),
            ("GET", "/v1/(files/[^/:]+)", lambda asked, kept: Reply(self.told(kept))),
            ("DELETE", "/v1/(files/[^/:]+)", self.delete),
        ]

    def begin(self, asked: Asked) -> Reply:
        assert asked.headers["x-goog-upload-protocol"] == "resumable"
        assert asked.headers["x-goog-upload-command"] == "start"
        file = json.loads(asked.body)["file"]
        name = f"up{len(self._begun)}"
        shown = file.get("displayName") or file["display_name"]
        self._begun[name] = Kept("", shown, b"", asked.headers["x-goog-upload-header-content-type"])
        return Reply({}, headers={"x-goog-upload-url": f"{self.url}/resume/{name}", "x-goog-upload-status": "active"})

    def upload(self, asked: Asked) -> Reply:
        begun = self._begun[urlsplit(asked.path).path.rpartition("/")[2]]
        assert int(asked.headers["x-goog-upload-offset"]) == len(begun.data)
        begun.data += asked.body
        if "finalize" not in asked.headers["x-goog-upload-command"]:
            return Reply({}, headers={"x-goog-upload-status": "active"})
        kept = self.keep(begun.name, begun.data, kind=begun.kind)
        return Reply({"file": self.told(kept)}, headers={"x-goog-upload-status": "final"})

    def index(self, asked: Asked) -> Reply:
        files = [self.told(one) for one in self.kept.values()]
        start = int(asked.query.get("pageToken", 0))
        following = {"nextPageToken": str(start + 2)} if len(files) > start + 2 else {}
        return Reply({"files": files[start : start + 2], **following})

    def told(self, kept: Kept) -> dict[str, Any]:
        state = "PROCESSING" if self.processing > 0 else "ACTIVE"
        self.processing -= 1
        return {
            "name": kept.id,
            "displayName": kept.name,
            "mimeType": kept.kind,
            "sizeBytes": str(len(kept.data)),
            "createTime": NOW.isoformat().replace("+00:00", "Z"),
            "uri": f"{self.url}/v1/{kept.id}",
            "state": state,
            "source": "GENERATED" if kept.made else "UPLOADED",
            **({"downloadUri": f"{self.url}/v1/{kept.id}:download"} if kept.made else {}),
        }

    def delete(self, asked: Asked, kept: Kept) -> Reply:
        del self.kept[kept.id]
        return Reply({})
