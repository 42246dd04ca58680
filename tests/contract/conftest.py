"""The suite of the port `SandboxSource`: every test here runs over every source in `SOURCES`.

Tests are coroutines and talk to the port only. One event loop per worker carries them all, since a source outlives a
test and may hold connections that belong to its loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from belljar.sandbox.base import Cell, Limits, Sandbox, SandboxSource, Spec, Workspace
from belljar.sandbox.local import cgroups
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Output, Run, fold
from belljar.sandbox.packages import LayerPolicy
from belljar.sandbox.remote import RemoteSource

PATIENCE = 30.0
"""Seconds after which something that should have happened has not: the machine may be busy."""

_RUNNER = pytest.StashKey[asyncio.Runner]()


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
        command = [sys.executable, "-m", "belljar.cli", "sandbox", "--socket", str(place), "--log-level", "warning"]
        self._server = subprocess.Popen(command, env={**os.environ, **variables}, stdout=subprocess.DEVNULL)
        super().__init__(f"unix://{place}")

    async def close(self) -> None:
        await super().close()
        self._server.terminate()
        self._server.wait(PATIENCE)


class Ungrouped(LocalSource):
    """Sandboxes of a host that gives us no control groups, as most give none to an ordinary user."""

    def __init__(self, home: Path) -> None:
        super().__init__(JailOptions(cache=home / "cache"))

    def _start(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cgroups, "detect", lambda: cgroups.Groups(why="a test wants none"))
            super()._start()


SOURCES: dict[str, Callable[[Path], SandboxSource]] = {"local": in_this_process, "remote": Served}
ALL = {**SOURCES, "ungrouped": Ungrouped}

every_rung = pytest.mark.parametrize("source", list(ALL), indirect=True)
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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in the worker's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    pyfuncitem.config.stash[_RUNNER].run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session", autouse=True)
def runner(pytestconfig: pytest.Config) -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        pytestconfig.stash[_RUNNER] = made
        yield made


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


@pytest.fixture(params=list(SOURCES))
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


async def until(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait for something to become true; fail with its name if it does not."""
    deadline = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < deadline, f"not within {patience:g} s: {what}"
        await asyncio.sleep(0.01)


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
