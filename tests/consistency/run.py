"""One round: clients at work while gateways are harmed, then the checker. `make soak` and the suite both run it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import aiohttp
from tests.consistency.clients import Client, plan_deeds
from tests.consistency.deployment import Deployment
from tests.consistency.faults import Fault, make_faults, plan_faults
from tests.consistency.invariants import Checker
from tests.consistency.journal import Journal


async def run_round(
    deployment: Deployment,
    path: Path,
    *,
    seed: int,
    clients: int,
    steps: int,
    faults: Sequence[str],
    say: Callable[[str], None],
) -> list[str]:
    """What was found broken. The seed fixes what clients ask where and when, and what is done to the gateways."""
    plan = plan_faults(seed, clients * steps, faults)
    deeds = [plan_deeds(seed, number, steps) for number in range(clients)]
    say(f"seed {seed}: {clients} clients of {steps} deeds, journal {path}")
    for fault in plan:
        say(f"  {fault}")
    journal = Journal(path)
    try:
        broken = await _work_and_check(deployment, journal, seed, deeds, plan)
    finally:
        journal.close()
    outcomes = [one.outcome for one in journal.entries]
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in ("told", "refused", "unknown"))
    lost = deployment.sandboxes.lost + sum(one.lost for one in deployment.databases)
    say(f"  {len(outcomes)} requests: {counts}; {lost} answers lost on the way; {len(broken)} broken")
    return broken


async def _work_and_check(
    deployment: Deployment, journal: Journal, seed: int, deeds: list[list[str]], plan: Sequence[Fault]
) -> list[str]:
    over = asyncio.Event()
    shared: dict[int, str] = {}
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        harming = asyncio.create_task(make_faults(plan, deployment, journal, over))
        async with asyncio.TaskGroup() as group:
            for number, todo in enumerate(deeds):
                group.create_task(Client(number, seed, deployment, journal, session, shared).work(todo))
        over.set()
        journal.news.set()
        await harming
        await deployment.wait_until_ready()
        checker = Checker(deployment, journal, session)
        return await checker.check() + await checker.clear()
