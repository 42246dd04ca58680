"""What is done to the gateways and their store: a plan that the seed fixes, and how each fault is made."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.consistency.deployment import GATEWAYS, Deployment
from tests.consistency.journal import Journal
from tests.consistency.proxy import SYNC

KINDS = (
    "kill", "stop half", "stop two", "stop ten", "lose commit", "lose sandbox", "hold up database",
    "restart database", "stop database",
)  # fmt: skip
_LIVES = {"stop half": 0.5, "stop two": 2.0, "stop ten": 10.0, "hold up database": 2.0, "stop database": 1.5}
_COMMITS = 6
"""Answers that are lost one after the other: some are to reads."""


@dataclass(frozen=True)
class Fault:
    at: int
    """Begins when so many requests of the clients have ended."""
    kind: str
    gateway: int

    def __str__(self) -> str:
        return f"after {self.at} requests: {self.kind}, gateway {self.gateway}"


def plan_faults(seed: int, requests: int, kinds: Sequence[str]) -> list[Fault]:
    """Each of these kinds once, in any order, spread over the requests."""
    random = Random(f"faults {seed}")
    order = [*kinds]
    random.shuffle(order)
    share = requests * 0.8 / max(1, len(order))
    return [
        Fault(int((number + random.random()) * share) + 1, kind, random.randrange(GATEWAYS))
        for number, kind in enumerate(order)
    ]


async def make_faults(plan: Sequence[Fault], deployment: Deployment, journal: Journal, over: asyncio.Event) -> None:
    """Each at its time; they may go on at once. Those that are not due when all is `over` are left out."""
    async with asyncio.TaskGroup() as group:
        for fault in plan:
            while journal.finished < fault.at and not over.is_set():
                journal.news.clear()
                await journal.news.wait()
            if over.is_set():
                return
            group.create_task(_make(fault, deployment, journal))


async def _make(fault: Fault, deployment: Deployment, journal: Journal) -> None:
    journal.note(f"{fault} begins")
    life = _LIVES.get(fault.kind, 0.0) * deployment.life
    match fault.kind:
        case "kill":
            await deployment.kill(fault.gateway)
            await asyncio.sleep(deployment.life)
            await deployment.start(fault.gateway)
        case "stop half" | "stop two" | "stop ten":
            deployment.signal(fault.gateway, signal.SIGSTOP)
            await asyncio.sleep(life)
            deployment.signal(fault.gateway, signal.SIGCONT)
        case "lose commit":
            for _ in range(_COMMITS):
                deployment.databases[fault.gateway].lose_answer(SYNC)
        case "lose sandbox":
            deployment.sandboxes.lose_answer(b"POST /v1/sandboxes ")
        case "hold up database":
            deployment.databases[fault.gateway].hold_up()
            await asyncio.sleep(life)
            deployment.databases[fault.gateway].let_through()
        case "restart database":
            async with deployment.database_lock:
                await asyncio.to_thread(deployment.postgres.restart)
        case "stop database":
            async with deployment.database_lock:
                deployment.postgres.signal(signal.SIGSTOP)
                await asyncio.sleep(life)
                deployment.postgres.signal(signal.SIGCONT)
        case _:
            raise AssertionError(fault.kind)
    journal.note(f"{fault} is over")
