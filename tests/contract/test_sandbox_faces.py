"""`Sandbox` and `AsyncSandbox`: the faces a program imports, on the process's own source or one it brings."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from tests import traces

from belljar import AsyncSandbox, Sandbox
from belljar.errors import InvalidRequest, Lost
from belljar.sandbox.base import GIB, MIB, SandboxSource
from belljar.sandbox.local.source import LocalSource
from belljar.sandbox.outputs import Exit, Stdout

from .conftest import needs, until, wheel


def test_the_blocking_face(local: LocalSource, home: Path) -> None:
    with Sandbox(memory="1g", packages="data", source=local) as box:
        box.run("x = 41")
        assert box.run("x + 1").text == "42"
        run = box.run("import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); open('out.txt', 'w').write('hi')")
        png = run.images[0].png
        assert png is not None
        assert png.startswith(b"\x89PNG")
        assert [f.name for f in run.files] == ["out.txt"]
        seen = list(box.stream("for i in range(3): print(i)"))
        assert "".join(out.text for out in seen if isinstance(out, Stdout)) == "0\n1\n2\n"
        assert isinstance(seen[-1], Exit)
        box.files.write("data.csv", b"a,b\n1,2\n")
        assert box.files.read("data.csv") == b"a,b\n1,2\n"
        assert [info.name for info in box.files.list()] == ["data.csv", "out.txt"]
        box.restart()
        assert box.run("'x' in globals()").text == "False"
        wheel(home / "wheels", "facing", "x = 5\n")
        box.install(["facing"])
        assert box.run("import facing; facing.x").text == "5"
        with pytest.raises(InvalidRequest, match=r"^requirements: 'facing' is not a list"):
            box.install("facing")
    with pytest.raises(Lost):
        box.run("1")


@needs("variables")
async def test_the_asynchronous_face(source: SandboxSource, home: Path) -> None:
    async with AsyncSandbox(memory="1g", packages="data", source=source) as box:
        await box.run("x = 41")
        assert (await box.run("x + 1")).text == "42"
        seen = [out async for out in box.stream("for i in range(3): print(i)")]
        assert "".join(out.text for out in seen if isinstance(out, Stdout)) == "0\n1\n2\n"
        await box.files.write("data.csv", b"a,b\n1,2\n")
        assert await box.files.read("data.csv") == b"a,b\n1,2\n"
        assert (await box.run("import time; time.sleep(30)", timeout=0.2)).exit.status == "timed_out"
        await box.restart()
        assert (await box.run("'x' in globals()")).text == "False"
        wheel(home / "wheels", "facing", "x = 5\n")
        await box.install(["facing"])
        assert (await box.run("import facing; facing.x")).text == "5"
    with pytest.raises(Lost):
        await box.run("1")


async def test_the_blocking_face_works_inside_a_running_loop(local: LocalSource, blocks: list[str]) -> None:
    with Sandbox(source=local) as box:
        assert box.run("1 + 1").text == "2"
        assert (await asyncio.to_thread(box.run, "2 + 2")).text == "4"
        async with AsyncSandbox(source=local) as other:
            assert (await other.run("3 + 3")).text == "6"
    blocks.clear()  # to hold the loop up is what it is for, on a busy machine for long


def test_leaving_a_blocking_stream_early_stops_the_cell(local: LocalSource) -> None:
    with Sandbox(source=local) as box:
        box.run("kept = 1")
        for out in box.stream("import sys, time\nsys.stdout.write('ready')\ntime.sleep(60)"):
            if out == Stdout("ready"):
                break
        run = box.run("print('next'); kept")
        assert (run.stdout, run.text) == ("next\n", "1")


def test_interrupting_from_another_thread(local: LocalSource) -> None:
    with Sandbox(source=local) as box:
        box.run("kept = 1")
        for out in box.stream("import sys, time\nsys.stdout.write('ready')\ntime.sleep(60)"):
            if out == Stdout("ready"):
                threading.Thread(target=box.interrupt).start()
        assert isinstance(out, Exit)
        assert (out.reason, out.kept) == ("interrupted", True)
        assert box.run("kept").text == "1"


def test_threads_that_share_a_sandbox_take_turns(local: LocalSource) -> None:
    with Sandbox(source=local) as box:
        box.run("seen = []")
        code = "seen.append('in')\nimport time; time.sleep(0.01)\nseen.append('out')"
        threads = [threading.Thread(target=box.run, args=[code]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert box.run("seen == ['in', 'out'] * 8").text == "True"


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"memory": "1 apple"}, "memory"),
        ({"memory": "1m"}, "memory"),
        ({"memory": -1}, "memory"),
        ({"memory": "nan"}, "memory"),
        ({"memory": ""}, "memory"),
        ({"disk": "0"}, "disk"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"cpus": -1}, "cpus"),
        ({"processes": 1}, "processes"),
        ({"requirements": "numpy"}, "requirements"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, object], param: str) -> None:
    for face in (Sandbox, AsyncSandbox):
        with pytest.raises(InvalidRequest, match=f"^{param}: ") as caught:
            face(**arguments)  # type: ignore[arg-type]
        assert caught.value.param == param


@pytest.mark.parametrize(
    ("memory", "count"), [("1g", GIB), ("4G", 4 * GIB), ("512m", 512 * MIB), ("1.5 GiB", 3 * GIB // 2), (GIB, GIB)]
)
def test_sizes_are_read_as_people_write_them(memory: str | int, count: int) -> None:
    limits = Sandbox(memory=memory).limits
    assert (limits.memory, limits.disk) == (count, count // 2)


def test_a_sandbox_outside_its_context_says_so() -> None:
    with pytest.raises(Lost, match=r"use it inside `with Sandbox\(\) as box:`"):
        Sandbox().run("1")


# The process's own source

SCRIPT = """
    import os, sys, time
    from belljar import Sandbox
    box = Sandbox(packages="none", timeout=None).__enter__()
    assert box.run("6 * 7").text == "42"
    print("up", flush=True)
    {end}
