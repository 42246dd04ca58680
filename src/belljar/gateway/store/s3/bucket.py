"""A bucket on a server that speaks S3: the requests of it that we need, tried again where that may help."""

from __future__ import annotations

import asyncio
import io
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from belljar.errors import StoreUnavailable
from belljar.gateway.store.s3 import answers
from belljar.gateway.store.s3.answers import S3Fault, Unfinished
from belljar.gateway.store.s3.signing import NOTHING, Credentials, encode_path, encode_query, hash_body, sign
from belljar.net import find_proxy
from belljar.vendors.retry import RetryLimits, choose_pause

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""Without a byte of the answer; joining the parts of a large object takes a server a while."""
SLOWEST = 100_000
"""Bytes a second, below which sending is given up."""
PATIENCE = 45.0
"""Seconds after which nothing is tried again."""
_RETRIES = RetryLimits(tries=6, first=0.1, longest=3.0, total=15.0)
_BUSY = frozenset({408, 429, 500, 502, 503, 504})
_BUSY_CODES = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "OperationAborted"})
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")


class ObjectMissing(Exception):
    """There is no such object, or no such upload."""


class Damaged(Exception):
    """The object has another size than it was written with."""


class RequestDeclined(StoreUnavailable):
    """The server answers, and will not do it: asking again changes nothing."""

    def __init__(self, message: str, status: int, fault: S3Fault) -> None:
        super().__init__(message)
        self.answered = status
        self.fault = fault


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """Where a bucket is, and below which prefix everything of ours lies in it."""

    bucket: str
    prefix: str
    region: str
    endpoint: str | None = None
    """AWS's own without one."""
    base: str = field(init=False)
    root: str = field(init=False)

    def __post_init__(self) -> None:
        base, root = self.endpoint, f"/{self.bucket}"
        if base is None:
            domain = f"s3.{self.region}.amazonaws.com" + (".cn" if self.region.startswith("cn-") else "")
            # A name with dots fits no certificate of theirs.
            base, root = (f"https://{domain}", root) if "." in self.bucket else (f"https://{self.bucket}.{domain}", "")
        object.__setattr__(self, "base", base.rstrip("/"))
        object.__setattr__(self, "root", root)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/") + (f" at {self.endpoint}" if self.endpoint else "")


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


Sign: TypeAlias = Callable[[], Awaitable[Credentials]]


