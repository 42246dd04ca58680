"""One watch over all claims of a deployment: a mirror of them, and a word to whoever waits for one of them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping

from belljar.sandbox.kubernetes import claim_objects
from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError, ApiUnreachable, Object

_WATCH = 240
"""Seconds of one watch; the server ends it then, and the next goes on from where it was."""
_PAUSES = (0.1, 2.0)
"""Seconds before the first try to watch again, and at most before any other."""
_BRIEF = 1.0
"""A watch that ends sooner than this is not begun again at once."""
_log = logging.getLogger("belljar.sandbox.kubernetes")


class ClaimWatch:
    """Lists and watches for as long as `run` does; `see` and `lose` are told of every change, in order."""

    def __init__(
        self,
        api: ApiClient,
        path: str,
        selector: str,
        *,
        see: Callable[[Object], None],
        lose: Callable[[str, str], None],
        held: Callable[[], Mapping[str, str]],
    ) -> None:
        """`lose` is told name and uid of a claim that is gone; `held` tells the uids, by name, of those once made."""
        self.mirror: dict[str, Object] = {}
        self.answered = asyncio.Event()
        """The mirror has been whole once, or was refused."""
        self.problem: str | None = None
        """Why there is no watch now."""
        self.refusal: ApiError | None = None
        """What the server said to it, where that will not change by itself."""
        self.restarts = 0
        self._api, self._path, self._selector = api, path, selector
        self._see, self._lose, self._held = see, lose, held
        self._version: str | None = None
        """Of the last change that was seen."""

    async def run(self) -> None:
        """For ever. A watch that breaks is taken up where it was, or with a new list if the server has forgotten."""
        pause, longest = _PAUSES
        while True:
            begun = time.monotonic()
            asked = None
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._follow()
            except ApiError as error:
                self._version = None
                if error.status != 410:  # which says only that it was too long ago
                    asked = error.retry_after
                    self._note(error)
            except ApiUnreachable as error:
                self._note(error)
            self.restarts += 1
            lasting = time.monotonic() - begun > _BRIEF
            if not lasting or self.problem is not None:
                await asyncio.sleep(asked or pause * random.uniform(0.5, 1.0))
            pause = _PAUSES[0] if lasting else min(2 * pause, longest)

    def _note(self, error: ApiError | ApiUnreachable) -> None:
        self.refusal = error if isinstance(error, ApiError) and not error.passing else None
        if str(error) != self.problem:
            _log.warning("the watch over sandbox claims at %s broke: %s", self._api.url, error)
        self.problem = str(error)
        if self.refusal is not None:
            self.answered.set()

    async def _list(self) -> str:
        held = dict(self._held())  # before we ask: a claim that is made meanwhile may not be in the answer
        told = await self._api.ask("GET", self._path, query={"labelSelector": self._selector})
        found = {claim_objects.name_of(one): one for one in told.get("items") or ()}
        for name, uid in {**held, **{name: claim_objects.uid_of(one) for name, one in self.mirror.items()}}.items():
            if name not in found or claim_objects.uid_of(found[name]) != uid:
                self._lose(name, uid)
        self.mirror = found
        for one in found.values():
            self._see(one)
        self.answered.set()
        return str(told["metadata"]["resourceVersion"])

    async def _follow(self) -> None:
        """Until the server ends it, or it breaks."""
        query = {"labelSelector": self._selector, "resourceVersion": str(self._version)}
        seconds = int(_WATCH * random.uniform(0.75, 1.25))  # so that many gateways do not all come back at once
        async with self._api.watch(self._path, query, seconds=seconds) as events:
            self.problem = self.refusal = None
            async for event in events:
                one = event["object"]
                match event["type"]:
                    case "ADDED" | "MODIFIED":
                        self.mirror[claim_objects.name_of(one)] = one
                        self._see(one)
                    case "DELETED":
                        self.mirror.pop(claim_objects.name_of(one), None)
                        self._lose(claim_objects.name_of(one), claim_objects.uid_of(one))
                self._version = str(one["metadata"]["resourceVersion"])  # once it has been told, and not before
