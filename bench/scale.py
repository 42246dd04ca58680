"""Measure what several gateways cost against one, and what a claimed pod costs against a sandbox server's address.

`.venv/bin/python bench/scale.py`, or with `--quick`. One gateway with its own jail and two workers over a sandbox
server run side by side and are asked in turns, so that a busy minute is busy for both; all that is below each counts,
the jail too. Bars: bench/scale_bars.toml. The built-in model answers, so that no other server is measured with them.

`claim` is apart from these: the time from asking for a sandbox to its first result, by a claim on a warm pool and
straight from the sandbox server that the pods share, in turns. The API server is that of the tests, and so are those
that stand in for agent-sandbox's controller and the kubelet, in the same process: no cluster's own times are in it.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kubernetes.cluster import Cluster, access, eventually

from belljar.config import read_warm_pools
from belljar.sandbox.base import Cell, SandboxSource, Spec
from belljar.sandbox.kubernetes import ClaimSource
from belljar.sandbox.outputs import fold
from belljar.sandbox.remote import RemoteSource
from bench import reporting, table
from bench.processes import descendants, spent
from bench.reporting import say

SCRIPT = Path(__file__).name
BARS = Path(__file__).with_name("scale_bars.toml")
MEASURES = ("plain", "code", "wrong", "claim")
_LANES = 16


class House:
    """`belljar serve` with so many workers, and connections to it, which the kernel spreads over them."""

    def __init__(self, stack: ExitStack, workers: int) -> None:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        program = str(Path(sys.executable).with_name("belljar"))
        flags = ["--port", "0", "--json", "--packages", "none", "--no-discover", "--state-dir", f"{home}/state"]
        self._process = subprocess.Popen(
            [program, "serve", "--workers", str(workers), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "BELLJAR_CACHE_DIR": f"{home}/cache"},
        )
        stack.callback(self._process.wait)
        stack.callback(self._process.terminate)
        assert self._process.stdout is not None
        self._port = int(json.loads(self._process.stdout.readline())["url"].rsplit(":", 1)[1])
        self.lanes = [self.connect() for _ in range(_LANES)]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port)

    def cpu(self) -> float:
        """Seconds of all that is part of it and still there; what ended meanwhile is lost to both alike."""
        found = spent(self._process.pid)
        for one in descendants(self._process.pid):
            try:
                found += spent(one.pid)
            except OSError:  # gone since
                continue
        return found


def ask(lane: http.client.HTTPConnection, body: dict[str, Any]) -> dict[str, Any]:
    lane.request(
        "POST", "/v1/responses", json.dumps({"model": "belljar", **body}), {"content-type": "application/json"}
    )
    answer = lane.getresponse()
    told: dict[str, Any] = json.loads(answer.read())
    assert answer.status == 200, told
    assert told["status"] == "completed", told
    return told


def open_container(lane: http.client.HTTPConnection) -> str:
    """One whose sandbox is held by the gateway that this connection leads to."""
    told = ask(lane, {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}], "input": "x = 1"})
    return next(str(one["container_id"]) for one in told["output"] if one["type"] == "code_interpreter_call")


def run_cell(lane: http.client.HTTPConnection, container: str) -> None:
    ask(lane, {"tools": [{"type": "code_interpreter", "container": container}], "input": "x += 1\nprint(x)"})


def cost(house: House, count: int, act: Callable[[int], object]) -> float:
    """Microseconds of one, of several that come one after the other."""
    before = house.cpu()
    for number in range(count):
        act(number)
    return (house.cpu() - before) / count * 1e6


def cost_at_once(house: House, count: int, act: Callable[[int], object]) -> float:
    """Microseconds of one, where as many are under way as there are connections; `act` gets the connection's number."""

    def drive(lane: int) -> None:
        for _ in range(count // _LANES):
            act(lane)

    before = house.cpu()
    with ThreadPoolExecutor(_LANES) as pool:
        list(pool.map(drive, range(_LANES)))
    return (house.cpu() - before) / (count // _LANES * _LANES) * 1e6


def compare(turns: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    pairs = [(ours(), theirs()) for _ in range(turns)]
    return median(one for one, _ in pairs), median(other for _, other in pairs)


def row(name: str, what: str, found: tuple[float, float], against: str, n: int) -> table.Row:
    value, floor = found
    return table.Row(name, what, value, "us", value / floor, f"{against}, {floor:,.0f} us", n)


def measure(one: House, two: House, wanted: list[str], turns: int, count: int) -> list[table.Row]:
    rows = []
    plain = {"input": "hello there, how are you?"}

    def plain_at(house: House) -> Callable[[], float]:
        return lambda: cost_at_once(house, count, lambda n: ask(house.lanes[n], plain))

    def code_at(house: House) -> Callable[[], float]:
        held = [open_container(lane) for lane in house.lanes]
        return lambda: cost_at_once(house, count // 2, lambda n: run_cell(house.lanes[n], held[n]))

    for house in (one, two):
        cost(house, 50, lambda n, house=house: ask(house.lanes[n % _LANES], plain))  # type: ignore[misc]
    if "plain" in wanted:
        found = compare(turns, plain_at(two), plain_at(one))
        rows.append(row("workers-plain", "a plain call, two workers", found, "one gateway", turns * count))
    if "code" in wanted:
        found = compare(turns, code_at(two), code_at(one))
        rows.append(row("workers-code", "a cell, two workers", found, "one gateway", turns * count // 2))
    if "wrong" in wanted:
        rows.append(measure_wrong(two, turns, count // 2))
    return rows


def measure_wrong(house: House, turns: int, count: int) -> table.Row:
    """Cells of one container by two connections in turn, so that each lands where the one before was not.

    Which worker a connection leads to is the kernel's to say: of several, the dearest pair leads to two.
    """
    near, *others = house.lanes
    held = open_container(near)

    def alternate(far: http.client.HTTPConnection, times: int) -> float:
        return cost(house, times, lambda n: run_cell((near, far)[n % 2], held))

    trials = [median(alternate(far, 40) for _ in range(3)) for far in others[:5]]
    far = others[trials.index(max(trials))]
    found = compare(turns, lambda: alternate(far, count), lambda: cost(house, count, lambda n: run_cell(near, held)))
    what = "a cell asked of the worker that did not run the one before"
    return row("wrong-gateway", what, found, "one that did", turns * count)


async def time_first_result(source: SandboxSource) -> float:
    """Milliseconds from asking for a sandbox to the result of its first cell."""
    began = time.perf_counter()
    async with source.acquire(Spec()) as sandbox:
        found = fold([output async for output in sandbox.run(Cell("6 * 7"))])
        took = time.perf_counter() - began
        assert found.text == "42", found
    return took * 1e3


async def measure_claim(times: int) -> table.Row:
    with tempfile.TemporaryDirectory() as home:
        async with Cluster("fake", Path(home)).running() as cluster:
            space = await cluster.namespace()
            await space.pool(replicas=1)
            direct = RemoteSource(f"unix://{cluster.shared.socket}")
            claimed = ClaimSource(
                access(cluster.server),
                namespace=space.name,
                pools=read_warm_pools("pool"),
                deployment="bench",
                port=cluster.port,
            )
            try:
                await direct.prepare()
                await claimed.prepare()
                launches: list[str] = []
                claimed.claims.events.ready = lambda seconds, launch: launches.append(launch)
                pairs = []
                for _ in range(times):
                    await eventually(lambda: space.ready("pool", 1), "a pod waits in the pool")
                    pairs.append((await time_first_result(claimed), await time_first_result(direct)))
            finally:
                await claimed.close()
                await direct.close()
                await space.clear()
    value, floor = median(one for one, _ in pairs), median(other for _, other in pairs)
    what = "from a claim to the first result"
    against, note = f"the sandbox server's address, {floor:,.0f} ms", f"{launches.count('warm')} of them warm"
    return table.Row("claim", what, value, "ms", value / floor, against, times, note)


def main() -> int:
    chosen = reporting.parse(reporting.parser(SCRIPT, (__doc__ or "").partition("\n")[0], MEASURES))
    load, busy = reporting.look(chosen)
    bars = table.read_bars(BARS.read_text())
    wanted = chosen.only or list(MEASURES)
    rows: list[table.Row] = []
    if set(wanted) != {"claim"}:
        with ExitStack() as stack:
            one, two = House(stack, 1), House(stack, 2)
            say("measuring")
            turns, count = (3, 100) if chosen.quick else (7, 400)
            rows += measure(one, two, wanted, turns, count)
    if "claim" in wanted:
        say("measuring claims")
        rows.append(asyncio.run(measure_claim(10 if chosen.quick else 50)))
    return reporting.report(chosen, SCRIPT, reporting.machine(load), rows, bars, busy=busy)


if __name__ == "__main__":
    sys.exit(main())
