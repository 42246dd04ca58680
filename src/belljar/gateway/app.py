"""Build the gateway from its settings, start it, and shut it down: the composition root."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Literal, Self, cast

from belljar import __version__
from belljar.config import TIERS, Settings, Upstream
from belljar.errors import BadSettings, BelljarError, InvalidRequest
from belljar.gateway.builtin_model import model as builtin_model
from belljar.gateway.containers import Containers, Policy, find_sandboxes
from belljar.gateway.engine.conversations import Conversations
from belljar.gateway.engine.sealing import Sealer
from belljar.gateway.engine.service import Engine
from belljar.gateway.engine.services import EngineOptions, EngineServices
from belljar.gateway.interpreter import Interpreter
from belljar.gateway.membership import Membership
from belljar.gateway.peers import Peers
from belljar.gateway.sandbox_backend import find_backend
from belljar.gateway.server.app import GatewayApp
from belljar.gateway.server.audit import Audit
from belljar.gateway.server.interfaces import ServerServices
from belljar.gateway.server.log import Journal
from belljar.gateway.server.metrics import Metrics
from belljar.gateway.server.options import Quota, ServerOptions
from belljar.gateway.store import disk_errors, lock, retention
from belljar.gateway.store.base import Blobs, Records
from belljar.gateway.store.configured_store import find_database, open_blobs, open_records
from belljar.gateway.store.keys import Keyring
from belljar.gateway.store.local_store import open_local_blobs, open_local_records
from belljar.gateway.upstream import loop_guard
from belljar.gateway.upstream.discovery import find_by_key, find_local
from belljar.gateway.upstream.models import Models
from belljar.gateway.upstream.transport import Transport
from belljar.http_server import run
from belljar.net import is_loopback, reachable, stopped_by_signals
from belljar.vendors.deltas import AnsweringModel

_SWEEP = 30.0
"""Seconds between two looks for containers that expired."""
_RECOVER = 3.0
"""Seconds between two looks for responses whose gateway died."""
_CLEAN = 3600.0
"""Seconds between two looks for files that expired and bytes that nobody names."""
_LOOK = 5.0
"""Seconds between two looks for a model server on this machine, while there is none."""
_LISTS = 1.0
"""Seconds that the first lists of models may hold up the banner."""
_log = logging.getLogger("belljar.gateway")


def build(
    settings: Settings,
    *,
    journal: Journal = lambda answered: None,
    model: AnsweringModel | None = None,
    private: bool = False,
    shared: Shared | None = None,
) -> Gateway:
    """A gateway as the settings want it; entering it starts it. `journal` gets a line for each request.

    `model` stands in for the built-in one. A `private` gateway has no door, so it asks nobody for a key, and always a
    store of its own. One that is `shared` has a store that others may have too.
    """
    assert private or shared is not None or find_database(settings) is None, "the only one would end all others"
    return Gateway(settings, journal, model=model, private=private, shared=shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What a gateway needs that is not the only one of its store."""

    address: str
    """Where the others reach it: http://HOST:PORT, or unix:PATH."""


