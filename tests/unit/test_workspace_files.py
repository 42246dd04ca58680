"""The workspace from the host's side, while code inside does its worst: exact bytes, exact names, never elsewhere."""

from __future__ import annotations

import errno
import hashlib
import io
import mimetypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.descriptors import held, none_left

from belljar.errors import BelljarError, InvalidRequest, Lost, NotFound, TooLarge, WorkspaceSecurityError
from belljar.sandbox.base import MIB, Cell, Content, Limits, Spec
from belljar.sandbox.local import files as local_files
from belljar.sandbox.local import linux, run_steps, tree_walk
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.files import Files
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.mime import guess_type
from belljar.sandbox.outputs import Run, fold

SECRET = b"a secret of the host's"
REFUSED = (WorkspaceSecurityError, NotFound, InvalidRequest)

ODD_NAMES = [
    "plain.txt",
    "with space.txt",
    " leading and trailing ",
    "-rf",
    "--help",
    "new\nline",
    "tab\tand\x1b[31mcolour",
    "quote'\"`$(id)",
    "ünï¢ödé 文件 🫙",
    "e\u0301 is not \u00e9",
    "\u202egnp.exe",
    "...",
    "..hidden",
    "*?[x]",
    "C:\\autoexec.bat",
    "%00%2e%2e%2f",
    "n" * 255,
    "ü" * 127,
    "not text \udcff\udcfe",
    "/".join(["deep"] * 100) + "/end",
    "x/" * 999 + "x",
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSource]:
    made = LocalSource(JailOptions(cache=tmp_path_factory.mktemp("cache"), preload=False))
    yield made
    made.shut()


@pytest.fixture(scope="module")
def shared(source: LocalSource) -> Iterator[Box]:
    with source.lease(Spec(packages="none")) as box:
        yield box


@pytest.fixture
def box(source: LocalSource) -> Iterator[Box]:
    with source.lease(Spec(packages="none", limits=Limits(disk=16 * MIB))) as box:
        yield box


def run(box: Box, code: str) -> Run:
    ran = fold(run_steps.run_blocking(box, box.run(Cell(code))))
    assert ran.ok, ran.exit.text + ran.stderr
    return ran


# -- names and bytes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_a_name_is_exact_both_ways(box: Box, name: str) -> None:
    content = os.urandom(1000)
    written = box.files.write(name, content)
    assert (written.name, written.size) == (name, 1000)
    inside = f"import os; name = os.fsdecode({os.fsencode(name)!r})\n"
    assert run(box, inside + "open(name, 'rb').read().hex()").text.strip("'") == content.hex()
    changed = run(box, inside + "with open(name, 'ab') as file: size = file.write(b'more')").files
    assert [(file.name, file.size, file.change) for file in changed] == [(name, 1004, "modified")]
    assert box.files.read(name) == content + b"more"
    assert [info.name for info in box.files.list()] == [name]
    box.files.delete(name)
    assert box.files.list() == []


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_a_file_made_inside_is_found_under_its_name(box: Box, name: str) -> None:
    raw = os.fsencode(name)
    made = run(
        box,
        f"import os; name = {raw!r}\n"
        "for end in [at for at, byte in enumerate(name) if byte == 47]: os.mkdir(name[:end])\n"
        "with open(name, 'wb') as file: size = file.write(bytes(range(256)))",
    )
    assert [(file.name, file.size, file.change) for file in made.files] == [(name, 256, "created")]
    assert box.files.read(name) == bytes(range(256))
    assert b"".join(box.files.stream(name, chunk=100)) == bytes(range(256))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.binary(min_size=1, max_size=60)
        .filter(lambda raw: b"/" not in raw and b"\0" not in raw and raw not in (b".", b".."))
        .map(os.fsdecode),
        min_size=1,
        max_size=4,
    ),
    content=st.binary(max_size=200),
)
def test_any_name_any_bytes(shared: Box, parts: list[str], content: bytes) -> None:
    name = "/".join(["any", *parts])
    try:
        shared.files.write(name, content)
        assert shared.files.read(name) == content
        assert name in [info.name for info in shared.files.list()]
    finally:
        run(shared, "import shutil; shutil.rmtree(b'any', ignore_errors=True)")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "/",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a/..",
        "/mnt/data",
        "/mnt/data/../x",
        "/mnt/database",
        "x\0y",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(shared: Box, name: str) -> None:
    for action in (shared.files.read, shared.files.delete, lambda name: shared.files.write(name, b"")):
        with pytest.raises(WorkspaceSecurityError):
            action(name)


