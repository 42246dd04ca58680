"""Wheels into a live sandbox: there from the next cell on, variables kept, and all or nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from belljar.errors import BelljarError, InvalidRequest
from belljar.sandbox.base import Spec
from belljar.sandbox.local.source import LocalSource

from .conftest import PATIENCE, Box, Boxes, appears, needs, only_local, wheel

PATH = "import sys; sys.path"


@needs("variables", "guest")
async def test_a_package_comes_into_a_sandbox_that_is_older_than_it(box: Box, home: Path) -> None:
    run = await box.run("import sys; x = 1; import latecomer")
    assert run.error is not None
    assert "Hint: 'latecomer' is not installed in this sandbox." in run.error.traceback
    assert run.exit.limit == "packages"
    wheel(home / "wheels", "latecomer", "def answer(): return 42\n", requires=["helping"])
    wheel(home / "wheels", "helping", "")
    await box.sandbox.install(["latecomer"])
    assert (await box.run("import latecomer, helping; latecomer.answer() + x")).text == "43"
    assert (await box.run("import importlib.metadata as m; m.version('latecomer')")).text == "'1.0'"
    run = await box.run("open(latecomer.__file__, 'a')")
    assert run.error is not None
    assert run.error.type in ("OSError", "PermissionError")
    run = await box.run("import no_such_module_here")
    assert run.error is not None
    assert run.exit.limit == "packages"


async def test_what_was_installed_outlives_the_interpreter(box: Box, home: Path) -> None:
    wheel(home / "wheels", "staying", "")
    await box.sandbox.install(["staying"])
    await box.sandbox.restart()  # which nobody had told yet
    assert (await box.run("import staying")).ok
    await box.run("import os; os._exit(1)")
    assert (await box.run("import staying")).ok


async def test_it_is_installed_in_one_sandbox_only(boxes: Boxes, home: Path) -> None:
    wheel(home / "wheels", "mine", "")
    async with boxes() as one, boxes() as other:
        await one.sandbox.install(["mine"])
        assert (await one.run("import mine")).ok
        assert (await other.run("import mine")).exit.status == "raised"


@needs("environments")
async def test_what_is_there_already_costs_nothing(boxes: Boxes, home: Path) -> None:
    made = wheel(home / "wheels", "present", "")
    async with boxes(requirements=("present",)) as box:
        before = await box.value(PATH)
        made.unlink()
        for requirements in ([], ["present"], ["numpy"], ["pandas", "Present", "present"]):
            await box.sandbox.install(requirements)
            assert await box.value(PATH) == before


@needs("environments")
async def test_versions_fit_together(boxes: Boxes, home: Path) -> None:
    for version in ("1.0", "2.0"):
        wheel(home / "wheels", "lowly", f"version = '{version}'\n", version=version)
    wheel(home / "wheels", "needy", "", requires=["lowly>=2"])
    async with boxes(requirements=("lowly<2",)) as box:
        assert (await box.run("import lowly; x = 1; lowly.version")).text == "'1.0'"
        before = await box.value(PATH)
        with pytest.raises(InvalidRequest, match="ask for other versions"):
            await box.sandbox.install(["needy"])
        assert await box.value(PATH) == before
        await box.sandbox.install(["lowly"])
        assert await box.value(PATH) == before
        # Asked for by name, a version is changed; what is imported stays as it is, and the next interpreter has it.
        await box.sandbox.install(["needy", "lowly>=2"])
        assert (await box.run("import lowly, needy; lowly.version, x")).text == "('1.0', 1)"
        await box.sandbox.restart()
        assert (await box.run("import lowly, needy; lowly.version")).text == "'2.0'"


@needs("variables")
@pytest.mark.parametrize(
    "requirement", ["no-such-thing-anywhere", "-r /etc/passwd", "https://example.com/x.whl", "json", "", "/mnt/data/x"]
)
async def test_what_cannot_be_had_changes_nothing(box: Box, requirement: str) -> None:
    await box.run("x = 1")
    before = await box.value(PATH)
    with pytest.raises(BelljarError, match=r"^requirements(\[0\])?: "):
        await box.sandbox.install([requirement])
    assert await box.value(PATH) == before
    assert (await box.run("x")).text == "1"


async def test_a_text_is_not_a_list(box: Box) -> None:
    with pytest.raises(InvalidRequest, match=r"^requirements: 'numpy' is not a list"):
        await box.sandbox.install("numpy")


@needs("live")
async def test_installing_waits_for_the_running_cell(box: Box, home: Path) -> None:
    wheel(home / "wheels", "patient", "")
    cell = asyncio.create_task(
        box.run("import os, time\nopen('begun', 'w')\nwhile not os.path.exists('go'): time.sleep(0.01)")
    )
    await appears(box, "begun")
    install = asyncio.create_task(box.sandbox.install(["patient"]))
    after = asyncio.create_task(box.run("import patient"))
    await box.files.write("go", b"")
    assert (await cell).ok
    await install
    assert (await after).ok


# How the local source does it


class Held:
    """Fetching that takes as long as the test wants."""

    def __init__(self, source: LocalSource, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._extend = source.extend
        monkeypatch.setattr(source, "extend", self)

    def __call__(self, spec: Spec, requirements: Sequence[str]) -> tuple[Spec, tuple[str, ...]]:
        self.begun.set()
        assert self.go.wait(PATIENCE)
        try:
            return self._extend(spec, requirements)
        finally:
            self.ended.set()


@pytest.fixture
def held(local: LocalSource, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(local, monkeypatch)


@only_local
async def test_others_go_on_while_it_is_fetched(held: Held, boxes: Boxes, home: Path) -> None:
    wheel(home / "wheels", "slowly", "")
    async with boxes() as one, boxes() as other:
        install = asyncio.create_task(one.sandbox.install(["slowly"]))
        assert await asyncio.to_thread(held.begun.wait, PATIENCE)
        assert (await other.run("1")).text == "1"
        held.go.set()
        await install
        assert (await one.run("import slowly")).ok


@only_local
async def test_an_install_that_is_given_up_changes_nothing(held: Held, boxes: Boxes, home: Path) -> None:
    wheel(home / "wheels", "given", "")
    async with boxes() as box:
        before = await box.value(PATH)
        install = asyncio.create_task(box.sandbox.install(["given"]))
        assert await asyncio.to_thread(held.begun.wait, PATIENCE)
        install.cancel()
        with pytest.raises(asyncio.CancelledError):
            await install
        held.go.set()
        assert await asyncio.to_thread(held.ended.wait, PATIENCE)
        assert await box.value(PATH) == before