def share(settings: Settings, door: socket.socket) -> Shared | None:
    """What a gateway that listens there tells the others of its database; None where it has a store of its own."""
    if find_database(settings) is None:
        return None
    if settings.peer_address is not None:
        return Shared(address=settings.peer_address)
    host = settings.host if settings.host not in ("0.0.0.0", "::") else socket.gethostbyname(socket.gethostname())
    return Shared(address=f"http://{reachable(host)}:{door.getsockname()[1]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReport:
    """What there is to say of a gateway that listens."""

    url: str
    page: str | None
    models: Mapping[str, Sequence[str]]
    """By upstream, ours first; none where an upstream has not told yet."""
    troubles: Mapping[str, str]
    """Why it has not, by upstream."""
    nobody_at: Sequence[str]
    """Where a model server was looked for, and will be again."""
    isolation: str
    packages: str | None
    """What code finds installed; None where none runs."""
    keys: int | None
    """How many are good; None where none are asked for."""
    state_dir: str
    database: str | None
    """Where the one is that it shares with others."""


class Gateway:
    """Everything one gateway is made of. `app` is the ASGI application, `serve` puts it behind a socket."""

    app: GatewayApp

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        *,
        model: AnsweringModel | None = None,
        private: bool = False,
        shared: Shared | None = None,
    ) -> None:
        self._shared = shared
        self._settings = settings
        self._journal = journal
        self._model = model
        self._private = private
        self._stack = AsyncExitStack()
        self._telling: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    # -- starting -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        settings, stack = self._settings, self._stack
        settings.check_gateway()
        if self._shared is None:
            stack.enter_context(lock.held(settings.state_dir))
        records = open_local_records(settings.state_dir) if self._private else await open_records(settings)
        stack.push_async_callback(records.close)
        self._keeps_here = self._private or settings.blobs is None or find_database(settings) is None
        blobs = open_local_blobs(settings.state_dir) if self._private else await open_blobs(settings, records)
        stack.push_async_callback(blobs.close)
        keys = None if self._private else await self._keyring(records)
        kept = None if self._shared is None else partial(find_sandboxes, records)
        ground = self._ground = await find_backend(settings, lambda: records.secret("deployment"), kept)
        stack.push_async_callback(ground.source.close)
        # The jail starts and imports the data stack, which takes seconds, while requests already come in.
        self._preparing = asyncio.create_task(ground.get_ready())
        stack.push_async_callback(_cancel, self._preparing)
        # A claim of the only gateway goes with it: nobody else would know which of them to delete.
        policy = _policy(settings, lasting=not self._private and settings.warm_pools is None)
        membership = self._membership = await self._join(records)
        peers = None if membership.alone else Peers(records, membership)
        if peers is not None:
            stack.push_async_callback(peers.close)
        clock = membership.now
        containers = Containers(
            records,
            blobs,
            ground.source,
            policy,
            membership=membership,
            tell_dropped=None if peers is None else peers.tell_dropped,
            clock=clock,
            stateless=ground.stateless,
        )
        stack.push_async_callback(containers.close)
        me = secrets.token_hex(8)
        upstreams, sought = self._discover()
        self._upstreams = tuple(loop_guard.add_mark(one, me) for one in upstreams)
        transport = Transport()
        stack.push_async_callback(transport.close)
        marked = [loop_guard.add_mark(one, me) for one in sought]
        self._models = Models(
            self._upstreams, transport, sought=marked, own=self._model, changed=lambda: self._tell_of_models(peers)
        )
        stack.push_async_callback(self._models.close)
        metrics = Metrics()
        metrics.sandboxes.ask("busy", how=lambda: containers.count_sandboxes()[0])
        metrics.sandboxes.ask("idle", how=lambda: containers.count_sandboxes()[1])
        metrics.sandboxes.ask("warm", how=ground.spare)
        ground.observe_claims(metrics)
        for place, (url, _, _) in enumerate(ground.servers()):
            metrics.servers_up.ask(url, how=lambda place=place: float(ground.servers()[place][1]))  # type: ignore[misc]
            metrics.servers_free.ask(url, how=lambda place=place: float(ground.servers()[place][2]))  # type: ignore[misc]
        self._engine = Engine(
            EngineServices(
                records=records,
                blobs=blobs,
                containers=containers,
                interpreter=Interpreter(containers, policy, ground.packages),
                models=self._models,
                sealer=Sealer(records),
                membership=membership,
                options=_engine_options(settings),
                observe=Audit(metrics),
                clock=clock,
            )
        )
        stack.push_async_callback(self._engine.close)
        if lost := await self._engine.recover():
            _log.warning("%d responses were cut off when the gateway last ended", lost)
        services = ServerServices(
            engine=self._engine,
            conversations=Conversations(records, clock),
            containers=containers,
            models=self._models,
            records=records,
            blobs=blobs,
            health=self,
            keys=keys,
            peers=peers,
            clock=clock,
        )
        options = _server_options(settings)
        self.app = GatewayApp(services, options, metrics=metrics, journal=self._journal, me=me)
        self._every(_LOOK, self._models.watch)
        self._every(_SWEEP, containers.sweep)
        if not membership.alone:
            self._every(_RECOVER, self._engine.recover)
        self._every(_CLEAN, lambda: clean(records, blobs, settings, membership.id))

    async def _join(self, records: Records) -> Membership:
        """Be there for the other gateways of this store, where there may be some."""
        shared = self._shared
        membership = Membership(
            records,
            address="" if shared is None else shared.address,
            alone=shared is None,
            version=__version__,
            life=self._settings.gateway_timeout,
        )
        await membership.join()
        self._stack.push_async_callback(membership.leave)
        self._stack.push_async_callback(_cancel, asyncio.create_task(membership.keep_beating()))
        return membership

    async def _keyring(self, records: Records) -> Keyring:
        """`InvalidRequest` where others can reach us and there is no good key."""
        made = await records.keys()
        good = sum(key.revoked_at is None for key in made)
        if not good and not is_loopback(self._settings.host):
            raise InvalidRequest(
                f"host: {self._settings.host} is open to others, and there is no key. Make one: belljar keys add NAME; "
                "or listen to this machine only: --host 127.0.0.1",
                param="host",
            )
        self._good_keys = good if made else None
        return Keyring(records)

    def _check_configured(self) -> tuple[Upstream, ...]:
        for one in self._settings.upstreams:
            if self._leads_back(one):
                raise BadSettings(
                    f"upstreams.{one.name}.base_url: {one.base_url} is where this gateway listens "
                    f"({self._settings.origins.get('upstreams', 'set in code')}), and it would ask itself; leave it out"
                )
        return self._settings.upstreams

    def _discover(self) -> tuple[list[Upstream], list[Upstream]]:
        """The upstreams, and those that may come to be there.

        People set OPENAI_BASE_URL to this gateway for their clients, and then start it from the same shell.
        """
        configured = self._check_configured()
        if not self._settings.discover:
            return [*configured], []
        variables = self._settings.provider_variables
        found = find_by_key(variables, configured)
        for one in filter(self._leads_back, found):
            _log.warning(
                "the environment says that %s is at %s, which is this gateway: left out", one.name, one.base_url
            )
        upstreams = [*configured, *(one for one in found if not self._leads_back(one))]
        if find_database(self._settings) is not None:  # others of it, on other machines, would not have what is here
            return upstreams, []
        return upstreams, [one for one in find_local(variables, upstreams) if not self._leads_back(one)]

    def _leads_back(self, upstream: Upstream) -> bool:
        return not self._private and loop_guard.leads_back(upstream.base_url, self._settings.host, self._settings.port)

    def _tell_of_models(self, peers: Peers | None) -> None:
        """Other gateways offer what this one has found: a request may come to any of them."""
        if peers is None:
            return

        async def tell() -> None:
            with contextlib.suppress(BelljarError):  # they look by themselves, later
                await peers.tell_of_models()

        telling = asyncio.create_task(tell())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    def _every(self, seconds: float, act: Callable[[], Awaitable[object]]) -> None:
        """Until the gateway ends; a failure is logged, and the next time is another try."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(seconds)
                try:
                    await act()
                except Exception:  # noqa: BLE001 - the last door of a background task
                    _log.exception("housekeeping failed")

        self._stack.push_async_callback(_cancel, asyncio.create_task(repeat()))

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def isolation(self) -> str:
        """What keeps code apart."""
        return self._ground.isolation()

    @property
    def packages(self) -> list[str]:
        """The names of what code finds installed."""
        return [one.name for one in self._ground.packages()]

    async def problems(self) -> list[str]:
        """Why no request should come here now."""
        if self._membership.suspended:
            return ["the store does not answer"]
        if self._keeps_here and (full := await asyncio.to_thread(disk_errors.find_problem, self._settings.state_dir)):
            return [full]
        problem = await self._ground.problem()
        if problem is not None:
            return [problem]
        if not self._preparing.done():
            return ["the sandbox is starting"]
        error = self._preparing.exception()
        return [f"the sandbox did not start: {error}"] if error else []

    async def serve(self, door: socket.socket, announce: Callable[[StartReport], None], *inner: socket.socket) -> None:
        """Answer at this socket until told to stop by SIGINT or SIGTERM, or until the jail turns out not to start.

        Also at the `inner` ones, which only other gateways know.
        """
        settings = self._settings
        server = run.Server(
            run.config(
                self.app,
                self.app.wording,
                settings.host,
                settings.port,
                largest_body=settings.largest_body,
                drain=settings.drain,
            )
        )
        with stopped_by_signals(server.stop):
            serving = asyncio.create_task(server.serve(sockets=[door, *inner]))
            try:
                await asyncio.wait({serving, server.listening}, return_when=asyncio.FIRST_COMPLETED)
                if not serving.done():
                    await self._wait_for_backend(serving)
                    announce(await self._describe_start(door))
                    await asyncio.wait({serving, self._preparing}, return_when=asyncio.FIRST_COMPLETED)
                    if self._preparing.done():
                        self._preparing.result()
                await asyncio.shield(serving)
            finally:
                server.stop()
                await serving
                await self._engine.close(server.time_left)

    async def _wait_for_backend(self, serving: asyncio.Task[None]) -> None:
        """As long as that is worth it: what it refuses need not be announced first."""
        if self._ground.greeting:
            ends = {serving, self._preparing}
            await asyncio.wait(ends, timeout=self._ground.greeting, return_when=asyncio.FIRST_COMPLETED)
            if self._preparing.done():
                self._preparing.result()

    async def _describe_start(self, door: socket.socket) -> StartReport:
        settings = self._settings
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LISTS):
                await self._models.list()
        troubles = self._models.list_troubles()
        names = (builtin_model.NAME, *(one.name for one in self._upstreams), *troubles)
        models: dict[str, list[str]] = {name: [] for name in names}
        for info in self._models.list_known():
            models.setdefault(info.owned_by, []).append(info.id)
        url = f"http://{reachable(settings.host)}:{door.getsockname()[1]}"
        return StartReport(
            url=url,
            page=f"{url}/" if settings.page else None,
            models=models,
            troubles=troubles,
            nobody_at=self._models.list_silent_places(),
            isolation=self.isolation,
            packages=self._ground.summary(),
            keys=self._good_keys,
            state_dir=str(settings.state_dir),
            database=None if (address := find_database(settings)) is None else str(address),
        )


async def _cancel(task: asyncio.Task[None]) -> None:
    """End it, and wait until it is over, however that comes."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


