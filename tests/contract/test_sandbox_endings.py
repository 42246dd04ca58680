"""How cells end: every stop is a value that explains itself, and the sandbox can be used again with its files."""

from __future__ import annotations

import asyncio
import threading

import pytest

from belljar.sandbox.outputs import Exit, Stdout

from .conftest import PATIENCE, Box, Boxes, appears, needs

pytestmark = needs("variables")

GONE = "The variables are gone; the files in /mnt/data are still there, and the next cell starts afresh."
CRASH = (
    "The interpreter crashed: a segmentation fault: a bug in native code, or a stack overflow "
    f"(too deep recursion in C). {GONE}"
)
DISCONNECTED = f"The code closed or garbled the interpreter's own connection, so it was replaced. {GONE}"


async def prepared(box: Box) -> None:
    await box.run("kept = 'variable'")
    await box.files.write("sub/kept.txt", b"file")


async def still_usable(box: Box, *, variables: bool) -> None:
    """Files are always there; variables if they were promised. A cell runs as ever."""
    assert (await box.run("'kept' in globals()")).text == str(variables)
    assert (await box.run("open('sub/kept.txt').read()")).text == "'file'"
    assert await box.files.read("sub/kept.txt") == b"file"
    assert (await box.run("import numpy; print('out'); numpy.arange(4).sum().item()")).text == "6"


@pytest.mark.parametrize(
    ("code", "status", "number", "text", "stderr"),
    [
        ("import sys; sys.exit()", "ok", 0, "The cell ended itself with exit code 0; variables are kept.", ""),
        ("import sys; sys.exit(0)", "ok", 0, "The cell ended itself with exit code 0; variables are kept.", ""),
        ("exit()", "ok", 0, "The cell ended itself with exit code 0; variables are kept.", ""),
        ("import sys; sys.exit(3)", "raised", 3,
         "SystemExit: 3. The cell ended itself with exit code 3; variables are kept.", ""),
        ("import sys; sys.exit('text')", "raised", 1,
         "SystemExit: text. The cell ended itself with exit code 1; variables are kept.", "text\n"),
    ],
)  # fmt: skip
async def test_leaving_by_exit_keeps_everything(
    box: Box, code: str, status: str, number: int, text: str, stderr: str
) -> None:
    await prepared(box)
    run = await box.run(f"print('before')\n{code}\nprint('after')")
    assert (run.stdout, run.stderr) == ("before\n", stderr)
    assert (run.exit.status, run.exit.code, run.exit.text, run.exit.kept) == (status, number, text, True)
    await still_usable(box, variables=True)


CRASHES = {
    "os._exit": ("import os; os._exit(7)", "exited", 7,
        f"The code ended its own interpreter with exit code 7 (os._exit or the like). {GONE}"),
    "os._exit well": ("import os; os._exit(0)", "exited", 0,
        f"The code ended its own interpreter with exit code 0 (os._exit or the like). {GONE}"),
    "a null pointer": ("import ctypes; ctypes.string_at(0)", "crashed", -11, CRASH),
    "an abort": ("import os; os.abort()", "crashed", -6,
        "The interpreter crashed: an abort: native code gave up, as after heap corruption or a failed assertion. "
        + GONE),
    "killing itself": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "crashed", -9,
        f"The interpreter crashed: SIGKILL, sent by the code itself or by the kernel. {GONE}"),
    "ending itself": ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "crashed", -15,
        f"The interpreter crashed: SIGTERM. {GONE}"),
    "becoming another program": ("import os; os.execv('/bin/sh', ['sh', '-c', 'exit 5'])", "exited", 5,
        f"The code ended its own interpreter with exit code 5 (os._exit or the like). {GONE}"),
    "closing the connection": ("import os; os.close(3)", "disconnected", None, DISCONNECTED),
    "closing every descriptor": ("import os; os.closerange(0, 1024)", "disconnected", None, DISCONNECTED),
    "garbage on the connection": ("import os; os.write(3, b'garbage ' * 100)", "disconnected", None, DISCONNECTED),
    "a frame that is no bundle": (
        "import os; os.write(3, b'\\x02\\0\\0\\0\\x03{}')", "disconnected", None, DISCONNECTED),
    "a frame that is too large": (
        "import os; os.write(3, b'\\xff\\xff\\xff\\xff\\x03')", "disconnected", None, DISCONNECTED),
    "a deep structure on the connection": (
        "import os; p = b'[' * 100_000; os.write(3, len(p).to_bytes(4, 'little') + b'\\x05' + p)",
        "disconnected", None, DISCONNECTED),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CRASHES))
