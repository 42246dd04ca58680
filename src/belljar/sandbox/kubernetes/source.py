"""Sandboxes from a warm pool of Kubernetes, for asyncio: a claim for each, and the server in the pod that it gets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing

from belljar.config import WarmPools
from belljar.errors import Fenced, InvalidRequest, Lost, NoneFree, Refused
from belljar.sandbox import explain
from belljar.sandbox.base import Attached, SandboxHandle, Spec
from belljar.sandbox.kubernetes import claim_objects
from belljar.sandbox.kubernetes.access import ClusterAccess
from belljar.sandbox.kubernetes.api_client import ApiClient
from belljar.sandbox.kubernetes.claim import Claim
from belljar.sandbox.kubernetes.claim_objects import Ready
from belljar.sandbox.kubernetes.claims import LIFE, Claims, Kept
from belljar.sandbox.packages import Installed
from belljar.sandbox.places import Places
from belljar.sandbox.remote import RemoteSource
from belljar.sandbox.remote.blocking import LoopThread, RemoteBox
from belljar.sandbox.remote.sandbox import RemoteSandbox

_PAUSES = (0.05, 0.5)
"""Seconds before a pod that does not answer yet is asked again: the first time, and at most."""
_WORD = 3.0
"""Seconds from a pod's end, when its connections break, to the word of it in the claim's status."""
_log = logging.getLogger("belljar.sandbox.kubernetes")


class ClaimSource:
    """Gives sandboxes of the warm pools `pools`. Belongs to one event loop."""

    def __init__(
        self,
        access: ClusterAccess,
        *,
        namespace: str,
        pools: WarmPools,
        deployment: str,
        port: int = 8080,
        token: str | None = None,
        patience: float = 30.0,
        most: int = 256,
        kept: Kept | None = None,
    ) -> None:
        """`deployment` is the same for gateways that share a store, and for no others; `kept` tells which of its claims
        are named by a container, and is None where there is one gateway alone. `patience` is how many seconds a sandbox
        may take. `port` and `token` are those of the servers in the pods.
        """
        self.packages: tuple[Installed, ...] = ()
        """The exact list of the data stack in a pod, once one has been looked at."""
        self.isolation: str | None = None
        """What keeps code apart there, in its own words; None before any was asked."""
        self._api = ApiClient(access)
        self.claims = Claims(self._api, namespace=namespace, deployment=deployment, patience=patience, kept=kept)
        self._pools = pools
        self._port, self._token = port, token
        self._patience, self._most = patience, most
        self._places = Places(most)
        self._access, self._deployment, self._kept = access, deployment, kept

    @property
    def problem(self) -> str | None:
        """Why there may be no sandboxes to be had, as far as the watch over the claims knows."""
        trouble = self.claims.watch.problem
        return None if trouble is None else f"the API server at {self._api.url} does not answer as it should: {trouble}"

    async def prepare(self) -> None:
        """Claim a sandbox of each pool, learn what its server has, and give it up: what is not set up right shows here.

        `BadSettings` for what will not change by itself, `Refused` for what may. A full house is none of it: what is in
        the pods is then learnt from the first.
        """
        await self.claims.check()
        for pool in self._pools.names:
            with contextlib.suppress(NoneFree):
                async with self._places.wait(0.0), self.claims.hold(_new_name(), pool) as claim:
                    ready = await self.claims.wait(claim)
                    async with self._server(claim, ready) as remote:
                        await self._learn(remote)

    @asynccontextmanager
    async def acquire(
        self,
        spec: Spec,
        *,
        epoch: int | None = None,
        wait: float = 0.0,
        container: str | None = None,
        name: str | None = None,
    ) -> AsyncIterator[RemoteSandbox]:
        """A sandbox in a pod of its own; claim and pod are gone when the context ends, unless it was passed on.

        `name` is the claim's, if it is not made of the container's. `wait` is for a place among those that there may be
        of this gateway's; a claim is waited for as long as it may take. The pool is the smallest with enough memory.
        """
        pool = self._choose_pool(spec.limits.memory)
        if name is None and container is not None and epoch is not None:
            name = claim_objects.name_for(container, epoch)
        async with self._places.wait(wait), self.claims.hold(name or _new_name(), pool, container, epoch) as claim:
            ready = await self.claims.wait(claim)
            async with self._server(claim, ready) as remote, AsyncExitStack() as stack:
                async with claim.while_it_lives():
                    if self.isolation is None:
                        await self._learn(remote)
                    sandbox = await stack.enter_async_context(remote.lease(spec, epoch=epoch))
                async with _watched(claim, sandbox):
                    yield sandbox

    @asynccontextmanager
    async def attach(self, handle: SandboxHandle, epoch: int) -> AsyncIterator[Attached]:
        """A sandbox that another had, with its claim and its pod, for as long as the context lasts."""
        place = claim_objects.read_place(handle.url)
        if place is None or place[0] != self.claims.namespace:
            raise Lost(
                f"the sandbox {handle.id} is of {handle.url}, and not of a claim in the namespace "
                f"{self.claims.namespace!r}; make a new one"
            )
        async with self._places.wait(0.0), self.claims.take_over(place[1], place[2], epoch) as claim:
            assert claim.ready is not None
            async with self._server(claim, claim.ready) as remote, AsyncExitStack() as stack:
                async with claim.while_it_lives():
                    try:
                        attached = await stack.enter_async_context(remote.attach(handle, epoch))
                    except Fenced:
                        claim.passed_on = True
                        raise
                assert isinstance(attached.sandbox, RemoteSandbox)
                async with _watched(claim, attached.sandbox):
                    yield attached

    async def close(self) -> None:
        await self.claims.close()
        await self._api.close()

    # -- for callers without await --------------------------------------------------------------------------------

    def hold(self, spec: Spec) -> RemoteBox:
        """A sandbox for callers without await, with connections and a thread of its own."""
        return RemoteBox(self._again, spec)

    def learn(self) -> None:
        """`prepare` for callers without await."""

        async def ask() -> ClaimSource:
            other = self._again()
            try:
                await other.prepare()
            finally:
                await other.close()
            return other

        with closing(LoopThread()) as loop:
            other = loop.run(ask())
        self.packages, self.isolation = other.packages, other.isolation

    def _again(self) -> ClaimSource:
        """The same for another event loop."""
        return ClaimSource(
            self._access,
            namespace=self.claims.namespace,
            pools=self._pools,
            deployment=self._deployment,
            port=self._port,
            token=self._token,
            patience=self._patience,
            most=self._most,
            kept=self._kept,
        )

    def shut(self) -> None:
        """Nothing is left of what `hold` gave."""

    def _choose_pool(self, memory: int) -> str:
        pool = self._pools.choose(memory)
        if pool is None:
            raise InvalidRequest(
                f"memory: {explain.size(memory)} (a container's memory_limit) is more than any warm pool has, "
                f"{self._pools}; ask for {self._pools.tiers[-1]} or less, or add one to sandbox_warm_pool",
                param="memory",
            )
        return pool

    # -- a pod ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _server(self, claim: Claim, ready: Ready) -> AsyncIterator[RemoteSource]:
        """The server in the pod of a claim that is ready."""
        claim.on_end(lambda why: self.claims.delete_soon(claim))
        remote = self._remote(claim, ready)
        try:
            async with claim.while_it_lives():
                await self._meet(ready, remote, claim.deadline)
            _log.debug("claim %s: pod %s, %s", claim.name, ready.pod, ready.launch)
            yield remote
        finally:
            await remote.close()

    def _remote(self, claim: Claim, ready: Ready) -> RemoteSource:
        assert claim.uid is not None
        address = next((one for one in ready.addresses if ":" not in one), f"[{ready.addresses[0]}]")
        return RemoteSource(
            f"http://{address}:{self._port}",
            token=self._token,
            patience=self._patience,
            keep=LIFE,  # the pod is nobody else's, and its claim ends when nobody renews it
            place=claim_objects.write_place(self.claims.namespace, claim.name, claim.uid),
            remedy=f"pod {ready.pod} must run `belljar sandbox --host 0.0.0.0 --port {self._port}`, and the network "
            "policy of its template let the gateway in",
        )

    async def _meet(self, ready: Ready, remote: RemoteSource, deadline: float) -> None:
        """Wait for the server, and make sure that it is the one in this pod: addresses are used again."""
        loop = asyncio.get_running_loop()
        pause, longest = _PAUSES
        while True:
            try:
                told = await remote.look()
                found = told.get("pod_name")
                if found == ready.pod:
                    return
                whose = "does not say which pod it is in" if found is None else f"is that of pod {found}"
                raise Refused(
                    f"the sandbox server at {remote.url} {whose}, and the claim is on pod {ready.pod}; its template "
                    "must set POD_NAME from metadata.name"
                )
            except Refused:
                if loop.time() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _learn(self, remote: RemoteSource) -> None:
        await remote.prepare()
        self.packages, self.isolation = remote.packages, remote.isolation


def _new_name() -> str:
    return f"bj-{secrets.token_hex(10)}"


@asynccontextmanager
async def _watched(claim: Claim, sandbox: RemoteSandbox) -> AsyncIterator[None]:
    """While it is in use: it is told of its pod's end, and its claim is left where it is passed on."""
    claim.on_end(sandbox.watched(word=_WORD))
    try:
        yield
    finally:
        claim.passed_on |= sandbox.passed_on
