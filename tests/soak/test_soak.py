"""Minutes of ordinary and bad behaviour, after which nothing is left and nothing has grown. `make soak` runs it."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import traces

from belljar.sandbox.base import MIB, Cell, Limits, Sandbox, Spec
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Run, fold

pytestmark = pytest.mark.soak

CELLS, BOXES, TOGETHER = 10_000, 1_000, 12
LIMITS = Limits(memory=256 * MIB, disk=16 * MIB, output=1 << 14, processes=32, grace=0.3)


async def run(sandbox: Sandbox, code: str, timeout: float | None = 30) -> Run:
    return fold([output async for output in sandbox.run(Cell(code, timeout))])


# What may happen in a sandbox. Each checks what it can, and leaves the sandbox usable.


async def compute(sandbox: Sandbox) -> None:
    number = random.randrange(10**6)
    await run(sandbox, f"x = {number}")
    assert (await run(sandbox, "x + 1")).text == str(number + 1)


async def plot(sandbox: Sandbox) -> None:
    seen = await run(sandbox, "import matplotlib.pyplot as plt; plt.plot([1, 2])")
    assert len(seen.images) == 1


async def write(sandbox: Sandbox) -> None:
    await sandbox.files.write("in.txt", b"x" * 1000)
    seen = await run(sandbox, "open('out.txt', 'w').write(open('in.txt').read() * 2)")
    assert [file.name for file in seen.files] == ["out.txt"]
    assert len(await sandbox.files.read("out.txt")) == 2000
    await sandbox.files.delete("out.txt")


async def shout(sandbox: Sandbox) -> None:
    seen = await run(sandbox, "for _ in range(3000): print('x' * 99)")
    assert len(seen.stdout) == LIMITS.output
    await sandbox.files.delete(next(file.name for file in seen.files))


async def fail(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "1 / 0")).exit.status == "raised"


async def spawn(sandbox: Sandbox) -> None:
    seen = await run(
        sandbox, "import subprocess; subprocess.run(['true']).returncode, subprocess.Popen(['sleep', '9']).pid > 0"
    )
    assert seen.text == "(0, True)" or "may be 32" in seen.exit.text


async def leave(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "import os; os._exit(3)")).exit.reason == "exited"


async def crash(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "import ctypes; ctypes.string_at(0)")).exit.reason == "crashed"


async def garble(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "import os; os.close(3)")).exit.reason == "disconnected"


async def overeat(sandbox: Sandbox) -> None:
    seen = await run(sandbox, "x = b'x' * (1 << 29)")
    assert seen.exit.reason == "memory" or seen.exit.status == "raised"


async def linger(sandbox: Sandbox) -> None:
    assert (await run(sandbox, "import time; time.sleep(60)", timeout=0.05)).exit.status == "timed_out"


async def resist(sandbox: Sandbox) -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    assert (await run(sandbox, code, timeout=0.1)).exit.status == "timed_out"


async def restart(sandbox: Sandbox) -> None:
    await sandbox.restart()


async def walk_away(sandbox: Sandbox) -> None:
    task = asyncio.create_task(run(sandbox, "import time\nfor n in range(600): print(n); time.sleep(0.1)"))
    await asyncio.sleep(random.random() / 50)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


DEEDS: dict[Callable[[Sandbox], Coroutine[Any, Any, None]], int] = {
    compute: 400, plot: 10, write: 60, shout: 10, fail: 40, spawn: 20, leave: 20, crash: 10, garble: 5, overeat: 3,
    linger: 20, resist: 4, restart: 10, walk_away: 10,
}  # fmt: skip


@asynccontextmanager
async def leaving_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalSource]:
    """A source, after which everything is as it was before."""
    (home / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(home / "temporary"))
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(TOGETHER)))  # the loop's own threads stay
    before = await settled()
    source = LocalSource(JailOptions(cache=home / "cache", warm=4, warm_spec=Spec(LIMITS), most=TOGETHER + 20))
    yield source
    await source.close()
    del source
    after = await settled()
    assert after == before


async def settled() -> traces.Traces:
    gc.collect()
    deadline = time.monotonic() + 30
    seen = traces.of()
    while time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        again = traces.of()
        if again == seen:
            break
        seen = again
    return seen


def test_ten_thousand_cells_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: Counter[str] = Counter()
    memory: list[int] = []

    async def live(source: LocalSource) -> None:
        async with source.acquire(Spec(LIMITS)) as sandbox:
            for deed in random.choices(list(DEEDS), list(DEEDS.values()), k=random.randrange(1, 60)):
                await deed(sandbox)
                done[deed.__name__] += 1
                after = await run(sandbox, "'well'")
                assert after.text == "'well'", (deed.__name__, after)
                done["afterwards"] += 1

    async def keep_on(source: LocalSource) -> None:
        while done.total() < CELLS:
            await live(source)

    async def main() -> None:
        async with leaving_nothing(tmp_path, monkeypatch) as source:
            watch = asyncio.create_task(watching())
            await asyncio.gather(*(keep_on(source) for _ in range(TOGETHER)))
            watch.cancel()

    async def watching() -> None:
        while True:
            gc.collect()
            memory.append(traces.resident())
            await asyncio.sleep(1)

    asyncio.run(main())
    print(f"\n{dict(done)}, memory {[size >> 20 for size in memory]} MiB")
    assert done.total() >= CELLS
    early, late = max(memory[: len(memory) // 4 + 1]), min(memory[-5:])
    assert late - early < 16 * MIB


def test_a_thousand_sandboxes_leave_nothing_and_do_not_slow_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[float] = []

    async def main() -> None:
        async with leaving_nothing(tmp_path, monkeypatch) as source:
            for number in range(BOXES):
                started = time.monotonic()
                async with source.acquire(Spec(Limits(memory=512 * MIB))) as sandbox:
                    assert (await run(sandbox, f"{number}")).text == str(number)
                times.append(time.monotonic() - started)

    asyncio.run(main())
    first, last = sorted(times[:100])[50], sorted(times[-100:])[50]
    print(f"\nmedian of the first hundred {first * 1000:.1f} ms, of the last {last * 1000:.1f} ms")
    assert last < 2 * first + 0.005
