"""Files in and out: every byte, every name, any size, never whole in memory."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from tests.sandbox_server.conftest import Box, Client, until

from belljar.sandbox.base import MIB
from belljar.sandbox.local.source import LocalSource

BYTES = bytes(range(256)) * 16


async def chunks(count: int, chunk: bytes = bytes(MIB)) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield chunk


def tar(*members: tuple[str, bytes], **options: Any) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", encoding="utf-8", **options) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


async def put_tar(box: Box, body: object) -> tuple[int, Any]:
    return await box.ask("PUT", "/files", data=body, headers={"Content-Type": "application/x-tar"})


@contextmanager
def allocated(most: int) -> Iterator[None]:
    """Client and server are in this process: together they must not hold more than this at any moment."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most


# -- one file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a.txt",
        "with space & more?#%2F.txt",
        "sub/dir/ü.csv",
        "b\udcff\udc80ytes",
        "ü" * 127 + "x",
        "数" * 85,
        "/".join(["d" * 200] * 19),
        "\n",
    ],
    ids=ascii,
)
async def test_a_name_is_exact_in_every_byte(box: Box, name: str) -> None:
    status, told = await box.client.ask("PUT", box.file(name), data=BYTES)
    assert (status, told["name"], told["size"]) == (200, name, len(BYTES))
    assert told.keys() == {"name", "size", "modified", "type"}
    assert await box.ask("GET", "/files") == (200, {"files": [told]})
    seen = await box.run(f"open({os.fsencode(name)!r}, 'rb').read() == bytes(range(256)) * 16")
    assert seen[0]["data"]["text/plain"] == "True"
    async with box.client.open("GET", box.file(name)) as answer:
        assert answer.headers["Content-Length"] == str(len(BYTES))
        assert answer.content_type == "application/octet-stream"
        assert await answer.read() == BYTES
    assert await box.client.ask("DELETE", box.file(name)) == (204, None)
    assert await box.ask("GET", "/files") == (200, {"files": []})


async def test_an_empty_file(box: Box) -> None:
    assert (await box.client.ask("PUT", box.file("empty"), data=b""))[1]["size"] == 0
    assert await box.client.ask("GET", box.file("empty")) == (200, None)


async def test_a_file_without_a_length(box: Box) -> None:
    assert (await box.client.ask("PUT", box.file("a"), data=chunks(3, b"abc")))[1]["size"] == 9
    assert await box.client.ask("GET", box.file("a")) == (200, b"abcabcabc")


async def test_a_file_larger_than_what_is_held(box: Box) -> None:
    count = 64
    with allocated(count * MIB // 4):
        status, told = await box.client.ask("PUT", box.file("big"), data=chunks(count))
        assert (status, told["size"]) == (200, count * MIB)
        seen = 0
        async with box.client.open("GET", box.file("big")) as answer:
            async for part in answer.content.iter_any():
                seen += len(part)
        assert seen == count * MIB


async def test_a_large_file_whose_length_is_told(box: Box) -> None:
    """It is read past the event loop; the connection is not used again, and the client told so."""
    part = os.urandom(MIB)
    headers = {"Content-Length": str(16 * MIB)}
    async with box.client.open("PUT", box.file("big"), data=chunks(16, part), headers=headers) as answer:
        assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert (await answer.json())["size"] == 16 * MIB
    seen = await box.run("import hashlib; hashlib.sha256(open('big', 'rb').read()).hexdigest()")
    assert seen[0]["data"]["text/plain"] == repr(hashlib.sha256(part * 16).hexdigest())


@pytest.mark.parametrize("wait", [True, False])
async def test_a_client_that_waits_to_be_told_to_send(box: Box, wait: bool) -> None:
    assert (await box.client.ask("PUT", box.file("a"), data=BYTES, expect100=wait))[0] == 200


async def test_a_limit(box: Box) -> None:
    await box.client.ask("PUT", box.file("a"), data=b"12345")
    assert await box.client.ask("GET", box.file("a") + "?limit=5") == (200, b"12345")
    status, answer = await box.client.ask("GET", box.file("a") + "?limit=4")
    assert (status, answer["error"]["code"]) == (413, "too_large")
    assert "5 bytes, more than the 4" in answer["error"]["message"]
    for wrong in ("-1", "x", "", "%D9%A3"):
        status, answer = await box.client.ask("GET", box.file("a") + f"?limit={wrong}")
        assert (status, answer["error"]["param"]) == (400, "limit")


async def test_a_file_that_does_not_fit(client: Client) -> None:
    async with client.box(limits={"disk": MIB}) as box:
        for body in (bytes(2 * MIB - 1), chunks(4)):
            data = io.BytesIO(body) if isinstance(body, bytes) else body
            status, answer = await client.ask("PUT", box.file("big"), data=data)
            assert (status, answer["error"]["code"]) == (413, "too_large")
        assert (await box.ask("GET", "/files"))[1] == {"files": []}
        assert (await client.ask("PUT", box.file("small"), data=b"x"))[0] == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../x", "workspace_security"),
        ("%2e%2e/x", "workspace_security"),
        ("%2Fetc%2Fpasswd", "workspace_security"),
        ("", "workspace_security"),
        ("a%00b", "workspace_security"),
        ("link/x", "workspace_security"),
        ("x" * 256, "invalid_request"),
    ],
)
async def test_names_that_lead_nowhere(client: Client, box: Box, method: str, path: str, code: str) -> None:
    await box.run("import os; os.symlink('/tmp', 'link')")
    status, answer = await client.ask(method, f"{box.path}/files/{path}", data=b"x" if method == "PUT" else None)
    assert (status, answer["error"]["code"]) == (400, code)


