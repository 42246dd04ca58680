"""Measure the sandbox against its floors, and with `--peers` against others; exit 1 if a bar is missed.

`make bench`, or `.venv/bin/python bench/sandbox.py --quick --only create`. What is measured and how:
docs/performance.md. The bars: bench/bars.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from belljar.errors import BelljarError
from bench import table
from bench.floors import Absent
from bench.measures import MEASURES, Ground
from bench.peers import invited

BARS = Path(__file__).with_name("bars.toml")
BUSY = 0.25
"""Load for each core above which the numbers are not to be trusted."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/sandbox.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer samples: to see that it works, not how fast it is")
    parser.add_argument("--only", metavar="NAME", action="append", choices=MEASURES, help=", ".join(MEASURES))
    parser.add_argument(
        "--peers", action="store_true", help="Jupyter, llm-sandbox and bubblewrap as well, where installed"
    )
    parser.add_argument(
        "--peer-python", metavar="PATH", action="append", default=[], help="a Python that has the peers"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", metavar="FILE", type=Path, help="put the table into this page, between its markers")
    parser.add_argument("--busy", action="store_true", help="write the table although the machine is busy")
    chosen = parser.parse_args()
    if chosen.write and (chosen.quick or chosen.only):
        parser.error("--write wants the whole run: leave out --quick and --only")
    return chosen


def machine(load: float) -> dict[str, object]:
    """What the numbers were taken on, without its name."""
    info = Path("/proc/cpuinfo").read_text()
    model = next((line.partition(":")[2].strip() for line in info.splitlines() if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": model or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "user": "root" if os.geteuid() == 0 else "ordinary",
        "load_before": round(load, 2),
        "date": time.strftime("%Y-%m-%d"),
    }


def tell(found: dict[str, object]) -> str:
    return (
        f"{found['processor']}, {found['cores']} cores, {found['memory_gib']} GiB, Linux {found['kernel']}, "
        f"Python {found['python']}, {found['user']} user, load before {found['load_before']}, {found['date']}."
    )


def main() -> int:
    chosen = arguments()
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = load > BUSY * cores
    if busy:
        say(f"the load is {load:.2f} on {cores} cores: others use this machine, and the numbers will show it")
        if chosen.write and not chosen.busy:
            say("a table to keep wants a quiet machine; wait, or say --busy")
            return 2
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
    return report(chosen, machine(load), rows, bars, busy=busy)


def report(
    chosen: argparse.Namespace,
    found: dict[str, object],
    rows: list[table.Row],
    bars: dict[str, table.Bar],
    *,
    busy: bool,
) -> int:
    missed = table.missed(rows, bars)
    if chosen.json:
        data = {"machine": found, "busy": busy, "quick": chosen.quick, "rows": table.as_data(rows, bars)}
        print(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        print(f"{tell(found)}\n\n{table.render(rows, bars)}")
    if chosen.write:
        warning = " **The machine was busy.**" if busy else ""
        page = chosen.write.read_text()
        chosen.write.write_text(table.replace_block(page, f"{tell(found)}{warning}\n\n{table.render(rows, bars)}"))
    if not chosen.only and (silent := table.unmeasured(rows, bars)):
        say(f"not measured: {', '.join(silent)}{'' if chosen.peers else ' (needs --peers)'}")
    if missed:
        say(f"missed: {', '.join(row.name for row in missed)}")
    return 1 if missed else 0


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
