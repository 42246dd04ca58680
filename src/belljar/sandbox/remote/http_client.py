"""HTTP client of a sandbox server: one session, checked answers, errors in plain words."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import NoReturn
from urllib.parse import quote_from_bytes

import aiohttp
from yarl import URL

from belljar.errors import BadSettings, BelljarError, InvalidRequest, Lost, Refused, WorkspaceSecurityError
from belljar.net import watched_socket
from belljar.sandbox import codec
from belljar.sandbox.codec import Told

_UNIX = "unix://"
_CONNECT = 10.0
_SILENCE = 60.0
"""Seconds without a byte after which a server is taken for dead: one that lives says something every 15."""
_IDLE = 15.0
"""Seconds that a connection is kept for the next request: less than any server keeps it, or a request might meet its
end, and nobody could tell whether it had been heard."""
START = "start it with `belljar sandbox`, or change sandbox_url"
"""What to do about a server that does not answer."""
_BUFFER = 1 << 18
_PROMPT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE)
"""Of what a server does at once."""
_PATIENT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT)


class NotReached(Exception):
    """Nobody listens there: nothing has been asked."""


class ServerConnectionFailed(Exception):
    """The connection ended before the answer did; what was asked may have been done."""


class SandboxServerClient:
    """Asks one server; belongs to the event loop that first does."""

    def __init__(self, url: str, token: str | None, remedy: str = START) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._remedy = remedy
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.api: int | None = None
        """The version of what we say to each other, once the server has been looked at."""
        self.executes_only = False
        """It has `/execute` and no `/v1`, as far as it was looked at."""

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        path: str,
        told: Mapping[str, object] | None = None,
        *,
        data: bytes | AsyncIterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        prompt: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, once its head is there and says yes; else the server's own error is raised here.

        `prompt` is for what a server does at once. Leaving the context before the answer has ended closes the
        connection. Raises `NotReached` and `ConnectionFailed` too.
        """
        body: io.BytesIO | bytes | AsyncIterable[bytes] | None = data
        if told is not None:
            said = codec.encode_json(told)
            body = said if len(said) <= _BUFFER else io.BytesIO(said)  # in pieces, or it would hold up the loop
        answer = await self._send(method, path, body, headers, _PROMPT if prompt else _PATIENT)
        with self._reading(answer):
            if answer.status >= 400:
                await self._complain(answer)
            yield answer

    async def tell(self, method: str, path: str, *, headers: Mapping[str, str] | None = None) -> Told:
        """The same, for an answer that is one object, or none."""
        async with self.ask(method, path, headers=headers) as answer:
            return await read(answer)

    async def look(self) -> Told:
        """What the server says of itself, well or not; `Refused` while it cannot be had, `BadSettings` for good."""
        try:
            return await self.look_once()
        except (NotReached, ServerConnectionFailed) as error:
            raise self.refusal(error) from None

    async def look_once(self) -> Told:
        """The same, where a server that is not reached, or breaks off, is told as of any other request."""
        answer = await self._send("GET", "/health", None, None, aiohttp.ClientTimeout(total=_CONNECT))
        with self._reading(answer):
            body = await _head(answer)
        told: Told = {}
        with contextlib.suppress(Lost):
            told = codec.decode_line(body)
        if "api" not in told:
            if answer.status >= 500:  # of something in between, which cannot reach it either
                raise Refused(f"the sandbox server at {self.url} does not answer: {_status(answer)}; {self._remedy}")
            await self._check_execute(told, answer)
            self.api, self.executes_only = None, True
            return told
        self.executes_only = False
        self.api = self._common_version(told["api"], told.get("api_oldest", told["api"]))
        return told

    async def _check_execute(self, told: Told, answer: aiohttp.ClientResponse) -> None:
        """Whether a server that knows no `/v1` has the small API at least: asked for nothing, it says that."""
        if "status" not in told or answer.status >= 400:
            raise self._stranger(answer)
        if (mode := told.get("mode", "python")) != "python":
            raise BadSettings(f"sandbox_url: the sandbox server at {self.url} runs {mode}, and code here is Python")
        if not self.executes_only:
            status, said = await self.execute(b'{"code":""}', 1 << 16)
            if status not in (400, 429) or not said.lstrip().startswith(b"{"):
                raise self._stranger(answer)

    async def execute(self, body: bytes, most: int) -> tuple[int, bytes]:
        """`POST /execute`: the status, and the whole of the answer, if that has no more bytes than `most`."""
        headers = {"Content-Type": "application/json"}
        answer = await self._send("POST", "/execute", io.BytesIO(body), headers, _PATIENT)
        with self._reading(answer):
            told = await _head(answer, most)
            if answer.status in (401, 403):
                raise self._bad_token()
            if not answer.content.at_eof():
                raise ServerConnectionFailed(f"its answer has more than {most} bytes")
            return answer.status, told

    def _common_version(self, newest: object, oldest: object) -> int:
        """The newest that both sides speak; `BadSettings` where there is none."""
        if isinstance(newest, int) and isinstance(oldest, int):
            common = min(newest, codec.API)
            if common >= max(oldest, codec.OLDEST_API):
                return common
        raise BadSettings(
            f"sandbox_url: the sandbox server at {self.url} speaks versions {oldest!r} to {newest!r} of the API, "
            f"and this speaks {codec.OLDEST_API} to {codec.API}; bring the older side up to date"
        )

    async def close(self) -> None:
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def refusal(self, error: NotReached | ServerConnectionFailed) -> Refused:
        return Refused(f"the sandbox server at {self.url} does not answer: {error}; {self._remedy}")

    def loss(self, error: NotReached | ServerConnectionFailed) -> Lost:
        return Lost(f"the sandbox is gone: the sandbox server at {self.url} does not answer any more: {error}")

    # -- one request --------------------------------------------------------------------------------------------------

    async def _send(
        self,
        method: str,
        path: str,
        body: io.BytesIO | bytes | AsyncIterable[bytes] | None,
        headers: Mapping[str, str] | None,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """The answer, once its head is there, whatever it says; it is read in `_reading`."""
        session = self._open_session()
        try:
            return await session.request(
                method,
                URL(self._base + path, encoded=True),
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            _raise(error, closed=self._closed)

    @contextlib.contextmanager
    def _reading(self, answer: aiohttp.ClientResponse) -> Iterator[None]:
        """Around all that is read of an answer: what fails is put into words, and the connection kept or closed."""
        try:
            yield
        except (aiohttp.ClientError, TimeoutError) as error:
            _raise(error, closed=self._closed)
        finally:
            answer.release() if answer.content.at_eof() else answer.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Lost("the source is closed")
        if self._session is not None and self._loop is not asyncio.get_running_loop():
            raise InvalidRequest(
                f"source: the RemoteSource of {self.url} is used by another event loop already; make one for each",
                param="source",
            )
        if self._session is None:
            self._loop = asyncio.get_running_loop()
            connector: aiohttp.BaseConnector
            if self.url.startswith(_UNIX):
                self._base = "http://sandbox"
                connector = aiohttp.UnixConnector(self.url.removeprefix(_UNIX), limit=0, keepalive_timeout=_IDLE)
            else:
                self._base = self.url
                connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE, socket_factory=watched_socket)
            who = {"Authorization": f"Bearer {self._token}"} if self._token else {}
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={**who, "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=_BUFFER,
            )
        return self._session

    async def _complain(self, answer: aiohttp.ClientResponse) -> NoReturn:
        try:
            told = codec.decode_line(await _head(answer))["error"]
            error = codec.decode_error(told) if isinstance(told, dict) else None
        except (Lost, KeyError):
            error = None
        if answer.status == 401:
            raise self._bad_token()
        if error is None and answer.status >= 500:
            raise ServerConnectionFailed(_status(answer))
        raise error or self._stranger(answer)

    def _bad_token(self) -> BadSettings:
        return BadSettings(
            f"sandbox_token: the sandbox server at {self.url} does not take "
            f"{'ours' if self._token else 'requests without one'}; set BELLJAR_SANDBOX_TOKEN to its token"
        )

    def _stranger(self, answer: aiohttp.ClientResponse) -> BelljarError:
        return BadSettings(
            f"sandbox_url: what answers at {self.url} is no belljar sandbox ({_status(answer)}); start one with "
            "`belljar sandbox` and name its address"
        )


def _raise(error: Exception, *, closed: bool) -> NoReturn:
    """What a failed request means."""
    if closed:
        raise Lost("the source is closed") from None
    if isinstance(error, RuntimeError):
        raise error
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        why = getattr(error, "os_error", None)
        raise NotReached((why and why.strerror) or f"no connection within {_CONNECT:g} s") from None
    raise ServerConnectionFailed(str(error) or type(error).__name__) from None


def _status(answer: aiohttp.ClientResponse) -> str:
    return f"{answer.status} {answer.reason or ''}".strip()


# -- answers ----------------------------------------------------------------------------------------------------------


async def _head(answer: aiohttp.ClientResponse, limit: int = 1 << 16) -> bytes:
    """As much of the body as anybody can want of an answer that may not be ours."""
    pieces, size = [], 0
    while size < limit and (piece := await answer.content.readany()):
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


async def read(answer: aiohttp.ClientResponse) -> Told:
    """An answer that is one object, or none."""
    body = await answer.read()
    return codec.decode_line(body) if body else {}


async def lines(answer: aiohttp.ClientResponse) -> AsyncGenerator[Told, None]:
    """The lines of an answer that goes on, without those that only say so. `ConnectionFailed` if it falls silent."""
    parts: list[bytes] = []  # of a line that may be very long
    while not answer.content.at_eof():
        try:
            async with asyncio.timeout(_SILENCE):
                data = await answer.content.readany()
        except TimeoutError:
            raise ServerConnectionFailed(f"nothing was heard for {_SILENCE:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ServerConnectionFailed(str(error) or type(error).__name__) from None
        if not data:
            return
        *ended, rest = data.split(b"\n")
        for line in ended:
            if parts:
                line = b"".join((*parts, line))
                parts.clear()
            if told := codec.decode_line(line):
                yield told
        if rest:
            parts.append(rest)


# -- names ------------------------------------------------------------------------------------------------------------


def file_name(name: str) -> bytes:
    """A name in bytes; what neither an address nor an archive could carry is refused here, the rest by the server."""
    if not name or "\0" in name:
        raise WorkspaceSecurityError(
            f"name: {name!r} does not name a file under /mnt/data; use a relative path without '..'"
        )
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"name: {name!r} has a lone surrogate, which no file name can hold", param="name"
        ) from None


def file_path(name: str) -> str:
    """A name as the end of an address, exact in every byte: no dot or slash that somebody might tidy away."""
    return quote_from_bytes(file_name(name), safe="").replace(".", "%2E")