async def test_a_file_that_is_not_there(client: Client, box: Box) -> None:
    for method in ("GET", "DELETE"):
        status, answer = await client.ask(method, box.file("none"))
        assert (status, answer["error"]["code"]) == (404, "not_found")


async def test_a_client_that_leaves_in_the_middle_leaves_no_file(source: LocalSource, box: Box) -> None:
    request = f"PUT {box.file('half')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {8 * MIB}\r\n\r\n".encode()
    lease = box.client.app.leases.find(box.id)
    async with box.client.raw(request + bytes(3 * MIB)):
        await until(lambda: bool(lease._here), "the upload has begun")
    await until(lambda: not lease._here, "the upload has ended")

    async def left() -> list[Any]:
        files: list[Any] = (await box.ask("GET", "/files"))[1]["files"]
        return files

    while await left():  # the thread that wrote cleans up after itself
        pass
    assert (await box.run("1"))[-1]["status"] == "ok"


async def test_a_file_that_the_code_makes_shorter_meanwhile(box: Box) -> None:
    """The length was told already: the answer breaks off rather than ends."""
    await box.run("f = open('a', 'wb'); f.truncate(64 << 20)")
    request = f"GET {box.file('a')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    async with box.client.raw(request) as (reader, _):
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"content-length: {64 << 20}".encode() in head.lower()
        await box.run("f.truncate(0)")
        seen = 0
        while data := await reader.read(1 << 20):
            seen += len(data)
        assert seen < 64 << 20


# -- many files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
async def test_many_at_once(box: Box, form: int) -> None:
    wanted = {"a": b"1", "sub/ü": BYTES, "b\udcff": b"", "n" * 200 + "/" + "m" * 200: b"x" * 1000}
    status, answer = await put_tar(box, tar(*wanted.items(), format=form))
    assert status == 200
    assert [(one["name"], one["size"]) for one in answer["files"]] == [(n, len(b)) for n, b in wanted.items()]
    for name, content in wanted.items():
        assert (await box.client.ask("GET", box.file(name)))[1] == (content or None)


async def test_an_archive_of_none(box: Box) -> None:
    assert await put_tar(box, tar()) == (200, {"files": []})


