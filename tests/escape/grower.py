"""A host whose sandbox left processes behind that take memory only when no cell runs any more."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from belljar.sandbox.base import MIB, Cell, Limits, Spec
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.source import JailOptions, LocalSource
from belljar.sandbox.outputs import fold

GROW_LATER = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        time.sleep(0.5)
        kept = bytearray(b"x") * (64 << 20)
        time.sleep(3600)
"""


def main() -> None:
    source = LocalSource(JailOptions(cache=Path(sys.argv[1])))
    with source.lease(Spec(packages="none", limits=Limits(memory=192 * MIB))) as box:
        assert fold(run_steps.run_blocking(box, box.run(Cell(GROW_LATER)))).ok
        print(json.dumps({"left": 8}), flush=True)
        sys.stdin.readline()
        run = fold(run_steps.run_blocking(box, box.run(Cell("6 * 7"))))
        print(json.dumps({"text": run.text}), flush=True)
    source.shut()


if __name__ == "__main__":
    main()
