"""Three gateways over one PostgreSQL, with one sandbox server: real processes, each of which can be harmed."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from tests.consistency.proxy import Proxy
from tests.gateway.houses import House
from tests.gateway.test_sandbox_url import Server
from tests.helpers.forked import Forked
from tests.helpers.postgres import Postgres

GATEWAYS = 3
AHEAD = 2
"""The gateway whose clock is five minutes ahead."""
_SOCKET = ".s.PGSQL.5432"
_CLOCK = """
import sys, time
now = time.time
time.time = lambda: now() + 300
from belljar.cli import main
sys.exit(main())
"""
PATIENCE = 60.0


class _Gateway(House):
    """Without the guard over its loop, which would take a stopped process for one that blocks."""

    def __init__(self, *args: Any, ahead: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ahead = ahead

    def start(self, **options: Any) -> subprocess.Popen[str]:
        if not self._ahead:
            return Forked(*self.command, stdin=subprocess.DEVNULL, **options)
        # A real start: what was imported before the clock is changed would keep the right one.
        command = [sys.executable, "-c", _CLOCK, *self.command]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True, **options)


class Deployment:
    def __init__(self, home: Path, postgres: Postgres, life: float, sandboxes: int) -> None:
        self.home = home
        self.life = life
        """Seconds of silence after which a gateway is taken for dead."""
        self.postgres = postgres
        self._sandboxes = sandboxes
        self._short = Path(tempfile.mkdtemp(prefix="belljar-check-"))
        """For sockets, whose names are short."""
        self.urls: list[str | None] = [None] * GATEWAYS
        """Where each listens; None while it does not."""
        self._houses: list[House | None] = [None] * GATEWAYS
        self.databases: list[Proxy] = []
        """Between each gateway and PostgreSQL."""
        self.database_lock = asyncio.Lock()
        """One harm to PostgreSQL at a time."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Deployment]:
        """From the start of all to the end of all."""
        server = Server(self._short, "--socket", str(self._short / "s.sock"), "--max-sandboxes", str(self._sandboxes))
        self.database = await self.postgres.make_database()
        await asyncio.to_thread(server.__enter__)
        self.sandboxes = Proxy(self._short / "p.sock", self._short / "s.sock")
        proxies = [self.sandboxes]
        try:
            for number in range(GATEWAYS):
                place = self._short / str(number)
                place.mkdir()
                proxies.append(Proxy(place / _SOCKET, self.postgres.place / _SOCKET, database=True))
            self.databases = proxies[1:]
            for proxy in proxies:
                await proxy.start()
            await asyncio.gather(*(self.start(number) for number in range(GATEWAYS)))
            yield self
        finally:
            await asyncio.gather(*(self.end(number) for number in range(GATEWAYS)))
            for proxy in proxies:
                await proxy.close()
            await asyncio.to_thread(server.__exit__)
            shutil.rmtree(self._short)

    async def start(self, number: int) -> None:
        address = self.postgres.address(self.database).replace(str(self.postgres.place), str(self._short / str(number)))
        environment = {
            "BELLJAR_DATABASE": address,
            "BELLJAR_GATEWAY_TIMEOUT": str(self.life),
            "BELLJAR_CONTAINER_MINUTES": "2",
            "BELLJAR_CLAIM_TIMEOUT": "10",
            "BELLJAR_DRAIN": "1",
        }
        house = _Gateway(
            self.home / "state",
            "--sandbox-url",
            f"unix://{self._short}/p.sock",
            ahead=number == AHEAD,
            environment=environment,
        )
        house.log = self.home / f"gateway-{number}.log"
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            try:
                await asyncio.to_thread(house.__enter__)
                break
            except AssertionError:  # PostgreSQL is away at the moment: then a gateway does not start, and says so
                if asyncio.get_running_loop().time() > deadline:
                    raise
        self._houses[number] = house
        self.urls[number] = house.url

    async def end(self, number: int) -> None:
        house, self._houses[number], self.urls[number] = self._houses[number], None, None
        if house is not None:
            house.process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(house.__exit__)

    async def kill(self, number: int) -> None:
        house, self._houses[number], self.urls[number] = self._houses[number], None, None
        if house is not None:
            await asyncio.to_thread(house.kill)

    def signal(self, number: int, which: signal.Signals) -> None:
        if (house := self._houses[number]) is not None:
            os.kill(house.process.pid, which)

    async def wait_until_ready(self) -> None:
        """Until every gateway says that it can be asked."""
        async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
            for number in range(GATEWAYS):
                while not await _is_ready(session, self.urls[number]):  # noqa: ASYNC110 - of another process
                    await asyncio.sleep(0.1)

    async def list_sandboxes(self) -> list[dict[str, Any]]:
        connector = aiohttp.UnixConnector(str(self._short / "s.sock"))
        url = "http://sandbox/v1/sandboxes"
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as answer:
            found: list[dict[str, Any]] = (await answer.json())["sandboxes"]
            return found


async def _is_ready(session: aiohttp.ClientSession, url: str | None) -> bool:
    try:
        async with session.get(f"{url}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, ValueError):
        return False
