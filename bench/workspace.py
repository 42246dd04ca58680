"""Measure how fast a workspace comes into a container of a local gateway; exit 1 if a bar is missed.

`.venv/bin/python bench/workspace.py`, or with `--quick` for a tenth of the files. What is measured and how:
docs/performance.md. The bars: bench/workspace_bars.toml.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
    with tempfile.TemporaryDirectory(prefix="belljar-bench-") as directory:
        rows = measured(Path(directory), files, size, samples=1 if chosen.quick else 3)
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


def measured(home: Path, files: int, size: int, samples: int) -> list[table.Row]:
    """Each time with other files: a gateway writes none that it has already."""
    what = f"{files} files of {size // MIB} MB in all"
    times: dict[str, list[float]] = {name: [] for name in ("tar", "synced", "copy", "again")}
    mounts: list[Mounted] = []
    with House(home / "state") as house, OpenAI(base_url=house.base_url, api_key="none", timeout=600) as client:
        gateway = house.process.pid
        grow(home / "warm", 10, MIB, seed=0)
        Mounted(home / "warm", client).section.cleanup(delete_container=True)
        before = high_water(gateway), own()
        for n in range(samples):
            say(f"{n + 1} of {samples}")
            tree = home / f"tree{n}"
            grow(tree, files, size, seed=n + 1)
            os.sync()
            times["tar"].append(timed_into(tar, tree, home))
            os.sync()
            times["synced"].append(timed_into(tar_to_disk, tree, home))
            mounts.append(Mounted(tree, client))
            times["copy"].append(timed_into(copy, tree, home))
            again = Mounted(tree, client)
            times["again"].append(again.whole)
            for one in (mounts[-1], again):
                one.section.cleanup()
        grown = high_water(gateway) - before[0], own() - before[1]
        first = timed(lambda: cell(client, mounts[-1].id))
    plain, synced = median(times["tar"]), median(times["synced"])
    mount = median(one.whole for one in mounts)
    to_disk, against = f"tar | tar and sync, {synced * 1000:.0f} ms", f"tar | tar, {plain * 1000:.0f} ms"
    also = f"{mount / plain:.1f} × {against}"
    return [
        table.Row(
            "mount",
            f"{what}: mounted, in the container and on disk",
            mount * 1e3,
            "ms",
            mount / synced,
            to_disk,
            samples,
            also,
        ),
        table.Row("mount-find", "of that, found on the host", ms(one.find for one in mounts), n=samples),
        table.Row("mount-upload", "of that, packed, uploaded and kept", ms(one.upload for one in mounts), n=samples),
        table.Row("mount-again", "the same files into another container", ms(times["again"]), n=samples),
        table.Row(
            "copy",
            "copied file by file, not synced",
            ms(times["copy"]),
            "ms",
            median(times["copy"]) / plain,
            against,
            samples,
        ),
        table.Row("client-memory", "what mounting adds to the client's memory, at most", grown[1] / MIB, "MB", n=1),
        table.Row("gateway-memory", "what it adds to the gateway's memory, at most", grown[0] / MIB, "MB", n=1),
        table.Row("first-cell", "from there to the end of a first cell that lists them", first * 1e3, n=1),
    ]


def grow(tree: Path, files: int, size: int, seed: int) -> None:
    """Files of very different sizes, a hundred a directory; no two are alike."""
    chance = random.Random(seed)
    weights = [chance.lognormvariate(0, 1.5) for _ in range(files)]
    scale = size / sum(weights)
    for n, weight in enumerate(weights):
        path = tree / f"d{n // 100}" / f"f{n}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(max(1, int(weight * scale))))


def tar(tree: Path, into: Path) -> None:
    with subprocess.Popen(["tar", "cf", "-", "-C", tree, "."], stdout=subprocess.PIPE) as source:
        subprocess.run(["tar", "xf", "-", "-C", into], stdin=source.stdout, check=True)


def tar_to_disk(tree: Path, into: Path) -> None:
    """As a container's files are once they are in it."""
    tar(tree, into)
    subprocess.run(["sync", "-f", into], check=True)


def copy(tree: Path, into: Path) -> None:
    """With rsync where there is one: it, too, walks the tree, and writes each file under another name first."""
    if shutil.which("rsync"):
        subprocess.run(["rsync", "-a", f"{tree}/", into], check=True)
    else:
        shutil.copytree(tree, into, dirs_exist_ok=True)


def cell(client: OpenAI, container: str) -> None:
    code = "import os\nsum(len(files) for _, _, files in os.walk('.'))"
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
    """Into a directory that is new, and removed when the time has been taken."""
    with tempfile.TemporaryDirectory(dir=home) as into:
        return timed(lambda: act(tree, Path(into)))


def ms(seconds: Iterator[float] | list[float]) -> float:
    return median(seconds) * 1e3


def own() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.exit(main())
