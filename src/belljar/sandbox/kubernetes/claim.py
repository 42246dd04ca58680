"""One claim that this process holds: what the watch says of it, and a word to all who count on its pod at its end."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from belljar.errors import Lost
from belljar.sandbox.kubernetes import claim_objects
from belljar.sandbox.kubernetes.api_client import Object
from belljar.sandbox.kubernetes.claim_objects import ClaimEnd, Pending, Ready


class Claim:
    """First wanted, then made, then ready, then ended; it may end at any point, and never goes back."""

    def __init__(
        self, name: str, container: str | None, epoch: int | None, *, deadline: float, pool: str | None = None
    ) -> None:
        self.name = name
        self.pool = pool
        """The warm pool that it is on; None where another made it."""
        self.container = container
        self.epoch = epoch
        """Under which it is held; None where it is nobody else's in any case."""
        self.passed_on = False
        """It is another's now, or left to whoever comes: it is neither renewed nor deleted here."""
        self.deadline = deadline
        """When it has to be ready, by the loop's clock."""
        self.request = secrets.token_hex(8)
        self.uid: str | None = None
        """None until it is known to have been made."""
        self.sent = False
        """It may have been made."""
        self.expires = 0.0
        """When it ends unless it is renewed, by the API server's clock."""
        self.ready: Ready | None = None
        """Its pod, once there is one. Never another: that one would be empty."""
        self.ended: ClaimEnd | None = None
        self.why = "nothing was heard of it yet"
        """Why it is not ready."""
        self._settled = asyncio.Event()
        self._on_end: list[Callable[[str], object]] = []
        self._waits: set[asyncio.Timeout] = set()

    def see(self, told: Object) -> None:
        """The watch has this to say of it."""
        uid = claim_objects.uid_of(told)
        if self.uid is None:
            if claim_objects.request_of(told) != self.request:
                return
            self.uid = uid
        if uid == self.uid and self.is_outdone(told):
            self.passed_on = True  # what has become of its sandbox is told by the server there
        elif uid != self.uid:
            self.end(ClaimEnd("Replaced", "another claim has its name"))
        elif self.ready is not None:
            if ended := claim_objects.judge_held(self.ready, told):
                self.end(ended)
        else:
            match claim_objects.read_status(told):
                case Pending(why):
                    self.why = why
                case Ready() as ready:
                    self.ready = ready
                    self._settled.set()
                case ClaimEnd() as ended:
                    self.end(ended)

    def is_outdone(self, told: Object) -> bool:
        """Another holds it, under a higher epoch."""
        known = claim_objects.epoch_of(told)
        return self.epoch is not None and known is not None and known > self.epoch

    def end(self, ended: ClaimEnd) -> None:
        """It has no pod any more, or will get none."""
        if self.ended is not None:
            return
        self.ended = ended
        self._settled.set()
        for wait in self._waits:
            wait.reschedule(0)
        for act in self._on_end:
            act(self.loss)

    @property
    def loss(self) -> str:
        """What to say of a sandbox in a pod that is gone."""
        return f"Kubernetes ended its pod ({self.ended.why if self.ended else self.why}; claim {self.name})"

    def describe_end(self) -> str:
        """Why it is held no longer, in one word."""
        if self.ended is not None:
            return self.ended.reason
        if self.passed_on:
            return "passed_on"
        return "not_ready" if self.ready is None else "released"

    def on_end(self, act: Callable[[str], object]) -> None:
        """Do this with the reason when it ends, or now if it has."""
        self._on_end.append(act)
        if self.ended is not None:
            act(self.loss)

    async def settle(self) -> None:
        """Until it is ready, or has ended."""
        await self._settled.wait()

    @asynccontextmanager
    async def while_it_lives(self) -> AsyncIterator[None]:
        """What is done here is broken off with `Lost` when the claim ends."""
        try:
            async with asyncio.timeout(0 if self.ended else None) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            if self.ended is None:
                raise
            raise Lost(f"the sandbox is gone: {self.loss}") from None
