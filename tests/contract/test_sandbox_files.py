"""The workspace: files exact in name and bytes both ways, changes reported, nothing outside within reach."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import re
import resource
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from belljar.errors import BelljarError, InvalidRequest, NotFound, TooLarge, WorkspaceSecurityError
from belljar.sandbox.base import KIB, MIB, Content, FileInfo
from belljar.sandbox.outputs import Run

from .conftest import Box, Boxes, needs

NAMES = [
    "plain.txt",
    "with space.csv",
    " leading and trailing ",
    "-rf",
    "--help",
    "ünïcödé-数据-🗻.json",
    "e\u0301 is not \u00e9",
    "new\nline",
    "tab\tquote'\"`$(x)\\",
    "*?[a].txt",
    ".hidden",
    "...",
    "~",
    "%41&#65;",
    "CON",
    "x" * 255,
    "数" * 85,
    "a/b/c/d.txt",
    "/".join(["deep"] * 60),
    "/".join(["y" * 200] * 19),
    "not utf-8 \udcff\udcfe",
]


@pytest.mark.parametrize(("head", "runs"), [(b"#!/bin/sh\n", True), (b"", False)], ids=["program", "text"])
async def test_a_program_may_be_run(box: Box, head: bytes, runs: bool) -> None:
    await box.files.write("whole", head + b"echo ran\n")
    await box.files.write("bin/pieces", iter([head, b"echo ran\n"]))
    for name in ("whole", "bin/pieces"):
        assert (await box.run(f"import os\nos.access({name!r}, os.X_OK)")).text == str(runs)
    if runs:
        assert (await box.run("import subprocess\nsubprocess.check_output(['./whole'])")).text == "b'ran\\n'"


def changes(run: Run) -> list[tuple[str, int, str]]:
    return sorted((file.name, file.size, file.change) for file in run.files)


@pytest.mark.parametrize("name", NAMES)
async def test_names_are_exact_in_every_byte(box: Box, name: str) -> None:
    content = b"\0\r\n\xff" + os.fsencode(name)
    info = await box.files.write(name, content)
    assert (info.name, info.size) == (name, len(content))
    path = os.fsencode(name)
    assert (await box.run(f"open({path!r}, 'rb').read() == {content!r}")).text == "True"
    assert [found.name for found in await box.files.list()] == [name]
    run = await box.run(f"with open({path!r}, 'ab') as f: f.write(b'!')")
    assert changes(run) == [(name, len(content) + 1, "modified")]
    assert await box.files.read(name) == content + b"!"
    await box.files.delete(name)
    assert await box.files.list() == []


@pytest.mark.parametrize("name", NAMES)
async def test_names_made_inside_are_reported_exactly(box: Box, name: str) -> None:
    path = os.fsencode(name)
    run = await box.run(
        f"import os\np = {path!r}\nos.makedirs(os.path.dirname(p) or b'.', exist_ok=True)\nopen(p, 'wb').write(b'made')"
    )
    assert changes(run) == [(name, 4, "created")]
    assert await box.files.read(name) == b"made"
    assert b"".join([chunk async for chunk in box.files.stream(name)]) == b"made"


async def test_every_byte_survives_both_ways(box: Box) -> None:
    content = bytes(range(256)) * 4
    await box.files.write("in.bin", content)
    run = await box.run("data = open('in.bin', 'rb').read(); open('out.bin', 'wb').write(data[::-1])")
    assert changes(run) == [("out.bin", 1024, "created")]
    assert await box.files.read("out.bin") == content[::-1]


@pytest.mark.parametrize(
    ("make", "stored"),
    [
        (lambda: b"", b""),
        (lambda: b"bytes", b"bytes"),
        (lambda: "tëxt", "tëxt".encode()),
        (lambda: io.BytesIO(b"a file"), b"a file"),
        (lambda: [b"in ", b"", b"chunks"], b"in chunks"),
    ],
)
async def test_content_comes_in_several_kinds(box: Box, make: Callable[[], Content], stored: bytes) -> None:
    info = await box.files.write("x", make())
    assert (info.size, await box.files.read("x")) == (len(stored), stored)


@needs("large")
async def test_a_large_file_is_streamed_with_little_memory(boxes: Boxes) -> None:
    size, piece = 64 * MIB, os.urandom(MIB)
    digest = hashlib.sha256(piece * (size // MIB)).hexdigest()

    def chunks() -> Iterator[bytes]:
        for _ in range(size // MIB):
            yield piece

    async with boxes(disk=256 * MIB) as box:
        await box.files.write("warm", b"x")
        before = peak()
        info = await box.files.write("large.bin", chunks())
        seen = hashlib.sha256()
        async for chunk in box.files.stream("large.bin", chunk=256 * KIB):
            assert len(chunk) <= 256 * KIB
            seen.update(chunk)
        assert (info.size, seen.hexdigest()) == (size, digest)
        assert peak() - before < 24 * MIB
        assert (
            await box.run("import hashlib; hashlib.sha256(open('large.bin', 'rb').read()).hexdigest()")
        ).text == repr(digest)


def peak() -> int:
    """The most memory this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