@pytest.mark.parametrize("name", ["n" * 256, "ü" * 128, "a/" * 2001 + "a"])
def test_a_name_that_is_too_long_is_refused(shared: Box, name: str) -> None:
    for action in (shared.files.read, shared.files.delete, lambda name: shared.files.write(name, b"")):
        with pytest.raises(InvalidRequest):
            action(name)


def test_the_path_that_the_code_sees_is_taken_too(box: Box) -> None:
    box.files.write("/mnt/data/folder//./file", "text")
    assert box.files.read("folder/file") == b"text"


def test_every_kind_of_content(box: Box) -> None:
    contents: list[Content] = [b"abc", "abc", io.BytesIO(b"abc"), iter([b"a", b"", b"bc"]), [b"ab", b"c"]]
    for content in contents:
        box.files.write("file", content)
        assert box.files.read("file") == b"abc"


def test_what_the_host_writes_belongs_to_the_code(box: Box) -> None:
    box.files.write("one/two/file", b"old")
    code = """
import os
with open("one/two/file", "r+") as file:
    file.write("new")
os.rename("one/two/file", "one/moved")
os.rmdir("one/two")
os.chmod("one/moved", 0o600)
open("one/other", "w").close()
[os.stat(path).st_uid for path in ("one", "one/moved")]
"""
    assert run(box, code).text == "[1000, 1000]"
    assert box.files.read("one/moved") == b"new"


# -- links ------------------------------------------------------------------------------------------------------------

TARGETS = [
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/self/mem",
    "/proc/thread-self/root/etc/passwd",
    "/proc/1/root/etc/shadow",
    "../../etc/passwd",
    "../" * 40 + "etc/passwd",
    "real",
    "./real",
    "link",
    "/mnt/data/real",
    "/dev/zero",
    "/dev/stdin",
    "folder/../real",
]


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_is_never_followed(box: Box, target: str, tmp_path: Path) -> None:
    run(box, f"import os; open('real', 'w').write('mine'); os.mkdir('folder'); os.symlink({target!r}, 'link')")
    with pytest.raises(REFUSED):
        box.files.read("link")
    with pytest.raises(REFUSED):
        list(box.files.stream("link"))
    assert [info.name for info in box.files.list()] == ["real"]
    box.files.write("link", b"the host's")
    assert run(box, "import os; os.path.islink('link'), open('link').read()").text == '(False, "the host\'s")'
    assert box.files.read("real") == b"mine"


@pytest.mark.parametrize("target", ["/", "/etc", "/proc/self/cwd", "/proc/self/fd", "..", ".", "loop", "/tmp"])
def test_a_directory_that_is_a_link_is_never_entered(box: Box, target: str) -> None:
    run(box, f"import os; os.symlink({target!r}, 'loop')")
    for action in (box.files.read, box.files.delete, lambda name: box.files.write(name, b"x")):
        with pytest.raises(REFUSED):
            action("loop/passwd")
    assert box.files.list() == []


def test_deleting_a_link_leaves_what_it_points_to(box: Box) -> None:
    run(box, "import os; open('real', 'w').write('mine'); os.symlink('real', 'link')")
    box.files.delete("link")
    assert box.files.read("real") == b"mine"


def test_hard_links_are_files_like_others_and_reach_nothing_outside(box: Box) -> None:
    code = """
import errno, os
open("one", "w").write("x")
os.link("one", "two")
refused = []
for path in ("/etc/passwd", "/usr/bin/env", "/tmp/other", "/proc/self/environ", "/dev/null"):
    open("/tmp/other", "w").close()
    try:
        os.link(path, "outside")
    except OSError as error:
        refused.append(errno.errorcode[error.errno])
len(refused)
"""
    ran = run(box, code)
    assert ran.text == "5"
    assert sorted(file.name for file in ran.files) == ["one", "two"]
    box.files.write("one", b"new")
    assert (box.files.read("one"), box.files.read("two")) == (b"new", b"x")


