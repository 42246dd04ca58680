"""The suite of the port `SandboxSource`: every test here runs over every source in `SOURCES`.

A server that has `/execute` alone cannot do all of it. What it cannot stands in `LACKS`, by name; a test that needs
such a thing says so (`@needs("variables")`), and runs over the other sources. `test_sandbox_execute.py` shows for
each what such a source does instead.

Tests are coroutines and talk to the port only. One event loop per worker carries them all, since a source outlives a
test and may hold connections that belong to its loop.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.helpers import execute_server, s3
from tests.helpers.coroutine_tests import PATIENCE, blocks, pytest_pyfunc_call, runner, unblocked, until
from tests.helpers.forked import Forked
from tests.kubernetes.cluster import Cluster, access

from belljar.config import read_warm_pools
from belljar.sandbox.base import Attached, Cell, Limits, Sandbox, SandboxHandle, SandboxSource, Spec, Workspace
from belljar.sandbox.kubernetes import ClaimSource
from belljar.sandbox.local import cgroups
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Output, Run, fold
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.remote import RemoteSource

__all__ = ["PATIENCE", "blocks", "pytest_pyfunc_call", "runner", "unblocked", "until"]


def in_this_process(home: Path) -> SandboxSource:
    """Sandboxes of this host's own jail; requirements come from a directory of wheels."""
    (home / "wheels").mkdir(exist_ok=True)
    policy = LayerPolicy(find_links=(str(home / "wheels"),), offline=True)
    return LocalSource(JailOptions(cache=home / "cache", warm=0, layers=policy))


class Served(RemoteSource):
    """Sandboxes of a sandbox server, a process of its own that ends with this."""

    def __init__(self, home: Path) -> None:
        (home / "wheels").mkdir(exist_ok=True)
        place = home / "sandbox.sock"
        variables = {
            "BELLJAR_CACHE_DIR": str(home / "served"),
            "BELLJAR_FIND_LINKS": str(home / "wheels"),
            "BELLJAR_OFFLINE": "true",
            "BELLJAR_WARM": "0",
        }
        command = ["sandbox", "--socket", str(place), "--log-level", "warning"]
        variables = {**os.environ, **variables}
        self._server = Forked(*command, preload=True, env=variables, stdout=subprocess.DEVNULL)
        super().__init__(f"unix://{place}")

    async def close(self) -> None:
        await super().close()
        self._server.terminate()
        self._server.wait(PATIENCE)


class Claimed:
    """Sandboxes claimed of a cluster: our own API server, stand-ins for the rest, and one server behind all pods."""

    def __init__(self, home: Path) -> None:
        (home / "wheels").mkdir(exist_ok=True)
        (place := home / "cluster").mkdir()
        self._cluster = Cluster("fake", place, BELLJAR_FIND_LINKS=str(home / "wheels"), BELLJAR_OFFLINE="true")
        self._stack = AsyncExitStack()
        self._starting = asyncio.Lock()
        self._source: ClaimSource | None = None

    async def _start(self) -> ClaimSource:
        async with self._starting:
            if self._source is None:
                cluster = await self._stack.enter_async_context(self._cluster.running())
                space = await cluster.namespace()
                await space.pool(replicas=2)
                way, port = access(cluster.server), cluster.port
                self._source = ClaimSource(
                    way, namespace=space.name, pools=read_warm_pools("pool"), deployment="contract", port=port
                )
                self._stack.push_async_callback(self._source.close)
        return self._source

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[Sandbox]:
        source = await self._start()
        async with source.acquire(spec, epoch=epoch, wait=wait, container=container) as sandbox:
            yield sandbox

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        source = await self._start()
        async with source.attach(handle, epoch) as attached:
            yield attached

    async def close(self) -> None:
        await self._stack.aclose()


class Ungrouped(LocalSource):
    """Sandboxes of a host that gives us no control groups, as most give none to an ordinary user."""

    def __init__(self, home: Path) -> None:
        super().__init__(JailOptions(cache=home / "cache"))

    def _start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cgroups, "detect", lambda: cgroups.Groups(why="a test wants none"))
            super()._start()


class Executing(RemoteSource):
    """Sandboxes of a server that has `/execute` alone."""

    def __init__(self, home: Path) -> None:
        (home / "wheels").mkdir(exist_ok=True)
        self._stack = ExitStack()
        server = self._stack.enter_context(execute_server.running(wheels=home / "wheels"))
        super().__init__(server.url)

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._stack.close)


SOURCES: dict[str, Callable[[Path], SandboxSource]] = {
    "local": in_this_process,
    "remote": Served,
    "claims": Claimed,
    "execute": Executing,
}
LACKS: dict[str, dict[str, str]] = {
    "execute": {
        "variables": "an interpreter that outlives its cell, with all that lives in it",
        "live": "outputs, files and interrupts while a cell runs, in their order",
        "guest": "our own interpreter inside: shell lines, hints, bytes that are not UTF-8",
        "walls": "limits, names and permissions of our own jail",
        "handles": "sandboxes that another process can attach to",
        "large": "files of more than a few megabytes",
        "tree": "what is no regular file, from cell to cell",
        "environments": "a choice of packages to start with, and versions that are chosen to fit",
    },
}
"""What a kind of source cannot do, by name."""
ALL = {**SOURCES, "ungrouped": Ungrouped}

