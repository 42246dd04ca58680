"""The measures: each takes its samples in turn with its floor, A B A B, and gives rows of medians."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import mean, median

from belljar import AsyncSandbox, Sandbox
from belljar.config import Settings
from belljar.sandbox.local import linux
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import Stdout
from bench import floors, processes
from bench.floors import Absent, Driver
from bench.peers import Peer
from bench.table import Row, ms, number, p95

GIB = 1 << 30
OUTPUT = 100_000_000
PANDAS = "import pandas as pd; pd.DataFrame({'x': [1, 2, 3]}).sum()"
_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Ground:
    """What every measure may use."""

    quick: bool = False
    peers: Sequence[Peer] = field(default_factory=tuple)

    def times(self, full: int, quick: int) -> int:
        return quick if self.quick else full


@contextmanager
def new_source(*, warm: int = 0) -> Iterator[LocalSource]:
    """A source of its own that has preloaded and made its first boxes."""
    source = LocalSource(JailOptions(cache=Settings.load().cache_dir, most=1200, warm=warm))
    try:
        source.prepare(Sandbox().spec)
        for _ in range(3):
            with Sandbox(source=source) as box:
                check(box.run(PANDAS).ok)
        yield source
    finally:
        source.shut()


def check(ok: bool) -> None:
    """A benchmark of what fails is none."""
    if not ok:
        raise RuntimeError("a cell that was to be timed failed")


def clock(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _beside(name: str, what: str, ours: Sequence[float], floor: str, theirs: Sequence[float], note: str = "") -> Row:
    """A row of how many times the floor we take."""
    return Row(
        name,
        what,
        ms(ours),
        ratio=median(ours) / median(theirs),
        against=f"{floor}, {number(ms(theirs))} ms",
        n=len(ours),
        note=f"p95 {number(p95(ours))}{note}",
    )


# -- a new box ----------------------------------------------------------------------------------------------------


def first_result(ground: Ground) -> list[Row]:
    """A new box, without the warm pool, to its first pandas result."""
    ours: list[float] = []
    fresh: list[float] = []
    theirs: dict[str, list[float]] = {peer.name: [] for peer in ground.peers}
    floors.fresh_python()  # bytecode and the list of fonts are there from here on
    with new_source() as source:
        for turn in range(ground.times(21, 5)):
            fresh.append(floors.fresh_python())
            with ExitStack() as stack:
                ours.append(clock(lambda: check(stack.enter_context(Sandbox(source=source)).run(PANDAS).ok)))
            for peer in ground.peers:
                if peer.driver is not None and turn < ground.times(7, 2):
                    theirs[peer.name].append(peer.driver.ask("first"))
    row = Row(
        "first-result",
        "new box to its first pandas result",
        ms(ours),
        ratio=median(fresh) / median(ours),
        against=f"fresh python with the imports, {number(ms(fresh))} ms",
        n=len(ours),
        note=f"p95 {number(p95(ours))}",
    )
    return [row, *_peer_rows("first", "a session to its first pandas result", ground.peers, theirs, median(ours))]


def create(ground: Ground) -> list[Row]:
    """Making a box, blocking and under asyncio, in short turns with the fork that it cannot do without."""
    lives: list[tuple[float, float]] = []
    awaited: list[float] = []
    fork: list[float] = []
    with new_source() as source, floors.forker() as forker, asyncio.Runner() as loop:
        for _ in range(ground.times(20, 4)):
            time.sleep(0.05)  # the kernel is still clearing away our last boxes, which the floor has no part in
            fork += [forker.ask("fork") for _ in range(10)]
            lives += [_life(source) for _ in range(10)]
            awaited += [loop.run(_create_async(source)) for _ in range(10)]
    made, gone = zip(*lives, strict=True)
    floor = "bare fork of the same modules"
    return [
        _beside("create", "create a box, Sandbox", made, floor, fork),
        _beside("create-async", "create a box, AsyncSandbox", awaited, floor, fork),
        Row("destroy", "close a box", ms(gone), n=len(gone), note=f"p95 {number(p95(gone))}"),
    ]


def _life(source: LocalSource) -> tuple[float, float]:
    """How long one box takes to come and to go."""
    started = time.perf_counter()
    with Sandbox(source=source):
        made = time.perf_counter()
    return made - started, time.perf_counter() - made


async def _create_async(source: LocalSource) -> float:
    started = time.perf_counter()
    async with AsyncSandbox(source=source):
        return time.perf_counter() - started


def warm_claim(ground: Ground) -> list[Row]:
    """A box of the warm pool and its first cell, while the pool makes the next one."""
    ours: list[float] = []
    bare: list[float] = []
    with new_source(warm=4) as source, floors.echo() as echo:
        time.sleep(1)
        for _ in range(ground.times(100, 15)):
            bare += [echo.once() for _ in range(10)]
            with ExitStack() as stack:
                ours.append(clock(lambda: check(stack.enter_context(Sandbox(source=source)).run("1+1").ok)))
            time.sleep(0.1)  # a claim wakes the refill at once, so it runs beside the cell; then it may finish
    slow = sum(sample > 5 * median(ours) for sample in ours)
    what, note = "claim a warm box, and its first cell", f"; {slow} above 5 medians"
    return [_beside("warm-claim", what, ours, "socketpair echo", bare, note)]


# -- cells --------------------------------------------------------------------------------------------------------


def cell(ground: Ground) -> list[Row]:
    """The round trip of `1+1` in a warm box, in short turns with a bare echo."""
    free: dict[str, list[float]] = {"echo": [], "cell": [], "cell-async": []}
    pinned: dict[str, list[float]] = {"echo": [], "cell-apart": []}
    theirs: dict[str, list[float]] = {peer.name: [] for peer in ground.peers}
    with ExitStack() as stack:
        source = stack.enter_context(new_source())
        echo = stack.enter_context(floors.echo())
        loop = stack.enter_context(asyncio.Runner())
        other = AsyncSandbox(source=source)
        loop.run(other.__aenter__())
        stack.callback(lambda: loop.run(other.__aexit__(None, None, None)))
        known = processes.descendants(os.getpid())
        box = stack.enter_context(Sandbox(source=source))
        inside = [process.pid for process in processes.descendants(os.getpid()) - known]
        for _ in range(50):
            check(box.run("1+1").text == "2" and loop.run(other.run("1+1")).text == "2")
        for turn in range(ground.times(50, 10)):
            free["echo"] += [echo.once() for _ in range(20)]
            free["cell"] += [clock(lambda: box.run("1+1")) for _ in range(20)]
            free["cell-async"] += loop.run(_cells_async(other, 20))
            if len(os.sched_getaffinity(0)) > 1:
                with floors.apart([echo.pid, *inside]):
                    pinned["echo"] += [echo.once() for _ in range(20)]
                    pinned["cell-apart"] += [clock(lambda: box.run("1+1")) for _ in range(20)]
            for peer in ground.peers:
                if peer.driver is not None and turn < ground.times(30, 5):
                    theirs[peer.name] += [peer.driver.ask("cell") for _ in range(2)]
    rows = [
        _beside("cell", "round trip of `1+1`, Sandbox", free["cell"], "socketpair echo", free["echo"]),
        _beside("cell-async", "round trip of `1+1`, AsyncSandbox", free["cell-async"], "socketpair echo", free["echo"]),
    ]
    if pinned["echo"]:
        what = "Sandbox, each end on a core of its own"
        rows.append(_beside("cell-apart", what, pinned["cell-apart"], "echo placed likewise", pinned["echo"]))
    return rows + _peer_rows("cell", "round trip of `1+1`", ground.peers, theirs, median(free["cell"]))


def among_files(ground: Ground) -> list[Row]:
    """The round trip of a cell that changes nothing, among 10,000 files and among none, in short turns."""
    full: list[float] = []
    empty: list[float] = []
    with new_source() as source, Sandbox(source=source) as one, Sandbox(source=source) as other:
        make = "import os\nos.mkdir('d')\nfor n in range(10_000): open(f'd/{n}', 'w').close()"
        check(one.run(make).ok and one.run("1+1").ok and other.run("1+1").ok)
        for _ in range(ground.times(50, 5)):
            full += [clock(lambda: one.run("1+1")) for _ in range(20)]
            empty += [clock(lambda: other.run("1+1")) for _ in range(20)]
    return [_beside("among-files", "`1+1` in a workspace of 10,000 files", full, "in an empty one", empty)]


async def _cells_async(box: AsyncSandbox, count: int) -> list[float]:
    found = []
    for _ in range(count):
        started = time.perf_counter()
        await box.run("1+1")
        found.append(time.perf_counter() - started)
    return found


def first_byte(ground: Ground) -> list[Row]:
    """The first text of a cell that goes on for a while."""
    ours: list[float] = []
    whole: list[float] = []
    with new_source() as source, Sandbox(source=source) as box:
        check(box.run("import time").ok)
        for _ in range(ground.times(30, 8)):
            whole += [clock(lambda: box.run("1+1")) for _ in range(10)]
            started = time.perf_counter()
            outputs = box.stream("print('x', flush=True); time.sleep(0.2)")
            check(next(outputs) == Stdout("x\n"))
            ours.append(time.perf_counter() - started)
            for _ in outputs:
                pass
    return [_beside("first-byte", "first streamed byte of a running cell", ours, "cell round trip", whole)]


_PRINTS = "for i in range(1_000_000): print(i)"
_DRAINS = {
    "drain": ("100 MB written in large pieces", f"for _ in range(100): os.write(1, b'x' * {OUTPUT // 100})"),
    "drain-text": ("the same by sys.stdout.write", f"for _ in range(100): sys.stdout.write('x' * {OUTPUT // 100})"),
    "drain-prints": ("a million short prints", _PRINTS),
}


def drain(ground: Ground) -> list[Row]:
    """Output as fast as it comes: a megabyte is kept, the rest goes to a file of the workspace."""
    taken: dict[str, list[float]] = {name: [] for name in _DRAINS}
    cats: list[float] = []
    plain: list[float] = []
    with floors.bytes_file(OUTPUT) as path, new_source() as source, Sandbox(source=source) as box:
        check(box.run("import os, sys").ok)
        for _ in range(ground.times(11, 3)):
            cats.append(floors.cat(path))
            plain.append(floors.piped(sys.executable, "-c", _PRINTS))
            for name, (_, code) in _DRAINS.items():
                started = time.perf_counter()
                run = box.run(code)
                taken[name].append(time.perf_counter() - started)
                check(run.ok)
                for file in run.files:
                    box.files.delete(file.name)
    printed = sum(len(f"{i}\n") for i in range(1_000_000))
    return [
        _speed(name, what, printed, taken[name], "plain python through a pipe", plain)
        if name == "drain-prints"
        else _speed(name, what, OUTPUT, taken[name], "cat through a pipe", cats)
        for name, (what, _) in _DRAINS.items()
    ]


def _speed(name: str, what: str, size: int, ours: Sequence[float], floor: str, theirs: Sequence[float]) -> Row:
    """A row of what share of the floor's speed we have."""
    return Row(
        name,
        what,
        size / 1e6 / median(ours),
        "MB/s",
        ratio=median(theirs) / median(ours),
        against=f"{floor}, {number(size / 1e6 / median(theirs))} MB/s",
        n=len(ours),
        note=f"slowest {number(size / 1e6 / max(ours))}",
    )