# -- what is no file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        "os.mkfifo('it')",
        "os.mkfifo('it'); keep = os.open('it', os.O_RDWR)",
        "keep = socket.socket(socket.AF_UNIX); keep.bind('it')",
        "os.mkdir('it')",
        "os.makedirs('it/full')",
    ],
)
def test_what_is_no_file_is_refused_at_once(box: Box, make: str) -> None:
    ran = run(box, f"import os, socket; {make}")
    assert ran.files == ()
    with pytest.raises((WorkspaceSecurityError, InvalidRequest)):
        box.files.read("it")
    with pytest.raises((WorkspaceSecurityError, InvalidRequest)):
        next(box.files.stream("it"))
    assert box.files.list() == []


def test_a_device_cannot_be_made_and_would_not_be_read(box: Box, tmp_path: Path) -> None:
    code = """
import os, stat
try:
    os.mknod("zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
except PermissionError:
    print("refused")
"""
    assert run(box, code).stdout == "refused\n"
    directory = os.open("/dev", os.O_PATH | os.O_DIRECTORY)
    files = Files(directory, owner=None, quota=0)
    try:
        with pytest.raises(WorkspaceSecurityError):
            files.read("zero")
        with pytest.raises(WorkspaceSecurityError):
            files.read("shm/x/../../../etc/passwd")
    finally:
        os.close(directory)


def test_a_mount_below_is_not_entered() -> None:
    """NO_XDEV: should something be mounted in the workspace, it is not part of it."""
    directory = os.open("/", os.O_PATH | os.O_DIRECTORY)
    try:
        with pytest.raises(REFUSED):
            Files(directory, owner=None, quota=0).read("proc/self/environ")
    finally:
        os.close(directory)


# -- sizes ------------------------------------------------------------------------------------------------------------


def test_a_sparse_file_is_bounded(box: Box) -> None:
    run(box, "open('big', 'wb').truncate(16 << 20)")
    with pytest.raises(TooLarge):
        box.files.read("big", limit=MIB)
    assert sum(len(chunk) for chunk in box.files.stream("big")) == 16 * MIB
    code = "try:\n    open('huge', 'wb').truncate(1 << 40)\nexcept OSError as error:\n    print(error.errno)"
    assert run(box, code).stdout == f"{errno.EFBIG}\n"


def test_the_host_cannot_write_past_the_quota_and_leaves_nothing_half_done(box: Box) -> None:
    with pytest.raises(TooLarge):
        box.files.write("big", (bytes(MIB) for _ in range(17)))
    assert box.files.list() == []
    assert run(box, "import os; os.listdir()").text == "[]"
    box.files.write("small", bytes(15 * MIB))


def test_a_workspace_without_room_for_a_name_says_so(source: LocalSource) -> None:
    with source.lease(Spec(packages="none")) as box:
        code = """
import os
os.mkdir("many")
try:
    for number in range(70_000):
        os.symlink("x", f"many/{number}")
except OSError as error:
    print(error.errno)
"""
        assert run(box, code).stdout == f"{errno.ENOSPC}\n"
        for name in ("file", "folder/file"):
            with pytest.raises(TooLarge):
                box.files.write(name, b"x")


def test_a_failing_content_leaves_nothing_half_done(box: Box) -> None:
    def content() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("no more")

    box.files.write("file", b"before")
    with pytest.raises(RuntimeError):
        box.files.write("file", content())
    assert box.files.read("file") == b"before"
    assert run(box, "import os; os.listdir()").text == "['file']"


def test_many_megabytes_pass_exactly(source: LocalSource) -> None:
    block = os.urandom(MIB)
    with source.lease(Spec(packages="none", limits=Limits(disk=256 * MIB))) as box:
        box.files.write("big", (block for _ in range(64)))
        code = "import hashlib; hashlib.sha256(open('big', 'rb').read()).hexdigest()"
        expected = hashlib.sha256(block * 64).hexdigest()
        assert run(box, code).text.strip("'") == expected
        digest = hashlib.sha256()
        for chunk in box.files.stream("big"):
            digest.update(chunk)
        assert digest.hexdigest() == expected


# -- races ------------------------------------------------------------------------------------------------------------