async def test_the_end_of_an_interpreter_is_explained_and_survived(box: Box, name: str) -> None:
    code, reason, number, text = CRASHES[name]
    await prepared(box)
    run = await box.run(f"import sys\nprint('before')\nprint('error', file=sys.stderr)\n{code}")
    assert run.exit == Exit("killed", text, reason=reason, code=number, kept=False, seconds=run.exit.seconds)  # type: ignore[arg-type]
    assert (run.stdout, run.stderr) == ("before\n", "error\n")
    await still_usable(box, variables=False)


async def test_output_before_a_crash_is_not_lost(box: Box) -> None:
    run = await box.run("for i in range(20_000): print(i)\nimport os; os._exit(1)")
    lines = run.stdout.splitlines()
    # What Python itself held back in a burst goes down with the process, as in any Python.
    assert lines[:64] == [str(i) for i in range(64)]
    run = await box.run("import os, sys\nfor i in range(20_000): print(i)\nsys.stdout.flush(); os._exit(1)")
    assert run.stdout.splitlines() == [str(i) for i in range(20_000)]


async def test_files_of_a_crashed_cell_are_reported(box: Box) -> None:
    run = await box.run("open('made.txt', 'w').write('abc')\nimport os; os._exit(1)")
    assert [(file.name, file.size, file.change) for file in run.files] == [("made.txt", 3, "created")]


async def test_infinite_recursion_is_an_exception(box: Box) -> None:
    await prepared(box)
    run = await box.run("def f(): return f()\nf()")
    assert (run.exit.status, run.exit.text) == ("raised", "RecursionError: maximum recursion depth exceeded")
    assert run.error is not None
    assert len(run.error.traceback) < 10_000
    await still_usable(box, variables=True)


async def test_a_stack_overflow_in_c_is_an_exception_or_a_crash(box: Box) -> None:
    """Python counts calls from C since 3.12; before, they go on until the stack is full."""
    await prepared(box)
    run = await box.run(
        "import sys; sys.setrecursionlimit(10**9)\n"
        "class A:\n    def __getattr__(self, name): return getattr(self, name)\n"
        "A().x"
    )
    if run.exit.status == "raised":
        assert run.error is not None
        assert run.error.type == "RecursionError"
    else:
        assert (run.exit.reason, run.exit.code, run.exit.text) == ("crashed", -11, CRASH)
    await still_usable(box, variables=run.exit.kept)


async def test_deep_structures_are_an_exception_or_a_crash(box: Box) -> None:
    await prepared(box)
    run = await box.run(
        "import pickle, sys\nsys.setrecursionlimit(10**6)\nx = []\nfor _ in range(10**6): x = [x]\npickle.dumps(x)"
    )
    assert (run.exit.status, run.exit.reason) in [("raised", None), ("killed", "crashed")]
    await still_usable(box, variables=run.exit.kept)


@pytest.mark.parametrize(
    "code", ["raise MemoryError", "'x' * (1 << 50)", "import numpy\nnumpy.ones(1 << 50)", "bytearray(1 << 60)"]
)
async def test_a_memory_error_keeps_everything(box: Box, code: str) -> None:
    await prepared(box)
    run = await box.run(code)
    assert (run.exit.status, run.exit.kept) == ("raised", True)
    assert "memory limit" in run.exit.text
    assert "MiB" in run.exit.text or "GiB" in run.exit.text
    await still_usable(box, variables=True)


async def test_closing_stdout_lasts_for_the_cell(box: Box) -> None:
    await prepared(box)
    for code in ("import sys; sys.stdout.close()", "import os; os.close(1); os.close(2)", "import sys; del sys.stdout"):
        assert (await box.run(code)).exit.status == "ok"
        assert (await box.run("print('seen')")).stdout == "seen\n"
    await still_usable(box, variables=True)


async def test_a_fork_ends_with_the_cell(box: Box) -> None:
    await prepared(box)
    run = await box.run(
        "import os\npid = os.fork()\nif pid:\n    status = os.waitpid(pid, 0)[1]\n"
        "print('parent' if pid else 'child')\n(pid > 0, status) if pid else 'lost'"
    )
    assert (run.text, sorted(run.stdout.split()), run.exit.ok) == ("(True, 0)", ["'lost'", "child", "parent"], True)
    await still_usable(box, variables=True)


