"""Processor time by the cell, over processes that fork, burn, end and are waited for in any order."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.sandbox.local import usage
from belljar.sandbox.local.usage import Key, Meter, Spent

TICK = 1 / usage.TICKS
SLACK = 4 * 2 * TICK
"""What a process may be charged too little, for the kernel's rounding."""


@dataclass(eq=False)
class Process:
    pid: int
    parent: Process | None
    user: float = 0.0
    system: float = 0.0
    waited_user: float = 0.0
    waited_system: float = 0.0
    zombie: bool = False


class Machine:
    """A kernel's book-keeping: what a process used moves to its parent when that waits for it."""

    def __init__(self) -> None:
        self.first = Process(2, None)
        self.processes = [self.first]
        self.burnt = 0.0
        self.made = 1

    def fork(self, which: int) -> None:
        parent = self.some(which)
        self.made += 1
        self.processes.append(Process(self.made + 1, parent))

    def burn(self, which: int, user: float, system: float) -> None:
        process = self.some(which)
        process.user, process.system = process.user + user, process.system + system
        self.burnt += user + system

    def end(self, which: int) -> None:
        process = self.some(which)
        if process is not self.first:
            process.zombie = True
            for child in self.processes:
                if child.parent is process:
                    child.parent = self.first

    def bury(self, which: int, *, waited: bool) -> None:
        dead = [process for process in self.processes if process.zombie]
        if not dead:
            return
        process = dead[which % len(dead)]
        self.processes.remove(process)
        if waited and process.parent is not None:
            process.parent.waited_user += process.user + process.waited_user
            process.parent.waited_system += process.system + process.waited_system

    def some(self, which: int) -> Process:
        living = [process for process in self.processes if not process.zombie]
        return living[which % len(living)]

    def do(self, act: tuple[str, int, float, float]) -> None:
        name, which, user, system = act
        match name:
            case "fork":
                self.fork(which)
            case "burn":
                self.burn(which, user, system)
            case "end":
                self.end(which)
            case _:
                self.bury(which, waited=name == "wait")

    def reaped(self) -> dict[Key, float]:
        """As /proc has it: in ticks, rounded down."""
        ticks = {p.pid: p.waited_user // TICK + p.waited_system // TICK for p in self.processes}
        return {(pid, 0): count * TICK for pid, count in ticks.items()}

    def own(self) -> dict[Key, float]:
        return {(process.pid, 0): process.user + process.system for process in self.processes}

    def spent(self, meanwhile: list[tuple[str, int, float, float]]) -> dict[Key, Spent]:
        reaped = self.reaped()
        for act in meanwhile:
            self.do(act)
        own = self.own()
        return {key: Spent(own[key], reaped[key]) for key in reaped if key in own}


def acts(*names: str) -> st.SearchStrategy[list[tuple[str, int, float, float]]]:
    seconds = st.floats(0, 0.5) | st.floats(0, 20) | st.just(0.0)
    return st.lists(st.tuples(st.sampled_from(names), st.integers(0, 50), seconds, seconds), max_size=12)


ALL = ("fork", "fork", "burn", "burn", "burn", "end", "wait", "wait", "forget")
WAITED = tuple(name for name in ALL if name != "forget")


@given(
    before=st.lists(acts(*ALL), max_size=3), during=st.lists(st.tuples(acts(*ALL), acts(*ALL)), min_size=1, max_size=5)
)
def test_nothing_is_counted_that_was_not_used(
    before: list[list[tuple[str, int, float, float]]],
    during: list[tuple[list[tuple[str, int, float, float]], list[tuple[str, int, float, float]]]],
) -> None:
    machine, meter = Machine(), Meter()
    for some in before:  # earlier cells, and what they left
        for act in some:
            machine.do(act)
        meter.begin(machine.spent([]))
    meter.begin(machine.spent([]))
    start = machine.burnt
    for between, meanwhile in during:
        for act in between:
            machine.do(act)
        used = meter.look(machine.spent(meanwhile))
        assert 0 <= used <= machine.burnt - start + 1e-6


@given(before=acts(*WAITED), during=st.lists(acts(*WAITED), min_size=1, max_size=5))
def test_what_was_used_is_counted(
    before: list[tuple[str, int, float, float]], during: list[list[tuple[str, int, float, float]]]
) -> None:
    machine, meter = Machine(), Meter()
    for act in before:
        machine.do(act)
    meter.begin(machine.spent([]))
    start = machine.burnt
    for between in during:
        for act in between:
            machine.do(act)
        meter.look(machine.spent([]))
    assert meter.used >= machine.burnt - start - SLACK * (machine.made + 1)


def test_what_moves_on_through_a_parent_that_goes_too_is_counted_once() -> None:
    machine, meter = Machine(), Meter()
    machine.fork(0)  # the parent
    machine.fork(1)  # its child
    meter.begin(machine.spent([]))
    start = machine.burnt
    for meanwhile in (
        [("burn", 2, 0.5, 0.0), ("end", 2, 0.0, 0.0)],
        [("wait", 0, 0.0, 0.0)],  # by the parent, after it was looked at
        [("end", 1, 0.0, 0.0), ("wait", 0, 0.0, 0.0)],  # which is waited for before it is looked at again
        [],
    ):
        used = meter.look(machine.spent(meanwhile))
    assert used == machine.burnt - start == 0.5


def test_a_tick_that_was_nearly_full_is_not_charged_to_the_next_cell() -> None:
    machine, meter = Machine(), Meter()
    for seconds in (1.9 * TICK, 0.2 * TICK):
        meter.begin(machine.spent([]))
        for act in (("fork", 0, 0, 0), ("burn", 1, seconds, seconds), ("end", 1, 0, 0), ("wait", 0, 0, 0)):
            machine.do(act)
    assert meter.look(machine.spent([])) <= 0.4 * TICK


# -- the real /proc ---------------------------------------------------------------------------------------------


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    code = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code]) as process:
        yield process


def test_a_process_is_seen_as_it_is(child: subprocess.Popen[bytes]) -> None:
    seen, me = usage.stat(child.pid), usage.stat(os.getpid())
    assert seen is not None
    assert me is not None
    assert (seen.parent, seen.threads) == (os.getpid(), 1)
    assert seen.started >= me.started
    most = usage._rough_memory(os.getpid())
    assert 1 << 20 < usage._exact_memory(os.getpid(), most) <= most
    assert usage._exact_memory(os.getpid(), most) >= usage._count_mappings("/proc/self") * usage._MAPPING
    assert usage.count_files(os.getpid()) >= 3
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    spent = usage.measure_processes()
    assert spent[child.pid, seen.started].own >= 0.2  # a zombie has used what it used
    child.wait()
    later = usage.measure_processes()
    assert (child.pid, seen.started) not in later
    key = (os.getpid(), me.started)
    assert later[key].reaped >= spent[key].reaped + 0.2 - 2 * TICK
    assert usage.stat(child.pid) is None
