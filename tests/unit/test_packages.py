"""`requirements`: real uv, wheels built here, indexes on loopback; no network but in the test marked live."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import belljar.sandbox.packages.fetch as fetch_module
from belljar.errors import (
    BadSettings,
    BelljarError,
    CallerError,
    InvalidRequest,
    OperatorError,
    Refused,
    SandboxError,
    TooLarge,
)
from belljar.sandbox.packages import Installed, LayerPolicy, Pin, list_installed
from belljar.sandbox.packages.fetch import Fetch, explain
from belljar.sandbox.packages.requirements import MEANT, find_missing, find_unrequested
from belljar.sandbox.packages.store import Layer, LayerStore
from belljar.sandbox.packages.uv_program import find_uv

PYTHON = Path(sys.executable)
NUMPY = Installed("numpy", "2.1.0", "arrays", ("numpy",))
PILLOW = Installed("pillow", "11.0.0", "images", ("PIL",))


def wheel(
    home: Path, name: str, version: str = "1.0", *,
    requires: Sequence[str] = (), files: Mapping[str, str | tuple[int, str]] | None = None, tag: str = "py3-none-any",
) -> Path:  # fmt: skip
    """A wheel whose files are text, or (Unix mode, text)."""
    info = f"{name}-{version}.dist-info"
    head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    entries: dict[str, str | tuple[int, str]] = dict({f"{name}.py": f"version = {version!r}\n"} | dict(files or {}))
    entries[f"{info}/METADATA"] = "\n".join(head) + "\n"
    entries[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"
    record = io.StringIO()
    path = home / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, content in entries.items():
            mode, text = (stat.S_IFREG | 0o644, content) if isinstance(content, str) else content
            member = zipfile.ZipInfo(entry)
            member.create_system, member.external_attr = 3, mode << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
            record.write(f"{entry},sha256={digest},{len(text.encode())}\n")
        archive.writestr(f"{info}/RECORD", record.getvalue() + f"{info}/RECORD,,\n")
    return path


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A directory of wheels."""
    home = tmp_path / "links"
    home.mkdir()
    wheel(home, "tiny", "1.0")
    wheel(home, "tiny", "2.0", requires=["numpy>=2", "helper"])
    wheel(home, "helper")
    return home


Stores = Callable[..., LayerStore]


@pytest.fixture
def stores(tmp_path: Path, links: Path) -> Iterator[Stores]:
    """Makes stores on one root, which look at `links` only."""
    made: list[LayerStore] = []

    def store(*, base: Sequence[Installed] = (NUMPY, PILLOW), kind: type[LayerStore] = LayerStore,
              env: Mapping[str, str] | None = None, **policy: object) -> LayerStore:  # fmt: skip
        asked = {"find_links": (str(links),), "offline": True, "timeout": 60.0} | policy
        made.append(kind(tmp_path / "store", python=PYTHON, base=base, policy=LayerPolicy(**asked), env=env))  # type: ignore[arg-type]
        return made[-1]

    yield store
    for one in made:
        one.close()
        one.layers.chmod(0o711)  # for those who clean up


def names(layer: Layer | None) -> dict[str, str]:
    assert layer is not None
    return {pin.name: pin.version for pin in layer.pins}


def left(root: Path) -> dict[str, list[str]]:
    """What is in the store that should not stay."""
    (root / "layers").chmod(0o711)  # else only root could list it
    found = {place: sorted(path.name for path in (root / place).iterdir()) for place in ("tmp", "layers")}
    (root / "layers").chmod(0o311)
    found["locks"] = sorted(path.name for path in (root / "records").glob("*.lock"))
    return found


CLEAN: dict[str, list[str]] = {"tmp": [], "layers": [], "locks": []}