class Bucket:
    """One session for the life of the process, made in the loop that first asks. Keys are relative to the prefix.

    What a server or the way to it fails at is tried again for some seconds, then `StoreUnavailable`.
    """

    def __init__(
        self,
        address: BucketAddress,
        credentials: Sign,
        *,
        trusted: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._trusted = trusted
        self._clock = clock
        self._sleep = sleep
        self._silence = silence
        parts = urlsplit(address.base)
        self._host = parts.netloc
        self._path = encode_path(parts.path + address.root)
        self._server = f"{parts.scheme}://{parts.netloc}"
        self._prefix = f"{address.prefix.strip('/')}/" if address.prefix.strip("/") else ""
        self._proxy = find_proxy(address.base)
        self._session: aiohttp.ClientSession | None = None

    @property
    def address(self) -> BucketAddress:
        return self._address

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    # -- whole objects ------------------------------------------------------------------------------------------------

    async def put(self, key: str, body: bytes, digest: str) -> None:
        """`digest` is the SHA-256 of the body: the server compares."""
        await self._ask("PUT", key, body=body, digest=digest)

    async def get(self, key: str) -> bytes:
        """A small object, whole. Raises `ObjectMissing`."""
        return (await self._ask("GET", key)).body

    async def measure(self, key: str) -> int:
        """How large it is. Raises `ObjectMissing`."""
        return int((await self._ask("HEAD", key)).headers.get("content-length", "-1"))

    async def delete(self, key: str) -> None:
        """Again is harmless."""
        try:
            await self._ask("DELETE", key)
        except ObjectMissing:
            pass  # most servers do not tell

    async def read(self, key: str, start: int, stop: int, size: int) -> AsyncIterator[bytes]:
        """The bytes from `start` to `stop` of an object that has `size`, as they come.

        A connection that breaks is made again from where it broke. Raises `ObjectMissing` and `Damaged`.
        """
        at, trial, damaged = start, _Trial(self._sleep, self._address), 0
        while at < stop:
            try:
                async with self._open(key, at, stop, size) as chunks:
                    async for chunk in chunks:
                        at += len(chunk)
                        trial.restart()
                        yield chunk
                if at < stop:
                    raise _Broken(f"it ended after {at} of {stop} bytes")
            except _Broken as broken:
                await trial.failed(broken)
            except Damaged:  # or something between us and the server cuts answers short
                damaged += 1
                if damaged == 3:
                    raise
                await trial.failed(_Broken("another size"))

    # -- objects that come in parts -----------------------------------------------------------------------------------

    async def begin_upload(self, key: str) -> str:
        answer = await self._ask("POST", key, {"uploads": ""})
        upload = answers.read_upload_id(answer.body)
        if upload is None:
            raise StoreUnavailable(f"{self._address} began an upload without an id for it; is it an S3 server?")
        return upload

    async def put_part(self, key: str, upload: str, number: int, body: bytes, digest: str) -> str:
        """The tag of the part, of which the whole is made. Raises `ObjectMissing` where the upload is given up."""
        query = {"partNumber": str(number), "uploadId": upload}
        return (await self._ask("PUT", key, query, body=body, digest=digest)).headers.get("etag", "")

    async def complete_upload(self, key: str, upload: str, tags: Sequence[str], size: int) -> None:
        """Put it together. Raises `ObjectMissing` where the upload is given up."""
        body = answers.write_parts(tags)
        try:
            await self._ask("POST", key, {"uploadId": upload}, body=body)
        except ObjectMissing:
            # The answer to an earlier try may have been lost: then the object is there.
            if await self.measure(key) != size:
                raise

    async def abort_upload(self, key: str, upload: str) -> None:
        """Again is harmless."""
        try:
            await self._ask("DELETE", key, {"uploadId": upload})
        except ObjectMissing:
            pass

    async def list_uploads(self) -> AsyncIterator[list[Unfinished]]:
        """Those below the prefix that are unfinished, by the page."""
        after: tuple[str, str] | None = None
        while True:
            query = {"uploads": "", "prefix": self._prefix}
            if after is not None:
                query |= {"key-marker": after[0], "upload-id-marker": after[1]}
            try:
                answer = await self._ask("GET", None, query)
            except ObjectMissing:  # as some say that there is none
                return
            found, following = answers.read_uploads(answer.body)
            ours = [one for one in found if one.key.startswith(self._prefix)]
            yield [one._replace(key=one.key.removeprefix(self._prefix)) for one in ours]
            if following is None or following == after:
                return
            after = following

    # -- how all of them ask ------------------------------------------------------------------------------------------

    async def _ask(
        self,
        method: str,
        key: str | None,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes = b"",
        digest: str | None = None,
    ) -> Answer:
        """The answer, whole, if it is good."""
        trial = _Trial(self._sleep, self._address)
        digest = digest or hash_body(body)
        while True:
            try:
                async with asyncio.timeout(self._silence * 2 + len(body) / SLOWEST):
                    async with self._request(method, key, query or {}, body, digest, {}) as response:
                        answer = Answer(response.status, response.headers, await response.read())
                self._check(answer)
                return answer
            except (_Broken, TimeoutError, aiohttp.ClientError, OSError) as error:
                await trial.failed(_broken(error))

    @asynccontextmanager
    async def _open(self, key: str, start: int, stop: int, size: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """A range of an object, whose answer is checked to be that."""
        whole = start == 0 and stop == size
        headers = {} if whole else {"range": f"bytes={start}-{stop - 1}"}
        try:
            async with self._request("GET", key, {}, b"", NOTHING, headers) as response:
                if response.status == 416:
                    raise Damaged
                if response.status not in (200, 206):
                    self._check(Answer(response.status, response.headers, await response.read()))
                skip = _check_range(response, start, stop, size)
                yield _cut(response.content.iter_any(), skip, stop - start)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise _broken(error) from error

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        key: str | None,
        query: Mapping[str, str],
        body: bytes,
        digest: str,
        headers: Mapping[str, str],
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        path = self._path + ("" if key is None else "/" + encode_path(self._prefix + key))
        path, asked = path or "/", encode_query(query)
        credentials = await self._credentials()
        signed = sign(
            method, self._host, path, asked, headers, digest, credentials, self._address.region, self._clock()
        )
        if body or method in ("PUT", "POST"):
            signed["content-length"] = str(len(body))
        url = URL(f"{self._server}{path}{'?' if asked else ''}{asked}", encoded=True)
        # In pieces: plain bytes would hold up the loop.
        async with self._opened().request(
            method,
            url,
            headers=signed,
            data=io.BytesIO(body) if body else None,
            proxy=self._proxy,
            allow_redirects=False,
        ) as response:
            yield response

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._trusted or True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=self._silence),
                auto_decompress=False,
                skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            )
        return self._session

    def _check(self, answer: Answer) -> None:
        """Raise what an answer means that is not good."""
        fault = answers.read_fault(answer.body)
        if 200 <= answer.status < 300 and fault is None:
            return
        fault = fault or S3Fault()
        if answer.status in _BUSY or fault.code in _BUSY_CODES or 200 <= answer.status < 300:
            raise _Broken(f"{answer.status} {fault.code}".strip(), _after(answer.headers))
        if answer.status == 404 and fault.code != "NoSuchBucket":
            raise ObjectMissing
        said = " ".join(filter(None, (str(answer.status), fault.code, fault.message[:300])))
        raise RequestDeclined(f"{self._address} refuses a request of ours ({said})", answer.status, fault)


