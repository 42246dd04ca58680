"""The claims of one gateway: made or taken over, renewed while they are held, deleted; and those that nobody names.

A claim may be held under an epoch, as the sandbox in its pod is (decision 0035). Whoever takes it over writes a higher
one into it, and whoever deletes it deletes it as it was when its own epoch stood there: a gateway that was stopped and
goes on cannot delete what another has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from belljar.errors import BadSettings, BelljarError, Fenced, Lost, NoneFree, Refused
from belljar.sandbox.base import SandboxHandle
from belljar.sandbox.kubernetes import claim_objects
from belljar.sandbox.kubernetes.api_client import ApiClient, ApiError, ApiUnreachable, Object
from belljar.sandbox.kubernetes.claim import Claim
from belljar.sandbox.kubernetes.claim_objects import ClaimEnd, Ready
from belljar.sandbox.kubernetes.claim_watch import ClaimWatch
from belljar.sandbox.remote.lease import settle

LIFE = 600.0
"""Seconds that a claim lives on when nobody renews it: its gateway is gone, or cannot reach the API server."""
_RENEW = 30.0
"""Seconds between two looks for claims to renew. One is renewed when half its life is over."""
_REAP = 60.0
"""Seconds between two looks for claims that nobody names."""
_YOUNG = 120.0
"""Seconds before a claim that nobody names counts as forgotten: until then it may be about to be named."""
_AT_ONCE = 16
"""Requests of housekeeping at a time."""
_PAUSES = (0.1, 2.0)
"""Seconds before a request that failed is tried again: the first time, and at most."""
_END = 10.0
"""Seconds that whoever gives a claim up waits until it is deleted. Then that goes on without them."""
_LATER = 15.0
"""Seconds at most before deleting is tried again."""
_log = logging.getLogger("belljar.sandbox.kubernetes")

Kept: TypeAlias = Callable[[Collection[str]], Awaitable[Mapping[str, tuple[int | None, SandboxHandle | None]]]]
"""Of these containers, those that are there: the epoch under which one is held now, and the sandbox that it has."""


@dataclass(slots=True)
class ClaimEvents:
    """Who is told what becomes of claims: for metrics."""

    made: Callable[[], object] = lambda: None
    ready: Callable[[float, str], object] = lambda seconds, launch: None
    """How long it took, and whether the pod was `warm` or `cold`."""
    ended: Callable[[str], object] = lambda reason: None
    """`released`, `passed_on`, `not_ready`, or in the words of the claim's status."""