# What may be asked


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        ("json", "part of Python; leave it out and `import json`"),
        ("os", "part of Python"),
        ("cv2", "write opencv-python-headless"),
        ("sklearn", "write scikit-learn"),
        ("bs4", "write beautifulsoup4"),
        ("YAML", "write pyyaml"),
        ("matplotlib.pyplot", "write matplotlib"),
        ("PIL", "pillow 11.0.0 is imported by, and that is installed already; leave it out and `import PIL`"),
        ("numpy<2", "contradicts numpy 2.1.0"),
        ("numpy[extra]>3", "contradicts numpy 2.1.0"),
        ("-r /etc/passwd", "is an option"),
        ("  --index-url=x", "is an option"),
        ("-e .", "is an option"),
        ("./tiny", "URLs, paths and variables are not taken"),
        ("/tmp/tiny.whl", "URLs, paths and variables are not taken"),
        ("tiny @ file:///tmp/tiny.whl", "URLs, paths and variables are not taken"),
        ("git+https://example.invalid/x.git", "URLs, paths and variables are not taken"),
        ("tiny==${HOME}", "URLs, paths and variables are not taken"),
        ("tiny # comment", "URLs, paths and variables are not taken"),
        ("tíny", "URLs, paths and variables are not taken"),
        ("tiny\nhelper", "control characters"),
        ("tiny\x00", "control characters"),
        ("tiny===1.0", "form that is not taken"),
        ("pip install tiny", "cannot be read as a requirement; write a name"),
        ("tiny>=", "cannot be read"),
        ("tiny; rm", "cannot be read"),
        ("", "is not a requirement"),
        ("   ", "is not a requirement"),
        (7, "is not a requirement"),
        (None, "is not a requirement"),
        ("t" * 201, "has 201 characters, at most 200"),
    ],
)
def test_a_refused_requirement_is_named_with_its_remedy(stores: Stores, requirement: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        stores().layer([requirement])
    assert caught.value.param == "requirements"
    assert str(caught.value).startswith("requirements")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_list_is_needed_and_its_length_bounded(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="not a list"):
        stores().layer("tiny")
    with pytest.raises(InvalidRequest, match="3 given, at most 2"):
        stores(max_count=2).layer(["a", "b", "c"])


def test_an_allow_list_holds(stores: Stores) -> None:
    store = stores(allow=frozenset({"Helper"}))
    with pytest.raises(InvalidRequest, match="allowed: Helper"):
        store.layer(["tiny"])
    assert names(store.layer(["helper"])) == {"helper": "1.0"}
    assert store.layer(["numpy"]) is None


def test_remedies_are_names_that_are_not_refused_themselves() -> None:
    for remedy in MEANT.values():
        if " " not in remedy:
            assert find_missing([remedy], base={}, most=1)


def test_duplicates_are_merged_and_names_normalised() -> None:
    found = find_missing(["Poly_Lars>=1", "poly.lars[B]<2", 'x; os_name=="nt"', "x"], base={}, most=9)
    assert [str(one) for one in found] == ["poly-lars[b]<2,>=1", "x", 'x; os_name == "nt"']


def test_what_is_asked_for_again_is_found_by_name() -> None:
    earlier = ("Poly_Lars>=1", "x; os_name == 'nt'", "y[a]", "z")
    assert find_unrequested(earlier, ["poly.lars==2", " X<3", "y", "other"]) == ("z",)


PIECES = st.sampled_from(
    ["tiny", "helper", "numpy", "==1.0", ">=", "<2", "[a]", "; ", "os_name", "'nt'", "@", "-", "--", " ", ",", "$(",
     "`touch x`", "|", "&&", "\n", "\\", "/", "..", "file://", "%", "*", "!", "é", "\x00", '"']
)  # fmt: skip


@given(st.lists(st.one_of(st.lists(PIECES, max_size=6).map("".join), st.text(max_size=30)), max_size=4))
@example(["tiny; touch x"])
def test_any_text_is_taken_or_refused_by_name(texts: list[str]) -> None:
    try:
        found = find_missing(texts, base={"numpy": NUMPY}, most=3)
    except CallerError:
        pass
    else:
        assert all(str(one).isprintable() and not str(one).startswith("-") for one in found)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join), min_size=1, max_size=2))
def test_any_text_ends_in_a_layer_or_one_of_our_errors(stores: Stores, tmp_path: Path, texts: list[str]) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    try:
        stores().layer(texts)
    except (CallerError, OperatorError, SandboxError):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) in (before, sorted([*before, "store"]))


# What is there