@needs("large", "variables")
async def test_a_sparse_file_is_no_larger_than_the_workspace(boxes: Boxes) -> None:
    async with boxes(disk=8 * MIB) as box:
        assert (
            await box.run("import os; os.truncate(os.open('sparse', os.O_CREAT | os.O_RDWR), 1 << 40)")
        ).exit.status == "raised"
        assert (await box.run("os.truncate('sparse', 8 << 20)")).exit.ok
        assert await box.files.read("sparse") == bytes(8 * MIB)
        with pytest.raises(TooLarge):
            await box.files.read("sparse", limit=MIB)
        assert len(await box.files.read("sparse", limit=8 * MIB)) == 8 * MIB


async def test_a_file_that_does_not_fit_leaves_nothing_behind(boxes: Boxes) -> None:
    async with boxes(disk=2 * MIB) as box:
        await box.files.write("kept", b"old")
        for name in ("kept", "new"):
            with pytest.raises(TooLarge, match="does not fit"):
                await box.files.write(name, (bytes(MIB) for _ in range(5)))
        assert [(info.name, info.size) for info in await box.files.list()] == [("kept", 3)]
        assert (await box.run("import os; os.listdir()")).text == "['kept']"


async def test_many_files_are_written_at_once(box: Box) -> None:
    files = [(name, b"\0\r\n\xff" + os.fsencode(name)) for name in NAMES]
    infos = await box.files.write_many(files)
    assert [(info.name, info.size) for info in infos] == [(name, len(content)) for name, content in files]
    assert sorted(infos, key=lambda info: info.name) == await box.files.list()
    expected = {os.fsencode(name): content for name, content in files}
    run = await box.run(f"expected = {expected!r}\nall(open(p, 'rb').read() == c for p, c in expected.items())")
    assert (run.text, run.files) == ("True", ())


async def test_many_of_no_files_are_none(box: Box) -> None:
    assert await box.files.write_many(iter(())) == []
    assert await box.files.list() == []


async def test_of_many_files_the_last_of_a_name_counts(box: Box) -> None:
    await box.files.write("x", b"before")
    infos = await box.files.write_many([("x", b"1"), ("a/y", b"2"), ("/mnt/data/x", b"34")])
    assert [(info.name, info.size) for info in infos] == [("x", 1), ("a/y", 1), ("x", 2)]
    assert await box.files.read("x") == b"34"


async def test_contents_of_many_files_come_in_several_kinds(box: Box) -> None:
    contents: list[Content] = [b"", b"bytes", "tëxt", io.BytesIO(b"a file"), [b"in ", b"", b"chunks"], iter([b"once"])]
    stored = [b"", b"bytes", "tëxt".encode(), b"a file", b"in chunks", b"once"]
    await box.files.write_many((str(place), content) for place, content in enumerate(contents))
    assert [await box.files.read(str(place)) for place in range(len(contents))] == stored


async def test_many_files_are_consumed_off_the_event_loop(box: Box) -> None:
    threads: list[int] = []

    def chunks() -> Iterator[bytes]:
        threads.append(threading.get_ident())
        yield b"x"

    def files() -> Iterator[tuple[str, Iterator[bytes]]]:
        for name in ("a", "b"):
            threads.append(threading.get_ident())
            yield name, chunks()

    await box.files.write_many(files())
    assert len(threads) == 4
    assert threading.get_ident() not in threads


