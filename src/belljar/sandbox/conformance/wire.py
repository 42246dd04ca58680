"""HTTP client of the checks: statuses, JSON, lines as they arrive, and the shape of errors."""

from __future__ import annotations

import io
import json
import os
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

MIB = 1 << 20


class CheckFailed(Exception):
    """A server does not keep the contract: what was expected, and what came."""


def expect(what: str, came: object, wanted: object) -> None:
    """Fail unless two values are the same."""
    if came != wanted:
        raise CheckFailed(f"{what}: expected {_format_value(wanted)}, came {_format_value(came)}")


def check(holds: bool, expected: str, came: object) -> None:
    """Fail unless something holds."""
    if not holds:
        raise CheckFailed(f"expected {expected}, came {_format_value(came)}")


def member(told: object, name: str, kind: type[Any], where: str) -> Any:
    """A field of a JSON object, of one type."""
    value = told.get(name) if isinstance(told, dict) else None
    right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    check(right, f"{where} to have {name!r} ({kind.__name__})", told)
    return value


@dataclass(frozen=True, slots=True)
class Came:
    """A whole answer."""

    asked: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def has(self, *statuses: int) -> Came:
        """The same, if it has one of these statuses."""
        wanted = " or ".join(map(str, statuses))
        check(self.status in statuses, f"{self.asked} to answer {wanted}", f"{self.status} {self.body[:200]!r}")
        return self

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise CheckFailed(f"{self.asked}: expected JSON, came {_format_value(self.body)}") from None

    def refused(self, *statuses: int, code: str | None = None) -> None:
        """An error in the shape of `/v1`."""
        error = member(self.has(*statuses).json(), "error", dict, self.asked)
        member(error, "message", str, f"{self.asked}'s error")
        given = member(error, "code", str, f"{self.asked}'s error")
        if code is not None:
            expect(f"{self.asked}: the error's code", given, code)
        check("param" in error, f"{self.asked}'s error to have 'param'", error)


class CheckedServer:
    """One server, asked as often as a check wants."""

    def __init__(self, session: aiohttp.ClientSession, base: str, token: str | None) -> None:
        self._session, self._base, self.token = session, base, token

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """An answer as it comes; its connection is closed afterwards, however much has come. `body` goes as JSON."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        sent |= dict(headers or {})
        url = URL(self._base + path, encoded=True)
        payload = io.BytesIO(data) if isinstance(data, bytes) else data
        response = await self._session.request(method, url, data=payload, headers=sent, allow_redirects=False)
        try:
            yield response
        finally:
            response.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        data: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Came:
        """A whole answer; of lines, which may go on for ever, the beginning."""
        async with self.open(method, path, body, data=data, headers=headers) as response:
            endless = response.content_type == "application/x-ndjson"
            read = await (response.content.readany() if endless else response.read())
            return Came(f"{method} {path}", response.status, response.headers, read)


@asynccontextmanager
async def connect(url: str, token: str | None) -> AsyncIterator[CheckedServer]:
    """The server at an http(s) address or a unix socket; `ValueError` if it is neither."""
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        if not path.startswith("/"):
            raise ValueError(f"{url!r} does not name a socket; write unix:///run/belljar/sandbox.sock")
        connector: aiohttp.BaseConnector = aiohttp.UnixConnector(path, force_close=True)
        base = "http://localhost"
    elif url.startswith(("http://", "https://")):
        connector, base = aiohttp.TCPConnector(force_close=True), url.rstrip("/")
    else:
        raise ValueError(f"{url!r} is not an address; write http://HOST:PORT, https://HOST or unix:///PATH")
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield CheckedServer(session, base, token)


async def lines(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of an answer as they come, one a line; empty ones, which only keep it awake, are left out."""
    rest = b""
    async for chunk in response.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            try:
                told = json.loads(line)
            except ValueError:
                told = None
            if not isinstance(told, dict):
                raise CheckFailed(f"expected lines of JSON objects, came {_format_value(line)}")
            if told:
                yield told
    check(not rest, "the last line to end with a newline", rest)


def in_path(name: str) -> str:
    """A file's name in a URL: every byte of it."""
    return quote(os.fsencode(name), safe="")


def _format_value(value: object) -> str:
    shown = value if isinstance(value, str) else ascii(value)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
