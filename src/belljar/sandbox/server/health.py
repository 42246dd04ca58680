"""How the server is: starting until the jail is there, healthy, stopping, or failed and why."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import TYPE_CHECKING

from aiohttp import web

from belljar import __version__, config
from belljar.errors import Refused
from belljar.sandbox.codec import API, Told
from belljar.sandbox.server.http import answer

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource


class Health:
    """What is to be said of the server, and whether requests may go ahead."""

    def __init__(self, source: LocalSource, *, capacity: int) -> None:
        self.isolation: str | None = None
        """What keeps code apart on this host, once that is known."""
        self.stopping = False
        self._source = source
        self._capacity = capacity
        self._since = time.monotonic()
        self._prepared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def prepared(self) -> None:
        self._prepared.set_result(None)

    def failed(self, error: BaseException) -> None:
        """Those who wait for the jail are told too."""
        self._prepared.set_exception(Refused(f"the sandbox server did not start: {error}"))
        self._prepared.exception()  # looked at, so asyncio does not complain

    async def wait(self) -> None:
        """Until the jail is there."""
        await asyncio.shield(self._prepared)

    def answer(self) -> web.Response:
        status, error = self._status()
        pod = config.variables("POD_NAME", "POD_UID")
        told: Told = {
            "status": status,
            "mode": "python",
            "runtime_version": platform.python_version(),
            "capacity": self._capacity,
            "current_load": self._source.in_use,
            "uptime_seconds": int(time.monotonic() - self._since),
            "belljar": __version__,
            "api": API,
            "isolation": self.isolation,
            "spare": self._source.spare,
            **{name.lower(): value for name, value in pod.items()},
        }
        return answer(200 if status == "healthy" else 503, told if error is None else {**told, "error": error})

    def _status(self) -> tuple[str, str | None]:
        if self.stopping:
            return "stopping", None
        if not self._prepared.done():
            return "starting", None
        error = self._prepared.exception()
        return ("healthy", None) if error is None else ("failed", str(error))
