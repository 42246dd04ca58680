"""A container's filesystem: lazy, healed, newest wins; the same on a server that unpacks and on one that is flat."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from tests.helpers import servers
from tests.helpers.openai import FlatContainers
from tests.helpers.servers import Server

from belljar.adapters.openai.archives import ArchiveMember, HostTree, Tarball, TarStream, packed_one
from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.container_files import ContainerFiles
from belljar.adapters.openai.container_fs import ContainerFilesystem
from belljar.errors import (
    BelljarError,
    ContainerExpiredError,
    Declined,
    Unreachable,
    WorkspaceBudgetExceededError,
    WorkspaceError,
    WorkspaceSecurityError,
)
from belljar.filesystem import HostMount, copy_mounts
from belljar.filesystem.paths import Segments

SMALL = ContainerConfig(memory_limit="1g")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with servers.gateway(tmp_path_factory.mktemp("gateway") / "state") as server:
        yield server


@pytest.fixture(params=["gateway", "flat"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "gateway":
        yield request.getfixturevalue("gateway")
        return
    with servers.flat() as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[OpenAI]:
    with server.client() as client:
        yield client


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    (tmp_path / "tree/d").mkdir(parents=True)
    (tmp_path / "tree/a").write_bytes(b"one")
    (tmp_path / "tree/d/b").write_bytes(b"two")
    path = tmp_path / "files.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(tmp_path / "tree", ".")
    return path


def made(client: OpenAI, **more: Any) -> ContainerFilesystem:
    return ContainerFilesystem(client=client, container_config=SMALL, **more)


def ids(client: OpenAI) -> list[str]:
    return [one.id for one in client.containers.list(limit=100)]


def test_nothing_is_made_before_it_is_needed(client: OpenAI, tarball: Path) -> None:
    before = ids(client)
    files = made(client, tarball_path=tarball)
    assert (files.container_id, ids(client)) == (None, before)
    id = files.ensure_container()
    assert files.ensure_container() == id == files.container_id
    assert len(ids(client)) == len(before) + 1
    assert files.glob("**") == ["a", "d/b"]
    assert files.read("d/b") == b"two"


def test_without_a_tarball_what_the_local_root_holds_is_uploaded(client: OpenAI, tarball: Path) -> None:
    root = tarball.parent / "tree"
    files = made(client, local_root=root)
    assert files.glob("**") == ["a", "d/b"]
    files.write("d/new", b"3")
    assert (root / "d/new").read_bytes() == b"3"
    files.delete("a")
    assert not (root / "a").exists()


@pytest.mark.parametrize("way", ["tarball_path", "local_root"])
def test_files_of_no_use_are_refused_however_they_come(client: OpenAI, tarball: Path, way: str) -> None:
    before, tree = ids(client), tarball.parent / "tree"
    (tree / "d/setup.exe").write_bytes(b"MZ")
    with tarfile.open(tarball, "w:gz") as tar:
        tar.add(tree, ".")
    files = made(client, **{way: tarball if way == "tarball_path" else tree})
    with pytest.raises(WorkspaceError, match=r"'d/setup.exe' is of a type that is not supported \(\.exe\)"):
        files.ensure_container()
    assert ids(client) == before


def test_empty_directories_of_the_local_root_are_there(client: OpenAI, tarball: Path) -> None:
    root = tarball.parent / "tree"
    (root / "d/empty").mkdir()
    files = made(client, local_root=root)
    assert files.list_dir("d") == ["b", "empty"]
    assert files.list_dir("d/empty") == []


ACTS: dict[str, Callable[[ContainerFilesystem], object]] = {
    "read": lambda files: files.read("d/b"),
    "read_text": lambda files: files.read_text("d/b"),
    "read_lines": lambda files: files.read_lines("d/b"),
    "write": lambda files: files.write("new", b"x"),
    "append": lambda files: files.append("d/b", b"x"),
    "stat": lambda files: files.stat("d/b"),
    "exists": lambda files: files.exists("d/b"),
    "list_dir": lambda files: files.list_dir("d"),
    "mkdir": lambda files: files.mkdir("new"),
    "delete": lambda files: files.delete("d/b"),
    "glob": lambda files: files.glob("**"),
    "grep": lambda files: files.grep("two"),
    "ensure_container": lambda files: files.ensure_container(),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_container_that_is_gone_is_replaced(
    client: OpenAI, tarball: Path, act: Callable[[ContainerFilesystem], object]
) -> None:
    files = made(client, tarball_path=tarball)
    old = files.ensure_container()
    files.write("mine", b"written")
    files.delete("a")
    client.containers.delete(old)
    act(files)
    assert files.container_id not in (None, old)
    assert files.read("mine") == b"written"
    assert not files.exists("a")


def test_everything_comes_down_from_a_replaced_container(client: OpenAI, tarball: Path, tmp_path: Path) -> None:
    files = made(client, tarball_path=tarball)
    client.containers.delete(files.ensure_container())
    files.download_all(tmp_path / "dest")
    assert (tmp_path / "dest/d/b").read_bytes() == b"two"


def test_an_expired_container_is_replaced(server: Server, client: OpenAI, tarball: Path) -> None:
    files = made(client, tarball_path=tarball)
    old = files.ensure_container()
    server.expire(old)
    files.write("new", b"x")
    new = files.container_id
    assert new not in (None, old)
    assert files.glob("**") == ["a", "d/b", "new"]
    assert new is not None
    server.expire(new)
    assert files.ensure_container() != new


def test_what_code_made_comes_along_where_the_server_still_has_it(gateway: Server, tarball: Path) -> None:
    with gateway.client() as client:
        files = made(client, tarball_path=tarball)
        old = files.ensure_container()
        gateway.code_writes(old, "d/made", b"by code")
        gateway.code_writes(old, "a", b"changed")
        gateway.expire(old)
        assert files.ensure_container() != old
        assert (files.read("d/made"), files.read("a"), files.read("d/b")) == (b"by code", b"changed", b"two")


def test_a_container_that_cannot_be_filled_is_not_left_behind(client: OpenAI, tmp_path: Path) -> None:
    before = ids(client)
    files = made(client, tarball_path=tmp_path / "none.tar")
    with pytest.raises(FileNotFoundError, match=r"none\.tar"):
        files.read("a")
    assert (files.container_id, ids(client)) == (None, before)


def test_what_code_writes_is_read_and_wins(server: Server, client: OpenAI, tarball: Path) -> None:
    files = made(client, local_root=tarball.parent / "tree")
    server.code_writes(files.ensure_container(), "d/out.txt", b"made")
    server.code_writes(files.ensure_container(), "a", b"NEW")
    assert files.read("d/out.txt") == b"made"
    changed: dict[Segments, bytes] = {}
    files.fetch_changed(lambda at, pieces: changed.update({at: b"".join(pieces)}))
    assert changed == {("a",): b"NEW", ("d", "out.txt"): b"made"}
    assert files.read("a") == b"NEW"


def test_nothing_that_is_new_can_come_from_another_container(client: OpenAI, tarball: Path) -> None:
    files = made(client, tarball_path=tarball)
    client.containers.delete(files.ensure_container())
    with pytest.raises(ContainerExpiredError, match="what it held is lost"):
        files.fetch_changed(lambda at, pieces: None)


def test_mode_auto_goes_on_with_the_container_of_earlier_turns(client: OpenAI, tarball: Path) -> None:
    auto = ContainerConfig(memory_limit="1g", mode="auto")

    def turn(config: ContainerConfig = auto, **more: Any) -> ContainerFilesystem:
        return ContainerFilesystem(client=client, container_config=config, name="one-session", **more)

    first = turn()
    first.write("a", b"changed")
    second = turn(tarball_path=tarball)
    assert second.ensure_container() == first.container_id
    assert second.read("a") == b"changed"
    assert second.read("d/b") == b"two"
    assert turn(SMALL).ensure_container() != first.container_id
    larger = turn(ContainerConfig(memory_limit="4g", mode="auto"))
    assert larger.ensure_container() != first.container_id
    for one in (first, larger):
        one.cleanup(delete_container=True)
    assert turn().ensure_container() != first.container_id


def test_cleanup_leaves_the_container_unless_told(client: OpenAI) -> None:
    files = made(client)
    files.write("a", b"1")
    id = files.ensure_container()
    files.cleanup()
    files.cleanup()
    assert client.containers.retrieve(id).id == id
    files.cleanup(delete_container=True)
    assert id not in ids(client)


def test_many_files_are_listed_page_by_page(client: OpenAI, tmp_path: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for n in range(230):
        (root / f"{n:03}").write_bytes(b"%d" % n)
    files = made(client, local_root=root)
    assert files.list_dir() == [f"{n:03}" for n in range(230)]
    assert files.read("000") == b"0"
    files.download_all(tmp_path / "dest")
    assert len(list((tmp_path / "dest").iterdir())) == 230


def test_an_unreachable_server_is_told() -> None:
    client = OpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", max_retries=0)
    with client, pytest.raises(Unreachable):
        made(client).read("a")


# -- a server that unpacks -------------------------------------------------------------------------------------------


def test_the_gateways_refusal_is_told(gateway: Server) -> None:
    with gateway.client() as client, pytest.raises(Declined, match="too long"):
        made(client).write("x" * 300, b"")


def test_a_small_write_is_tried_again_when_the_server_is_busy() -> None:
    asked: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.read())
        return httpx2.Response(503 if len(asked) == 1 else 200, headers={"retry-after-ms": "1"}, json={})

    with OpenAI(
        base_url="http://x/v1", api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(answer))
    ) as client:
        ContainerFiles(lambda: client, "cntr_1", unpacking=True).put(("a.txt",), b"text")
    assert asked == [packed_one(("a.txt",), b"text")] * 2


def test_a_tree_goes_out_as_one_archive(gateway: Server, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "empty").mkdir(parents=True)
    (root / "big").write_bytes(b"x" * 700_000)
    (root / ("é" * 60)).mkdir()
    (root / ("é" * 60) / ("n" * 120)).write_bytes(b"long")
    (root / "link").symlink_to("/etc/passwd")
    seen: list[int] = []
    with gateway.client() as client:
        files = made(client, local_root=root, on_progress=seen.append)
        assert files.glob("**") == ["big", "é" * 60 + "/" + "n" * 120]
        assert files.read("big") == b"x" * 700_000
    assert sum(seen) >= 700_000
    assert max(seen) < 700_000


# -- a flat server ---------------------------------------------------------------------------------------------------


def test_a_flat_server_gets_single_files_with_their_paths_in_their_names(tarball: Path) -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client, tarball_path=tarball)
        files.write("d/100%/x", b"1")
        names = server.names(files.ensure_container())
        assert sorted(names) == ["/mnt/data/a", "/mnt/data/d%2F100%25%2Fx", "/mnt/data/d%2Fb"]
        assert files.read("d/100%/x") == b"1"


def test_a_flat_server_that_ignores_extract_is_left_without_the_archive(tarball: Path) -> None:
    with FlatContainers("ignore") as server, server.client() as client:
        files = made(client, tarball_path=tarball)
        assert sorted(server.names(files.ensure_container())) == ["/mnt/data/a", "/mnt/data/d%2Fb"]


def test_overwriting_uploads_first_and_then_takes_the_older_away() -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        files.write("a", b"1")
        server.requests.clear()
        files.write("a", b"2")
        changes = [asked for asked in server.requests if asked[0] != "GET"]
        assert changes == [("POST", "containers/files"), ("DELETE", "containers/files")]
        assert server.names(files.ensure_container()) == ["/mnt/data/a"]


def test_of_two_with_one_path_the_newest_wins() -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        id = files.ensure_container()
        for content in (b"old", b"newest"):
            client.containers.files.create(id, file=("a", content))
        assert files.read("a") == b"newest"
        assert files.stat("a").size_bytes == 6
        files.delete("a")
        assert server.names(id) == []


def test_it_is_an_error_of_its_own_when_there_is_no_other_container() -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        old = files.ensure_container()
        server.containers.clear()
        server.refusing = 1
        with pytest.raises(ContainerExpiredError, match="No containers today") as refused:
            files.read("a")
        assert refused.value.container_id == old
        assert "No containers today" in str(refused.value.original_error)
        assert isinstance(refused.value, BelljarError)
        files.write("a", b"1")
        assert files.container_id != old


def test_a_listing_that_leads_out_is_refused(tmp_path: Path) -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        server.write(files.ensure_container(), "../../evil", b"1")
        with pytest.raises(WorkspaceSecurityError):
            files.download_all(tmp_path / "a/dest")
        assert [path.name for path in tmp_path.rglob("*")] == ["a", "dest"]


# -- packing ---------------------------------------------------------------------------------------------------------


def test_a_packed_stream_can_be_read_twice_and_knows_its_length(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    (tmp_path / "empty").touch()
    stream = TarStream(HostTree(tmp_path).members())
    length = stream.seek(0, 2)
    for _ in range(2):
        stream.seek(0)
        data = b"".join(iter(lambda: stream.read(100), b""))
        assert len(data) == length == stream.tell()
    with pytest.raises(OSError, match="beginning or the end"):
        stream.seek(7)


def test_a_file_that_shrinks_while_it_is_packed_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 1000)
    stream = TarStream(HostTree(tmp_path).members())
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(OSError, match="shorter"):
        stream.read()


@pytest.mark.parametrize("name", ["a", "d/" + "x" * 98, "x" * 101, "é", "a b/c\nd", "d" * 90 + "/" + "x" * 90])
@pytest.mark.parametrize("size", [0, 1, 512, 100_000])
def test_a_packed_file_is_what_tar_reads(name: str, size: int) -> None:
    segments = tuple(name.split("/"))
    packed = packed_one(segments, b"x" * size)
    assert len(packed) == TarStream([ArchiveMember(segments, size, lambda: io.BytesIO(b"x" * size))]).seek(0, 2)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
        [info] = tar
        assert (info.name, info.size, info.mode, info.mtime, info.type) == (name, size, 0o644, 0, tarfile.REGTYPE)
        found = tar.extractfile(info)
        assert found is not None
        assert found.read() == b"x" * size


@pytest.mark.parametrize("way", ["w:", "w:gz", "w:bz2", "w:xz"])
def test_a_tarball_is_read_in_whatever_order_and_however_it_is_compressed(tmp_path: Path, way: Any) -> None:
    contents = {"a": b"1", "d/" + "x" * 200: bytes(100_000), "d/\u00e9": b"", "z": b"2" * 513}
    path = tmp_path / "files.tar"
    with tarfile.open(path, way) as tar:
        tar.addfile(tarfile.TarInfo("./"))
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a"
        tar.addfile(link)
    found = {}
    for member in reversed([one for one in Tarball(path).members() if one.segments]):
        with member.open() as file:
            found["/".join(member.segments)] = file.read()
    assert found == contents
    assert {"/".join(one.segments): one.size for one in Tarball(path).members() if one.segments} == {
        name: len(content) for name, content in contents.items()
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"no tar" * 100, gzip.compress(b"x" * 2000), gzip.compress(bytes(5000))[:20]],
    ids=["empty", "no tar", "no tar in gzip", "cut"],
)
def test_what_is_no_tarball_is_told_by_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "files.tar").write_bytes(content)
    with pytest.raises(WorkspaceError, match=r"files\.tar: cannot be read as a tar archive"):
        Tarball(tmp_path / "files.tar").members()


# -- how often the server is asked -------------------------------------------------------------------------------------

MANY = 310
PAGES = ("GET", "containers/files"), 4
"""A look at all of them: a hundred are on a page, and one that the test wrote comes on top."""
FETCH, UPLOAD, REMOVE = (
    ("GET", "containers/files/content"),
    ("POST", "containers/files"),
    ("DELETE", "containers/files"),
)
ONE = ("GET", "containers/files"), 1


@pytest.mark.parametrize(
    ("act", "asked"),
    [
        (lambda files: files.grep("needle"), [PAGES, (FETCH, MANY + 1)]),
        (lambda files: files.grep("needle", path="d0"), [PAGES, (FETCH, MANY // 10)]),
        (lambda files: files.grep("needle", glob="newest"), [PAGES, (FETCH, 1)]),
        (lambda files: files.grep("needle", path="newest"), [PAGES, (FETCH, 1)]),
        (lambda files: files.glob("**"), [PAGES]),
        (lambda files: files.list("d0"), [PAGES]),
        (lambda files: files.exists("none"), [PAGES]),
        (lambda files: files.stat("newest"), [ONE]),
        (lambda files: files.read("newest"), [ONE, (FETCH, 1)]),
        (lambda files: files.write("newest", b"1"), [ONE, (UPLOAD, 1), (REMOVE, 1)]),
        (lambda files: files.write("none", b"1"), [PAGES, (UPLOAD, 1)]),
        (lambda files: files.append("newest", b"1"), [PAGES, (FETCH, 1), (UPLOAD, 1), (REMOVE, 1)]),
        (lambda files: files.append("none", b"1"), [PAGES, (UPLOAD, 1)]),
        (lambda files: files.mkdir("d0"), [PAGES]),
        (lambda files: files.delete("newest"), [PAGES, (REMOVE, 1)]),
        (lambda files: files.copy_in((f"n{n}", io.BytesIO(b"1"), 1) for n in range(9)), [PAGES, (UPLOAD, 9)]),
    ],
)
def test_an_operation_looks_once(
    act: Callable[[ContainerFilesystem], object], asked: list[tuple[tuple[str, str], int]]
) -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        id = files.ensure_container()
        for n in range(MANY):
            server.write(id, f"d{n % 10}%2F{n}", b"hay\nneedle\n")
        server.write(id, "newest", b"needle")
        server.requests.clear()
        act(files)
        assert Counter(server.requests) == dict(asked)
        files.cleanup()


def test_mounts_come_in_with_one_look(tmp_path: Path) -> None:
    for n in range(20):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}/x").write_bytes(b"1")
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        for n in range(3):
            server.requests.clear()
            copy_mounts((HostMount(str(tmp_path), f"m{n}"),), allowed_host_roots=(tmp_path,), into=files)
        looks = server.requests.count(("GET", "containers/files"))
        assert (looks, server.requests.count(UPLOAD)) == (2, 20), "one to know what is there, one to write"
        files.cleanup()


def test_one_look_sees_what_was_written_in_it() -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client, max_bytes=4)
        files.copy_in([("a", io.BytesIO(b"12"), 2), ("a", io.BytesIO(b"3"), 1), ("b", io.BytesIO(b"456"), 3)])
        assert (files.read("a"), files.read("b")) == (b"3", b"456")
        with pytest.raises(NotADirectoryError):
            files.copy_in([("b", io.BytesIO(b"456"), 3), ("b/c", io.BytesIO(b""), 0)])
        with pytest.raises(IsADirectoryError):
            files.copy_in([("d/e", io.BytesIO(b""), 0), ("d", io.BytesIO(b""), 0)])
        with pytest.raises(WorkspaceBudgetExceededError):
            files.copy_in([("f", io.BytesIO(b"7"), 1)])
        files.cleanup()


def test_a_look_is_not_used_for_another_container() -> None:
    with FlatContainers() as server, server.client() as client:
        files = made(client)
        for n in range(5):
            files.write(f"{n}", b"needle")
        with files._one_look():
            del server.containers[files.container_id or ""]
            server.requests.clear()
            assert len(files.grep("needle")) == 5
        looks = server.requests.count(("GET", "containers/files"))
        assert looks == 2, "whether the lost one still has anything, and what the other has"
        files.cleanup()