async def test_a_raised_interrupt_is_the_codes_own(box: Box) -> None:
    run = await box.run("raise KeyboardInterrupt('mine')")
    assert (run.exit.status, run.exit.text) == ("raised", "KeyboardInterrupt: mine")


# Interrupts


ANNOUNCE = "import sys; sys.stdout.write('ready')"


async def interrupted(box: Box, code: str, *, announce: str = ANNOUNCE, thread: bool = False) -> Exit:
    """The exit of a cell that is interrupted once it has announced itself."""
    async for output in box.stream(f"{announce}\n{code}"):
        if output == Stdout("ready"):
            if thread:
                other = threading.Thread(target=box.sandbox.interrupt)
                other.start()
                other.join()
            else:
                asyncio.get_running_loop().call_soon(box.sandbox.interrupt)
        if isinstance(output, Exit):
            return output
    raise AssertionError("a stream ends with an exit")


@pytest.mark.parametrize("thread", [False, True], ids=["from a task", "from a thread"])
@pytest.mark.parametrize(
    "code",
    [
        "while True: pass",
        "import time; time.sleep(60)",
        "import asyncio; await asyncio.sleep(60)",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import threading; threading.Event().wait()",
        "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(60)",
        "while True:\n    try: 1 / 0\n    except ZeroDivisionError: pass",
    ],
)
async def test_an_interrupt_keeps_the_variables(box: Box, code: str, thread: bool) -> None:
    await prepared(box)
    seen = await interrupted(box, code, thread=thread)
    assert (seen.status, seen.reason, seen.kept) == ("killed", "interrupted", True)
    assert seen.text == "Interrupted on request. The variables are kept."
    assert seen.error is not None
    assert seen.error.type == "KeyboardInterrupt"
    await still_usable(box, variables=True)


async def test_an_interrupt_that_the_code_catches_ends_it_in_its_own_way(box: Box) -> None:
    await prepared(box)
    code = "import sys, time\ntry: sys.stdout.write('ready'); time.sleep(60)\nexcept KeyboardInterrupt: caught = True"
    seen = await interrupted(box, code, announce="")
    assert (seen.status, seen.reason, seen.kept, seen.error) == ("killed", "interrupted", True, None)
    assert (await box.run("caught")).text == "True"


@pytest.mark.parametrize(
    "deafness",
    [
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        "signal.signal(signal.SIGINT, lambda *_: None)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])",
    ],
)
async def test_a_cell_that_ignores_interrupts_is_killed(boxes: Boxes, deafness: str) -> None:
    async with boxes(grace=0.5) as box:
        await prepared(box)
        seen = await interrupted(box, "while True: pass", announce=f"import signal; {deafness}\n{ANNOUNCE}")
        assert seen == Exit(
            "killed", f"Interrupted on request. {GONE}", reason="interrupted", kept=False, seconds=seen.seconds
        )
        await still_usable(box, variables=False)


async def test_an_interrupt_between_cells_is_nothing(box: Box) -> None:
    await prepared(box)
    box.sandbox.interrupt()
    await still_usable(box, variables=True)


# Timeouts


async def test_a_timeout_keeps_the_variables_where_it_can(box: Box) -> None:
    await prepared(box)
    run = await box.run("import time\nprint('before')\ntime.sleep(60)", timeout=1)
    assert run.stdout == "before\n"
    assert run.exit == Exit(
        "timed_out",
        "Stopped: the cell ran longer than its 1 s. The variables are kept.",
        seconds=run.exit.seconds,
        limit="time",
    )
    assert 1 <= run.exit.seconds < PATIENCE
    await still_usable(box, variables=True)


async def test_a_cells_own_timeout_goes_before_the_sandboxs(boxes: Boxes) -> None:
    async with boxes(timeout=0.2) as box:
        assert (await box.run("import time; time.sleep(0.4); 1", timeout=30)).text == "1"
        assert (await box.run("import time; time.sleep(30)")).exit.text.startswith(
            "Stopped: the cell ran longer than its 0.2 s."
        )