def test_installed_lists_names_versions_and_imports(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for home, version in ((first, "1.0"), (second, "9.0")):
        home.mkdir()
        content: dict[str, str | tuple[int, str]] = {"Pack/__init__.py": "", "_private.py": "", "n.cpython-311.so": ""}
        with zipfile.ZipFile(wheel(tmp_path, "Some_Pack", version, requires=["x>1; extra == 'm'", "y"],
                                   files=content)) as archive:  # fmt: skip
            archive.extractall(home)
    found = list_installed([first, second])
    assert found == (Installed("some-pack", "1.0", "", ("Pack", "Some_Pack", "n"), ("x>1; extra == 'm'",)),)


def test_installed_knows_this_environment() -> None:
    import packaging

    found = {one.name: one for one in list_installed([Path(packaging.__file__).parents[1]])}
    assert found["packaging"].version == packaging.__version__
    assert "packaging" in found["packaging"].imports
    assert list(found) == sorted(found)


# Layers


def test_what_the_base_environment_has_needs_no_layer(stores: Stores, tmp_path: Path) -> None:
    assert stores().layer([]) is None
    assert stores().layer(["numpy", "NumPy>=2", "pillow==11.*"]) is None
    assert stores().layer(['tiny; os_name == "nt"']) is None
    assert left(tmp_path / "store") == CLEAN


def test_a_layer_holds_what_is_missing_and_nothing_else(stores: Stores, tmp_path: Path) -> None:
    store = stores()
    layer = store.layer(["tiny"])
    assert names(layer) == {"helper": "1.0", "tiny": "2.0"}
    assert layer is not None
    assert layer.bytes > 0
    digest = hashlib.sha256((tmp_path / "links" / "tiny-2.0-py3-none-any.whl").read_bytes()).hexdigest()
    assert Pin("tiny", "2.0", f"sha256:{digest}") in layer.pins
    home = store.layers / layer.name
    assert (home / "tiny.py").is_file()
    assert (home / "helper.py").is_file()
    assert not (home / "numpy").exists()
    assert imports(home, "import tiny; print(tiny.version)") == "2.0"
    assert left(tmp_path / "store") == CLEAN | {"layers": [layer.name]}


def imports(layer: Path, code: str) -> str:
    """What code prints that has the layer on its path, as the guest does it."""
    script = f"import sys; sys.path.append({str(layer)!r}); {code}"
    return subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True).stdout[:-1]