"""


def test_a_program_that_wants_no_packages_gets_no_warm_ones_and_no_complaint(tmp_path: Path, home: Path) -> None:
    """Those kept ready are of the default kind, which nobody has loaded here."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import threading
            from belljar import Sandbox
            for _ in range(3):
                with Sandbox(packages="none") as box:
                    assert box.run("6 * 7").text == "42"
            print([one.name for one in threading.enumerate() if one.name != "belljar-closer"])
        """)
    )
    variables = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "BELLJAR_CACHE_DIR": str(home / "cache")}
    ran = subprocess.run([sys.executable, str(script)], env=variables, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("['MainThread']\n", "")


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(0)", 0),
        ("raise SystemExit(3)", 3),
        ("1 / 0", 1),
        ("os._exit(5)", 5),
        ("box.run('while True: pass')", -signal.SIGKILL),
        ("time.sleep(100)", -signal.SIGTERM),
        ("time.sleep(100)", -signal.SIGKILL),
    ],
)
async def test_nothing_survives_the_program(tmp_path: Path, home: Path, end: str, code: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).format(end=end))
    variables = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "BELLJAR_CACHE_DIR": str(home / "cache")}
    command = [sys.executable, str(script)]
    program = subprocess.Popen(  # noqa: ASYNC220 - nobody else is in this loop
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert program.stdout is not None
        assert await asyncio.to_thread(program.stdout.readline) == b"up\n"
        family = set(traces.descendants(program.pid))
        if code < 0:
            assert {name(pid) for pid in family} >= {"belljar", "belljar-jail", "belljar-zygote", "belljar-init"}
            program.send_signal(-code)
        assert await asyncio.to_thread(program.wait, 30) == code
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()
    await until(
        lambda: not any(name(pid).startswith(("belljar", "python")) for pid in family), "its processes are gone"
    )
    await until(lambda: traces.cgroups(program.pid) == (), "its control groups are gone")


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