SWAP = """
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
os.makedirs("real", exist_ok=True)
open("real/key.txt", "w").write("mine")
os.symlink({outside!r}, "elsewhere")
os.symlink("real", "door")
os.symlink("real/key.txt", "key.txt")
os.symlink("/proc/self/environ", "environ")
open("plain", "w").write("mine")
print("go", flush=True)
while not os.path.exists("stop"):
    for _ in range(200):
        libc.renameat2(-100, b"real", -100, b"elsewhere", 2)        # exchange a directory and a link, atomically
        libc.renameat2(-100, b"plain", -100, b"environ", 2)
"""


def test_a_race_between_directory_and_link_is_never_won(box: Box, tmp_path: Path) -> None:
    """While code exchanges a directory and a link to the host's as fast as it can, the host reads, writes, lists."""
    os.chmod(tmp_path, 0o755)
    secret = tmp_path / "key.txt"
    secret.write_bytes(SECRET)
    wanted = [("real/key.txt", b"mine"), ("elsewhere/key.txt", b"mine"), ("plain", b"mine"), ("environ", b"mine")]
    seen = {"read": 0, "refused": 0}
    outputs = run_steps.run_blocking(box, box.run(Cell(SWAP.format(outside=str(tmp_path)))))
    next(outputs)
    files = box.files
    while min(seen.values()) < 100:  # the test's own time limit ends this
        for name, expected in wanted:
            try:
                assert files.read(name) in (expected, b"")
                seen["read"] += 1
            except REFUSED:
                seen["refused"] += 1
        for action in (lambda: files.write("real/new.txt", b"host's"), lambda: files.delete("real/new.txt")):
            try:
                action()
            except REFUSED:
                seen["refused"] += 1
        assert not [info for info in files.list() if info.name.startswith("elsewhere/key") and info.size == len(SECRET)]
    files.write("stop", b"")
    assert fold(outputs).ok
    assert secret.read_bytes() == SECRET
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key.txt"]


def test_a_tree_that_never_stands_still_can_be_listed(box: Box) -> None:
    code = """
import os, shutil
print("go", flush=True)
while not os.path.exists("stop"):
    try:
        os.makedirs("a/b/c/d", exist_ok=True)
        for path in ("a/1", "a/b/2", "a/b/c/3", "a/b/c/d/4"):
            open(path, "w").close()
        os.rename("a", "z")
        shutil.rmtree("z")
    except OSError:
        pass        # the host writes into it meanwhile
"""
    outputs = run_steps.run_blocking(box, box.run(Cell(code)))
    next(outputs)
    for _ in range(200):
        box.files.list()
        with suppress(BelljarError):
            box.files.write("a/b/host", b"x")
    box.files.write("stop", b"")
    assert fold(outputs).ok


def test_a_lease_does_not_hold_the_host_up(tmp_path: Path) -> None:
    """The filter refuses leases inside; should one be held all the same, the host gives up instead of turning round."""
    path = tmp_path / "leased"
    path.write_bytes(b"x")
    code = f"""
import fcntl, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open({str(path)!r}, "r+b")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("held", flush=True)
sys.stdin.read()
"""
    directory = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkspaceSecurityError):
            Files(directory, owner=None, quota=0).read("leased")
    os.close(directory)


def test_two_threads_may_look_at_once(box: Box) -> None:
    run(box, "for number in range(3000): open(f'{number}', 'w').close()")
    counts: list[int] = []

    def look() -> None:
        counts.extend(len(box.files.list()) for _ in range(15))

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [3000] * 45


def test_a_closed_workspace_says_so(source: LocalSource) -> None:
    with source.lease(Spec(packages="none")) as box:
        files = box.files
    actions = (files.list, files.glance, lambda: files.read("x"), lambda: files.write("x", b""))
    for action in actions:
        with pytest.raises(Lost):
            action()


# -- what has changed -------------------------------------------------------------------------------------------------


def changes(ran: Run) -> list[tuple[str, str]]:
    return sorted((file.name, file.change) for file in ran.files)


@contextmanager
def leased(source: LocalSource, how: str) -> Iterator[Box]:
    """A sandbox whose changes the kernel tells, or in which the host has to look for them."""
    source.prepare(Spec(packages="none"))
    assert source._jail is not None
    with pytest.MonkeyPatch.context() as patch:
        if how == "walked":
            patch.setattr(source._jail, "watches", threading.Semaphore(0))
        with source.lease(Spec(packages="none")) as box:
            assert (box.files._queue is not None) is (how == "told")
            yield box


