"""How a benchmark is asked for and told: flags, the machine, the table, the verdict."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Collection
from pathlib import Path

from bench import table

BUSY = 0.25
"""Load for each core above which the numbers are not to be trusted."""


def parser(script: str, about: str, measures: Collection[str]) -> argparse.ArgumentParser:
    """The flags that every benchmark has."""
    made = argparse.ArgumentParser(prog=f"bench/{script}", description=about)
    made.add_argument("--quick", action="store_true", help="fewer samples: to see that it works, not how fast it is")
    made.add_argument("--only", metavar="NAME", action="append", choices=measures, help=", ".join(measures))
    made.add_argument("--json", action="store_true", help="print JSON")
    made.add_argument("--write", metavar="FILE", type=Path, help="put the table into this page, between its markers")
    made.add_argument("--busy", action="store_true", help="write the table although the machine is busy")
    return made


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    chosen = made.parse_args()
    if chosen.write and (chosen.quick or chosen.only):
        made.error("--write wants the whole run: leave out --quick and --only")
    return chosen


def look(chosen: argparse.Namespace) -> tuple[float, bool]:
    """The load, and whether it is too much; exits where a table is to be kept of such a run."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    busy = load > BUSY * cores
    if busy:
        say(f"the load is {load:.2f} on {cores} cores: others use this machine, and the numbers will show it")
        if chosen.write and not chosen.busy:
            say("a table to keep wants a quiet machine; wait, or say --busy")
            raise SystemExit(2)
    return load, busy


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


def report(
    chosen: argparse.Namespace,
    script: str,
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
        chosen.write.write_text(
            table.replace_block(page, f"{tell(found)}{warning}\n\n{table.render(rows, bars)}", script)
        )
    if not chosen.only and (silent := table.unmeasured(rows, bars)):
        say(f"not measured: {', '.join(silent)}")
    if missed:
        say(f"missed: {', '.join(row.name for row in missed)}")
    return 1 if missed else 0


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr)
