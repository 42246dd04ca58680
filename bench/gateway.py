"""Measure the gateway against its floors; exit 1 if a bar is missed.

`make bench`, or `.venv/bin/python bench/gateway.py --quick --only chain`. What is measured and how:
docs/performance.md. The bars: bench/gateway_bars.toml.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import reporting, table
from bench.gateway_measures import MEASURES, Ground
from bench.reporting import say

SCRIPT = Path(__file__).name
BARS = Path(__file__).with_name("gateway_bars.toml")


def main() -> int:
    chosen = reporting.parse(reporting.parser(SCRIPT, (__doc__ or "").partition("\n")[0], MEASURES))
    load, busy = reporting.look(chosen)
    bars = table.read_bars(BARS.read_text())
    rows: list[table.Row] = []
    with ExitStack() as stack:
        ground = Ground(chosen.quick, stack)
        for name, measure in MEASURES.items():
            if not chosen.only or name in chosen.only:
                say(f"measuring {name}")
                rows += measure(ground)
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


if __name__ == "__main__":
    sys.exit(main())