async def test_contents_of_many_files_are_read_one_after_the_other(box: Box) -> None:
    """So one open file will do for all of them: none is asked for before the one before it is read."""
    whole = io.BytesIO(b"abcdef")

    def files() -> Iterator[tuple[str, Iterator[bytes]]]:
        for place in range(3):
            assert whole.tell() == 2 * place
            yield str(place), (whole.read(1) for _ in range(2))

    await box.files.write_many(files())
    assert [await box.files.read(str(place)) for place in range(3)] == [b"ab", b"cd", b"ef"]


@pytest.mark.parametrize("bad", ["../out", "folder", "kept/below", "x" * 256])
async def test_of_many_files_one_that_fails_is_named_and_those_before_it_stay(box: Box, bad: str) -> None:
    await box.files.write("kept", b"old")
    await box.files.write("folder/in", b"")
    with pytest.raises(BelljarError, match=re.escape(bad[:80])):
        await box.files.write_many([("a", b"1"), (bad, b"2"), ("z", b"3")])
    assert [info.name for info in await box.files.list()] == ["a", "folder/in", "kept"]
    assert await box.files.read("a") == b"1"


async def test_of_many_files_one_that_does_not_fit_leaves_nothing_of_itself(boxes: Boxes) -> None:
    async with boxes(disk=2 * MIB) as box:
        with pytest.raises(TooLarge, match="'large' does not fit"):
            await box.files.write_many([("a", b"1"), ("large", (bytes(MIB) for _ in range(5))), ("z", b"3")])
        assert [info.name for info in await box.files.list()] == ["a"]
        assert (await box.run("import os; os.listdir()")).text == "['a']"


async def test_what_the_source_of_many_files_raises_is_raised(box: Box) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        raise NotFound("there is no next one")

    def chunks() -> Iterator[bytes]:
        yield b"2"
        raise NotFound("there is no next chunk")

    with pytest.raises(NotFound, match="there is no next one"):
        await box.files.write_many(files())
    with pytest.raises(NotFound, match="there is no next chunk"):
        await box.files.write_many([("b", chunks())])
    assert [info.name for info in await box.files.list()] == ["a"]


@needs("tree")
async def test_many_files_are_never_written_along_a_link(box: Box) -> None:
    await box.run("import os\nos.mkdir('real')\nos.symlink('real', 'dir')\nos.symlink('real/x', 'link')")
    assert [info.name for info in await box.files.write_many([("real/x", b"s"), ("link", b"replaced")])] == [
        "real/x",
        "link",
    ]
    with pytest.raises(WorkspaceSecurityError):
        await box.files.write_many([("real/y", b""), ("dir/y", b"")])
    run = await box.run("os.path.islink('link'), open('real/x').read(), sorted(os.listdir('real'))")
    assert run.text == "(False, 's', ['x', 'y'])"


async def test_many_files_can_be_changed_inside(box: Box) -> None:
    await box.files.write_many([("a/b/x.txt", b"1"), ("a/b/y.txt", b"1"), ("a/c/z.txt", b"1")])
    run = await box.run("import os\nopen('a/b/x.txt', 'a').write('2')\nopen('a/c/new', 'w')\nos.remove('a/b/y.txt')")
    assert run.exit.ok, run.exit
    assert changes(run) == [("a/b/x.txt", 2, "modified"), ("a/c/new", 0, "created")]


@needs("large")
async def test_many_large_files_take_little_memory(boxes: Boxes) -> None:
    piece = os.urandom(MIB)
    async with boxes(disk=256 * MIB) as box:
        await box.files.write_many([("warm", b"x")])
        before = peak()
        infos = await box.files.write_many((str(n), (piece for _ in range(16))) for n in range(4))
        assert [info.size for info in infos] == [16 * MIB] * 4
        assert peak() - before < 24 * MIB


@pytest.mark.parametrize("name", ["missing", "no/such/folder", "kept/below"])
async def test_a_missing_file_is_not_found(box: Box, name: str) -> None:
    await box.files.write("kept", b"")
    expected = (NotFound, WorkspaceSecurityError) if name == "kept/below" else NotFound
    with pytest.raises(expected):
        await box.files.read(name)
    with pytest.raises(expected):
        await box.files.delete(name)
    with pytest.raises(expected):
        _ = [chunk async for chunk in box.files.stream(name)]


