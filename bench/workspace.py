"""Measure how fast a workspace comes into a container of a local gateway; exit 1 if a bar is missed.

`.venv/bin/python bench/workspace.py`, or with `--quick` for a tenth of the files. What is measured and how:
docs/performance.md. The bars: bench/workspace_bars.toml.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from openai import OpenAI
from tests.gateway.houses import House

from belljar.adapters.openai.config import ContainerConfig
from belljar.adapters.openai.workspace import OpenAIContainerWorkspaceSection
from belljar.filesystem import HostMount
from belljar.runtime import Session
from bench import reporting, table
from bench.processes import high_water
from bench.reporting import say

SCRIPT = Path(__file__).name
BARS = Path(__file__).with_name("workspace_bars.toml")
FILES, BYTES = 10_000, 500 << 20
MEASURES = ("mount",)
MIB = 1 << 20
MEMORY = Path("/dev/shm")
"""Where all of it happens: how long a disk takes depends on what was done to it before, for `tar` most of all."""
LIST = "import os\nsum(len(files) for _, _, files in os.walk('.'))"
CHANGE = "import os\nwith open(next(file.path for file in os.scandir('tree/d0')), 'ab') as file: file.write(b'x')"


class Mounted:
    """One mount, step by step."""

    def __init__(self, tree: Path, client: OpenAI) -> None:
        began = time.perf_counter()
        self.section = OpenAIContainerWorkspaceSection(
            session=Session(),
            mounts=(HostMount(str(tree), "tree"),),
            allowed_host_roots=(tree,),
            container_config=ContainerConfig(memory_limit="4g"),
        )
        self.section.bind(client)
        self.section.mount_previews  # noqa: B018 - finds them
        found = time.perf_counter()
        self.id = self.section.filesystem.ensure_container()
        self.find, self.upload = found - began, time.perf_counter() - found

    @property
    def whole(self) -> float:
        return self.find + self.upload


def main() -> int:
    chosen = reporting.parse(reporting.parser(SCRIPT, (__doc__ or "").partition("\n")[0], MEASURES))
    load, busy = reporting.look(chosen)
    bars = table.read_bars(BARS.read_text())
    files, size = (FILES // 10, BYTES // 10) if chosen.quick else (FILES, BYTES)
    with tempfile.TemporaryDirectory(prefix="belljar-bench-", dir=MEMORY) as directory:
        rows = measured(Path(directory), files, size, samples=1 if chosen.quick else 5)
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


def measured(home: Path, files: int, size: int, samples: int) -> list[table.Row]:
    """Each time with other files: a gateway writes none that it has already."""
    what = f"{files} files of {size // MIB} MB in all"
    kinds = ("tar", "copy", "find", "upload", "mount", "again", "first", "next", "change")
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    with House(home / "state") as house, OpenAI(base_url=house.base_url, api_key="none", timeout=600) as client:
        gateway = house.process.pid
        grow(home / "warm", 10, MIB, seed=0)
        warm = Mounted(home / "warm", client)
        cell(client, warm.id, LIST)
        warm.section.cleanup(delete_container=True)
        before = high_water(gateway), own()
        for n in range(samples):
            say(f"{n + 1} of {samples}")
            tree = home / f"tree{n}"
            grow(tree, files, size, seed=n + 1)
            times["tar"].append(timed_into(tar, tree, home))
            one = Mounted(tree, client)
            for kind, took in (("find", one.find), ("upload", one.upload), ("mount", one.whole)):
                times[kind].append(took)
            times["copy"].append(timed_into(copy, tree, home))
            for kind, code in (("first", LIST), ("next", LIST), ("change", CHANGE)):
                times[kind].append(timed(partial(cell, client, one.id, code)))
            again = Mounted(tree, client)
            times["again"].append(again.whole)
            for each in (one, again):
                each.section.cleanup(delete_container=True)
            shutil.rmtree(tree)
        grown = high_water(gateway) - before[0], own() - before[1]
    plain, mount, first = median(times["tar"]), median(times["mount"]), median(times["first"])
    against = f"tar | tar, {plain * 1000:.0f} ms"
    return [
        table.Row("mount", f"{what}: mounted, in the container", mount * 1e3, "ms", mount / plain, against, samples),
        table.Row("mount-find", "of that, found on the host", ms(times["find"]), n=samples),
        table.Row("mount-upload", "of that, found again, packed, uploaded and kept", ms(times["upload"]), n=samples),
        table.Row("mount-again", "the same files into another container", ms(times["again"]), n=samples),
        table.Row(
            "copy", "copied file by file", ms(times["copy"]), "ms", median(times["copy"]) / plain, against, samples
        ),
        table.Row(
            "first-cell",
            "a first cell, which lists the tree that is put in place for it",
            first * 1e3,
            "ms",
            first / plain,
            against,
            samples,
        ),
        table.Row("next-cell", "another cell, which lists it again", ms(times["next"]), n=samples),
        table.Row("change-cell", "a cell that changes one of the files", ms(times["change"]), n=samples),
        table.Row("client-memory", "what mounting adds to the client's memory, at most", grown[1] / MIB, "MB", n=1),
        table.Row("gateway-memory", "what all of this adds to the gateway's, at most", grown[0] / MIB, "MB", n=1),
    ]


def grow(tree: Path, files: int, size: int, seed: int) -> None:
    """Files of very different sizes, a hundred a directory; no two are alike."""
    chance = random.Random(seed)
    weights = [chance.lognormvariate(0, 1.5) for _ in range(files)]
    scale = size / sum(weights)
    for n, weight in enumerate(weights):
        path = tree / f"d{n // 100}" / f"f{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        left = max(1, int(weight * scale))
        with path.open("wb") as file:  # in pieces: what this process takes is measured
            while left:
                left -= file.write(chance.randbytes(min(left, MIB)))


def tar(tree: Path, into: Path) -> None:
    with subprocess.Popen(["tar", "cf", "-", "-C", tree, "."], stdout=subprocess.PIPE) as source:
        subprocess.run(["tar", "xf", "-", "-C", into], stdin=source.stdout, check=True)


def copy(tree: Path, into: Path) -> None:
    """With rsync where there is one: it, too, walks the tree, and writes each file under another name first."""
    if shutil.which("rsync"):
        subprocess.run(["rsync", "-a", f"{tree}/", into], check=True)
    else:
        shutil.copytree(tree, into, dirs_exist_ok=True)


def cell(client: OpenAI, container: str, code: str) -> None:
    answer = client.responses.create(
        model="belljar",
        input=f"```python\n{code}\n```",
        tools=[{"type": "code_interpreter", "container": container}],
    )
    assert answer.status == "completed", answer


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def timed_into(act: Callable[[Path, Path], object], tree: Path, home: Path) -> float:
    with tempfile.TemporaryDirectory(dir=home) as into:
        return timed(lambda: act(tree, Path(into)))


def ms(seconds: list[float]) -> float:
    return median(seconds) * 1e3


def own() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
