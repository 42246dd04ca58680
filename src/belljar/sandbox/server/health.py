"""How the server is: starting until the jail is there, healthy, stopping, or failed and why."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from belljar import __version__, config
from belljar.errors import Refused
from belljar.http_server.reply import Answer, Reply
from belljar.sandbox.codec import API, OLDEST_API, encode_json
from belljar.sandbox.server.wording import AGAIN

if TYPE_CHECKING:
    from belljar.sandbox.local.source import LocalSource


class HealthReport(Struct, frozen=True, kw_only=True):
    """How the server is, what it has, and how much of it is in use."""

    status: Literal["healthy", "starting", "stopping", "failed"]
    mode: str
    runtime_version: str
    capacity: int
    current_load: int
    uptime_seconds: int
    belljar: str
    api: int
    api_oldest: int
    isolation: str | None
    spare: int
    pod_name: str | UnsetType = UNSET
    pod_uid: str | UnsetType = UNSET
    error: str | UnsetType = UNSET


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

    def answer(self) -> Answer:
        report = self._report()
        told = {name: value for name, value in msgspec.structs.asdict(report).items() if value is not UNSET}
        data = encode_json(told)  # what the host told may not be Unicode
        return Reply(200, data) if report.status == "healthy" else Reply(503, data, headers=AGAIN)

    def _report(self) -> HealthReport:
        status, error = self._status()
        pod = config.variables("POD_NAME", "POD_UID")
        return HealthReport(
            status=status,
            mode="python",
            runtime_version=platform.python_version(),
            capacity=self._capacity,
            current_load=self._source.in_use,
            uptime_seconds=int(time.monotonic() - self._since),
            belljar=__version__,
            api=API,
            api_oldest=OLDEST_API,
            isolation=self.isolation,
            spare=self._source.spare,
            pod_name=pod.get("POD_NAME", UNSET),
            pod_uid=pod.get("POD_UID", UNSET),
            error=error,
        )

    def _status(self) -> tuple[Literal["healthy", "starting", "stopping", "failed"], str | UnsetType]:
        if self.stopping:
            return "stopping", UNSET
        if not self._prepared.done():
            return "starting", UNSET
        error = self._prepared.exception()
        return ("healthy", UNSET) if error is None else ("failed", str(error))