@pytest.fixture(params=["told", "walked"])
def either(request: pytest.FixtureRequest, source: LocalSource) -> Iterator[Box]:
    with leased(source, request.param) as box:
        if request.param == "told":  # where nothing happens, nothing is looked at
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(box.files, "_copy_top", _never)
                assert changes(run(box, "1")) == []
        yield box


def _never() -> int:
    raise AssertionError("looked at, though nothing has happened")


def test_an_empty_workspace_is_told_at_a_glance_and_what_comes_into_it_is_seen(source: LocalSource) -> None:
    with leased(source, "walked") as box:
        deadline = time.monotonic() + 20
        while not box.files._is_bare():
            assert time.monotonic() < deadline, "an empty workspace is looked at again and again"
            assert changes(run(box, "1")) == []
        assert changes(run(box, "open('a', 'w').close()")) == [("a", "created")]
        assert not box.files._is_bare()
        assert changes(run(box, "import os; os.remove('a'); os.mkdir('folder')")) == []
        time.sleep(0.1)  # as long as it takes to trust the stamp of a directory, were this one empty
        assert changes(run(box, "1")) == []
        assert not box.files._is_bare()
        assert changes(run(box, "open('folder/b', 'w').close()")) == [("folder/b", "created")]


SEQUENCE = [
    ("import mmap, os; os.makedirs('a/b'); open('a/b/1', 'w').write('1'); open('2', 'w').close()", "2+ a/b/1+"),
    ("pass", ""),
    ("open('2', 'a').write('x')", "2*"),
    ("os.chmod('a/b/1', 0o600)", "a/b/1*"),
    ("os.link('2', 'a/link')", "2* a/link+"),
    ("open('a/link', 'a').write('through the other name')", "2* a/link*"),
    ("os.remove('a/link')", "2*"),
    ("os.symlink('2', 'link'); os.mkfifo('pipe'); open('3', 'w').close(); os.remove('3')", ""),
    ("os.rename('a', 'c'); open('c/b/new', 'w').close()", "c/b/1+ c/b/new+"),
    ("os.makedirs('d/e/f'); open('d/e/f/4', 'w').close(); os.rename('d/e', 'c/e')", "c/e/f/4+"),
    ("for n in range(40): open(f'd/{n}', 'w').close()", " ".join(f"d/{n}+" for n in range(40))),
    ("with open('2', 'r+b') as f: f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)", "2*"),
    ("for n in range(40): open(f'd/{n}').close()", ""),
    ("m[0] = 1", "2*"),
    ("for n in range(17_000): open(f'x{n}', 'w').close(); os.remove(f'x{n}')\nopen('c/b/1', 'w').close()", "c/b/1*"),
    ("del m; import shutil; shutil.rmtree('c')", ""),
    ("os.mkdir('c'); open('c/1', 'w').close(); os.chmod('d', 0); os.chmod('d', 0o700)", "c/1+"),
]


def test_every_kind_of_change_is_told_in_its_own_cell(either: Box) -> None:
    for code, expected in SEQUENCE:
        found = [f"{file.name}{'+' if file.change == 'created' else '*'}" for file in run(either, code).files]
        assert sorted(found) == sorted(expected.split()), code
    assert sorted(info.name for info in either.files.list()) == sorted(["2", "c/1", *(f"d/{n}" for n in range(40))])


def test_files_of_the_host_are_no_changes_wherever_they_are_put(either: Box) -> None:
    either.files.write_many([("a/b/c", b"1"), ("d", b"2"), ("a/e", b"3")])
    assert changes(run(either, "1")) == []
    assert changes(run(either, "open('a/b/c', 'a').write('2')")) == [("a/b/c", "modified")]
    either.files.write("a/b/c", b"3")
    either.files.delete("d")
    assert changes(run(either, "open('d', 'w').close()")) == [("d", "created")]