# -- many boxes ---------------------------------------------------------------------------------------------------


def idle(ground: Ground) -> list[Row]:
    """How many boxes with the stack imported fit into a GiB, by what the kernel then has left."""
    count, costs, own = ground.times(200, 40), [], []
    with new_source() as source:
        for _ in range(2):
            time.sleep(1)
            before, known = processes.available(), processes.descendants(os.getpid())
            with ExitStack() as stack:
                for _ in range(count):
                    stack.enter_context(Sandbox(source=source))
                time.sleep(1)
                costs.append((before - processes.available()) / count)
                with contextlib.suppress(PermissionError):
                    new = processes.descendants(os.getpid()) - known
                    own.append(sum(map(processes.footprint, new)) / count)
    check_sum = (
        f"private pages and page tables {number(mean(own) / 1e6)} MB" if own else "private pages not ours to see"
    )
    row = Row(
        "idle",
        "idle boxes per GiB",
        GIB / max(mean(costs), 1),
        "per GiB",
        n=2 * count,
        note=f"{' and '.join(number(cost / 1e6) for cost in costs)} MB a box by MemAvailable; {check_sum}",
    )
    return [row]


def flat(ground: Ground) -> list[Row]:
    """Boxes made and destroyed one after the other, for long."""
    count = ground.times(1000, 200)
    part = count // 10
    with new_source() as source:
        taken = [sum(_life(source)) for _ in range(count)]
    first, last = taken[:part], taken[-part:]
    row = Row(
        "flat",
        f"create and destroy, the last {part} of {count:,}",
        ms(last),
        ratio=median(last) / median(first),
        against=f"the first {part}, {number(ms(first))} ms",
        n=count,
        note=f"{number(count / sum(taken))} a second; p95 {number(p95(taken))}",
    )
    return [row]


