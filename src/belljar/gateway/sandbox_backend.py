"""Choose where a gateway's code runs: this host's own jail, a sandbox server, pods of Kubernetes, or nowhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from belljar.config import Settings, WarmPools
from belljar.errors import BadSettings, BelljarError, CannotConfine, Refused
from belljar.sandbox.base import Attached, Sandbox, SandboxHandle, SandboxSource, Spec
from belljar.sandbox.default import options as source_options
from belljar.sandbox.default import remote_source
from belljar.sandbox.local import diagnosis
from belljar.sandbox.local.probe import probe
from belljar.sandbox.packages import Installed
from belljar.sandbox.packages.stack import judge_stack
from belljar.sandbox.validation import make_spec

_GREETING = 2.0
"""Seconds that the banner waits for a server to say how it keeps code apart."""
_AGAIN = 1.0
"""Seconds before a server that is not ready is looked at again."""
_log = logging.getLogger("belljar.gateway")


FindSandboxes: TypeAlias = Callable[[Collection[str]], Awaitable[Mapping[str, tuple[int | None, SandboxHandle | None]]]]
"""Of these containers, those that are there: the epoch under which one is held now, and the sandbox that it has."""


class ClaimMetrics(Protocol):
    """What is counted of claims on pods."""

    def count_made(self) -> None: ...
    def count_ready(self, seconds: float, launch: str) -> None: ...
    def count_ended(self, reason: str) -> None: ...
    def ask_waiting(self, how: Callable[[], float]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxBackend:
    """A source of sandboxes, and what else a gateway asks of it."""

    source: SandboxSource
    get_ready: Callable[[], Coroutine[None, None, None]]
    """Everything that takes long, before the first sandbox. Raises what no waiting will mend."""
    problem: Callable[[], Awaitable[str | None]]
    """Why there are no sandboxes to be had now, as far as that can be told before asking for one."""
    isolation: Callable[[], str]
    """What keeps code apart, for the banner."""
    packages: Callable[[], Sequence[Installed]]
    """The exact list of what a sandbox starts with."""
    summary: Callable[[], str | None]
    """The same in words for the banner, with the remedy where there is less than there could be."""
    spare: Callable[[], int]
    """Sandboxes that are ready and nobody's yet."""
    servers: Callable[[], Sequence[tuple[str, bool, int]]] = tuple
    """Of several servers, each: its address, whether it is well, and how many sandboxes it may give yet."""
    observe_claims: Callable[[ClaimMetrics], None] = lambda metrics: None
    """Have it told what becomes of claims on pods, where sandboxes come from there."""
    stateless: Callable[[], bool] = bool
    """Whether a sandbox keeps nothing but its files from cell to cell, as far as is known now."""
    greeting: float = 0.0
    """Seconds that getting ready is worth waiting for before the banner tells what there is."""


async def find_backend(
    settings: Settings, deployment: Callable[[], Awaitable[bytes]], find_sandboxes: FindSandboxes | None = None
) -> SandboxBackend:
    """`CannotConfine` with the remedy where code is to run on this host and it cannot keep it apart.

    `deployment` is asked for what gateways over the same store have in common, and no others. `find_sandboxes` tells
    which sandboxes their containers count on; None where there is one gateway alone.
    """
    if not settings.code_interpreter:
        return _nowhere()
    if settings.warm_pools is not None:
        return _pods(settings, settings.warm_pools, (await deployment()).hex()[:16], find_sandboxes)
    return await _jail(settings) if settings.sandbox_url is None else _server(settings, settings.sandbox_url)


async def _no_problem() -> None:
    return None


# -- nowhere ----------------------------------------------------------------------------------------------------------


class _Off:
    """The source of a gateway without the code interpreter."""

    def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        raise self._refusal()

    def attach(self, handle: SandboxHandle, epoch: int) -> AbstractAsyncContextManager[Attached]:
        raise self._refusal()

    def _refusal(self) -> Refused:
        return Refused("the code interpreter is switched off here (code_interpreter = false)")

    async def close(self) -> None: ...


def _nowhere() -> SandboxBackend:
    return SandboxBackend(
        source=_Off(),
        get_ready=_no_problem,
        problem=_no_problem,
        isolation=lambda: "none needed: the code interpreter is off",
        packages=tuple,
        summary=lambda: None,
        spare=int,
    )


# -- this host's own jail ---------------------------------------------------------------------------------------------


