"""Files that a provider's code made: fetched from the vendor or taken as they came, never whole in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from belljar.dialects.deltas import HostedFile
from belljar.errors import Garbled, ProviderError, Unreachable
from belljar.gateway.upstream.adapter import DIALECTS, DialectModel
from belljar.gateway.upstream.hosted import HostedFiles
from belljar.testing import LoopbackUpstream

from .conftest import KEY, Run, request_of, serving, transport, upstream

OK = b"HTTP/1.1 200 OK\r\n"


def kept(id: str = "file_1") -> HostedFile:
    return HostedFile(name=None, type="text/plain", id=id)


async def fetched(base_url: str, file: HostedFile, dialect: str = "anthropic") -> tuple[str, str, list[bytes]]:
    async with transport() as sender:
        model = DialectModel(upstream(base_url, dialect=dialect), sender)
        files = HostedFiles(model.endpoint, sender, DIALECTS[dialect])
        async with files.open(file) as opened:
            return opened.name, opened.type, [chunk async for chunk in opened.chunks]


def test_a_file_that_the_vendor_keeps(run: Run, address: Callable[[LoopbackUpstream], str]) -> None:
    data = bytes(range(256)) * 20_000
    with LoopbackUpstream(files={"file_1": ("chart.png", data)}) as server:
        name, type, chunks = run(fetched(address(server), kept()))
    assert (name, type) == ("chart.png", "text/plain")
    assert len(chunks) > 1
    assert b"".join(chunks) == data
    about, content = server.requests
    assert (about.path, content.path) == ("/v1/files/file_1", "/v1/files/file_1/content")
    assert content.headers["authorization"] == f"Bearer {KEY}"
    assert content.headers["anthropic-version"] == "2026-10-21"


def test_a_file_that_came_with_the_answer() -> None:
    file = HostedFile(name="a.png", type="image/png", data=b"png")
    assert asyncio.run(fetched("http://127.0.0.1:1/v1", file)) == ("a.png", "image/png", [b"png"])


def test_an_id_cannot_lead_elsewhere() -> None:
    with LoopbackUpstream() as server, pytest.raises(ProviderError):
        asyncio.run(fetched(server.base_url, kept("../models?x=")))
    assert server.requests[0].path == "/v1/files/..%2Fmodels%3Fx%3D"


@pytest.mark.parametrize(("dialect", "file"), [("chat", kept()), ("anthropic", HostedFile(name="a", type=""))])
def test_a_file_that_nobody_can_fetch(dialect: str, file: HostedFile) -> None:
    with pytest.raises(ProviderError, match="lab made a file and gave no way to fetch it"):
        asyncio.run(fetched("http://127.0.0.1:1/v1", file, dialect))


def test_a_file_that_is_gone() -> None:
    with LoopbackUpstream() as server, pytest.raises(ProviderError, match="lab: there is no such path"):
        asyncio.run(fetched(server.base_url, kept()))


@pytest.mark.parametrize(
    ("about", "content", "error"),
    [
        (OK + b"content-length: 2\r\n\r\n[]", b"", Garbled),
        (OK + b"content-length: 2\r\n\r\n{}", OK + b"content-length: 9\r\n\r\nhalf", Unreachable),
        (b"HTTP/1.1 500 No\r\ncontent-length: %d\r\n\r\n%b" % (len(KEY), KEY.encode()), b"", ProviderError),
    ],
)
def test_a_server_that_fails(about: bytes, content: bytes, error: type[ProviderError]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await request_of(reader)
        writer.write(content if b"/content" in asked else about)
        await writer.drain()
        if b"/content" not in asked:
            asked = await request_of(reader)
            writer.write(content)
            await writer.drain()

    async def main() -> None:
        async with serving(answer) as base_url:
            await fetched(f"{base_url}/v1", kept())

    with pytest.raises(error, match="lab") as caught:
        asyncio.run(main())
    assert KEY not in str(caught.value)
