"""A sandbox that was acquired with an epoch: left living, found again, taken over; or it says that it cannot be."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from belljar.errors import BelljarError, Fenced, Lost, Refused
from belljar.sandbox.base import Cell, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.outputs import Stdout

from .conftest import PATIENCE, Box, needs

pytestmark = needs("handles")

kept = pytest.mark.parametrize("source", ["remote", "claims"], indirect=True)
"""For a source whose sandboxes have handles."""


async def test_an_epoch_changes_nothing_for_its_holder(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=1) as sandbox:
        box = Box(sandbox)
        await box.files.write("a", b"1")
        assert (await box.run("x = open('a').read(); x")).text == "'1'"
        await sandbox.restart()
        assert [one.name for one in await box.files.list()] == ["a"]
        handle = sandbox.handle
    assert not sandbox.alive
    if handle is not None:
        with pytest.raises(Lost):
            async with source.attach(handle, 2):
                raise AssertionError


@pytest.mark.parametrize("source", ["local"], indirect=True)
async def test_one_of_this_process_cannot_be_left(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=1) as sandbox:
        assert sandbox.handle is None
        with pytest.raises(Refused):
            await sandbox.detach()
        assert (await Box(sandbox).run("1")).text == "1"


@kept
async def test_detached_and_attached_to(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=7) as sandbox:
        box = Box(sandbox)
        await box.run("x = 41")
        await box.files.write("sub/a.csv", b"1,2\n")
        handle = await sandbox.detach()
        assert handle == sandbox.handle
        assert not sandbox.alive
        with pytest.raises(Lost):
            await box.run("1")
    async with source.attach(handle, 8) as attached:
        assert (attached.cells, attached.interpreter) == (1, 1)
        assert [(one.name, one.size) for one in attached.files] == [("sub/a.csv", 4)]
        again = Box(attached.sandbox)
        assert attached.sandbox.handle == handle
        assert list(attached.files) == await again.files.list()
        assert (await again.run("x + 1")).text == "42"
        assert await attached.sandbox.detach() == handle
    with pytest.raises(Fenced):
        async with source.attach(handle, 8):
            raise AssertionError
    async with source.attach(handle, 9) as attached:
        assert attached.cells == 2
        await attached.sandbox.restart()
        await attached.sandbox.detach()
    async with source.attach(handle, 10) as attached:
        assert attached.interpreter == 2
    with pytest.raises(Lost) as gone:
        async with source.attach(handle, 11):
            raise AssertionError
    assert not isinstance(gone.value, Fenced)


@kept
async def test_whoever_had_it_before_is_fenced(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=1) as sandbox:
        before = Box(sandbox)
        await before.files.write("a", b"before")
        await before.run("x = 1")
        assert sandbox.handle is not None
        async with source.attach(sandbox.handle, 2) as attached:
            for act in (
                before.run("x = 2"),
                before.files.write("a", b"after"),
                before.files.write_many([("a", b"after")]),
                before.files.read("a"),
                before.files.delete("a"),
                before.files.list(),
                sandbox.restart(),
                sandbox.install(["rich"]),
            ):
                with pytest.raises(Fenced):
                    await act
            async with asyncio.timeout(PATIENCE):
                while sandbox.alive:  # noqa: ASYNC110 - what it was told is on its way
                    await asyncio.sleep(0.01)
            with pytest.raises(Fenced):
                await sandbox.detach()
            after = Box(attached.sandbox)
            assert (await after.run("x, open('a').read()")).text == "(1, 'before')"
    # The one who was fenced has let go meanwhile, and ended nothing.


@kept
async def test_its_context_ends_and_the_others_does_not(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=1) as sandbox:
        assert sandbox.handle is not None
        taken = source.attach(sandbox.handle, 2)
        attached = await taken.__aenter__()
    assert (await Box(attached.sandbox).run("1")).text == "1"
    await taken.__aexit__(None, None, None)


@kept
async def test_a_running_cell_is_stopped_for_it(source: SandboxSource) -> None:
    async with source.acquire(Spec(), epoch=1) as sandbox:
        assert sandbox.handle is not None
        code = "x = 7\nprint('up', flush=True)\nimport time\ntime.sleep(600)\nx = 8"
        async with aclosing(sandbox.run(Cell(code))) as outputs:
            assert await anext(outputs) == Stdout("up\n")
            async with asyncio.timeout(PATIENCE), source.attach(sandbox.handle, 2) as attached:
                with pytest.raises(Fenced):
                    await anext(outputs)
                assert (await Box(attached.sandbox).run("x")).text == "7"


async def test_a_handle_of_elsewhere(source: SandboxSource) -> None:
    with pytest.raises(BelljarError) as refused:
        async with source.attach(SandboxHandle("http://elsewhere.example", "sbx_1"), 1):
            raise AssertionError
    assert isinstance(refused.value, Lost)
