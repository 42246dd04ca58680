"""HTTP client of the Kubernetes API, as much as claims need: one session, checked answers, a watch, the server's time.

Why no library: decision 0028.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any, TypeAlias

import aiohttp

from belljar.errors import BadSettings
from belljar.net import watched_socket
from belljar.sandbox.kubernetes.access import ClusterAccess

Object: TypeAlias = dict[str, Any]
"""An object of Kubernetes, as JSON has it."""

_CONNECT = 5.0
_ANSWER = 20.0
"""Seconds that an answer may take; a server that is well needs a tenth of one."""
_SILENCE = 60.0
"""Seconds that a watch may be silent beyond its own end."""
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})


class ApiError(Exception):
    """The API server said no: the HTTP status, Kubernetes' reason and message."""

    def __init__(self, status: int, reason: str = "", message: str = "", retry_after: float | None = None) -> None:
        super().__init__(message or reason or f"status {status}")
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """The same request may be answered well later."""
        return self.status in _AGAIN


class ApiUnreachable(Exception):
    """No answer, or half of one: what was asked may have been done."""


class ApiClient:
    """Asks one API server; belongs to the event loop that first does."""

    def __init__(self, access: ClusterAccess) -> None:
        self.url = access.url
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._ahead = 0.0
        """Seconds that the server's clock is ahead of ours."""

    def now(self) -> float:
        """The time there, as of its last answer: what it stamps objects with, and expires them by."""
        return time.time() + self._ahead

    async def ask(
        self, method: str, path: str, body: Object | None = None, *, query: Mapping[str, str] | None = None
    ) -> Object:
        """The object in the answer; `ApiError` if it is a refusal, `ApiUnreachable` if there is none.

        A PATCH is a merge patch.
        """
        timeout = aiohttp.ClientTimeout(total=_ANSWER, sock_connect=_CONNECT)
        async with self._send(method, path, body, query or {}, timeout) as answer:
            told = _parse(await answer.read())
            if not isinstance(told, dict):
                raise ApiUnreachable(f"what answers at {self.url} is no Kubernetes API server")
            return told

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], *, seconds: int) -> AsyncIterator[AsyncIterator[Object]]:
        """Events, until the server ends the watch after so many seconds; raises as `ask` does, also in the middle."""
        asked = {**query, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=seconds + _SILENCE)
        async with self._send("GET", path, None, asked, timeout) as answer:
            yield _events(answer)

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, body: Object | None, query: Mapping[str, str], timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            headers = {**self._access.headers(), "Accept": "application/json"}
        except BadSettings as error:  # a token that cannot be read now may be there the next time
            raise ApiUnreachable(str(error)) from None
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = f"application/{'merge-patch+' if method == 'PATCH' else ''}json"
        try:
            async with self._opened().request(
                method,
                self.url + path,
                params=query,
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                server_hostname=self._access.server_name,
            ) as answer:
                self._set_clock(answer)
                if answer.status >= 300:
                    told = _parse(await answer.read())
                    raise _refusal(answer.status, told if isinstance(told, dict) else {}, answer.headers)
                try:
                    yield answer
                finally:
                    _abort_unread(answer)
        except aiohttp.ClientConnectorCertificateError as error:
            raise ApiUnreachable(f"its certificate is not trusted: {error.certificate_error}") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            raise ApiUnreachable(str(error) or type(error).__name__) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._access.tls or True, socket_factory=watched_socket)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session

    def _set_clock(self, answer: aiohttp.ClientResponse) -> None:
        """Its header has whole seconds, so what it says is half a second old on average."""
        try:
            self._ahead = parsedate_to_datetime(answer.headers["Date"]).timestamp() + 0.5 - time.time()
        except (KeyError, ValueError):
            pass

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _abort_unread(answer: aiohttp.ClientResponse) -> None:
    """Break off what is left of an answer: a farewell over TLS waits for the server's, and may outlive the loop."""
    connection = answer.connection
    if connection is not None and connection.transport is not None and not answer.content.at_eof():
        connection.transport.abort()


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    rest = b""
    async for data in answer.content.iter_any():
        *lines, rest = (rest + data).split(b"\n")
        for line in filter(None, lines):
            event = _parse(line)
            if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
                raise ApiUnreachable("the watch says what is no event")
            if event.get("type") == "ERROR":
                raise _refusal(int(event["object"].get("code", 500)), event["object"], {})
            yield event


def _parse(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _refusal(status: int, told: Mapping[str, Any], headers: Mapping[str, str]) -> ApiError:
    details = told.get("details")
    wait = headers.get("Retry-After") or (details.get("retryAfterSeconds") if isinstance(details, dict) else None)
    try:
        seconds = float(wait) if wait else None
    except ValueError:  # a date
        seconds = None
    return ApiError(status, str(told.get("reason") or ""), str(told.get("message") or ""), seconds)
