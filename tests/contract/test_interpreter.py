"""The code_interpreter tool over the real jail and a real store: what comes, what is told, what is kept."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from belljar.errors import Fenced
from belljar.gateway.containers import Policy, Use
from belljar.gateway.interpreter import CellResult
from belljar.gateway.interpreter.prompts import RESTARTED
from belljar.sandbox.base import SandboxSource
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Display, Result, Stderr, Stdout
from belljar.wire.items import Image, Logs

from .conftest import PATIENCE, needs, wheel
from .houses import ALL, OWNER, opened

pytestmark = needs("variables")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store"


async def test_outputs_come_live_and_are_told_at_the_end(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        code = (
            "import os, sys, time\nprint('first', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"
            "print('second', file=sys.stderr)\n6 * 7"
        )
        outputs = house.interpreter.run(container, code)
        assert await anext(outputs) == Stdout("first\n")
        await house.put(container, "go", b"")
        *rest, ran = [output async for output in outputs]
        assert rest == [Stderr("second\n"), Result({"text/plain": "42"})]
        assert isinstance(ran, CellResult)
        assert ran.status == "completed"
        assert ran.outputs == (Logs(logs="first\nsecond\n42"),)
        assert ran.told == "first\nsecond\n42"
        assert (ran.end.exit, ran.end.text, ran.images, ran.files) == ("ok", "", (), ())
        assert ran.end.seconds > 0


async def test_an_exception_is_completed_with_its_traceback(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        ran = await house.call(await house.container(), "print('x')\n1 / 0")
        assert (ran.status, ran.end.exit) == ("completed", "raised")
        [logs] = ran.outputs
        assert isinstance(logs, Logs)
        assert logs.logs.startswith('x\nTraceback (most recent call last):\n  File "<cell 1>", line 2')
        assert "ZeroDivisionError: division by zero" in ran.told
        assert ran.end.text == "ZeroDivisionError: division by zero"


async def test_four_figures_are_four_images_and_four_files(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        code = (
            "import matplotlib.pyplot as plt\nfor n in range(4):\n    plt.figure(); plt.plot([0, n])\nprint('drawn')\n"
            "open('notes.txt', 'w').write('hello');"
        )
        ran = await house.call(container, code)
        logs, *images = ran.outputs
        assert logs == Logs(logs="drawn\n")
        assert len(images) == len(set(ran.images)) == 4
        assert tuple(image.url for image in images if isinstance(image, Image)) == ran.images
        notes, *figures = ran.files
        assert notes.path == "notes.txt"
        assert ran.end.files == ("notes.txt",)
        stored = await house.files(container)
        for url, figure in zip(ran.images, figures, strict=True):
            assert (figure.path, figure.type, figure.source) == (f"{figure.id}.png", "image/png", "assistant")
            assert base64.b64decode(url.removeprefix("data:image/png;base64,")) == stored[figure.path]
        assert ran.told.count("shown to the user: <Figure size 640x480 with 1 Axes>") == 4
        # In the store only: code that takes every picture in its directory must not meet them, now or later.
        assert await house.value(container, "__import__('os').listdir()") == ["notes.txt"]
        house.clock.pass_minutes(21)
        await house.containers.sweep()
        again = (await house.containers.auto(OWNER, [container.id])).record
        assert await house.value(again, "__import__('os').listdir()") == ["notes.txt"]
        assert sorted(await house.files(again)) == sorted(stored)
        assert [file.path for file in await house.containers.all_files(again)] == ["notes.txt"]


async def test_the_model_is_shown_so_many_images(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(images=2)) as house:
        code = "import matplotlib.pyplot as plt\nfor n in range(3): plt.figure(); plt.plot([0, n])"
        ran = await house.call(await house.container(), code)
        assert (len(ran.images), len(ran.outputs), len(ran.files)) == (2, 3, 3)


async def test_files_are_told_with_links_and_sizes(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        code = (
            "import os\nos.makedirs('sub/dir')\nopen('報告 1.xlsx', 'wb').write(bytes(2048))\n"
            "open('sub/dir/x.csv', 'w').write('1');"
        )
        ran = await house.call(container, code)
        assert {file.path for file in ran.files} == {"報告 1.xlsx", "sub/dir/x.csv"}
        assert "- [報告 1.xlsx](sandbox:/mnt/data/報告 1.xlsx) (2 KiB)\n" in ran.told
        assert ran.told.endswith("- [sub/dir/x.csv](sandbox:/mnt/data/sub/dir/x.csv) (1 bytes)")
        assert set(ran.end.files) == {"報告 1.xlsx", "sub/dir/x.csv"}
        declared = house.interpreter.declare(container)
        assert declared.name == "code_interpreter"
        assert declared.description is not None
        note = house.interpreter.write_note(container, await house.containers.all_files(container), None)
        assert note == "[/mnt/data holds now:\n- /mnt/data/sub/dir/x.csv (1 bytes)\n- /mnt/data/報告 1.xlsx (2 KiB)]"
        assert house.interpreter.write_note(container, await house.containers.all_files(container), note) is None
        assert "Installed: numpy, pandas." in declared.description
        assert declared.parameters is not None
        assert (declared.parameters["required"], sorted(declared.parameters["properties"])) == (
            ["code"],
            ["code", "requirements"],
        )


async def test_a_timeout_is_failed_with_what_was_printed(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        ran = await house.call(container, "x = 1\nprint('so far', flush=True)\nwhile True: pass", timeout=1)
        assert (ran.status, ran.end.exit) == ("failed", "timed_out")
        assert ran.told.startswith("so far\n")
        assert " 1 s" in ran.told
        assert (await house.call(container, "x")).told == "1"


async def test_too_much_memory_is_called_that(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        ran = await house.call(
            container, "open('kept', 'w').write('1')\nx = bytearray(3 << 30)\nx[::4096] = b'1' * len(x[::4096])"
        )
        if ran.end.exit == "raised":  # where no control group counts, the allocation fails instead
            assert "The memory limit of 1 GiB was reached" in ran.told
        else:
            assert (ran.status, ran.end.exit, ran.end.reason) == ("failed", "killed", "memory")
            assert "more than the 1 GiB of memory" in ran.told
        assert ran.told.rstrip().partition("\n\nFiles made")[0].endswith("Work on smaller pieces.")
        assert ran.end.text.endswith("Work on smaller pieces, or give it more: `container.memory_limit`.")
        assert (ran.end.limit, ran.end.text.endswith(ran.end.remedy)) == ("memory", True)
        ran = await house.call(container, "open('kept').read()")
        assert (ran.told, ran.end.healed) == ("'1'", False)


async def test_a_restarted_session_is_told_once(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.call(container, "x = 1")
        house.clock.pass_minutes(21)
        await house.containers.sweep()
        container = (await house.containers.auto(OWNER, [container.id])).record
        ran = await house.call(container, "print('x' in globals())")
        assert ran.end.healed
        assert ran.told == f"{RESTARTED}\n\nFalse"
        assert ran.outputs == (Logs(logs="False\n"),)
        ran = await house.call(container, "1")
        assert (ran.end.healed, ran.told) == (False, "1")


async def test_long_output_is_cut_for_the_model_and_whole_in_a_file(source: SandboxSource, place: Path) -> None:
    async with opened(source, place, Policy(told=1000)) as house:
        container = await house.container()
        ran = await house.call(container, "for n in range(1000): print('line', n)\n1 / 0")
        whole = "".join(f"line {n}\n" for n in range(1000))
        [logs] = ran.outputs
        assert isinstance(logs, Logs)
        assert logs.logs.startswith(whole)
        assert len(ran.told) < 1200
        assert "all of it is in /mnt/data/output-1.txt" in ran.told
        assert ran.told.startswith("line 0\n")
        assert ran.told.endswith("ZeroDivisionError: division by zero")
        assert ran.files == ()
        assert await house.value(container, f"open('output-1.txt').read().startswith({whole!r})")


async def test_output_that_even_people_get_cut_is_in_the_sandboxs_own_log(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        ran = await house.call(container, "for n in range(40000): print(f'{n:063}')")
        assert [file.path for file in ran.files] == ["output-1.log"]
        assert ran.files[0].size == 40000 * 64
        assert "characters cut here; all of it is in /mnt/data/output-1.log" in ran.told
        assert "[output cut at 1 MiB of 2.441 MiB; all of it is in output-1.log]" in ran.told


async def test_packages_are_installed_first(source: SandboxSource, home: Path, place: Path) -> None:
    wheel(home / "wheels", "handy", "answer = 42\n")
    async with opened(source, place) as house:
        container = await house.container()
        await house.call(container, "x = 1")
        assert (await house.call(container, "import handy; handy.answer + x", ["handy"])).told == "43"
        ran = await house.call(container, "x = 2", ["json"])
        assert (ran.status, ran.end.exit, ran.end.reason) == ("failed", "killed", "invalid_request")
        assert ran.told.startswith("The code was not run. requirements[0]: 'json' is part of Python")
        assert ran.outputs == (Logs(logs=ran.told),)
        assert (await house.call(container, "x")).told == "1"
        note = house.interpreter.write_note(await house.containers.get(container.id, OWNER), [], None)
        assert note == "[Installed by earlier calls: handy.]"


async def test_what_stops_the_call_itself_is_told(home: Path, place: Path) -> None:
    local = LocalSource(JailOptions(cache=home / "cache", most=1, preload=False))
    policy = Policy(packages="none", sandboxes_per_owner=1)
    try:
        async with opened(local, place, policy) as house:
            one, other = await house.container(), await house.container()
            theirs = await house.container("key_other")
            async with house.containers.use(one):
                for container, reason in ((other, "over_quota"), (theirs, "none_free")):
                    ran = await house.call(container, "1")
                    assert (ran.status, ran.end.reason) == ("failed", reason)
                    assert ran.told.startswith("The code was not run. all")
            await house.containers.delete(other.id, OWNER)
            ran = await house.call(other, "1")
            assert (ran.status, ran.told) == (
                "failed",
                f"The code was not run. Container with id '{other.id}' not found.",
            )
            ran = await house.call(one, "x" * (9 << 20))
            assert (ran.status, ran.end.reason) == ("failed", "too_large")
    finally:
        await local.close()


async def test_code_that_ran_and_could_not_be_kept_is_not_told_as_if_it_had_not(
    source: SandboxSource, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(*_: object) -> None:
        raise Fenced("another gateway has the container")

    async with opened(source, place) as house:
        container = await house.container()
        with monkeypatch.context() as patch:
            patch.setattr(Use, "collect", lose)
            ran = await house.call(container, "1")
        assert (ran.status, ran.end.reason) == ("failed", "fenced")
        assert ran.told == "The code ran, but what it did was not kept. another gateway has the container"


async def test_leaving_early_stops_the_code_and_frees_the_container(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        outputs = house.interpreter.run(container, "x = 1\nprint('up', flush=True)\nwhile True: pass")
        assert await anext(outputs) == Stdout("up\n")
        await outputs.aclose()
        async with asyncio.timeout(PATIENCE):
            assert (await house.call(container, "x")).told == "1"


async def test_parallel_calls_on_one_container_queue(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        container = await house.container()
        await house.call(container, "seen = []")
        await asyncio.gather(*(house.call(container, f"seen.append({n}); open('f{n}', 'w');") for n in range(5)))
        assert (await house.call(container, "sorted(seen)")).told == "[0, 1, 2, 3, 4]"
        assert {file.path for file in await house.containers.list_files(container, ALL)} == {f"f{n}" for n in range(5)}


async def test_displays_come_live_too(source: SandboxSource, place: Path) -> None:
    async with opened(source, place) as house:
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nprint('after')"
        first, second, ran = [output async for output in house.interpreter.run(await house.container(), code)]
        assert isinstance(first, Display)
        assert first.png is not None
        assert second == Stdout("after\n")
        assert isinstance(ran, CellResult)
        image, logs = ran.outputs
        assert (isinstance(image, Image), logs) == (True, Logs(logs="after\n"))