async def test_an_archive_larger_than_what_is_held(box: Box) -> None:
    size, count = 8 * MIB, 8
    info = tarfile.TarInfo("x")
    info.size = size

    async def archive() -> AsyncIterator[bytes]:
        for number in range(count):
            info.name = f"{number}"
            yield info.tobuf()
            async for chunk in chunks(size // MIB):
                yield chunk
        yield bytes(1024)

    with allocated(size * count // 4):
        status, answer = await put_tar(box, archive())
    assert status == 200
    assert [one["size"] for one in answer["files"]] == [size] * count


@pytest.mark.parametrize("told", [True, False], ids=["length", "chunks"])
async def test_what_follows_the_end_of_an_archive_is_left_unread(box: Box, told: bool) -> None:
    """As writers pad them; and the answer arrives all the same."""
    whole = tar(("x", bytes(5 * MIB)))

    async def archive() -> AsyncIterator[bytes]:
        yield whole
        async for chunk in chunks(8):
            yield chunk

    headers = {"Content-Type": "application/x-tar"}
    if told:
        headers["Content-Length"] = str(len(whole) + 8 * MIB)
    for _ in range(3):
        status, answer = await box.ask("PUT", "/files", data=archive(), headers=headers)
        assert (status, [one["size"] for one in answer["files"]]) == (200, [5 * MIB])


def odd(kind: bytes, size: int = 0, content: bytes = b"") -> bytes:
    info = tarfile.TarInfo("odd")
    info.type, info.size, info.linkname = kind, size, "/etc/passwd"
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512) + bytes(1024)


WHOLE = tar(("first", b"1"), ("second", BYTES))


@pytest.mark.parametrize(
    ("body", "code", "says"),
    [
        (odd(tarfile.SYMTYPE), "invalid_request", "'odd' in the archive is not a regular file"),
        (odd(tarfile.LNKTYPE), "invalid_request", "not a regular file"),
        (odd(tarfile.DIRTYPE), "invalid_request", "not a regular file"),
        (odd(tarfile.FIFOTYPE), "invalid_request", "not a regular file"),
        (odd(tarfile.CHRTYPE), "invalid_request", "not a regular file"),
        (odd(tarfile.XHDTYPE, 1 << 30), "invalid_request", "one of its headers is too large"),
        (odd(tarfile.GNUTYPE_LONGNAME, 1 << 30), "invalid_request", "one of its headers is too large"),
        (odd(tarfile.REGTYPE, -512), "invalid_request", "not a whole tar archive"),
        (odd(tarfile.XHDTYPE, 0)[:512] * 3000, "invalid_request", "not a whole tar archive"),
        (odd(tarfile.XHDTYPE, 9, b"\xff\xff nonsens"), "invalid_request", "not a whole tar archive"),
        (b"", "invalid_request", "not a whole tar archive"),
        (b"no archive" * 100, "invalid_request", "not a whole tar archive"),
        (WHOLE[:600], "invalid_request", "not a whole tar archive"),
        (WHOLE[:2048], "invalid_request", "not a whole tar archive"),
        (WHOLE[:1024] + b"garbage " * 64 + WHOLE[1024:], "invalid_request", "not a whole tar archive"),
        (tar(("../x", b"")), "workspace_security", "'../x'"),
        (tar(("/etc/passwd", b"")), "workspace_security", "'/etc/passwd'"),
        (tar(("x" * 300, b"")), "invalid_request", "too long"),
    ],
    ids=range(18),
)
async def test_archives_that_are_refused(box: Box, body: bytes, code: str, says: str) -> None:
    status, answer = await put_tar(box, io.BytesIO(body))
    assert (status, answer["error"]["code"]) == (400, code), answer
    assert says in answer["error"]["message"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
async def test_a_header_takes_no_more_memory_for_being_large(box: Box, kind: bytes) -> None:
    """The bytes do come, and are not gathered."""
    size = 64 * MIB
    head = odd(kind, size)[:512]

    async def archive() -> AsyncIterator[bytes]:
        yield head
        async for chunk in chunks(size // MIB):
            yield chunk

    with allocated(size // 4):
        status, answer = await put_tar(box, archive())
    assert status == 400
    assert "one of its headers is too large" in answer["error"]["message"]


async def test_those_before_a_wrong_one_stay(box: Box) -> None:
    assert (await put_tar(box, tar(("a", b"1"), ("../b", b""), ("c", b""))))[0] == 400
    assert [one["name"] for one in (await box.ask("GET", "/files"))[1]["files"]] == ["a"]


async def test_an_archive_that_does_not_say_so(box: Box) -> None:
    status, answer = await box.ask("PUT", "/files", data=WHOLE)
    assert (status, answer["error"]["param"]) == (400, "Content-Type")


async def test_a_body_whose_chunks_are_garbled(client: Client, box: Box) -> None:
    head = f"PUT {box.file('a')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with client.raw(head + b"zz\r\n") as (reader, _):
        answer = await reader.read()
    assert answer.split()[1] == b"400"
    assert b'{"error":{"code":"invalid_request"' in answer


async def test_what_is_packed_is_not_unpacked(client: Client, box: Box) -> None:
    """A file that is compressed is a file like any other."""
    headers = {"Content-Encoding": "gzip"}
    async with client.open("PUT", box.file("a.gz"), data=b"\x1f\x8bnot really", headers=headers) as answer:
        assert isinstance(answer, aiohttp.ClientResponse)
        assert answer.status == 200
    assert await client.ask("GET", box.file("a.gz")) == (200, b"\x1f\x8bnot really")