@pytest.mark.parametrize("stubborn", [False, True], ids=["heard", "killed"])
@pytest.mark.parametrize("how", ["timed out", "interrupted"])
async def test_nothing_that_a_stopped_cell_started_is_left(boxes: Boxes, how: str, stubborn: bool) -> None:
    async with boxes(grace=0.5 if stubborn else PATIENCE) as box:
        await prepared(box)
        # The kernel tells when a process was started in hundredths of a second: what starts in the last one before
        # the cell counts as the cell's.
        await box.run("import subprocess, time\nearlier = subprocess.Popen(['sleep', '100'])\ntime.sleep(0.05)")
        code = (
            ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" if stubborn else "")
            + "import subprocess, time\n"
            "subprocess.Popen(['sleep', '101'])\n"
            "subprocess.Popen(['sh', '-c', 'sleep 102 & sleep 103 & wait'], start_new_session=True)\n"
            "subprocess.Popen(['sh', '-c', 'while :; do echo >> beat; sleep 0.02; done'], start_new_session=True)\n"
            "while not __import__('os').path.exists('beat'): time.sleep(0.01)\n"
        )
        wait = "\nwhile True: time.sleep(0.1)"
        if how == "timed out":
            for seconds in (1.5, 10, 60):  # a busy machine needs longer to start them all
                seen = (await box.run(code + wait, timeout=seconds)).exit
                if "beat" in [info.name for info in await box.files.list()]:
                    break
        else:
            seen = await interrupted(box, wait, announce=code + ANNOUNCE)
        assert (seen.status, seen.kept) == ("timed_out" if how == "timed out" else "killed", not stubborn)
        # Already now, not only once the next cell starts.
        size = len(await box.files.read("beat"))
        await asyncio.sleep(0.3)
        assert len(await box.files.read("beat")) == size
        left = await box.value(
            "import glob\n[open(p).read().replace('\\0', ' ').strip() for p in glob.glob('/proc/[0-9]*/cmdline')]"
        )
        assert isinstance(left, list)
        assert [line for line in left if line.startswith(("sleep 10", "sh -c"))] == ([] if stubborn else ["sleep 100"])
        await still_usable(box, variables=not stubborn)


# Leaving early


@pytest.mark.parametrize("code", ["while True: pass", "import time\nwhile True: print('x'); time.sleep(0.01)"])
async def test_leaving_a_stream_early_stops_the_cell(box: Box, code: str) -> None:
    await prepared(box)
    stream = box.stream(f"import sys; sys.stdout.write('ready')\n{code}")
    first = await anext(stream)
    assert isinstance(first, Stdout)
    assert first.text.startswith("ready")
    await stream.aclose()  # type: ignore[attr-defined]
    run = await box.run("print('next'); kept")
    assert (run.stdout, run.text) == ("next\n", "'variable'")
    await still_usable(box, variables=True)


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        ("import time; time.sleep(60)", True),
        ("import time\nwhile True: print('x'); time.sleep(0.01)", True),
        ("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: time.sleep(60)", True),
        ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", False),
    ],
)
async def test_cancelling_the_task_stops_the_cell(boxes: Boxes, code: str, variables: bool) -> None:
    async with boxes(grace=PATIENCE if variables else 0.5) as box:
        await prepared(box)
        task = asyncio.create_task(box.run(f"open('running', 'w')\n{code}"))
        await appears(box, "running")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run = await box.run("print('next')")
        assert (run.stdout, run.exit.status) == ("next\n", "ok")
        await still_usable(box, variables=variables)


async def test_cancelling_twice_is_no_worse(boxes: Boxes) -> None:
    async with boxes(grace=0.5) as box:
        await prepared(box)
        task = asyncio.create_task(
            box.run(
                "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nopen('running', 'w')\nwhile True: pass"
            )
        )
        await appears(box, "running")
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.02)
        run = await box.run("print('next')")
        assert (run.stdout, run.exit.status) == ("next\n", "ok")
        with pytest.raises(asyncio.CancelledError):
            await task
        await still_usable(box, variables=False)


async def test_cells_on_one_sandbox_queue_in_order(box: Box) -> None:
    await box.run("seen = []")
    codes = [
        f"import time; seen.append(({n}, 'begins')); time.sleep(0.01); seen.append(({n}, 'ends'))" for n in range(8)
    ]
    await asyncio.gather(*(box.run(code) for code in codes))
    assert await box.value("seen") == [(n, step) for n in range(8) for step in ("begins", "ends")]


async def test_a_waiting_cell_that_is_cancelled_never_runs(box: Box) -> None:
    waiting = "import os, time\nopen('running', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)"
    first = asyncio.create_task(box.run(f"{waiting}\norder = ['first']"))
    await appears(box, "running")
    second = asyncio.create_task(box.run("order.append('second')"))
    third = asyncio.create_task(box.run("order.append('third')"))
    await asyncio.sleep(0.05)  # wherever it has got to
    second.cancel()
    await box.files.write("go", b"")
    await asyncio.gather(first, third)
    assert await box.value("order") == ["first", "third"]