@pytest.mark.parametrize(
    "name",
    ["", ".", "/", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "/mnt/data/../x", "/mnt/data", "nul\0", "x" * 256,
     "é" * 128, "/".join(["d" * 200] * 21), "lone \ud800 surrogate"],
)  # fmt: skip
async def test_a_bad_name_is_refused(box: Box, name: str) -> None:
    for call in (box.files.write(name, b"x"), box.files.read(name), box.files.delete(name)):
        with pytest.raises((WorkspaceSecurityError, InvalidRequest)):
            await call
    assert await box.files.list() == []


async def test_a_name_may_be_written_as_the_code_sees_it(box: Box) -> None:
    assert (await box.files.write("/mnt/data/a//./b.txt", b"x")).name == "a/b.txt"
    assert await box.files.read("a/b.txt") == b"x"


async def test_overwriting_and_deleting(box: Box) -> None:
    await box.files.write("x", b"long content")
    await box.files.write("x", b"short")
    assert (await box.run("open('x').read()")).text == "'short'"
    await box.files.delete("x")
    assert (await box.run("import os; os.path.exists('x')")).text == "False"
    with pytest.raises(NotFound):
        await box.files.read("x")


async def test_a_directory_is_no_file(box: Box) -> None:
    await box.files.write("folder/x", b"")
    for call in (box.files.write("folder", b""), box.files.read("folder"), box.files.delete("folder")):
        with pytest.raises(BelljarError):
            await call
    assert (await box.run("import os; os.listdir('folder')")).text == "['x']"


async def test_files_from_outside_can_be_changed_inside(box: Box) -> None:
    await box.files.write("a/b/x.txt", b"1")
    run = await box.run(
        "import os, shutil\nopen('a/b/x.txt', 'a').write('2')\nopen('a/b/new', 'w')\n"
        "os.rename('a/b/x.txt', 'a/moved')\nos.chmod('a/moved', 0o600)\nshutil.rmtree('a/b')"
    )
    assert run.exit.ok, run.exit
    assert changes(run) == [("a/moved", 2, "created")]
    assert await box.files.read("a/moved") == b"12"
    await box.files.write("a/moved", b"outside again")
    assert (await box.run("open('a/moved').read()")).text == "'outside again'"


@needs("variables")
async def test_changes_are_told_apart(box: Box) -> None:
    await box.files.write("given", b"1")
    await box.files.write("untouched", b"1")
    first = await box.run(
        "import os\nopen('made', 'w').write('1')\nos.makedirs('sub/sub')\nopen('sub/sub/deep', 'w').write('1')\n"
        "open('given', 'a').write('2')\nopen('untouched').read()\nos.symlink('made', 'link')\nos.mkdir('empty')\n"
        "os.mkfifo('pipe')"
    )
    assert changes(first) == [("given", 2, "modified"), ("made", 1, "created"), ("sub/sub/deep", 1, "created")]
    assert (await box.run("open('made').read()")).files == ()
    same = await box.run("open('made', 'w').write('1')")
    assert changes(same) == [("made", 1, "modified")]
    again = await box.run("os.remove('made'); open('given', 'w').write('3')")
    assert changes(again) == [("given", 1, "modified")]
    assert changes(await box.run("open('made', 'w')")) == [("made", 0, "created")]


