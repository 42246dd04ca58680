"""Sandboxes from this host's jail: capacity, creation, disposal, and the jail's own life."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import resource
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from belljar.errors import BadSettings, BelljarError, CannotConfine, InvalidRequest, Lost, Refused
from belljar.sandbox.base import Attached, SandboxHandle, Spec
from belljar.sandbox.local import cgroups, environments, probe, root, run_steps, users
from belljar.sandbox.local.blocking import LocalBox
from belljar.sandbox.local.box import Box
from belljar.sandbox.local.jail import Jail, python_home
from belljar.sandbox.local.sandbox import LocalSandbox
from belljar.sandbox.local.warm import Pool
from belljar.sandbox.packages import Installed, LayerPolicy, find_unrequested, list_installed
from belljar.sandbox.packages.stack import inspect_stack
from belljar.sandbox.packages.store import LayerStore
from belljar.sandbox.places import Places
from belljar.sandbox.validation import make_packages, make_requirements
from belljar.worker_threads import start_thread

_log = logging.getLogger("belljar.sandbox")

_ENDING = 1.0
"""Seconds in which a jail that is being killed has ended, once a sandbox could not be made in it."""


@dataclass(frozen=True, slots=True)
class JailOptions:
    """How a source behaves."""

    cache: Path
    """Where package layers and the font list are kept."""
    packages: str = "auto"
    """What a sandbox starts with that asks for nothing else: `data`, `none`, or `auto`, what there is of the stack."""
    most: int = 256
    """Sandboxes in use at once; those kept ready come on top."""
    warm: int = 0
    """Sandboxes of the default kind kept ready."""
    warm_spec: Spec = field(default_factory=Spec)
    renew: int = 5000
    """Sandboxes after which the preloaded process is replaced by a fresh one: all its children share addresses."""
    renew_after: float = 3600.0
    """Seconds after which the next sandbox has it replaced, however few there were."""
    preload: bool = True
    """Import the data stack before the first sandbox, rather than in each that wants it."""
    layers: LayerPolicy = field(default_factory=LayerPolicy)
    variables: dict[str, str] = field(default_factory=dict)
    """Environment for fetching packages: index, proxy and certificate settings."""


@dataclass(slots=True)
class _Age:
    """Of a preloaded process."""

    since: float
    made: int = 0


class LocalSource:
    """Gives sandboxes of one jail, which it starts when first asked. Usable from threads and from asyncio alike."""

    def __init__(self, options: JailOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._jail: Jail | None = None
        self._ready: set[str] = set()
        self._stores: dict[str, LayerStore] = {}
        self.stack = inspect_stack(python_home()["site_packages"])
        """What there is of the data stack, as far as known: whether it loads is seen when it is first loaded."""
        self._warm_spec = self._settle(options.warm_spec)
        self._places = Places(options.most)
        self._uids = itertools.count()
        self._ages: dict[str, _Age] = {}
        self._pool = Pool(self._warm_spec, options.warm, make=self._make, prime=_prime, end=_end)
        self._closed = False

    # -- for asyncio --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AsyncIterator[LocalSandbox]:
        """A sandbox for as long as the context lasts; nobody else can have it, so it needs no epoch."""
        settled = self._settle(spec)
        async with self._places.wait(wait):
            box = await self._take_async(spec, settled)
            try:
                yield LocalSandbox(box)
            finally:
                await run_steps.finish_async(box, box.close())

    def attach(self, handle: SandboxHandle, epoch: int) -> AbstractAsyncContextManager[Attached]:
        raise Lost(f"sandbox {handle.id}: those of this host's own jail end with their process; make a new one")

    # -- for threads --------------------------------------------------------------------------------------------

    @contextmanager
    def lease(self, spec: Spec) -> Iterator[Box]:
        """The same for blocking callers."""
        settled = self._settle(spec)
        with self._places.take():
            box = self._take(spec, settled)
            try:
                yield box
            finally:
                _end(box)

    @contextmanager
    def hold(self, spec: Spec) -> Iterator[LocalBox]:
        """`lease`, as `belljar.Sandbox` wants it."""
        with self.lease(spec) as box:
            yield LocalBox(box)

    # -- getting ready ------------------------------------------------------------------------------------------

    @property
    def environment(self) -> str:
        """What a sandbox starts with that asks for nothing else; `BadSettings` if that cannot be had here."""
        return environments.choose(self._options.packages, self.stack)

    @property
    def summary(self) -> str:
        """The same in words, with the remedy where there is less than there could be."""
        return "the standard library" if self._options.packages == "none" else self.stack.summary

    def _settle(self, spec: Spec) -> Spec:
        """The same with the name of an environment that can be had."""
        name = make_packages(spec.packages)
        if name == "auto":
            return replace(spec, packages=self.environment)
        if name == "data" and (refusal := self.stack.refusal()):
            raise InvalidRequest(refusal, param="packages")
        return spec

    def _is_ready(self, spec: Spec) -> bool:
        jail = self._jail
        up = jail is not None and jail.alive and not self._closed
        return up and spec.packages in self._ready and not spec.requirements

    def prepare(self, spec: Spec) -> None:
        """Start the jail and the environment, and fetch the requirements: everything that takes long. Blocking."""
        settled = self._settle(spec)
        with self._starting:
            if self._closed:
                raise Lost("the source is closed")
            if self._jail is not None and not self._jail.alive:
                self._pool.refresh()
                self._drop_jail()
            if self._jail is None:
                self._start()
            assert self._jail is not None
            if settled.packages not in self._ready:
                self._load(self._jail, settled.packages)
                self._ready.add(settled.packages)
            if self._warm_spec.packages in self._ready:  # nobody may have asked for that one yet
                self._pool.start()
        self._settle(spec)  # whether the stack loads is known only now
        if spec.requirements:
            self._paths(settled)

    def _start(self) -> None:
        raise_file_limit()
        groups = cgroups.detect()
        try:
            layers = None if self.no_store else str(self._layer_store("none").layers)
            self._jail = Jail(groups, layers=layers, fonts=environments.font_list(self._options.cache))
        except CannotConfine as error:
            groups.close()
            raise CannotConfine(probe.remedy(str(error))) from None
        except BaseException:
            groups.close()
            raise

    @cached_property
    def no_store(self) -> str | None:
        """Why no layers can be kept here, and so no requirements be had; all else works without."""
        try:
            self._layer_store("none")
        except BadSettings as error:
            return str(error)
        return None

    def _load(self, jail: Jail, name: str) -> None:
        failed = jail.add(environments.environment(name, self.stack, preload=self._options.preload))["missing"]
        if failed:
            self.stack = self.stack.tried(failed)
            _log.warning("the data stack %s; to mend it: %s", self.stack.flaw, self.stack.remedy)
            # From the start: what broke halfway would break in a cell by another error, which is not the cause.
            jail.add(environments.environment(name, self.stack, preload=self._options.preload))

    def _layer_store(self, packages: str) -> LayerStore:
        """Layers that go with an environment. All are in one directory, which the jail mounts."""
        store = self._stores.get(packages)
        if store is None:
            home = python_home()
            store = self._stores[packages] = LayerStore(
                self._options.cache / "packages",
                python=Path(home["executable"]),
                base=() if packages == "none" else list_installed([Path(path) for path in home["site_packages"]]),
                policy=self._options.layers,
                env=self._options.variables,
            )
        return store

    @property
    def packages(self) -> tuple[Installed, ...]:
        """The exact list of what a sandbox starts with that asks for nothing else."""
        return self.stack.present if self.environment == "data" else ()

    def _paths(self, spec: Spec) -> tuple[str, ...]:
        """Where the requirements are, inside; the second call for the same ones is a dictionary look-up."""
        if not spec.requirements:
            return ()
        if self.no_store:
            raise BadSettings(f"requirements: {self.no_store}; then start again")
        layer = self._layer_store(spec.packages).layer(spec.requirements)
        return (f"{root.LAYERS}/{layer.name}",) if layer else ()

    def extend(self, spec: Spec, requirements: Sequence[str]) -> tuple[Spec, tuple[str, ...]]:
        """The spec with these requirements too, and where they all are, inside. Blocking.

        They are resolved together with the earlier ones, into one layer: two could hold versions that do not fit. As
        with pip, a version asked for now counts more than one asked for before.
        """
        asked = make_requirements(requirements)
        earlier = tuple(one for one in spec.requirements if one not in asked)
        # The new ones first: an error names them by their place.
        extended = replace(spec, requirements=asked + earlier)
        try:
            return extended, self._paths(extended)
        except InvalidRequest:
            others = find_unrequested(earlier, asked)
            if others == earlier:
                raise
        extended = replace(spec, requirements=asked + others)
        return extended, self._paths(extended)

    # -- making -------------------------------------------------------------------------------------------------

    async def _take_async(self, spec: Spec, settled: Spec, *, again: bool = True) -> Box:
        """One that is ready, or a new one; from a new jail where the jail ends meanwhile, as nothing has begun yet."""
        box = self._pool.claim(settled) or await self._pool.expect_async(settled)
        if box is not None:
            return box
        jail = self._jail
        try:
            if not self._is_ready(settled):
                await asyncio.wrap_future(start_thread("belljar-packages", lambda: self.prepare(spec)))
                jail = self._jail
            with self._pool.first():
                return await self._make_async(settled)
        except (Lost, Refused):
            if not again or not await asyncio.to_thread(self._has_lost, jail):
                raise
        return await self._take_async(spec, settled, again=False)

    def _take(self, spec: Spec, settled: Spec, *, again: bool = True) -> Box:
        """The same for blocking callers."""
        box = self._pool.claim(settled) or self._pool.expect(settled)
        if box is not None:
            return box
        jail = self._jail
        try:
            self.prepare(spec)
            jail = self._jail
            with self._pool.first():
                return self._make(settled)
        except (Lost, Refused):
            if not again or not self._has_lost(jail):
                raise
        return self._take(spec, settled, again=False)

    def _has_lost(self, jail: Jail | None) -> bool:
        """Whether this one, in which a sandbox could not be made, is of no use any more. Blocking."""
        return not self._closed and (jail is None or jail is not self._jail or jail.ends_within(_ENDING))

    def _make(self, spec: Spec) -> Box:
        box = self._new(spec)
        try:
            run_steps.finish(box, box.create())
        except BaseException:
            _end(box)
            raise
        return box

    async def _make_async(self, spec: Spec) -> Box:
        box = self._new(spec)
        try:
            await run_steps.finish_async(box, box.create())
        except BaseException:
            await run_steps.finish_async(box, box.close())
            raise
        return box

    def _new(self, spec: Spec) -> Box:
        jail = self._jail
        if jail is None:
            raise Lost("the jail is not running")
        if self._is_worn(spec.packages):
            threading.Thread(target=self._renew, args=(jail, spec.packages), name="belljar-renew", daemon=True).start()
        return Box(jail, spec, uid=self.next_uid(), paths=self._paths(spec), extend=self.extend)

    def _is_worn(self, name: str) -> bool:
        """Count one more sandbox of an environment; whether its preloaded process has had its time. Says so once."""
        now = time.monotonic()
        with self._lock:
            age = self._ages.setdefault(name, _Age(now))
            age.made += 1
            worn = age.made >= self._options.renew or now - age.since >= self._options.renew_after
            if worn:
                self._ages[name] = _Age(now)
        return worn

    def _renew(self, jail: Jail, name: str) -> None:
        with contextlib.suppress(BelljarError, OSError):  # the old one goes on serving then
            jail.add(environments.environment(name, self.stack, preload=self._options.preload))
            # Those made ahead are children of the old one, which stays for as long as any of them is there.
            self._pool.refresh()

    # -- capacity -----------------------------------------------------------------------------------------------

    @property
    def in_use(self) -> int:
        """Sandboxes that are somebody's, or are being made for somebody."""
        return self._places.taken

    @property
    def spare(self) -> int:
        """Sandboxes that are ready and nobody's yet."""
        jail = self._jail
        return len(self._pool.ready) if jail is not None and jail.alive else 0

    def next_uid(self) -> int:
        """A user of its own for each sandbox, or root of the jail's own user namespace, which is us outside."""
        first = self._jail.first_uid if self._jail else None
        return 0 if first is None else first + next(self._uids) % users.COUNT

    async def close(self) -> None:
        await asyncio.to_thread(self.shut)

    def shut(self) -> None:
        """End the jail and everything in it."""
        with self._starting:
            self._closed = True
            self._pool.close()
            self._drop_jail()

    def _drop_jail(self) -> None:
        if self._jail is not None:
            self._jail.close()
            self._jail = None
        self._ready.clear()


def _prime(box: Box) -> None:
    run_steps.finish(box, box.prime())


def _end(box: Box) -> None:
    run_steps.finish(box, box.close())


def raise_file_limit() -> None:
    """A sandbox takes nine descriptors here; the usual soft limit of 1024 would end at a hundred of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