def test_the_same_again_is_free_and_asks_nobody(stores: Stores, links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stores().layer(["tiny", "helper"])
    for path in links.iterdir():
        path.unlink()
    store = stores()
    monkeypatch.setattr(subprocess, "Popen", None)  # nothing is started
    assert store.layer(["Helper", "tiny", "tiny"]) == first


def test_different_wishes_with_one_answer_share_a_layer(stores: Stores) -> None:
    store = stores(kind=Counting)
    assert store.layer(["tiny"]) == store.layer(["tiny>1", "helper==1.0"]) == store.layer(["helper", "tiny>=1.5"])
    assert installs(store) == 1


def test_extras_of_what_is_preloaded_are_added(stores: Stores) -> None:
    base = [Installed("boxy", "3.0", extras=('helper>=1; extra == "more"', "no such ( line; extra"))]
    assert names(stores(base=base).layer(["boxy[more]>=2"])) == {"helper": "1.0"}


def test_names_of_layers_cannot_be_guessed_or_listed(stores: Stores, tmp_path: Path) -> None:
    layer = stores().layer(["helper"])
    elsewhere = LayerStore(tmp_path / "other", python=PYTHON, base=(), policy=stores().policy)
    other = elsewhere.layer(["helper"])
    elsewhere.close()
    elsewhere.layers.chmod(0o711)
    assert layer is not None
    assert other is not None
    assert layer.pins == other.pins
    assert layer.name != other.name
    modes = {name: stat.S_IMODE((tmp_path / "store" / name).stat().st_mode) for name in (".", "layers", "secret")}
    assert modes == {".": 0o711, "layers": 0o311, "secret": 0o600}
    assert stat.S_IMODE((tmp_path / "store" / "layers" / layer.name).stat().st_mode) == 0o755


def test_a_spoilt_record_or_a_lost_layer_is_made_again(stores: Stores, tmp_path: Path) -> None:
    store = stores()
    layer = store.layer(["helper"])
    assert layer is not None
    for record in (tmp_path / "store" / "records").glob("*.json"):
        record.write_text('{"layer":')
    assert store.layer(["helper"]) == layer
    (store.layers / layer.name).rename(tmp_path / "gone")
    assert store.layer(["helper"]) == layer
    assert (store.layers / layer.name / "helper.py").is_file()


def test_a_version_that_goes_with_the_base_environment_is_chosen(stores: Stores) -> None:
    assert names(stores(base=[Installed("numpy", "1.26.0")]).layer(["tiny"])) == {"tiny": "1.0"}


# Bytecode


def test_bytecode_is_made_once_in_the_background(stores: Stores, tmp_path: Path) -> None:
    store = stores()
    layer = store.layer(["helper"])
    assert layer is not None
    store.close(wait=60)
    home = store.layers / layer.name
    (cached,) = (home / "__pycache__").glob("helper.*.pyc")
    assert b"/pkgs/" in cached.read_bytes()
    assert str(tmp_path).encode() not in cached.read_bytes()
    assert stat.S_IMODE(cached.stat().st_mode) == 0o644
    assert imports(home, "import helper; print(helper.__cached__)") == str(cached)
    assert (tmp_path / "store" / "records" / f"{layer.name}.compiled").exists()
    assert not zombies()


def zombies() -> list[str]:
    children = Path(f"/proc/self/task/{threading.main_thread().native_id}/children").read_text().split()
    stats = [Path(f"/proc/{child}/stat").read_text() for child in children]
    return [one for one in stats if one.rpartition(")")[2].split()[0] == "Z"]


def test_bytecode_that_was_interrupted_is_made_later(stores: Stores, tmp_path: Path) -> None:
    store = stores()
    layer = store.layer(["helper"])
    assert layer is not None
    store.close(wait=60)
    done = tmp_path / "store" / "records" / f"{layer.name}.compiled"
    done.unlink()
    again = stores()
    again.layer(["helper"])
    again.close(wait=60)
    assert done.exists()


# At the same time


class Counting(LayerStore):
    """Writes a line for every installation."""

    def _install(self, name: str, pins: tuple[Pin, ...], work: fetch_module.Work) -> Layer:
        with (self._root / "installs").open("a") as file:
            file.write("x\n")
        return super()._install(name, pins, work)


def installs(store: LayerStore) -> int:
    return len((store.layers.parent / "installs").read_text().splitlines())


def test_threads_install_once(stores: Stores, tmp_path: Path) -> None:
    store = stores(kind=Counting)
    with ThreadPoolExecutor(8) as pool:
        layers = set(pool.map(store.layer, [["tiny"], ["tiny>1"]] * 8))
    assert len(layers) == 1
    assert installs(store) == 1
    assert left(tmp_path / "store") == CLEAN | {"layers": [one.name for one in layers if one]}


CHILD = """
import sys
from pathlib import Path
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.packages.store import LayerStore
class Counting(LayerStore):
    def _install(self, *args):
        with (self._root / "installs").open("a") as file:
            file.write("x\\n")
        return super()._install(*args)
root, policy, wanted = Path(sys.argv[1]), eval(sys.argv[2]), sys.argv[3:]
print("ready", flush=True)
sys.stdin.readline()
print(Counting(root, python=Path(sys.executable), base=(), policy=policy).layer(wanted).name)
"""


def child(root: Path, policy: LayerPolicy, *wanted: str) -> subprocess.Popen[str]:
    """Another process, which has imported everything and waits for a line."""
    source = Path(fetch_module.__file__).parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(root), repr(policy), *wanted], env={"PYTHONPATH": str(source)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("left", [None, b"cut off"])
def test_all_who_start_at_once_have_one_secret(stores: Stores, tmp_path: Path, left: bytes | None) -> None:
    secret = tmp_path / "store" / "secret"
    together = threading.Barrier(8)
    for _ in range(20):
        secret.unlink(missing_ok=True)
        if left is not None:
            secret.parent.mkdir(exist_ok=True)
            secret.write_bytes(left)
        with ThreadPoolExecutor(8) as pool:
            seen = {made._secret for made in pool.map(lambda _: (together.wait(), stores())[1], range(8))}
        assert seen == {secret.read_bytes()}


def test_processes_install_once(tmp_path: Path, links: Path) -> None:
    policy = LayerPolicy(find_links=(str(links),), offline=True)
    processes = [child(tmp_path / "store", policy, wanted) for wanted in ("tiny<2", "tiny==1.0") * 2]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = {process.communicate(timeout=60)[0] for process in processes}
    (tmp_path / "store" / "layers").chmod(0o711)
    assert len(said) == 1
    assert (tmp_path / "store" / "installs").read_text() == "x\n"


# What wheels and archives try


def test_source_archives_are_refused_and_never_run(stores: Stores, links: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    files = {
        "PKG-INFO": "Metadata-Version: 1.0\nName: sourcy\nVersion: 1.0\n",
        "setup.py": f"open({str(ran)!r}, 'w').close()\nfrom setuptools import setup\nsetup(name='sourcy')\n",
    }
    with tarfile.open(links / "sourcy-1.0.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"sourcy-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    wheel(links, "needy", requires=["sourcy"])
    for wanted in ("sourcy", "sourcy==1.0", "needy"):
        with pytest.raises(InvalidRequest, match="source archives are refused, since building one runs its code"):
            stores().layer([wanted])
    assert not ran.exists()


def test_a_wheel_cannot_bring_a_url_or_a_path_along(stores: Stores, links: Path, tmp_path: Path) -> None:
    wheel(links, "pathy", requires=[f"sneaky @ {tmp_path.as_uri()}"])
    wheel(links, "urly", requires=["sneaky @ git+https://127.0.0.1:9/sneaky.git"])
    for wanted in ("pathy", "urly"):
        with pytest.raises(BelljarError):
            stores().layer([wanted])
    assert left(tmp_path / "store") == CLEAN


def test_a_pth_file_is_kept_and_never_run(stores: Stores, links: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    wheel(links, "pathy", files={"evil.pth": f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"})
    store = stores()
    layer = store.layer(["pathy"])
    assert layer is not None
    assert (store.layers / layer.name / "evil.pth").is_file()
    assert imports(store.layers / layer.name, "import pathy; print(pathy.version)") == "1.0"
    store.close(wait=60)
    assert not ran.exists()


@pytest.mark.parametrize(
    "entry", ["../evil.py", "../../../../evil.py", "{tmp}/evil.py", "trav-1.0.data/data/../../../evil.py",
              "trav-1.0.data/scripts/../../evil.py"]
)  # fmt: skip
def test_a_wheel_cannot_write_elsewhere(stores: Stores, links: Path, tmp_path: Path, entry: str) -> None:
    wheel(links, "trav", files={entry.format(tmp=tmp_path): "evil\n"})
    store = stores()
    try:
        store.layer(["trav"])
    except BelljarError:
        assert left(tmp_path / "store") == CLEAN
    unpacked = tmp_path.glob("store/cache/archive-*/*")  # the wheel's own directory in uv's cache
    inside = [store.layers, *unpacked]
    assert [path for path in tmp_path.rglob("evil.py") if not any(map(path.is_relative_to, inside))] == []
    assert not Path("/evil.py").exists()


def test_modes_and_links_are_made_plain(stores: Stores, links: Path) -> None:
    kinds: dict[str, str | tuple[int, str]] = {
        "links/passwd": (stat.S_IFLNK | 0o777, "/etc/passwd"),
        "suid.sh": (stat.S_IFREG | 0o6777, "#!/bin/sh\n"),
        "closed.py": (stat.S_IFREG | 0o200, "x = 1\n"),
        "links-1.0.data/scripts/tool": "#!python\nprint(1)\n",
    }
    wheel(links, "links", files=kinds)
    store = stores()
    layer = store.layer(["links"])
    assert layer is not None
    store.close(wait=60)
    for path in (store.layers / layer.name).rglob("*"):
        mode = path.lstat().st_mode
        assert stat.S_ISDIR(mode) or stat.S_ISREG(mode)
        assert stat.S_IMODE(mode) in ((0o755,) if stat.S_ISDIR(mode) else (0o644, 0o755)), path
    assert "root:" not in (store.layers / layer.name / "links" / "passwd").read_text()


def test_links_that_got_through_would_be_refused(tmp_path: Path) -> None:
    from belljar.sandbox.packages.store import _seal_files

    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(InvalidRequest, match="'out', which is no plain file"):
        _seal_files(tmp_path)


# Limits


@pytest.mark.parametrize("megabytes", [2, 200])
def test_a_layer_over_the_size_limit_is_refused(stores: Stores, links: Path, tmp_path: Path, megabytes: int) -> None:
    wheel(links, "bomb", files={"zeros.bin": "0" * (megabytes << 20)})
    with pytest.raises(TooLarge, match=r"requirements_size allows 1 MiB; ask for fewer"):
        stores(max_bytes=1 << 20).layer(["bomb"])
    assert left(tmp_path / "store") == CLEAN
    assert not list((tmp_path / "store" / "cache").glob(".tmp*"))


def test_a_limit_that_was_lowered_counts_for_layers_that_exist(stores: Stores) -> None:
    assert stores().layer(["helper"]) is not None
    with pytest.raises(TooLarge, match=r"they take [0-9.]+ (KiB|bytes)"):
        stores(max_bytes=10).layer(["helper"])


class Index(ThreadingHTTPServer):
    """A package index on loopback with one package, `slow`. It can hang, and tells when somebody is waiting."""

    daemon_threads = True

    def __init__(self, wheel: Path, *, hang_at: str = "", size: int | None = None, digest: str = "") -> None:
        super().__init__(("127.0.0.1", 0), Page)
        self.wheel, self.hang_at, self.asked = wheel.read_bytes(), hang_at, list[str]()
        self.waiting, self.left, self.release = threading.Event(), threading.Event(), threading.Event()
        digest = digest or hashlib.sha256(self.wheel).hexdigest()
        file: dict[str, object] = {"filename": wheel.name, "url": f"/files/{wheel.name}", "core-metadata": True}
        file |= {"hashes": {"sha256": digest}} | ({} if size is None else {"size": size})
        self.page = {"meta": {"api-version": "1.1"}, "name": "slow", "versions": ["1.0"], "files": [file]}
        self.url = f"http://someone:password@127.0.0.1:{self.server_port}/simple"

    def __enter__(self) -> Index:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Page(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.hang_at and self.path.endswith(self.server.hang_at):
            self.server.waiting.set()
            while not self.server.release.wait(0.01):
                if select.select([self.connection], [], [], 0)[0]:  # nothing more is said, so the other side is gone
                    self.server.left.set()
                    self.close_connection = True
                    return
        if self.path == "/simple/slow/":
            self.answer(json.dumps(self.server.page).encode(), "application/vnd.pypi.simple.v1+json")
        elif self.path.endswith(".metadata"):
            self.answer(b"Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n", "text/plain")
        elif self.path.endswith(".whl"):
            self.answer(self.server.wheel, "application/octet-stream")
        else:
            self.send_error(404)

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    return wheel(tmp_path, "slow")


def test_an_index_is_used(stores: Stores, slow: Path) -> None:
    with Index(slow) as index:
        store = stores(index=index.url, offline=False)
        assert names(store.layer(["slow"])) == {"slow": "1.0"}
        with pytest.raises(InvalidRequest, match="nosuch is not in the package index; check the spelling"):
            store.layer(["nosuch"])
        assert names(store.layer(["slow>=1", "helper"])) == {"helper": "1.0", "slow": "1.0"}
        assert [path for path in index.asked if path.endswith(".whl")] == [f"/files/{slow.name}"]


def test_the_time_limit_ends_uv(stores: Stores, slow: Path, tmp_path: Path) -> None:
    for place in ("/simple/slow/", ".whl"):
        with Index(slow, hang_at=place) as index:
            with pytest.raises(Refused, match="longer than the 2 s of requirements_timeout"):
                stores(index=index.url, offline=False, timeout=2.0).layer(["slow"])
            assert index.waiting.is_set()
            assert index.left.wait(10)
    assert left(tmp_path / "store") == CLEAN


def test_whoever_waits_for_another_has_a_time_limit_too(stores: Stores, slow: Path) -> None:
    with Index(slow, hang_at=".whl") as index, ThreadPoolExecutor(1) as pool:
        first = pool.submit(stores(index=index.url, offline=False).layer, ["slow"])
        assert index.waiting.wait(30)
        with pytest.raises(Refused, match=r"0\.1 s of requirements_timeout"):
            stores(index=index.url, offline=False, timeout=0.1).layer(["slow"])
        index.release.set()
        assert names(first.result(30)) == {"slow": "1.0"}


def test_the_size_an_index_tells_is_believed_before_fetching(stores: Stores, slow: Path) -> None:
    with Index(slow, size=5 << 30) as index:
        with pytest.raises(TooLarge, match=r"they take 5 GiB, and requirements_size allows 1 GiB"):
            stores(index=index.url, offline=False).layer(["slow"])
        assert not [path for path in index.asked if path.endswith(".whl")]


def test_a_file_that_is_not_what_the_index_promised_is_refused(stores: Stores, slow: Path, tmp_path: Path) -> None:
    with Index(slow, digest="0" * 64) as index, pytest.raises(Refused, match="not what the index promised"):
        stores(index=index.url, offline=False).layer(["slow"])
    assert left(tmp_path / "store") == CLEAN


@pytest.mark.parametrize("place", ["/simple/slow/", ".whl"])
def test_a_killed_process_leaves_no_layer(tmp_path: Path, slow: Path, place: str) -> None:
    root = tmp_path / "store"
    with Index(slow, hang_at=place) as index:
        process = child(root, LayerPolicy(index=index.url), "slow")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert index.waiting.wait(30)
        (work,) = (root / "tmp").iterdir()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert index.left.wait(30), "uv outlived us"
        lock = os.open(work, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # free when the last of them is dead
        os.close(lock)
        index.release.set()
        store = LayerStore(root, python=PYTHON, base=(), policy=LayerPolicy(index=index.url))
        found = left(root)
        assert (found["tmp"], found["layers"]) == ([], [])
        assert not list((root / "cache").glob(".tmp*"))
        layer = store.layer(["slow"])
        store.close()
    assert names(layer) == {"slow": "1.0"}
    assert layer is not None
    assert left(root) == CLEAN | {"layers": [layer.name]}
    store.layers.chmod(0o711)


def test_work_of_the_living_is_not_swept(stores: Stores, slow: Path, tmp_path: Path) -> None:
    with Index(slow, hang_at=".whl") as index, ThreadPoolExecutor(1) as pool:
        first = pool.submit(stores(index=index.url, offline=False).layer, ["slow"])
        assert index.waiting.wait(30)
        stores()
        assert len(left(tmp_path / "store")["tmp"]) == 1
        forgotten = tmp_path / "store" / "tmp" / "forgotten"
        (forgotten / "layer").mkdir(parents=True)
        stores()
        assert not forgotten.exists()
        assert len(left(tmp_path / "store")["tmp"]) == 1
        index.release.set()
        assert names(first.result(30)) == {"slow": "1.0"}


# What cannot be had


def test_conflicts_name_what_is_preloaded(stores: Stores, links: Path) -> None:
    wheel(links, "older", requires=["numpy<2"])
    with pytest.raises(InvalidRequest, match=r"fit what is preloaded; ask for other versions \(.*numpy<2") as caught:
        stores().layer(["older"])
    assert caught.value.param == "requirements"
    with pytest.raises(InvalidRequest, match="ask for other versions"):
        stores().layer(["tiny==1.0", "tiny==2.0"])


def test_no_wheel_for_this_platform_is_explained(stores: Stores, links: Path) -> None:
    wheel(links, "windy", tag="cp39-cp39-win_amd64")
    with pytest.raises(InvalidRequest, match="no wheel for this Python and platform, and source archives are refused"):
        stores().layer(["windy"])


def test_offline_tells_what_is_installed(stores: Stores) -> None:
    told = r"requirements: humanize is not available here: .* installed already: numpy, pillow"
    with pytest.raises(Refused, match=told):
        stores().layer(["humanize"])


def test_an_index_that_cannot_be_reached_is_explained(stores: Stores) -> None:
    store = stores(index="http://someone:password@127.0.0.1:9/simple", offline=False, env={"UV_HTTP_RETRIES": "0"})
    with pytest.raises(Refused, match=r"not available here: .* installed already: numpy, pillow") as caught:
        store.layer(["humanize"])
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("error: Hash mismatch for `x==1`", Refused, "not what the index promised"),
        ("error: No space left on device (os error 28)", BadSettings, "disk"),
        ("error: Failed to fetch: http://u:p@h/\n cause: 403 Forbidden", Refused, "check the credentials"),
        ("error: dns error: failed to lookup", Refused, "cannot be reached"),
        ("error: something new at http://u:secret@h/" + "x" * 900, Refused, "uv failed"),
    ],
)
def test_what_uv_says_is_explained(said: str, kind: type[BelljarError], words: str) -> None:
    error = explain(said, base=())
    assert type(error) is kind
    assert words in str(error)
    assert "secret" not in str(error)
    assert len(str(error)) < 700


# The installation


def test_only_the_environment_it_is_given_reaches_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_EXTRA_INDEX_URL", "http://leak.invalid")
    given = {"LD_PRELOAD": "x", "PYTHONPATH": "x", "UV_INDEX_URL": "a", "UV_INDEX_X_PASSWORD": "p", "https_proxy": "h"}
    given |= {"UV_TARGET": "x", "UV_NO_BUILD": "0", "UV_CACHE_DIR": "x", "UV_CONFIG_FILE": "x"}
    env = Fetch(cache=tmp_path, python=PYTHON, policy=LayerPolicy(index="b"), env=given).env
    assert env.pop("UV_SYSTEM_CERTS", "true") == "true"  # where the machine has certificates
    assert env == {
        "PATH": os.defpath, "HOME": str(tmp_path), "UV_HTTP_RETRIES": "2", "UV_INDEX_X_PASSWORD": "p",
        "https_proxy": "h", "UV_DEFAULT_INDEX": "b", "UV_CACHE_DIR": str(tmp_path), "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1",
    }  # fmt: skip


def a_uv(path: Path, says: str = "uv 99.1.2 (test)", *, code: int = 0) -> Path:
    """A program that tells a version, and then passes on to the real one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    real = PYTHON.with_name("uv")
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{says}"; exit {code}; }}\nexec {real} "$@"\n')
    path.chmod(0o755)
    return path


def test_without_uv_the_remedy_is_told(stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    store = stores(env={"PATH": str(tmp_path / "bin")})
    told = r"needs uv 0\.9 or newer, which is not installed here; run: pip install 'belljar\[packages\]'$"
    with pytest.raises(BadSettings, match=told):
        store.layer(["tiny"])
    assert left(tmp_path / "store") == CLEAN
    a_uv(tmp_path / "bin/uv")
    assert store.layer(["tiny"]), "found once it is there, without a new start"


def test_uv_is_found_by_its_variable_then_the_path_then_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, other = a_uv(tmp_path / "named/uv"), a_uv(tmp_path / "path/uv")
    path = {"PATH": str(other.parent)}
    installed = os.fspath(PYTHON.with_name("uv"))
    assert find_uv({**path, "UV": str(named)}) == str(named)
    assert find_uv({**path, "UV": "uv"}) == str(other), "the name of a command"
    assert find_uv({**path, "UV": str(tmp_path / "gone")}) == str(other)
    assert find_uv(path) == str(other)
    assert find_uv({"PATH": str(tmp_path)}) == installed
    a_uv(other, "uv 0.8.24 (old)")
    assert find_uv(path) == installed, "too old a one is passed over"
    a_uv(other, "something else 1.2.3")
    assert find_uv(path) == installed
    a_uv(other, code=1)
    assert find_uv(path) == installed
    monkeypatch.setitem(sys.modules, "uv", None)
    a_uv(named, "uv 0.4.1")
    told = f"({named} is uv 0.4.1, which is too old; {other} does not say which version of uv it is); run: pip install"
    with pytest.raises(BadSettings, match=re.escape(told)):
        find_uv({**path, "UV": str(named)})
    with pytest.raises(BadSettings, match=re.escape("(UV=/no/uv is no program; ")):
        find_uv({**path, "UV": "/no/uv"})


def test_a_store_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSettings, match=r"the package store .*file cannot be used"):
        LayerStore(tmp_path / "file", python=PYTHON, base=())
    with pytest.raises(BadSettings, match="check that /no/python exists"):
        LayerStore(tmp_path / "store", python=Path("/no/python"), base=())


def test_a_base_environment_with_odd_names_is_survived(stores: Stores) -> None:
    odd = [Installed("", "1"), Installed("Odd_Name", "1.0-beta1"), Installed("broken", "not a version")]
    store = stores(base=odd)
    assert store.layer(["odd-name"]) is None
    assert names(store.layer(["helper"])) == {"helper": "1.0"}


@pytest.mark.live
def test_the_real_index(tmp_path: Path) -> None:
    store = LayerStore(tmp_path / "store", python=PYTHON, base=(), env=os.environ)
    layer = store.layer(["humanize"])
    assert layer is not None
    assert "humanize" in names(layer)
    assert imports(store.layers / layer.name, "import humanize; print(humanize.naturalsize(10**6))") == "1.0 MB"
    store.close()
    store.layers.chmod(0o711)
