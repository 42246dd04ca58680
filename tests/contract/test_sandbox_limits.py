"""What a sandbox may use: every limit holds, is explained, and leaves the sandbox usable."""

from __future__ import annotations

import asyncio
import time

import pytest

from belljar.sandbox import explain
from belljar.sandbox.base import GIB, KIB, MIB, TIERS, Limits, Sandbox
from belljar.sandbox.local import confine
from belljar.sandbox.local.sandbox import LocalSandbox
from belljar.sandbox.local.source import LocalSource

from .conftest import PATIENCE, Box, Boxes, every_rung, needs

pytestmark = needs("walls")


async def usable(box: Box) -> None:
    run = await box.run("print('out'); 1 + 1")
    assert (run.text, run.stdout, run.exit.ok) == ("2", "out\n", True)


@every_rung
async def test_memory_beyond_the_limit_is_an_explained_end(boxes: Boxes) -> None:
    async with boxes(memory=256 * MIB) as box:
        await box.files.write("kept.txt", b"x")
        run = await box.run("parts = []\nfor _ in range(64): parts.append(b'x' * (16 << 20))")
        if run.exit.status == "raised":  # where no control group counts, the allocation fails instead
            assert "memory limit" in run.exit.text
        else:
            limits = Limits(memory=256 * MIB)
            assert run.exit == explain.excess("memory", limits, kept=False, seconds=run.exit.seconds)
            assert "256 MiB" in run.exit.text
        await box.run("parts = None")
        await usable(box)
        assert await box.files.read("kept.txt") == b"x"


@pytest.mark.parametrize("source", ["local", "ungrouped"], indirect=True)
async def test_code_weighs_little(source: LocalSource, boxes: Boxes) -> None:
    """A sandbox full of busy processes must leave the host its turn, and its neighbours theirs."""
    async with boxes() as box:
        sandbox = box.sandbox
        assert isinstance(sandbox, LocalSandbox)
        group = sandbox._box.group
        if group is None or group.cpu is None:
            assert await box.value("__import__('os').nice(0)") == confine.NICE
            run = await box.run("import os; os.setpriority(os.PRIO_PROCESS, 0, 0)")
            assert "PermissionError" in run.exit.text
        else:
            name, least = {"v1": ("cpu.shares", 512), "v2": ("cpu.weight", 50)}[group.kind]
            assert int((group.cpu.parent / name).read_text()) == least
            assert group.cpu.name == sandbox.id, "one of its own: many processes weigh no more than few"
            assert len((group.cpu / "cgroup.procs").read_text().split()) == 1


@every_rung
async def test_memory_below_the_limit_is_there(boxes: Boxes) -> None:
    async with boxes(memory=256 * MIB) as box:
        assert (await box.run("x = b'x' * (100 << 20)\nlen(x)")).text == str(100 * MIB)
        await usable(box)


@every_rung
async def test_memory_of_all_processes_counts_together(boxes: Boxes) -> None:
    async with boxes(memory=256 * MIB) as box:
        run = await box.run(
            "import subprocess, sys\n"
            "code = 'x = b\"x\" * (100 << 20); import time; time.sleep(600)'\n"
            "many = [subprocess.Popen([sys.executable, '-c', code]) for _ in range(6)]\n"
            "while all(p.poll() is None for p in many): __import__('time').sleep(0.05)\n"
            "for p in many: p.kill()"
        )
        assert run.exit.reason == "memory" or "memory limit is 256 MiB" in run.exit.text
        await usable(box)


async def test_files_in_memory_count_too(boxes: Boxes) -> None:
    async with boxes(memory=192 * MIB, disk=GIB) as box:
        run = await box.run("with open('big', 'wb') as f:\n    for _ in range(100): f.write(bytes(10 << 20))")
        if run.exit.reason is not None:  # where a control group counts
            assert run.exit.reason == "memory"