async def test_a_change_is_reported_with_size_time_and_type(box: Box) -> None:
    before = time.time()
    run = await box.run(
        "for n in ('a.csv', 'b.png', 'c.xlsx', 'd.parquet', 'e.unknown', 'f'): open(n, 'w').write('abc')"
    )
    assert [(file.name, file.size, file.type) for file in run.files] == [
        ("a.csv", 3, "text/csv"),
        ("b.png", 3, "image/png"),
        ("c.xlsx", 3, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        ("d.parquet", 3, "application/vnd.apache.parquet"),
        ("e.unknown", 3, "application/octet-stream"),
        ("f", 3, "application/octet-stream"),
    ]
    assert all(before - 1 <= file.modified <= time.time() + 1 for file in run.files)
    listed = await box.files.list()
    assert listed == [FileInfo(file.name, file.size, file.modified, file.type) for file in run.files]


@needs("live")
async def test_files_written_while_a_cell_runs_are_not_its_own(box: Box) -> None:
    code = "import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)\nos.remove('begun')"
    task = asyncio.create_task(box.run(code))
    while not await box.files.list():  # noqa: ASYNC110 - as whoever looks from outside
        await asyncio.sleep(0.01)
    await box.files.write("go", b"")
    run = await task
    assert (run.exit.ok, run.files) == (True, ())


@needs("tree")
@pytest.mark.parametrize("target", ["/etc/passwd", "secret", "/proc/self/environ", "..", "/mnt/data/secret"])
async def test_a_link_is_never_followed(box: Box, target: str) -> None:
    run = await box.run(
        f"import os\nopen('secret', 'w').write('s')\nos.symlink({target!r}, 'link')\nos.symlink('.', 'dir')"
    )
    assert changes(run) == [("secret", 1, "created")]
    assert [info.name for info in await box.files.list()] == ["secret"]
    for name in ("link", "dir/secret", "dir/link"):
        with pytest.raises(WorkspaceSecurityError):
            await box.files.read(name)
    with pytest.raises(WorkspaceSecurityError):
        await box.files.write("dir/x", b"")
    await box.files.write("link", b"replaced")
    assert (
        await box.run("os.path.islink('link'), open('link').read(), open('secret').read()")
    ).text == "(False, 'replaced', 's')"
    await box.files.delete("dir")
    assert await box.files.read("secret") == b"s"


@needs("tree")
@pytest.mark.parametrize("make", ["os.mkfifo('odd')", "import socket; socket.socket(socket.AF_UNIX).bind('odd')"])
async def test_what_is_no_regular_file_is_refused_at_once(box: Box, make: str) -> None:
    assert (await box.run(f"import os\n{make}")).files == ()
    async with asyncio.timeout(10):
        with pytest.raises(WorkspaceSecurityError):
            await box.files.read("odd")
    assert await box.files.list() == []


@needs("walls")
async def test_very_deep_directories_hurt_nobody(box: Box) -> None:
    run = await box.run(
        "import os\nfor _ in range(40):\n    os.mkdir('d' * 250); os.chdir('d' * 250)\n"
        "open('bottom', 'w').write('x')\nos.chdir('/mnt/data')\nopen('top', 'w').write('x')"
    )
    assert run.exit.ok, run.exit
    assert ("top", 1, "created") in changes(run)
    assert "top" in [info.name for info in await box.files.list()]


async def test_a_closed_directory_hurts_nobody(box: Box) -> None:
    run = await box.run(
        "import os\nos.makedirs('shut/in')\nopen('shut/in/x', 'w')\nos.chmod('shut', 0)\nopen('top', 'w')"
    )
    assert run.exit.ok, run.exit
    assert ("top", 0, "created") in changes(run)


async def test_many_files_are_all_reported(box: Box) -> None:
    run = await box.run("for n in range(3000): open(f'{n:04}', 'w')")
    assert [file.name for file in sorted(run.files, key=lambda file: file.name)] == [f"{n:04}" for n in range(3000)]


@needs("variables", "live")
async def test_files_that_come_and_go_meanwhile_hurt_nobody(box: Box) -> None:
    await box.run(
        "import os, threading, time\nstop = False\n"
        "def churn():\n"
        "    while not stop:\n"
        "        os.makedirs('c/d', exist_ok=True); open('c/d/x', 'w').close(); os.symlink('/etc', 'c/l')\n"
        "        os.remove('c/d/x'); os.rmdir('c/d'); os.remove('c/l'); os.rmdir('c')\n"
        "        os.symlink('/etc', 'c'); os.remove('c')\n"
        "t = threading.Thread(target=churn); t.start()"
    )
    for _ in range(30):
        assert {info.name for info in await box.files.list()} <= {"c/d/x"}
        run = await box.run("1")
        assert {file.name for file in run.files} <= {"c/d/x"}
        try:
            await box.files.write("c/d/y", b"")
            await box.files.delete("c/d/y")
        except BelljarError:
            pass
    run = await box.run("stop = True; t.join()")
    assert run.exit.ok
