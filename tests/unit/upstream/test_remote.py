"""What only the client for other machines does: TLS, proxies, compression."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.helpers.certificates import own_certificate
from tests.helpers.ports import unused_port

from belljar.gateway.upstream.http_response import ConnectionFailed
from belljar.gateway.upstream.remote import RemoteClient
from belljar.gateway.upstream.transport import read_whole
from belljar.testing import LoopbackUpstream, Reply

from .conftest import PATIENCE, Run, request_of, serving, transport


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def fetch(url: str, body: bytes = b"{}") -> tuple[int, bytes]:
    client = RemoteClient()
    try:
        answer = await client.send("POST", url, {}, body, timeout=PATIENCE)
        return answer.status, await read_whole(answer)
    finally:
        await client.close()


@asynccontextmanager
async def secure(context: ssl.SSLContext) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass  # a client that does not trust us
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        await server.wait_closed()


def test_tls_by_the_certificates_of_the_system(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, context = own_certificate(tmp_path)

    async def main() -> None:
        async with secure(context) as url:
            with pytest.raises(ConnectionFailed, match="certificate is not trusted") as caught:
                await fetch(url)
            assert not caught.value.resend
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert await fetch(url) == (200, b"ok")

    run(main())


def test_tls_where_there_is_none(run: Run) -> None:
    async def main() -> None:
        async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        async with serving(plain) as origin:
            await fetch(origin.replace("http://", "https://"))

    with pytest.raises(ConnectionFailed, match="TLS cannot be agreed on"):
        run(main())
    with LoopbackUpstream() as server, pytest.raises(ConnectionFailed, match="no connection"):
        run(fetch(server.base_url.replace("http://", "https://")))


def test_a_proxy_of_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackUpstream(["hi"]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        status, body = run(fetch("http://model.invalid/v1/responses"))
        assert status == 200
        assert b"hi" in body
        assert proxy.requests[0].path == "http://model.invalid/v1/responses"
        monkeypatch.setenv("no_proxy", "model.invalid")
        with pytest.raises(ConnectionFailed, match="host name is not known"):
            run(fetch("http://model.invalid/v1/responses"))


def test_a_proxy_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with unused_port() as port:
        monkeypatch.setenv("http_proxy", f"http://user:secret@127.0.0.1:{port}")
        with pytest.raises(ConnectionFailed, match="proxy cannot be reached") as caught:
            run(fetch("http://model.invalid/v1/responses"))
    assert "secret" not in repr(caught.value)


def test_loopback_goes_by_no_proxy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def main() -> tuple[int, bytes]:
        async with transport() as sender:
            return await sender.get(f"{server.base_url}/models", {}, timeout=PATIENCE)

    with LoopbackUpstream() as server:
        assert run(main())[0] == 200


def test_an_answer_that_was_pressed_together(run: Run) -> None:
    reply = Reply(body=gzip.compress(b"plain"), headers={"content-encoding": "gzip"})
    with LoopbackUpstream([reply]) as server:
        assert run(fetch(f"{server.base_url}/responses")) == (200, b"plain")


def test_long_headers(run: Run) -> None:
    with LoopbackUpstream([Reply(body=b"ok", headers={"x-long": "x" * 30_000})]) as server:
        assert run(fetch(f"{server.base_url}/responses")) == (200, b"ok")


def test_who_needs_only_this_machine_does_not_load_it() -> None:
    code = (
        "import sys; from belljar.gateway.upstream.models import Models;"
        "from belljar.gateway.upstream.transport import Transport; from belljar.config import Upstream;"
        "Models([Upstream(name='a', base_url='http://127.0.0.1:1/v1')], Transport());"
        "assert 'aiohttp' not in sys.modules;"
        "Models([Upstream(name='a', base_url='https://example.com/v1')], Transport());"
        "assert 'aiohttp' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