async def clean(records: Records, blobs: Blobs, settings: Settings, me: str) -> None:
    """Remove what has expired, what is too old, and the bytes that nobody names."""
    now = await records.now()
    await records.expire_files(int(now))
    if limits := retention.find_limits(settings, now):
        gone = await retention.remove_old(records, limits, me)
        if gone and any(gone.values()):
            _log.info("removed as too old: %s", ", ".join(f"{count} {kind}" for kind, count in gone.items() if count))
    await blobs.sweep(records)


# -- settings to each room's own ---------------------------------------------------------------------------------------


def _policy(settings: Settings, *, lasting: bool) -> Policy:
    return Policy(
        minutes=settings.container_minutes,
        timeout=settings.timeout,
        memory=settings.container_memory,
        tiers=TIERS if settings.warm_pools is None else settings.warm_pools.tiers,
        packages=settings.packages,
        isolation=cast(Literal["per_container", "per_call"], settings.isolation),
        sandboxes_per_owner=settings.quota_sandboxes,
        bytes_per_owner=settings.quota_bytes,
        claim_timeout=settings.claim_timeout,
        lasting=lasting,
    )


def _engine_options(settings: Settings) -> EngineOptions:
    return EngineOptions(
        deadline=settings.deadline,
        timeout=settings.timeout,
        interpreter=settings.code_interpreter,
        turns=settings.max_turns,
        parallel=settings.isolation == "per_call",
        executor=cast(Literal["belljar", "provider"], settings.executor),
    )


def _server_options(settings: Settings) -> ServerOptions:
    return ServerOptions(
        largest_body=settings.largest_body,
        largest_upload=settings.largest_upload,
        ping=settings.ping,
        quota=Quota(requests=settings.quota_requests, responses=settings.quota_responses, bytes=settings.quota_bytes),
        origins=frozenset(settings.allowed_origins),
        page=settings.page,
        project=settings.project,
        interpreter=settings.code_interpreter,
    )
