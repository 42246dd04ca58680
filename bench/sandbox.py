"""Measure the sandbox against its floors, and with `--peers` against others; exit 1 if a bar is missed.

`make bench`, or `.venv/bin/python bench/sandbox.py --quick --only create`. What is measured and how:
docs/performance.md. The bars: bench/bars.toml.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from belljar.errors import BelljarError
from bench import reporting, table
from bench.floors import Absent
from bench.measures import MEASURES, Ground
from bench.peers import invited
from bench.reporting import say

SCRIPT = Path(__file__).name
BARS = Path(__file__).with_name("bars.toml")


def arguments() -> argparse.Namespace:
    parser = reporting.parser(SCRIPT, (__doc__ or "").partition("\n")[0], MEASURES)
    parser.add_argument(
        "--peers", action="store_true", help="Jupyter, llm-sandbox and bubblewrap as well, where installed"
    )
    parser.add_argument(
        "--peer-python", metavar="PATH", action="append", default=[], help="a Python that has the peers"
    )
    return reporting.parse(parser)


def main() -> int:
    chosen = arguments()
    load, busy = reporting.look(chosen)
    bars = table.read_bars(BARS.read_text())
    rows: list[table.Row] = []
    with invited(chosen.peers, chosen.peer_python) as peers:
        ground = Ground(chosen.quick, peers)
        for name, measure in MEASURES.items():
            if not chosen.only or name in chosen.only:
                say(f"measuring {name}")
                try:
                    rows += measure(ground)
                except (Absent, BelljarError) as error:
                    say(f"{name} cannot be measured here: {error}")
                    return 2
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


if __name__ == "__main__":
    sys.exit(main())