async def _jail(settings: Settings) -> SandboxBackend:
    report = await asyncio.to_thread(probe)
    if report.missing:
        raise CannotConfine(diagnosis.complaint(report))
    wanted = source_options(settings)
    from belljar.sandbox.local.source import LocalSource

    source = LocalSource(replace(wanted, warm_spec=make_spec(memory=settings.container_memory)))
    return SandboxBackend(
        source=source,
        get_ready=lambda: asyncio.to_thread(source.prepare, Spec()),
        problem=_no_problem,
        isolation=lambda: diagnosis.summary(report),
        packages=lambda: source.packages,
        summary=lambda: source.summary,
        spare=lambda: source.spare,
    )


# -- a sandbox server -------------------------------------------------------------------------------------------------


def _server(settings: Settings, urls: tuple[str, ...]) -> SandboxBackend:
    from belljar.sandbox.remote import ServersSource

    source = remote_source(settings, urls)
    where = f"sandbox server{'s' if len(urls) > 1 else ''} at {', '.join(urls)}"

    async def get_ready() -> None:
        await _prepare(source.prepare)
        _check_packages(settings, source.packages, f" on the {where}")

    async def problem() -> str | None:
        try:
            if isinstance(source, ServersSource):
                await source.look()
                return source.problem
            await source.prepare()
        except BelljarError as error:
            return str(error)
        return None

    def servers() -> Sequence[tuple[str, bool, int]]:
        several = source.servers if isinstance(source, ServersSource) else ()
        return [(one.url, one.problem is None, one.free) for one in several]

    return SandboxBackend(
        source=source,
        get_ready=get_ready,
        problem=problem,
        servers=servers,
        isolation=lambda: f"{where}: {source.isolation or 'no answer yet'}",
        packages=lambda: source.packages,
        summary=lambda: _summarize(settings, source),
        spare=lambda: source.spare,
        stateless=lambda: source.stateless,
        greeting=_GREETING,
    )


# -- pods of Kubernetes -----------------------------------------------------------------------------------------------


def _pods(
    settings: Settings, pools: WarmPools, deployment: str, find_sandboxes: FindSandboxes | None
) -> SandboxBackend:
    from belljar.sandbox.kubernetes import ClaimSource
    from belljar.sandbox.kubernetes.access import find_access

    access = find_access()
    source = ClaimSource(
        access,
        namespace=settings.sandbox_namespace,
        pools=pools,
        deployment=deployment,
        port=settings.sandbox_port,
        token=settings.sandbox_token,
        patience=settings.claim_timeout,
        most=settings.max_sandboxes,
        kept=find_sandboxes,
    )
    place = f"warm pool {pools} in namespace {settings.sandbox_namespace} at {access.url}"

    async def get_ready() -> None:
        await _prepare(source.prepare)
        _check_packages(settings, source.packages, f" in the pods of the {place}")

    async def problem() -> str | None:
        return source.problem

    def observe_claims(metrics: ClaimMetrics) -> None:
        events = source.claims.events
        events.made, events.ready, events.ended = metrics.count_made, metrics.count_ready, metrics.count_ended
        metrics.ask_waiting(lambda: source.claims.waiting)

    return SandboxBackend(
        source=source,
        observe_claims=observe_claims,
        get_ready=get_ready,
        problem=problem,
        isolation=lambda: f"a pod for each sandbox, {place}: {source.isolation or 'no answer yet'}",
        packages=lambda: source.packages,
        summary=lambda: _summarize(settings, source),
        spare=int,
        greeting=_GREETING,
    )


# -- what is elsewhere ------------------------------------------------------------------------------------------------


class _Elsewhere(Protocol):
    """Sandboxes whose packages and walls are known once somebody has looked."""

    @property
    def packages(self) -> tuple[Installed, ...]: ...
    @property
    def isolation(self) -> str | None: ...


async def _prepare(prepare: Callable[[], Awaitable[None]]) -> None:
    """Look until it is ready. What is wrong with it is said once."""
    said = ""
    while True:
        try:
            return await prepare()
        except Refused as error:
            if str(error) != said:
                said = str(error)
                _log.warning("%s", said)
        await asyncio.sleep(_AGAIN)


def _check_packages(settings: Settings, packages: tuple[Installed, ...], where: str) -> None:
    if settings.packages == "data" and (refusal := judge_stack(packages).refusal(where)):
        raise BadSettings(refusal)


def _summarize(settings: Settings, source: _Elsewhere) -> str:
    if settings.packages == "none":
        return "the standard library"
    return "no answer yet" if source.isolation is None else f"{judge_stack(source.packages).summary} (there)"
