"""Files that a provider's code made: fetched from the vendor or taken as they came, never whole in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from belljar.errors import Declined, Garbled, ProviderError, Unreachable
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.gateway.upstream.vendor_files import HostedFiles
from belljar.testing import LoopbackUpstream, Reply
from belljar.vendors.request import HostedFile

from .conftest import KEY, Run, request_of, serving, transport, upstream

OK = b"HTTP/1.1 200 OK\r\n"
Doing = Callable[[HostedFiles], Awaitable[str]]


def kept(id: str = "file_1") -> HostedFile:
    return HostedFile(name=None, type="text/plain", id=id)


async def fetched(base_url: str, file: HostedFile, dialect: str = "anthropic") -> tuple[str, str, list[bytes]]:
    async with transport() as sender:
        model = DialectModel(upstream(base_url, dialect=dialect), sender)
        files = HostedFiles(model.endpoint, sender)
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


# -- given to the vendor ----------------------------------------------------------------------------------------------


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


def given(base_url: str, dialect: str = "anthropic", what: Doing | None = None) -> str:
    """The id that the vendor gave an upload, or what else was asked."""

    async def main() -> str:
        async with transport() as sender:
            model = DialectModel(upstream(base_url, dialect=dialect), sender)
            files = HostedFiles(model.endpoint, sender)
            return await (what(files) if what else files.upload("a.csv", "text/csv", pieces(b"a,b", b"\n1,2"), 7))

    return asyncio.run(main())


def test_an_upload() -> None:
    with LoopbackUpstream() as server:
        id = given(server.base_url)
    assert server.files == {id: ("a.csv", b"a,b\n1,2")}
    (sent,) = server.requests
    assert sent.headers["content-length"] == str(len(sent.body))
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert b"Content-Type: text/csv\r\n" in sent.body


def test_the_same_is_uploaded_again_after_a_while_only() -> None:
    now = 0.0

    async def main(base_url: str) -> list[str]:
        nonlocal now
        async with transport() as sender:
            model = DialectModel(upstream(base_url, dialect="xai"), sender)
            files = HostedFiles(model.endpoint, sender, clock=lambda: now)

            async def once(content: str, name: str = "a.csv") -> str:
                return await files.upload_once(content, name, "text/csv", pieces(content.encode()), len(content))

            ids = [await once("1"), await once("1"), await once("2"), await once("1", "b.csv")]
            now = 3601.0
            return [*ids, await once("1"), await once("1")]

    with LoopbackUpstream() as server:
        first, same, other, named, later, still = asyncio.run(main(server.base_url))
    assert (first, later) == (same, still)
    assert len({first, other, named, later}) == len(server.requests) == 4


def test_of_many_uploads_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belljar.gateway.upstream.vendor_files._MOST_UPLOADS", 2)

    async def main(base_url: str) -> None:
        async with transport() as sender:
            model = DialectModel(upstream(base_url, dialect="xai"), sender)
            files = HostedFiles(model.endpoint, sender)
            for content in ("1", "2", "1", "3", "1", "2"):
                await files.upload_once(content, "a.csv", "text/csv", pieces(content.encode()), 1)

    with LoopbackUpstream() as server:
        asyncio.run(main(server.base_url))
    assert [data for _, data in server.files.values()] == [b"1", b"2", b"3", b"2"]


def test_an_upload_is_put_into_a_container() -> None:
    with LoopbackUpstream(files={"file_1": ("a.csv", b"")}) as server:
        lies = given(server.base_url, "openai", lambda files: files.place("cntr_1/..", "file_1"))
    assert lies == "/mnt/data/a.csv"
    (sent,) = server.requests
    assert (sent.path, sent.json) == ("/v1/containers/cntr_1%2F../files", {"file_id": "file_1"})


@pytest.mark.parametrize(
    ("dialect", "what"),
    [
        ("chat", lambda files: files.upload("a", "", pieces(), 0)),
        ("anthropic", lambda files: files.place("c", "f")),
    ],
)
def test_a_vendor_without_a_place_for_it(dialect: str, what: Doing) -> None:
    with pytest.raises(ProviderError, match="lab has no "):
        given("http://127.0.0.1:1/v1", dialect, what)


@pytest.mark.parametrize(
    ("reply", "error", "why"),
    [
        (Reply(body=b"{}"), Garbled, "gave no id for it"),
        (Reply(status=400, body=f'{{"error":{{"message":"{KEY}"}}}}'.encode()), Declined, r"lab: \[key\]"),
    ],
)
def test_an_upload_that_fails(reply: Reply, error: type[ProviderError], why: str) -> None:
    with LoopbackUpstream() as server:
        server.uploads = reply
        with pytest.raises(error, match=why):
            given(server.base_url)


def test_an_upload_to_nobody() -> None:
    with pytest.raises(Unreachable, match=r"lab at http://127\.0\.0\.1:1 cannot be reached"):
        given("http://127.0.0.1:1/v1")


# -- as Google does it ------------------------------------------------------------------------------------------------


def answered(body: object, *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = "".join(f"{line}\r\n" for line in (f"content-length: {len(data)}", *headers))
    return OK + f"{lines}\r\n".encode() + data


def file(state: str) -> dict[str, str]:
    return {"name": "files/a b", "uri": "https://x.example/files/ab", "state": state}


@pytest.mark.parametrize(
    ("states", "error"),
    [(["ACTIVE"], None), (["PROCESSING", "PROCESSING", "ACTIVE"], None), (["PROCESSING", "FAILED"], Declined)],
)
def test_an_upload_in_steps(
    monkeypatch: pytest.MonkeyPatch, states: list[str], error: type[ProviderError] | None
) -> None:
    monkeypatch.setattr("belljar.gateway.upstream.vendor_files._PAUSE", 0)
    left = iter(states)
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while asked := await request_of(reader):
            heads.append(asked.partition(b"\r\n")[0].decode())
            if b"upload-command: start" in asked:
                host = asked.partition(b"host: ")[2].partition(b"\r\n")[0].decode()
                writer.write(answered({}, f"x-goog-upload-url: http://{host}/upload/here"))
            elif asked.startswith(b"POST"):
                writer.write(answered({"file": file(next(left))}))
            else:
                writer.write(answered(file(next(left))))
            await writer.drain()

    async def main() -> str:
        async with serving(answer) as base_url, transport() as sender:
            model = DialectModel(upstream(f"{base_url}/v1", dialect="gemini"), sender)
            files = HostedFiles(model.endpoint, sender)
            return await files.upload("a.csv", "text/csv", pieces(b"1"), 1)

    if error is not None:
        with pytest.raises(error, match=r"lab: it could not make use of the file 'a\.csv'"):
            asyncio.run(main())
    else:
        assert asyncio.run(main()) == "https://x.example/files/ab"
    assert heads[:2] == ["POST /upload/v1/files HTTP/1.1", "POST /upload/here HTTP/1.1"]
    assert heads[2:] == ["GET /v1/files/a%20b HTTP/1.1"] * (len(states) - 1)


@pytest.mark.parametrize("target", ["", "https://elsewhere.example/upload"])
def test_the_key_goes_nowhere_else(target: str) -> None:
    with LoopbackUpstream() as server:
        server.uploads = Reply(body=b"{}", headers={"x-goog-upload-url": target})
        with pytest.raises(Garbled, match="gave no address of its own"):
            given(server.base_url, "gemini")
        assert len(server.requests) == 1


def test_vertex_takes_no_uploads() -> None:
    async def main() -> Any:
        async with transport() as sender:
            model = DialectModel(upstream("http://127.0.0.1:1/v1", dialect="gemini", quirks="vertex"), sender)
            return HostedFiles(model.endpoint, sender).premises

    premises = asyncio.run(main())
    assert (premises.upload, premises.inline) == (None, 14 << 20)