def killed(ground: Ground) -> list[Row]:
    """From the kill of the program to the end of the last process below it, the dead but unburied among them."""
    boxes, taken, count = 20, [], 0
    linux.prctl(_SET_CHILD_SUBREAPER, 1)  # orphans come to us, so that nobody's slow burial is counted
    try:
        for _ in range(ground.times(7, 2)):
            with Driver("hold", str(boxes)) as holder:
                alive = list(processes.descendants(holder.pid))
                count = len(alive)
                if count < 2 * boxes:
                    raise Absent(f"{count} processes for {boxes} boxes")
                started = time.perf_counter()
                os.kill(holder.pid, signal.SIGKILL)
                while alive:  # one look at a time: a watcher that is busy takes the core from those who are dying
                    if not processes.exists(alive[-1]):
                        alive.pop()
                    elif time.perf_counter() - started > 10:
                        raise RuntimeError(f"{len(alive)} processes outlive their program")
                    else:
                        time.sleep(0.0005)
                taken.append(time.perf_counter() - started)
    finally:
        linux.prctl(_SET_CHILD_SUBREAPER, 0)
    row = Row(
        "killed",
        f"program killed to no process left, {boxes} boxes, the worst",
        max(taken) * 1e3,
        n=len(taken),
        note=f"median {number(ms(taken))}; {count} processes",
    )
    return [row]


def _peer_rows(
    prefix: str, what: str, peers: Sequence[Peer], samples: Mapping[str, Sequence[float]], ours: float
) -> list[Row]:
    rows = []
    for peer in peers:
        name, sample = f"{prefix}-{peer.name}", samples[peer.name]
        if not sample:
            rows.append(Row(name, f"{what}, {peer.name}", note=peer.absent))
            continue
        rows.append(
            Row(
                name,
                f"{what}, {peer.name}",
                ms(sample),
                ratio=median(sample) / ours,
                against=f"Belljar, {number(ours * 1e3)} ms",
                n=len(sample),
                note=f"p95 {number(p95(sample))}",
            )
        )
    return rows


MEASURES: Mapping[str, Callable[[Ground], list[Row]]] = {
    "first-result": first_result,
    "warm-claim": warm_claim,
    "create": create,
    "cell": cell,
    "among-files": among_files,
    "first-byte": first_byte,
    "drain": drain,
    "idle": idle,
    "flat": flat,
    "killed": killed,
}
