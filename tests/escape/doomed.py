"""A host with two busy sandboxes, to be killed in various ways: says what it has, then does as it is told."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from belljar.sandbox.base import Cell, Spec
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import fold

LEAVE_CHILDREN = """
import os, time
for _ in range(3):
    child = os.fork()
    if child == 0:
        os.setsid()                     # away from the session, the group, the parent and the descriptors
        if os.fork() == 0:
            os.closerange(0, 4096)
            time.sleep(3600)
        os._exit(0)
    os.waitpid(child, 0)
"""


def main() -> None:
    source = LocalSource(JailOptions(cache=Path(sys.argv[1])))
    with contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(source.lease(Spec(packages="none"))) for _ in range(2)]
        for box in boxes:
            run = fold(run_steps.run_blocking(box, box.run(Cell(LEAVE_CHILDREN))))
            assert run.ok, run.exit.text
        jail = source._jail
        assert jail is not None
        say(cgroups=[str(path) for path in jail.groups.directories], launcher=jail.pid)
        sys.stdin.readline()
    say(closed=True)
    sys.stdin.readline()
    source.shut()


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