class Claims:
    """Those in one namespace, for one deployment. Belongs to an event loop."""

    def __init__(
        self,
        api: ApiClient,
        *,
        namespace: str,
        deployment: str,
        patience: float,
        kept: Kept | None = None,
        life: float = LIFE,
    ) -> None:
        """`patience` is how many seconds a claim has to become ready.

        `kept` tells which claims of the deployment somebody counts on; None where nobody else makes such: then all that
        are not held here are of one that was here before.
        """
        self.namespace = namespace
        self._patience = patience
        self._api = api
        self._deployment = deployment
        self._kept = kept
        self._life = life
        self.events = ClaimEvents()
        self._held: dict[str, list[Claim]] = {}
        """By name. One that is taken over here, from here, is there twice for a moment."""
        self._loops: set[asyncio.Task[None]] = set()
        self._endings: set[asyncio.Task[None]] = set()
        selector = f"{claim_objects.DEPLOYMENT}={deployment}"
        self.watch = ClaimWatch(api, self._path(), selector, see=self._see, lose=self._lose, held=self._made)

    @property
    def waiting(self) -> int:
        """Those that have no pod yet."""
        return sum(one.ready is None for held in self._held.values() for one in held)

    def _path(self, name: str | None = None) -> str:
        return claim_objects.path_of(self.namespace, name)

    # -- what the watch says -------------------------------------------------------------------------------------

    def _see(self, told: Object) -> None:
        for held in tuple(self._held.get(claim_objects.name_of(told), ())):
            held.see(told)

    def _lose(self, name: str, uid: str) -> None:
        for held in tuple(self._held.get(name, ())):
            if held.uid == uid:
                held.end(ClaimEnd("Deleted", "somebody or something deleted the claim, or its time was over"))

    def _made(self) -> dict[str, str]:
        return {name: one.uid for name, held in self._held.items() for one in held if one.uid is not None}

    # -- one claim ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def hold(
        self, name: str, pool: str, container: str | None = None, epoch: int | None = None
    ) -> AsyncIterator[Claim]:
        """A claim that is made here and deleted at the end, whatever happens, unless it is passed on."""
        async with self._held_here(Claim(name, container, epoch, deadline=self._deadline(), pool=pool)) as claim:
            async with self._in_time(claim):
                await self._meet_server()
                await self._make(claim)
            yield claim

    @asynccontextmanager
    async def take_over(self, name: str, uid: str, epoch: int) -> AsyncIterator[Claim]:
        """A claim that another made, with the pod that it has; deleted at the end, unless it is passed on.

        `Fenced` where it was taken over with this epoch or a higher one, `Lost` where it or its pod is gone.
        """
        claim = Claim(name, None, epoch, deadline=self._deadline())
        claim.uid = uid
        async with self._held_here(claim):
            async with self._in_time(claim):
                await self._meet_server()
                found = await self._take(claim)
            claim.sent = True
            self._see(found)
            if claim.ready is None:  # the controller may put another in its place, which is empty
                raise Lost(f"the pod of the claim {name} is gone: {claim.ended.why if claim.ended else claim.why}")
            yield claim

    @asynccontextmanager
    async def _held_here(self, claim: Claim) -> AsyncIterator[Claim]:
        self._start()
        self._held.setdefault(claim.name, []).append(claim)
        try:
            yield claim
        finally:
            self._held[claim.name].remove(claim)
            if not self._held[claim.name]:
                del self._held[claim.name]
            self.events.ended(claim.describe_end())
            await settle(self._end(claim), _END + 1)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._patience

    async def _meet_server(self) -> None:
        """Until the server's time is known."""
        await self.watch.answered.wait()
        if self.watch.refusal is not None:
            raise self.explain(self.watch.refusal)

    async def _take(self, claim: Claim) -> Object:
        """Write our epoch into it, if it has none that is as high. The claim as it is then."""
        assert claim.epoch is not None
        pauses = _growing()
        while True:
            try:
                found = await self._api.ask("GET", self._path(claim.name))
                if claim_objects.uid_of(found) != claim.uid:
                    raise Lost(f"the claim {claim.name} is gone, and another has its name")
                if claim_objects.request_of(found) == claim.request:  # we have, and the answer was lost
                    return found
                known = claim_objects.epoch_of(found)
                if known is None or known >= claim.epoch:
                    raise Fenced(f"the claim {claim.name} is held under epoch {known}, and not under {claim.epoch}")
                claim.expires = self._api.now() + self._life
                taking = claim_objects.taking(found, epoch=claim.epoch, request=claim.request, shutdown=claim.expires)
                return await self._api.ask("PATCH", self._path(claim.name), taking)
            except ApiUnreachable as error:
                claim.why = str(error)
                await asyncio.sleep(next(pauses))
            except ApiError as error:
                claim.why = str(error)
                if error.status == 404:
                    raise Lost(f"the claim {claim.name} is gone: somebody deleted it, or its time was over") from None
                if error.status != 409 and not error.passing:
                    raise self.explain(error) from None
                await asyncio.sleep(error.retry_after or next(pauses))

    async def wait(self, claim: Claim) -> Ready:
        """Its pod; raises with the reason if there is none in time, or never will be."""
        async with self._in_time(claim):
            await claim.settle()
        if claim.ended is not None:
            assert claim.pool is not None
            raise self._failure(claim.pool, claim.ended)
        assert claim.ready is not None
        waited = asyncio.get_running_loop().time() - (claim.deadline - self._patience)
        self.events.ready(waited, claim.ready.launch)
        return claim.ready

    @asynccontextmanager
    async def _in_time(self, claim: Claim) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(claim.deadline) as wait:
                yield
        except TimeoutError:
            if not wait.expired():
                raise
            if self.watch.refusal is not None:
                raise self.explain(self.watch.refusal) from None
            why = claim.why
            if self.watch.problem is not None:
                why = f"the API server at {self._api.url} does not answer as it should: {self.watch.problem}"
            wanted = f"word of the claim {claim.name}"
            if claim.pool is not None:
                wanted = f"sandbox of the warm pool {claim.pool!r}"
            raise Refused(
                f"no {wanted} came within {self._patience:g} s: {why}; "
                f"see kubectl -n {self.namespace} describe sandboxclaim,pod, or wait longer (claim_timeout)"
            ) from None

    async def _make(self, claim: Claim) -> None:
        """POST it. A lost answer is no harm: the name is taken then, and the claim says who asked for it."""
        assert claim.pool is not None
        pauses = _growing()
        while True:
            now = self._api.now()
            claim.expires = now + self._life
            body = claim_objects.write(
                claim.name,
                pool=claim.pool,
                deployment=self._deployment,
                request=claim.request,
                container=claim.container,
                epoch=claim.epoch,
                shutdown=claim.expires,
                now=now,
            )
            claim.sent = True
            try:
                made = await self._api.ask("POST", self._path(), body)
            except ApiUnreachable as error:
                claim.why = str(error)
                await asyncio.sleep(next(pauses))
            except ApiError as error:
                claim.why = str(error)
                if error.reason == "AlreadyExists":
                    if await self._is_ours(claim):
                        return
                elif error.status == 403 and "exceeded quota" in str(error):
                    raise NoneFree(f"the namespace {self.namespace!r} is full: {error}") from None
                elif not error.passing and error.status != 409:  # of two that change a quota at once, one is told 409
                    raise self.explain(error) from None
                await asyncio.sleep(error.retry_after or next(pauses))
            else:
                claim.uid = claim_objects.uid_of(made)
                self.events.made()
                return

    async def _is_ours(self, claim: Claim) -> bool:
        """Whether the claim of this name is what we have asked for before."""
        try:
            found = await self._api.ask("GET", self._path(claim.name))
        except (ApiError, ApiUnreachable):
            return False
        if claim_objects.request_of(found) != claim.request:
            raise Refused(
                f"a claim {claim.name} is there already, and of somebody else; delete it: {self._deleting(claim)}"
            )
        claim.uid = claim_objects.uid_of(found)
        return True

    def _deleting(self, claim: Claim) -> str:
        return f"kubectl -n {self.namespace} delete sandboxclaim {claim.name}"

    # -- the end --------------------------------------------------------------------------------------------------

    def delete_soon(self, claim: Claim) -> asyncio.Task[None]:
        """One that nobody can use any more; tried until it is gone, or has ended by itself."""
        return _spawn(self._delete(claim), self._endings)

    async def _end(self, claim: Claim) -> None:
        """Wait until it is deleted, but no longer than that is worth."""
        deleted = self.delete_soon(claim)
        await asyncio.wait({deleted}, timeout=_END)
        if not deleted.done():
            _log.warning(
                "the claim %s/%s is not deleted yet: %s does not answer; it ends by itself within %g s",
                self.namespace, claim.name, self._api.url, self._life,
            )  # fmt: skip

    async def _delete(self, claim: Claim) -> None:
        for pause in _growing(_LATER):
            if not claim.sent or claim.passed_on or self._api.now() > claim.expires:
                return
            try:
                options = await self._find_deletion(claim)
                if options is not None:
                    await self._api.ask("DELETE", self._path(claim.name), options)
                claim.sent = False
            except ApiUnreachable:
                await asyncio.sleep(pause)
            except ApiError as error:
                if error.status == 404 or (error.status == 409 and claim.epoch is None):  # or another has its name
                    claim.sent = False
                elif error.passing or error.status == 409:  # somebody has changed it since our look
                    await asyncio.sleep(error.retry_after or pause)
                else:
                    _log.warning("the claim %s/%s cannot be deleted: %s", self.namespace, claim.name, error)
                    return

    async def _find_deletion(self, claim: Claim) -> Object | None:
        """How it is deleted as what we made of it; None where it is no longer that."""
        if claim.uid is not None and claim.epoch is None:
            return claim_objects.deletion(claim.uid)
        found = await self._api.ask("GET", self._path(claim.name))
        if claim.uid is None:  # there was no answer to the request for it
            if claim_objects.request_of(found) != claim.request:
                return None
            claim.uid = claim_objects.uid_of(found)
        if claim_objects.uid_of(found) != claim.uid or claim.is_outdone(found):
            return None
        return claim_objects.deletion(claim.uid, claim_objects.version_of(found))

    # -- housekeeping ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if not self._loops:
            for act in (self.watch.run(), self._repeat(_RENEW, self.renew), self._repeat(_REAP, self.reap)):
                _spawn(act, self._loops)

    async def _repeat(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds * random.uniform(0.75, 1.25))
            try:
                await act()
            except Exception:  # noqa: BLE001 - the last door of a background task
                _log.exception("looking after sandbox claims failed")

    async def renew(self) -> None:
        """Let those that we hold live on."""
        soon = self._api.now() + self._life / 2
        held = [one for name in self._held.values() for one in name if one.uid and not one.passed_on]
        await self._each(self._renew(one) for one in held if one.expires < soon)

    async def _renew(self, claim: Claim) -> None:
        until = self._api.now() + self._life
        await self._api.ask("PATCH", self._path(claim.name), claim_objects.renewal(until))
        claim.expires = until

    async def reap(self) -> None:
        """Delete those of our deployment that nobody names: of gateways that died, or of answers that were lost.

        Those without an epoch are of one call each; where others may have made them, they are left to their end.
        """
        before = self._api.now() - _YOUNG
        old = {
            name: one
            for name, one in self.watch.mirror.items()
            if name not in self._held and claim_objects.made_at(one) < before
        }
        if self._kept is not None and old:
            old = await self._find_forgotten(old, self._kept)
        await self._each(self._reap(one) for one in old.values())

    async def _find_forgotten(self, found: Mapping[str, Object], find_kept: Kept) -> dict[str, Object]:
        """Those whose container is gone, or has another sandbox, or none."""
        containers = {
            name: container
            for name, one in found.items()
            if (container := claim_objects.container_of(one)) is not None and claim_objects.epoch_of(one) is not None
        }
        kept = await find_kept({*containers.values()}) if containers else {}

        def is_named(name: str, container: str) -> bool:
            epoch, sandbox = kept.get(container, (None, None))
            place = claim_objects.write_place(self.namespace, name, claim_objects.uid_of(found[name]))
            if sandbox is not None and sandbox.url == place:
                return True
            return epoch is not None and name == claim_objects.name_for(container, epoch)

        return {name: found[name] for name, container in containers.items() if not is_named(name, container)}

    async def _reap(self, found: Object) -> None:
        name = claim_objects.name_of(found)
        same = claim_objects.deletion(claim_objects.uid_of(found), claim_objects.version_of(found))
        await self._api.ask("DELETE", self._path(name), same)
        _log.info("the claim %s/%s was deleted: nobody named it any more", self.namespace, name)

    async def _each(self, acts: Iterable[Coroutine[None, None, None]]) -> None:
        """A few at a time. One that fails is tried again at the next look."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def take(act: Coroutine[None, None, None]) -> None:
            async with turns:
                with contextlib.suppress(ApiError, ApiUnreachable):
                    await act

        await asyncio.gather(*[take(act) for act in acts])

    async def close(self) -> None:
        """Nothing is watched or renewed any more; what is being deleted is waited for."""
        if self._endings:
            await asyncio.wait(self._endings, timeout=_END)
        if tasks := self._loops | self._endings:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    # -- what a refusal means --------------------------------------------------------------------------------------

    async def check(self) -> None:
        """`BadSettings` if the API server would not have us, or knows no claims."""
        try:
            await self._api.ask("GET", self._path(), query={"limit": "1"})
        except ApiUnreachable as error:
            raise Refused(f"the API server at {self._api.url} does not answer: {error}") from None
        except ApiError as error:
            raise self.explain(error) from None

    def explain(self, error: ApiError) -> BelljarError:
        where = f"the API server at {self._api.url}"
        if error.status == 401:
            return BadSettings(
                f"kubernetes: {where} does not take our token ({error}); see the kubeconfig, or the account"
            )
        if error.status == 403:
            return BadSettings(
                f"kubernetes: {where} does not let us claim sandboxes in the namespace {self.namespace!r} ({error}); "
                "give the gateway's service account create, get, list, watch, patch and delete on sandboxclaims "
                "(the Role is in docs/kubernetes.md)"
            )
        if error.status == 404:
            return BadSettings(
                f"kubernetes: {where} knows no SandboxClaim of {claim_objects.GROUP}/{claim_objects.VERSION}, or no "
                f"namespace {self.namespace!r}; install agent-sandbox with its extensions, 0.5 or newer, and make the "
                f"namespace: kubectl create namespace {self.namespace}"
            )
        if error.passing:
            return Refused(f"{where} does not answer as it should: {error}")
        return BadSettings(f"kubernetes: {where} does not take our claim ({error.status} {error})")

    def _failure(self, pool: str, ended: ClaimEnd) -> BelljarError:
        if ended.reason == "WarmPoolNotFound":
            return BadSettings(
                f"sandbox_warm_pool: there is no warm pool {pool!r} in the namespace {self.namespace!r}; make one "
                f"of the template of that name: {claim_objects.pool_command(pool, self.namespace)}"
            )
        if ended.reason == "TemplateNotFound":
            return BadSettings(
                f"sandbox_warm_pool: the warm pool {pool!r} in the namespace {self.namespace!r} is of a template "
                f"that is not there ({ended.message}); make it, or name another pool"
            )
        return Refused(f"Kubernetes gave no sandbox of the warm pool {pool!r}: {ended.why}")


def _spawn(act: Coroutine[None, None, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    task = asyncio.create_task(act)
    among.add(task)
    task.add_done_callback(among.discard)
    return task


def _growing(longest: float = _PAUSES[1]) -> Iterator[float]:
    pause = _PAUSES[0]
    while True:
        yield pause * random.uniform(0.5, 1.0)
        pause = min(2 * pause, longest)