@pytest.mark.parametrize("how", ["told", "walked"])
def test_a_large_tree_is_looked_at_in_another_thread(
    source: LocalSource, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The event loop of a gateway goes on meanwhile: what is done on its own thread is bounded."""
    walks: list[tuple[bool, int | None]] = []
    walk = tree_walk.walk

    def record(*args: Any, **options: Any) -> tree_walk.Tree:
        walks.append((threading.get_ident() == here, options["most"]))
        return walk(*args, **options)

    here = threading.get_ident()
    with leased(source, how) as box:
        monkeypatch.setattr(tree_walk, "walk", record)
        made = run(box, "import os\nos.mkdir('a')\nfor n in range(2000): open(f'a/{n}', 'w').close()")
        assert len(made.files) == 2000
        assert {most for own, most in walks if own} <= {500}
        assert (False, None) in walks
        walks.clear()
        assert run(box, "1").files == ()
        assert walks == ([] if how == "told" else [(False, None)])


def test_a_look_that_is_cut_off_says_so_and_the_next_one_sees_the_rest(
    either: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(either, "import os; open('old', 'w').close()")
    with monkeypatch.context() as patch:
        patch.setattr(local_files, "_LONGEST_LOOK", 0.0)
        patch.setattr(local_files, "_GLANCE", 0)
        ran = run(either, "os.makedirs('a/b')\nfor n in range(200): open(f'a/b/{n}', 'w').close()")
        assert len(ran.files) < 200
        assert "could be looked at within" in ran.exit.text
    later = run(either, "1")
    assert later.exit.text == ""
    assert len(ran.files) + len(later.files) == 200
    assert not {file.name for file in ran.files} & {file.name for file in later.files}


def test_what_lies_deeper_than_a_path_can_name_is_left_alone_and_said(either: Box) -> None:
    code = """
import os
open("top", "w").close()
for _ in range(30):
    os.mkdir("n" * 200)
    os.chdir("n" * 200)
open("deep", "w").close()
os.chdir("/mnt/data")
"""
    ran = run(either, code)
    assert changes(ran) == [("top", "created")]
    assert "longer than 4000 bytes were not looked at" in ran.exit.text
    assert [info.name for info in either.files.list()] == ["top"]


def test_a_deep_tree_is_walked_by_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each directory found by its whole path from the top would take the square of the depth."""
    for number in range(3):
        here = tmp_path / f"{number}"
        here.mkdir()
        fd = os.open(here, os.O_RDONLY)
        for _ in range(700):
            os.mkdir("x", dir_fd=fd)
            below = os.open("x", os.O_RDONLY, dir_fd=fd)
            os.close(os.open("file", os.O_CREAT, dir_fd=below))
            os.close(fd)
            fd = below
        os.close(fd)
    asked: list[str] = []
    openat2 = linux.openat2
    before = len(held())
    most = 0

    def record(directory: int, name: str, *args: Any, **options: Any) -> int:
        nonlocal most
        asked.append(name)
        most = max(most, len(held()))
        return openat2(directory, name, *args, **options)

    monkeypatch.setattr(linux, "openat2", record)
    with none_left():
        found = tree_walk.walk(os.open(tmp_path, os.O_PATH)).files
    assert len(found) == 3 * 700
    assert f"2/{'x/' * 700}file" in found
    assert max(name.count("/") for name in asked) < 64
    assert most < before + 100


def test_new_and_changed_files_are_told_once(box: Box) -> None:
    box.files.write("given", b"by the host")
    assert changes(run(box, "1")) == []
    assert changes(run(box, "open('a', 'w').write('1')")) == [("a", "created")]
    assert changes(run(box, "1")) == []
    assert changes(run(box, "open('a', 'w').write('2'); open('given', 'a').close()")) == [("a", "modified")]
    assert changes(run(box, "import os; os.remove('a')")) == []
    assert changes(run(box, "open('a', 'w').write('2')")) == [("a", "created")]
    assert changes(run(box, "os.rename('a', 'b')")) == [("b", "created")]
    assert changes(run(box, "os.makedirs('x/y'); open('x/y/z.csv', 'w').close()")) == [("x/y/z.csv", "created")]
    assert changes(run(box, "os.rename('x', 'w')")) == [("w/y/z.csv", "created")]


def test_a_change_that_hides_its_traces_is_told(box: Box) -> None:
    run(box, "open('a', 'w').write('one')")
    code = """
import os
before = os.stat("a")
with open("a", "r+") as file:
    file.write("two")
os.utime("a", ns=(before.st_atime_ns, before.st_mtime_ns))
"""
    assert changes(run(box, code)) == [("a", "modified")]


def test_size_time_and_type_are_told(box: Box) -> None:
    (file,) = run(box, "import os; open('t.csv', 'w').write('a,b'); os.utime('t.csv', (1e9, 1e9))").files
    assert (file.name, file.size, file.modified, file.type) == ("t.csv", 3, 1e9, "text/csv")


def test_a_directory_that_is_removed_while_many_are_written_is_made_again(box: Box) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield "a/b/1", b"1"
        run(box, "import shutil; shutil.rmtree('a')")
        yield "a/b/2", b"2"
        yield "a/b/3", b"3"

    assert [info.name for info in box.files.write_many(files())] == ["a/b/1", "a/b/2", "a/b/3"]
    assert [info.name for info in box.files.list()] == ["a/b/2", "a/b/3"]


def test_writing_many_leaves_no_descriptor_open(box: Box) -> None:
    with none_left():
        box.files.write_many([("a/1", b""), ("a/2", b""), ("b/1", b""), ("2", b"")])
        with pytest.raises(REFUSED):
            box.files.write_many([("a/1", b""), ("a/1/x", b"")])
        with pytest.raises(REFUSED):
            box.files.write_many([("a/1", b""), ("a", b"")])


@given(
    st.lists(st.sampled_from([".", "/", "a", "csv", "gz", "tgz", "TXT", "json", ":", "?", "#", ";", " "]), max_size=8)
)
def test_a_type_depends_on_the_extensions_alone(parts: list[str]) -> None:
    name = "".join(parts)
    known = mimetypes.MimeTypes(filenames=())
    assert guess_type(name) == (known.guess_type(f"x/{name}")[0] or "application/octet-stream")


def test_kinds_of_data_files_are_known() -> None:
    assert guess_type("in/a.parquet") == "application/vnd.apache.parquet"
    assert guess_type("notes.md") == "text/markdown"
    assert guess_type("a.unheard-of") == guess_type("a") == guess_type(".hidden") == "application/octet-stream"


def test_changes_are_told_even_when_the_cell_is_killed(box: Box) -> None:
    ran = fold(run_steps.run_blocking(box, box.run(Cell("import os; open('last', 'w').write('x'); os._exit(1)"))))
    assert ran.exit.reason == "exited"
    assert changes(ran) == [("last", "created")]
    assert box.files.read("last") == b"x"


def test_closed_directories_and_files_do_not_disturb(box: Box) -> None:
    run(
        box, "import os; os.mkdir('shut'); open('shut/in', 'w').close(); os.chmod('shut', 0); open('dark', 'w').close()"
    )
    run(box, "os.chmod('dark', 0)")
    assert "dark" in [info.name for info in box.files.list()]
    try:
        assert box.files.read("dark") == b""
    except WorkspaceSecurityError:
        assert os.geteuid() != 0
    run(box, "os.chmod('shut', 0o700)")


def test_a_closed_workspace_does_not_disturb(box: Box) -> None:
    run(box, "import os; os.chmod('/mnt/data', 0)")
    box.files.list()
    try:
        box.files.write("x", b"")
    except WorkspaceSecurityError:
        assert os.geteuid() != 0
    run(box, "os.chmod('/mnt/data', 0o700)")
    box.files.write("x", b"")


@pytest.mark.parametrize(
    "make",
    [
        "os.makedirs('output-2.log/full')",
        "os.symlink('/etc/passwd', 'output-2.log')",
        "os.mkfifo('output-2.log')",
        "open('output-2.log', 'w').write('mine')",
    ],
)
def test_our_log_goes_where_it_should_whatever_is_in_its_place(source: LocalSource, make: str) -> None:
    limits = Limits(output=4096, disk=16 * MIB)
    with source.lease(Spec(packages="none", limits=limits)) as box:
        run(box, f"import os, sys; {make}")
        ran = run(box, "done = sys.stdout.write('x' * 100_000)")
        assert len(ran.stdout) == 4096
        assert box.files.read("output-2.log") == b"x" * 100_000


def test_our_log_is_done_without_when_there_is_no_room_for_it(source: LocalSource) -> None:
    limits = Limits(output=4096, disk=4 * MIB)
    with source.lease(Spec(packages="none", limits=limits)) as box:
        code = """
import os, sys
try:
    with open("full", "wb", buffering=0) as file:
        while file.write(bytes(1 << 16)):
            pass
except OSError:
    pass
"""
        run(box, code)
        ran = run(box, "done = sys.stdout.write('x' * 1_000_000)")
        assert len(ran.stdout) == 4096
        assert "as far as the workspace had room" in ran.stderr
