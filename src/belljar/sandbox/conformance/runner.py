"""Run all checks of a server, one after the other, and report the outcome of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp

from belljar.sandbox.conformance import execution, holding, port
from belljar.sandbox.conformance.wire import CheckedServer, CheckFailed, connect

Check: TypeAlias = Callable[[CheckedServer], Awaitable[None]]

PATIENCE = 60.0
"""Seconds for one check; none needs ten."""
STARTING = 30.0
"""Seconds that a server may answer 503 before it is asked anything else."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How one check went."""

    check: str
    problem: str | None
    """What was expected and what came; None where all is well."""
    seconds: float

    @property
    def ok(self) -> bool:
        return self.problem is None


def choose_checks(*, execute_only: bool) -> Sequence[Check]:
    return execution.CHECKS if execute_only else (*execution.CHECKS, *port.CHECKS, *holding.CHECKS)


async def conform(url: str, checks: Sequence[Check], token: str | None = None) -> AsyncIterator[CheckOutcome]:
    """Outcomes as they come, once the server has started.

    `OSError` or `aiohttp.ClientError` if nobody answers at all, `ValueError` if `url` is not an address.
    """
    async with connect(url, token) as server:
        await _wait_until_started(server)
        for one in checks:
            yield await _outcome(one, server)


async def _wait_until_started(server: CheckedServer) -> None:
    """One that does not start is told by its first check."""
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        if (await server.ask("GET", "/health")).status != 503:
            return
        await asyncio.sleep(0.1)


async def _outcome(one: Check, server: CheckedServer) -> CheckOutcome:
    begun = time.monotonic()
    problem = None
    try:
        async with asyncio.timeout(PATIENCE):
            await one(server)
    except CheckFailed as error:
        problem = str(error)
    except TimeoutError:
        problem = f"expected an answer, came none within {PATIENCE:g} s"
    except (aiohttp.ClientError, OSError) as error:
        problem = f"expected an answer, came a connection that broke ({type(error).__name__}: {error})"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        problem = f"expected an answer of another shape, came one that cannot be used ({error!r})"
    name = (one.__doc__ or one.__name__).strip()
    return CheckOutcome(name, problem, time.monotonic() - begun)
