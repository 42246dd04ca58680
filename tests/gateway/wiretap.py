"""Raw exchanges with a gateway: what came over the wire, unread by any SDK."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from belljar.testing import ReplyStep

TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})


@dataclass(frozen=True)
class Answer:
    """A whole answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One address, one connection a request."""

    def __init__(self, base_url: str) -> None:
        self._parts = urlsplit(base_url)

    def send(
        self, method: str, path: str, body: object = None, *, data: bytes | None = None, type: str = "application/json"
    ) -> Answer:
        """Ask, with `body` as JSON or `data` as it is."""
        if body is not None:
            data = json.dumps(body).encode()
        with self._connected() as connection:
            headers = {"belljar-live-output": "true"} | ({} if data is None else {"content-type": type})
            connection.request(method, f"{self._parts.path}{path}", data, headers)
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())

    def upload(self, path: str, name: str, content: bytes, **fields: str) -> Answer:
        """Ask with a form that has one file."""
        boundary = b"a boundary that no test's file holds"
        parts = [
            b'Content-Disposition: form-data; name="%b"\r\n\r\n%b' % (k.encode(), v.encode()) for k, v in fields.items()
        ]
        head = f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: text/csv\r\n\r\n'
        parts.append(head.encode() + content)
        data = b"".join(b"--%b\r\n%b\r\n" % (boundary, part) for part in parts) + b"--%b--\r\n" % boundary
        return self.send("POST", path, data=data, type=f'multipart/form-data; boundary="{boundary.decode()}"')

    def get(self, path: str) -> Any:
        return self._right(self.send("GET", path))

    def post(self, path: str, body: object) -> Any:
        return self._right(self.send("POST", path, body))

    def delete(self, path: str) -> Any:
        return self._right(self.send("DELETE", path))

    def _right(self, answer: Answer) -> Any:
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"].startswith("req_")
        return answer.json

    def stream(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a streamed response."""
        return self._events(self.send("POST", "/responses", {**body, "stream": True}))

    def replay(self, id: str, after: int | None = None) -> list[dict[str, Any]]:
        """The events of a background response, heard later."""
        more = "" if after is None else f"&starting_after={after}"
        answer = self.send("GET", f"/responses/{id}?stream=true{more}")
        return self._events(answer, first=0 if after is None else after + 1)

    def _events(self, answer: Answer, first: int = 0) -> list[dict[str, Any]]:
        assert answer.status == 200, answer.body
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        return list(frames(answer.body, first))

    def chunks(self, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces in which a streamed response was written."""
        data = json.dumps(body).encode()
        head = f"POST {self._parts.path}/responses HTTP/1.1\r\nhost: {self._parts.netloc}\r\nconnection: close\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        with socket.create_connection((self._parts.hostname, self._parts.port), timeout=60) as connection:
            connection.sendall(head.encode() + data)
            with connection.makefile("rb") as answer:
                while answer.readline() != b"\r\n":
                    pass
                while size := int(answer.readline(), 16):
                    yield answer.read(size)
                    assert answer.readline() == b"\r\n"

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        connection = http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=60)
        try:
            yield connection
        finally:
            connection.close()


def frames(body: bytes, first: int = 0) -> Iterator[dict[str, Any]]:
    """The events of a stream whose framing is exact: name equals type, numbers have no gaps, the end is marked."""
    assert b"\r" not in body
    *sent, done, nothing = body.decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    number = first
    for frame in sent:
        if frame == ": ping":
            continue
        name, data = frame.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        assert event["sequence_number"] == number, event
        number += 1
        yield event


# -- what a chat model may send beside text and calls -----------------------------------------------------------------


def said(**delta: object) -> bytes:
    """A step of a reply: this delta."""
    return _chunk(delta, None)


def begun(name: str, arguments: str, index: int = 0) -> bytes:
    """A step of a reply: the beginning of a call, with what there is of its arguments."""
    function = {"name": name, "arguments": arguments}
    return said(tool_calls=[{"index": index, "id": f"call_{index}", "function": function}])


def ended(reason: str) -> bytes:
    """A step of a reply: the answer ends for this reason; what the script adds is not heard."""
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    return _chunk({}, reason) + _frame(choices=[], usage=usage) + b"data: [DONE]\n\n"


def thought(*words: str) -> list[ReplyStep]:
    return [said(reasoning_content=word) for word in words]


def _chunk(delta: object, reason: str | None) -> bytes:
    return _frame(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])


def _frame(**fields: object) -> bytes:
    return f"data: {json.dumps({'id': 'x', 'object': 'chat.completion.chunk', 'model': 'sim', **fields})}\n\n".encode()