@pytest.mark.parametrize("tier", list(TIERS))
async def test_every_tier_is_enforced_as_it_is_named(boxes: Boxes, tier: str) -> None:
    assert TIERS[tier] == int(tier.removesuffix("g")) * GIB
    async with boxes(memory=TIERS[tier]) as box:
        assert enforced_memory(box.sandbox) in (TIERS[tier], None)
        await usable(box)


def enforced_memory(sandbox: Sandbox) -> int | None:
    """What the kernel says of the sandbox's memory, seen from the host; None where it has no say."""
    if not isinstance(sandbox, LocalSandbox):
        return None
    group = sandbox._box.group
    if group is None or group.memory is None:
        return None
    name = "memory.max" if group.kind == "v2" else "memory.limit_in_bytes"
    return int((group.memory / name).read_text())


@every_rung
async def test_processor_time_is_limited(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        await box.run("kept = 1")
        run = await box.run("while True: pass")
        limits = Limits(cpu_time=0.5)
        assert run.exit == explain.excess("cpu", limits, kept=True, seconds=run.exit.seconds)
        assert run.exit.seconds < PATIENCE
        assert (await box.run("kept")).text == "1"


BURN = """
import subprocess, sys, time
BURN = 'import time\\nend = time.process_time() + %s\\nwhile time.process_time() < end: pass'
def burn(seconds): exec(BURN % seconds)
def child(seconds): return subprocess.Popen([sys.executable, '-I', '-S', '-c', BURN % seconds])
def is_over(process): return open(f'/proc/{process.pid}/stat').read().rpartition(')')[2].split()[0] == 'Z'
"""


@every_rung
async def test_processor_time_counts_by_cell_and_not_while_waiting(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        await box.run(BURN)
        for _ in range(3):
            run = await box.run("burn(0.3)")
            assert run.exit.ok, run.exit
        assert (await box.run("time.sleep(0.7)")).exit.ok


@every_rung
async def test_processor_time_of_a_child_counts_where_it_is_used_not_where_it_is_waited_for(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        await box.run(BURN)
        for wait in ("process.wait()", "process.wait(); burn(0.25)"):
            run = await box.run("process = child(0.3)\nwhile not is_over(process): time.sleep(0.01)")
            assert run.exit.ok, run.exit
            run = await box.run(wait)
            assert run.exit.ok, run.exit
        run = await box.run("process = child(0.2)\nprocess.wait()\nprocess = child(0.1)\nprocess.wait()")
        assert run.exit.ok, run.exit


@every_rung
async def test_processor_time_of_many_short_children_counts(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        await box.run(BURN)
        run = await box.run("for _ in range(400): child(0.03).wait()")
        assert (run.exit.status, run.exit.reason) == ("killed", "cpu")
        await usable(box)


@every_rung
async def test_what_earlier_cells_left_running_counts_and_ends_when_it_is_too_much(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        await box.run(BURN)
        assert (await box.run("left = child(1000)")).exit.ok
        await asyncio.sleep(0.6)  # between cells it is nobody's
        assert (await box.run("1")).exit.ok
        run = await box.run("time.sleep(60)")
        assert (run.exit.status, run.exit.reason, run.exit.kept) == ("killed", "cpu", True)
        assert "what earlier cells left running counts" in run.exit.text
        assert (await box.run("left.wait(10)")).text == "-9"
        assert (await box.run("time.sleep(0.6)")).exit.ok


@every_rung
async def test_what_cells_left_running_ends_when_it_uses_too_much_between_them(boxes: Boxes) -> None:
    async with boxes(idle_cpu_time=0.5) as box:
        await box.run(BURN)
        assert (await box.run("kept = 1; left = [child(1000) for _ in range(3)]")).exit.ok
        deadline, pause = time.monotonic() + 60, 0.5
        while (run := await box.run("[one.poll() for one in left]")).text != "[-9, -9, -9]":
            assert time.monotonic() < deadline, run.text
            await asyncio.sleep(pause := pause + 0.5)
        assert "they used more than 0.5 s of processor time between cells" in run.exit.text
        assert (await box.run("kept")).text == "1"


@every_rung
async def test_a_thread_that_spins_between_cells_ends_with_its_interpreter(boxes: Boxes) -> None:
    async with boxes(idle_cpu_time=0.5) as box:
        await box.run(BURN)
        await box.run("import threading; threading.Thread(target=burn, args=(1000,), daemon=True).start()")
        deadline, pause = time.monotonic() + 60, 0.5
        while "Between two cells" not in (run := await box.run("1")).stderr:
            assert time.monotonic() < deadline, run.exit
            await asyncio.sleep(pause := pause + 0.5)
        await usable(box)


@every_rung
async def test_processor_time_of_children_counts_and_they_end(boxes: Boxes) -> None:
    async with boxes(cpu_time=0.5) as box:
        run = await box.run(
            "import subprocess, sys, time\n"
            "children = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(2)]\n"
            "time.sleep(30)"
        )
        assert (run.exit.status, run.exit.reason) == ("killed", "cpu")
        assert (await box.run("[p.wait(10) for p in children]")).text == "[-9, -9]"


async def test_ends_with_a_processor_limit_do_not_disturb_the_next_interpreter(boxes: Boxes) -> None:
    async with boxes(cpu_time=30) as box:
        for n in range(15):
            run = await box.run(f"import os, time; time.sleep(0.01 * ({n} % 3)); os._exit(3)")
            assert (run.exit.reason, run.exit.code) == ("exited", 3)
            await usable(box)


async def test_processes_are_limited(boxes: Boxes) -> None:
    async with boxes(processes=24) as box:
        run = await box.run(
            "import subprocess\nmany = []\nfor _ in range(100): many.append(subprocess.Popen(['sleep', '60']))"
        )
        assert run.exit.status == "raised"
        assert run.exit.text.endswith("Processes and threads together may be 24.")
        assert 10 < int((await box.run("len(many)")).text) < 24
        run = await box.run("for p in many: p.kill(), p.wait()")
        assert run.exit.ok
        await usable(box)


async def test_threads_are_limited(boxes: Boxes) -> None:
    async with boxes(processes=24) as box:
        run = await box.run(
            "import threading\nstop = threading.Event()\n"
            "for _ in range(100): threading.Thread(target=stop.wait, daemon=True).start()"
        )
        assert run.exit.status == "raised"
        assert run.exit.text == ("RuntimeError: can't start new thread. Processes and threads together may be 24.")
        await box.run("stop.set()")
        await usable(box)


async def test_a_fork_bomb_is_over_with_its_time(boxes: Boxes) -> None:
    async with boxes(processes=64, grace=0.5) as box:
        run = await box.run("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", timeout=1)
        assert run.exit.status == "timed_out"
        await usable(box)
        await alone(box)


async def test_a_restart_ends_a_fork_bomb(boxes: Boxes) -> None:
    async with boxes(processes=64) as box:
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        run = await box.run(
            f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {bomb!r}])\ntime.sleep(0.5)"
        )
        assert run.exit.ok
        await box.sandbox.restart()
        await usable(box)
        await alone(box)


async def alone(box: Box) -> None:
    """Wait until nothing lives inside but the first process and the interpreter; the dead need a moment to go."""
    code = (
        "import glob\nalive = []\nfor p in glob.glob('/proc/[0-9]*/stat'):\n"
        "    try: alive.append(open(p).read())\n    except OSError: pass\n"
        "[line for line in alive if line.rpartition(')')[2].split()[0] not in 'ZX']"
    )
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = await box.value(code)
        assert isinstance(seen, list)
        if len(seen) <= 2:
            return
        assert time.monotonic() < deadline, seen
        await asyncio.sleep(0.05)


async def test_open_files_are_limited(boxes: Boxes) -> None:
    async with boxes(open_files=200) as box:
        run = await box.run("files = []\nwhile True: files.append(open('/dev/null'))")
        assert run.exit.status == "raised"
        assert run.exit.text == (
            "OSError: [Errno 24] Too many open files: '/dev/null'. A process may have 200 files open."
        )
        assert 150 < int((await box.run("count = len(files); files = None; count")).text) < 200
        await usable(box)


async def test_one_file_is_limited(boxes: Boxes) -> None:
    async with boxes(file_size=MIB) as box:
        assert (await box.run("open('fits', 'wb').write(bytes(1 << 20))")).text == str(MIB)
        run = await box.run("with open('big', 'wb') as f:\n    f.write(bytes(2 << 20))")
        assert run.exit.status == "raised"
        assert run.exit.text == "OSError: [Errno 27] File too large. One file may have 1 MiB."
        run = await box.run("import os; os.truncate('fits', 1 << 40)")
        assert run.exit.text.endswith("One file may have 1 MiB.")
        await usable(box)


async def test_the_workspace_has_a_quota(boxes: Boxes) -> None:
    async with boxes(disk=4 * MIB) as box:
        run = await box.run("for n in range(10):\n    with open(f'{n}', 'wb') as f: f.write(bytes(1 << 20))")
        assert run.exit.status == "raised"
        assert run.exit.text == (
            "OSError: [Errno 28] No space left on device. The workspace holds 4 MiB, /tmp 256 MiB."
        )
        assert sum(file.size for file in await box.files.list()) <= 4 * MIB
        await box.files.delete("0")
        await box.files.write("again", bytes(MIB // 2))
        await usable(box)


async def test_scratch_has_a_quota(boxes: Boxes) -> None:
    async with boxes(scratch=2 * MIB) as box:
        for place in ("/tmp", "/dev/shm"):
            run = await box.run(f"with open('{place}/x', 'wb') as f: f.write(bytes(3 << 20))")
            assert run.exit.text.endswith("The workspace holds 512 MiB, /tmp 2 MiB.")
        await usable(box)


async def test_a_hundred_megabytes_of_prints_are_cut_with_the_whole_in_a_log(box: Box) -> None:
    line = "x" * 999 + "\n"
    run = await box.run("for _ in range(100_000): print('x' * 999)")
    shown = MIB // 1000
    assert run.stdout[: shown * 1000] == line * shown
    assert len(run.stdout) == MIB
    assert run.stderr == "\n[output cut at 1 MiB of 95.37 MiB; all of it is in output-1.log]\n"
    assert [(file.name, file.size, file.type, file.change) for file in run.files] == [
        ("output-1.log", 100_000_000, "text/plain", "created")
    ]
    assert run.exit.ok
    count = 0
    async for chunk in box.files.stream("output-1.log"):
        assert chunk.strip(b"x\n") == b""
        count += chunk.count(b"\n")
    assert count == 100_000
    await usable(box)


async def test_the_cap_is_the_sandboxs_own_and_counts_both_streams(boxes: Boxes) -> None:
    async with boxes(output=10 * KIB) as box:
        run = await box.run("import sys\nprint('o' * 6000)\nprint('e' * 6000, file=sys.stderr)\nprint('last')")
        assert run.stdout.startswith("o" * 6000)
        assert len(run.stdout) + len(run.stderr.partition("\n[")[0]) <= 10 * KIB + 1
        assert "[output cut at 10 KiB of 11.7" in run.stderr
        log = await box.files.read("output-1.log")
        assert sorted(log) == sorted(b"o" * 6000 + b"\n" + b"e" * 6000 + b"\nlast\n")
        exact = await box.run("print('x' * (10 * 1024 - 1))")
        assert (len(exact.stdout), exact.stderr, exact.files) == (10 * KIB, "", ())


async def test_a_flood_is_stopped(boxes: Boxes) -> None:
    async with boxes(output_total=8 * MIB) as box:
        await box.run("kept = 1")
        run = await box.run("import os\nwhile True: os.write(1, b'x' * 65536)")
        limits = Limits(output_total=8 * MIB)
        assert run.exit == explain.excess("output", limits, kept=True, seconds=run.exit.seconds)
        assert "8 MiB" in run.exit.text
        assert (await box.run("kept")).text == "1"


async def test_a_flood_that_fills_the_workspace_goes_on_without_a_log(boxes: Boxes) -> None:
    async with boxes(disk=2 * MIB, output=KIB) as box:
        run = await box.run("for _ in range(5000): print('x' * 999)\n'end'")
        assert (run.text, run.exit.ok) == ("'end'", True)
        assert run.stderr == (
            "\n[output cut at 1 KiB of 4.768 MiB; all of it is in output-1.log, as far as the workspace had room]\n"
        )


@pytest.mark.parametrize(
    "obstacle",
    [
        "os.mkdir('output-1.log')",
        "os.symlink('/etc/passwd', 'output-1.log')",
        "os.mkfifo('output-1.log')",
        "open('output-1.log', 'w').write('mine'); os.chmod('output-1.log', 0)",
        "os.chmod('.', 0o500)",
    ],
)
async def test_nothing_in_the_logs_place_hurts(boxes: Boxes, obstacle: str) -> None:
    async with boxes(output=KIB) as box:
        run = await box.run(f"import os\n{obstacle}\nprint('x' * 100_000)\n'end'")
        assert (run.text, run.exit.ok, len(run.stdout)) == ("'end'", True, KIB)
        assert (await box.run("print('next')")).stdout == "next\n"


async def test_there_is_no_network(box: Box) -> None:
    run = await box.run("import socket\nsocket.create_connection(('1.1.1.1', 53), timeout=5)")
    assert run.exit.text == ("OSError: [Errno 101] Network is unreachable. There is no network in here.")
    run = await box.run("import urllib.request\nurllib.request.urlopen('https://example.com', timeout=5)")
    assert run.exit.text.endswith("There is no network in here.")
    assert run.exit.seconds < 5
    assert (await box.run("import os; os.listdir('/sys/class/net') if os.path.exists('/sys') else []")).text == "[]"


async def test_local_sockets_work_inside(box: Box) -> None:
    run = await box.run(
        "import socket, threading\ns = socket.create_server(('127.0.0.1', 0))\n"
        "threading.Thread(target=lambda: s.accept()[0].sendall(b'hi')).start()\n"
        "socket.create_connection(s.getsockname()).recv(9)"
    )
    assert run.text == "b'hi'"


async def test_the_environment_has_nothing_of_the_hosts(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELLJAR_TEST_SECRET", "s3cret")
    seen = await box.value("import os; dict(os.environ)")
    assert isinstance(seen, dict)
    assert set(seen) <= {
        "PATH",
        "HOME",
        "TMPDIR",
        "USER",
        "LANG",
        "MPLCONFIGDIR",
        "PYTHONDONTWRITEBYTECODE",
        "OUTPUT_DIR",
        "LD_LIBRARY_PATH",
    }
    assert (seen["HOME"], seen["USER"]) == ("/tmp", "user")
    run = await box.run("!env; cat /proc/*/environ | tr '\\0' '\\n'")
    assert "s3cret" not in run.stdout


async def test_limits_have_defaults_that_hold(box: Box) -> None:
    limits = Limits()
    seen = await box.value(
        "import os, resource as r\ns = os.statvfs('/mnt/data')\n"
        "(r.getrlimit(r.RLIMIT_NOFILE)[1], r.getrlimit(r.RLIMIT_NPROC)[1], r.getrlimit(r.RLIMIT_FSIZE)[1], "
        "s.f_blocks * s.f_frsize, os.getcwd(), os.getuid())"
    )
    assert seen == (limits.open_files, limits.processes, limits.disk, limits.disk, "/mnt/data", 1000)