class _Broken(StoreUnavailable):
    """Worth another try, `after` some seconds where the server says so."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why, after=after)


class _Trial:
    """How often something has failed, and how long to wait before the next try."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]], address: BucketAddress) -> None:
        self._sleep = sleep
        self._address = address
        self.restart()

    def restart(self) -> None:
        """It goes on: what follows has all its tries."""
        self._failures = 0
        self._waited = 0.0
        self._begun = time.monotonic()

    async def failed(self, broken: _Broken) -> None:
        self._failures += 1
        pause = choose_pause(broken, self._failures, self._waited, _RETRIES, chance=random.random())
        if pause is None or time.monotonic() - self._begun > PATIENCE:
            raise StoreUnavailable(
                f"{self._address} does not answer as it should ({broken}; tried {self._failures} times); "
                "check that it is up and reachable from here"
            ) from broken
        self._waited += pause
        await self._sleep(pause)


def _broken(error: BaseException) -> _Broken:
    if isinstance(error, _Broken):
        return error
    if isinstance(error, TimeoutError):
        return _Broken("no answer in time")
    return _Broken(str(error) or type(error).__name__)


def _check_range(response: aiohttp.ClientResponse, start: int, stop: int, size: int) -> int:
    """How many bytes come before those asked for. Some servers answer a range with 200, and say which it is."""
    told = _RANGE.fullmatch(response.headers.get("content-range", ""))
    if told is None:
        if response.status == 206:
            raise _Broken("206 without saying which bytes")
        if response.content_length not in (None, size):
            raise Damaged
        return start
    first, last, whole = map(int, told.groups())
    if whole != size:
        raise Damaged
    if first != start or last != stop - 1:
        raise _Broken(f"bytes {first} to {last} for {start} to {stop - 1}")
    return 0


async def _cut(chunks: AsyncIterator[bytes], skip: int, size: int) -> AsyncIterator[bytes]:
    """So many bytes, from there."""
    async for chunk in chunks:
        if skip:
            skip, chunk = max(0, skip - len(chunk)), chunk[skip:]
        if chunk := chunk[:size]:
            size -= len(chunk)
            yield chunk
        if not size:
            return


def _after(headers: Mapping[str, str]) -> float:
    try:
        return min(float(headers.get("retry-after", "0")), 10.0)
    except ValueError:
        return 0.0