every_rung = pytest.mark.parametrize(
    "source", [name for name in ALL if "walls" not in LACKS.get(name, {})], indirect=True
)
"""For a limit that somebody else keeps where there are no control groups."""
only_local = pytest.mark.parametrize("source", ["local"], indirect=True)
"""For a test that reaches into the jail itself."""


class Box:
    """A sandbox under test, with cells folded."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    @property
    def files(self) -> Workspace:
        return self.sandbox.files

    def stream(self, code: str, timeout: float | None = None) -> AsyncIterator[Output]:
        return self.sandbox.run(Cell(code, timeout))

    async def run(self, code: str, timeout: float | None = None) -> Run:
        return fold([output async for output in self.stream(code, timeout)])

    async def value(self, code: str) -> object:
        """What a literal of Python, shown as the cell's result, stands for."""
        run = await self.run(code)
        assert run.ok, run.exit
        return eval(run.text, {"__builtins__": {}})


Boxes: TypeAlias = Callable[..., AbstractAsyncContextManager[Box]]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a source keeps what it keeps, and `wheels` it may fetch."""
    return tmp_path_factory.mktemp("source")


@pytest.fixture(scope="session")
def sources(runner: asyncio.Runner, home: Path) -> Iterator[Callable[[str], SandboxSource]]:
    """Each is made when first asked for, and kept: tests come in any order, and starting one takes seconds."""
    made: dict[str, SandboxSource] = {}

    def find(name: str) -> SandboxSource:
        if name not in made:
            made[name] = ALL[name](home)
        return made[name]

    yield find
    for one in made.values():
        runner.run(one.close())


def needs(*what: str) -> pytest.MarkDecorator:
    """For a test of something that not every source can do: it runs over those that can."""
    known = {name for lacks in LACKS.values() for name in lacks}
    assert set(what) <= known, f"{what} are not among {sorted(known)}"
    return pytest.mark.needs(*what)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "source" in metafunc.fixturenames and not any(
        "source" in str(mark.args[0]).split(",") for mark in metafunc.definition.iter_markers("parametrize")
    ):
        wanted = {name for mark in metafunc.definition.iter_markers("needs") for name in mark.args}
        able = [name for name in SOURCES if not wanted & LACKS.get(name, {}).keys()]
        metafunc.parametrize("source", able, indirect=True)


@pytest.fixture
def source(request: pytest.FixtureRequest, sources: Callable[[str], SandboxSource]) -> SandboxSource:
    return sources(request.param)


@pytest.fixture
def local(sources: Callable[[str], SandboxSource]) -> LocalSource:
    """For what knows only the local source: the blocking face, and tests that reach into the jail."""
    made = sources("local")
    assert isinstance(made, LocalSource)
    return made


@pytest.fixture
def boxes(source: SandboxSource) -> Boxes:
    """Makes sandboxes: `async with boxes(timeout=3) as box:` takes any of `Limits`, and `packages`, `requirements`."""

    @asynccontextmanager
    async def make(*, packages: str = "data", requirements: tuple[str, ...] = (), **limits: Any) -> AsyncIterator[Box]:
        async with source.acquire(Spec(Limits(**limits), packages, requirements)) as sandbox:
            yield Box(sandbox)

    return make


@pytest.fixture
def box(runner: asyncio.Runner, boxes: Boxes) -> Iterator[Box]:
    """A fresh sandbox of the default kind."""
    context = boxes()
    yield runner.run(_enter(context))
    runner.run(_leave(context))


async def _enter(context: AbstractAsyncContextManager[Box]) -> Box:
    return await context.__aenter__()


async def _leave(context: AbstractAsyncContextManager[Box]) -> None:
    await context.__aexit__(None, None, None)


async def appears(box: Box, name: str) -> None:
    """Wait for a file: a sign that a cell has come so far."""
    deadline = time.monotonic() + PATIENCE
    while name not in [info.name for info in await box.files.list()]:
        assert time.monotonic() < deadline, f"not within {PATIENCE:g} s: {name}"
        await asyncio.sleep(0.01)


def wheel(home: Path, name: str, code: str, *, version: str = "1.0", requires: Sequence[str] = ()) -> Path:
    """A wheel of one module."""
    info = f"{name}-{version}.dist-info"
    head = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}", *(f"Requires-Dist: {one}" for one in requires)]
    path = home / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(f"{info}/METADATA", "\n".join(head) + "\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


@pytest.fixture(scope="session")
def s3_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], s3.S3Server]]:
    """By name; each is started when first asked for, and kept."""
    made: dict[str, s3.S3Server] = {}
    with ExitStack() as stack:

        def find(name: str) -> s3.S3Server:
            if name not in made:
                made[name] = stack.enter_context(s3.running(name, tmp_path_factory.mktemp("s3") / name))
            return made[name]

        yield find


@pytest.fixture(params=s3.SERVERS)
def s3_server(request: pytest.FixtureRequest, s3_servers: Callable[[str], s3.S3Server]) -> s3.S3Server:
    return s3_servers(request.param)
