"""Two S3 servers of others, each in a process of its own, and a proxy before them that counts, breaks and cuts."""

from __future__ import annotations

import asyncio
import io
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import aiohttp
from aiohttp import web
from tests.helpers.ports import free_port
from yarl import URL

from belljar.gateway.store.s3.bucket import Bucket, BucketAddress
from belljar.gateway.store.s3.signing import Credentials

CREDENTIALS = Credentials("belljar-access-key", "belljar-secret-key-of-tests")
BUCKET = "belljar"
SERVERS = ("moto", "rclone")
_PATIENCE = 60.0


VARIABLES = {
    "AWS_ACCESS_KEY_ID": CREDENTIALS.access_key,
    "AWS_SECRET_ACCESS_KEY": CREDENTIALS.secret_key,
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""By which a gateway finds the credentials, and nothing of this machine's own."""


async def credentials() -> Credentials:
    return CREDENTIALS


class S3Server:
    """One that runs, with a bucket; what is in it is looked at by somebody else's client."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url

    @cached_property
    def client(self) -> Any:
        import boto3  # takes a second
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS.access_key,
            aws_secret_access_key=CREDENTIALS.secret_key,
            config=Config(s3={"addressing_style": "path"}),
        )

    def address(self, prefix: str | None = None, url: str | None = None) -> BucketAddress:
        return BucketAddress(BUCKET, secrets.token_hex(8) if prefix is None else prefix, "us-east-1", url or self.url)

    def open(self, prefix: str | None = None, url: str | None = None, **options: Any) -> Bucket:
        return Bucket(self.address(prefix, url), credentials, **options)

    def objects(self, prefix: str) -> dict[str, int]:
        """The sizes of all below the prefix, by key without it."""
        found: dict[str, int] = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/"):
            found |= {one["Key"].removeprefix(f"{prefix}/"): one["Size"] for one in page.get("Contents", [])}
        return found

    def uploads(self, prefix: str) -> list[str]:
        """Keys of those that are unfinished."""
        try:
            answer = self.client.list_multipart_uploads(Bucket=BUCKET, Prefix=f"{prefix}/")
        except self.client.exceptions.NoSuchUpload:  # as rclone says that there is none
            return []
        return [one["Key"].removeprefix(f"{prefix}/") for one in answer.get("Uploads", [])]


@contextmanager
def running(name: str, place: Path) -> Iterator[S3Server]:
    """A server whose objects lie below the place, if they lie anywhere."""
    place.mkdir(parents=True, exist_ok=True)
    port = free_port()
    if name == "rclone":
        keys = f"{CREDENTIALS.access_key},{CREDENTIALS.secret_key}"
        program = [str(Path(sys.executable).with_name("rclone")), "serve", "s3", "--addr", f"127.0.0.1:{port}"]
        command = [*program, "--auth-key", keys, str(place)]
    else:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "HOME": str(place), "RCLONE_CONFIG": "/dev/null"}
    with open(place.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        _wait(port, process, place.with_suffix(".log"))
        server = S3Server(name, f"http://127.0.0.1:{port}")
        server.client.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise AssertionError(f"the S3 server does not listen: {log.read_text()[-2000:]}")


Trouble: TypeAlias = Literal["503", "half", "lying half", "reset", "lost answer", "silence", "garbage", "other bytes"]


class Proxy:
    """Passes requests on, and counts them; `trouble` says what happens to one instead."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.passed = 0
        """Bytes of answers."""
        self.trouble: Callable[[web.Request], Trouble | None] = lambda request: None
        self.hold: Callable[[web.Request], Awaitable[None]] | None = None
        """Is awaited before a request is passed on."""
        self.answer: tuple[int, str] | None = None
        """What every request is told instead."""

    def fail(self, times: int, trouble: Trouble, method: str | None = None, query: str | None = None) -> None:
        """So many of the next requests, or of those of one kind."""
        left = [times]

        def choose(request: web.Request) -> Trouble | None:
            fits = (method is None or request.method == method) and (query is None or query in request.query)
            if not fits or not left[0]:
                return None
            left[0] -= 1
            return trouble

        self.trouble = choose

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, auto_decompress=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
        self._session = aiohttp.ClientSession(auto_decompress=False)
        try:
            yield self
        finally:
            await self._session.close()
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked[request.method] += 1
        if self.hold is not None:
            await self.hold(request)
        if self.answer is not None:
            return web.Response(status=self.answer[0], text=self.answer[1])
        trouble = self.trouble(request)
        match trouble:
            case "503":
                return web.Response(status=503, text="<Error><Code>SlowDown</Code><Message>no</Message></Error>")
            case "garbage":
                return web.Response(status=200, text="\x00 this is no XML", headers={"content-range": "x"})
            case "reset":
                return self._cut(request)
            case "silence":
                await asyncio.sleep(30)
        url = URL(self._target + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, headers=request.headers, data=io.BytesIO(body) if body else None, allow_redirects=False
        ) as answer:
            data = await answer.read()
        if trouble == "lost answer":
            return self._cut(request)
        if trouble == "other bytes":
            data = bytes(len(data))
        skipped = ("content-length", "transfer-encoding", "connection")
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in skipped}
        response = web.StreamResponse(status=answer.status, headers=headers)
        half = data[: len(data) // 2] if trouble in ("half", "lying half") else data
        if request.method == "HEAD":
            response.content_length = answer.content_length
        elif answer.status != 204:
            response.content_length = len(half) if trouble == "lying half" else len(data)
        await response.prepare(request)
        if request.method != "HEAD":
            await response.write(half)
            self.passed += len(half)
        if trouble == "half":
            return self._cut(request, response)
        await response.write_eof()
        return response

    def _cut(self, request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.close()
        return response or web.Response()
