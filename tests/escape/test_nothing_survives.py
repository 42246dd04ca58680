"""What is left when a sandbox is closed, or its host is killed: nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.escape.conftest import Worker, remove

PATIENCE = 10.0
"""Seconds after which we call it a failure; it takes some milliseconds."""


def stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def descendants(pid: int) -> dict[int, str]:
    """Every living process below this one, with its start time, by which a reused number is told apart."""
    parents = {int(name): fields for name in os.listdir("/proc") if name.isdigit() and (fields := stat(int(name)))}
    found: dict[int, str] = {}
    new = {pid}
    while new:
        new = {child for child, fields in parents.items() if int(fields[1]) in new and child not in found}
        found.update({child: parents[child][19] for child in new if parents[child][0] not in "ZX"})
    return found


def alive(processes: dict[int, str]) -> list[int]:
    return [pid for pid, start in processes.items() if (now := stat(pid)) and now[19] == start and now[0] not in "ZX"]


def soon(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture
def doomed(user: str) -> Iterator[Worker]:
    yield from started(user, "tests.escape.doomed")


@pytest.fixture
def grower(user: str) -> Iterator[Worker]:
    yield from started(user, "tests.escape.grower")


def started(user: str, module: str) -> Iterator[Worker]:
    worker = Worker(user, module)
    yield worker
    with contextlib.suppress(ProcessLookupError):
        worker.process.kill()
    worker.process.wait()
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()
    remove(worker.folder)


def tell(worker: Worker, line: str) -> None:
    assert worker.process.stdin
    worker.process.stdin.write(line + "\n")
    worker.process.stdin.flush()


def test_daemons_are_gone_when_their_sandbox_is_closed(doomed: Worker) -> None:
    below = descendants(doomed.process.pid)
    assert len(below) >= 4 + 2 * (2 + 3), "launcher, jail init, zygote, spare; init, interpreter, three daemons each"
    groups = [Path(path) for path in doomed.hello["cgroups"]]
    tell(doomed, "close")
    assert doomed.answer() == {"closed": True}
    assert len(alive(below)) == 4
    assert [entry for group in groups for entry in group.iterdir() if entry.is_dir()] == []


def test_nothing_is_left_when_the_source_is_closed(doomed: Worker) -> None:
    below = descendants(doomed.process.pid)
    tell(doomed, "close")
    doomed.answer()
    tell(doomed, "end")
    assert doomed.process.wait(30) == 0
    assert alive(below) == []
    assert not [path for path in doomed.hello["cgroups"] if os.path.exists(path)]
    assert list(doomed.folder.iterdir()) == []


def test_nothing_is_left_when_the_host_is_killed(doomed: Worker) -> None:
    below = descendants(doomed.process.pid)
    assert len(below) >= 13
    doomed.process.kill()
    assert soon(lambda: not alive(below)), alive(below)
    assert soon(lambda: not [path for path in doomed.hello["cgroups"] if os.path.exists(path)])
    assert list(doomed.folder.iterdir()) == []


def test_the_jail_ends_with_its_launcher_and_the_next_start_sweeps_its_groups(doomed: Worker, user: str) -> None:
    below = descendants(doomed.process.pid)
    os.kill(doomed.process.pid, signal.SIGSTOP)  # it must not clean up
    os.kill(doomed.hello["launcher"], signal.SIGKILL)
    assert soon(lambda: not alive(below)), alive(below)
    doomed.process.kill()
    doomed.process.wait()
    left = doomed.hello["cgroups"]
    assert all(os.path.exists(path) for path in left), "nobody was there to remove them"
    after = Worker(user, "tests.escape.doomed")
    assert not [path for path in left if os.path.exists(path)]
    tell(after, "close")
    after.answer()
    tell(after, "end")
    after.close()


def test_memory_is_bounded_between_cells_too(grower: Worker) -> None:
    """Eight processes that wait until the cell has ended and then take 2.6 times the limit together."""
    below: dict[int, str] = {}

    def complete() -> bool:
        below.update(descendants(grower.process.pid))
        return len(below) == 4 + 2 + 8  # among the four, an init made ahead of time, when there is time for it

    assert soon(complete), below
    assert soon(lambda: len(alive(below)) < len(below)), "all of them live on"
    tell(grower, "go on")
    assert grower.answer()["text"] == "42"
    grower.close()
