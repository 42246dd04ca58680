"""Choose where a gateway's code runs: this host's own jail, a sandbox server, or nowhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from belljar.config import Settings
from belljar.errors import BadSettings, BelljarError, CannotConfine, Refused
from belljar.sandbox.base import Sandbox, SandboxSource, Spec
from belljar.sandbox.default import options as source_options
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
    greeting: float = 0.0
    """Seconds that getting ready is worth waiting for before the banner tells what there is."""


async def find_backend(settings: Settings) -> SandboxBackend:
    """`CannotConfine` with the remedy where code is to run on this host and it cannot keep it apart."""
    if not settings.code_interpreter:
        return _nowhere()
    return await _jail(settings) if settings.sandbox_url is None else _server(settings, settings.sandbox_url)


async def _no_problem() -> None:
    return None


# -- nowhere ----------------------------------------------------------------------------------------------------------


class _Off:
    """The source of a gateway without the code interpreter."""

    def acquire(self, spec: Spec) -> AbstractAsyncContextManager[Sandbox]:
        raise Refused("the code interpreter is switched off here (code_interpreter = false)")

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


def _server(settings: Settings, url: str) -> SandboxBackend:
    from belljar.sandbox.remote import RemoteSource

    source = RemoteSource(url, token=settings.sandbox_token, patience=settings.claim_timeout)

    async def get_ready() -> None:
        said = ""
        while True:
            try:
                await source.prepare()
                break
            except Refused as error:
                if str(error) != said:
                    said = str(error)
                    _log.warning("%s", said)
            await asyncio.sleep(_AGAIN)
        if settings.packages == "data" and (
            refusal := judge_stack(source.packages).refusal(f" on the sandbox server at {url}")
        ):
            raise BadSettings(refusal)

    def summary() -> str:
        if settings.packages == "none":
            return "the standard library"
        return "no answer yet" if source.isolation is None else f"{judge_stack(source.packages).summary} (there)"

    async def problem() -> str | None:
        try:
            await source.prepare()
        except BelljarError as error:
            return str(error)
        return None

    return SandboxBackend(
        source=source,
        get_ready=get_ready,
        problem=problem,
        isolation=lambda: f"sandbox server at {url}: {source.isolation or 'no answer yet'}",
        packages=lambda: source.packages,
        summary=summary,
        spare=lambda: source.spare,
        greeting=_GREETING,
    )
