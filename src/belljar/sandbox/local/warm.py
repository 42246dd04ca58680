"""The pool of warm sandboxes: a thread makes some ahead; a caller who finds none waits for the next one."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from belljar.errors import BelljarError, Lost
from belljar.sandbox.base import Spec

_REFILL = 0.02
"""Seconds before a claimed sandbox is made up for: whoever claimed it has a cell to run first."""


class WarmSandbox(Protocol):
    """What the pool knows of a sandbox."""

    spec: Spec

    @property
    def alive(self) -> bool: ...


B = TypeVar("B", bound=WarmSandbox)


@dataclass(slots=True)
class _Coming(Generic[B]):
    """A sandbox that is being made."""

    batch: int
    spec: Spec | None = None
    """What the one who waits for it has asked for; None while nobody does."""
    box: Future[B | None] = field(default_factory=Future)
    """For that one: the sandbox, or None where it could not be made."""


class Pool(Generic[B]):
    """Keeps `size` sandboxes like `spec` ready. Usable from threads and from asyncio alike.

    `make`, `prime` and `end` block: one that is up, a cell run ahead in it, nothing left of it. Where `make` fails,
    whoever waited is given None, and is told why when they make one themselves.
    """

    def __init__(
        self,
        spec: Spec,
        size: int,
        *,
        make: Callable[[Spec], B],
        prime: Callable[[B], None],
        end: Callable[[B], None],
    ) -> None:
        self._spec = spec
        self._shape = _shape(spec)
        self._size = size
        self._make = make
        self._prime = prime
        self._end = end
        self._lock = threading.Lock()
        self._calm = threading.Condition(self._lock)
        self._hurried = 0
        self._ready: collections.deque[B] = collections.deque()
        self._dead: collections.deque[B] = collections.deque()
        """Those that died while they were ready, which the thread ends."""
        self._coming: _Coming[B] | None = None
        self._batch = 0
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def ready(self) -> tuple[B, ...]:
        """Those that are nobody's yet."""
        return tuple(self._ready)

    def start(self) -> None:
        """Make them, from now on; or try again, where that has failed."""
        with self._lock:
            if self._thread is None and self._size:
                self._thread = threading.Thread(target=self._keep_full, name="belljar-warm", daemon=True)
                self._thread.start()
            elif len(self._ready) < self._size:
                self._wanted.set()

    # -- for those who ask --------------------------------------------------------------------------------------

    def claim(self, spec: Spec) -> B | None:
        """One that is ready, if there is one that will do."""
        if _shape(spec) != self._shape:
            return None
        while True:
            try:
                box = self._ready.popleft()
            except IndexError:
                self._wanted.set()  # the last try to make one may have failed
                return None
            self._wanted.set()
            if box.alive:
                box.spec = spec
                return box
            self._dead.append(box)  # ending it may take a while, for which the one who asks need not wait

    def expect(self, spec: Spec) -> B | None:
        """The one that is being made, when it comes, if it will do and nobody else has asked for it."""
        if (coming := self._reserve(spec)) is None:
            return None
        try:
            return coming.box.result()
        except BaseException:
            self._abandon(coming)
            raise

    async def expect_async(self, spec: Spec) -> B | None:
        """The same under asyncio."""
        if (coming := self._reserve(spec)) is None:
            return None
        try:
            return await asyncio.wrap_future(coming.box)
        except BaseException:
            self._abandon(coming)
            raise

    @contextmanager
    def first(self) -> Iterator[None]:
        """While somebody waits for a sandbox of their own, none is made for later."""
        with self._lock:
            self._hurried += 1
        try:
            yield
        finally:
            with self._calm:
                self._hurried -= 1
                self._calm.notify_all()

    def _reserve(self, spec: Spec) -> _Coming[B] | None:
        with self._lock:
            coming = self._coming
            if coming is None or coming.spec is not None or _shape(spec) != self._shape:
                return None
            coming.spec = spec
            return coming

    def _abandon(self, coming: _Coming[B]) -> None:
        """Whoever waited has gone. What they waited for is kept, also if it has come in the same moment."""
        if not coming.box.cancel():
            coming.box.add_done_callback(lambda box: self._take_back(box.result(), coming.batch))

    def _take_back(self, box: B | None, batch: int) -> None:
        if box is None:
            return
        with self._lock:
            kept = self._keep(box, batch)
        if not kept:
            self._end(box)

    # -- making -------------------------------------------------------------------------------------------------

    def _keep_full(self) -> None:
        while True:
            self._wanted.clear()
            if self._closing.is_set():  # looked at after clearing: closing is told first, and then wanted
                return
            self._end_dead()
            try:
                while len(self._ready) < self._size and not self._closing.is_set():
                    self._add()
            except (BelljarError, OSError):
                pass  # whoever asks next makes one the slow way and is told why that fails
            self._wanted.wait()
            self._closing.wait(_REFILL)

    def _add(self) -> None:
        with self._calm:
            self._calm.wait_for(lambda: not self._hurried or self._closing.is_set())
            if self._closing.is_set():
                return
            coming = self._coming = _Coming[B](self._batch)
        made: B | None = None
        try:
            box = self._make(self._spec)
            try:
                if coming.spec is None:  # somebody who waits for it has a cell to run at once
                    self._prime(box)
                if not box.alive:
                    raise Lost("it died before anybody had it")
            except BaseException:
                self._end(box)
                raise
            made = box
        finally:
            self._deliver(coming, made)

    def _deliver(self, coming: _Coming[B], box: B | None) -> None:
        """Give it to whoever waits for it, or keep it."""
        with self._lock:
            self._coming = None
            asked = coming.spec if coming.box.set_running_or_notify_cancel() else None
            if asked is None and box is not None and self._keep(box, coming.batch):
                return
        if asked is not None and box is not None and not self._closing.is_set():
            box.spec = asked
            coming.box.set_result(box)
            return
        if asked is not None:
            coming.box.set_result(None)
        if box is not None:
            self._end(box)

    def _keep(self, box: B, batch: int) -> bool:
        """Under the lock: put it with those that are ready, unless their time is over."""
        kept = batch == self._batch and not self._closing.is_set()
        if kept:
            self._ready.append(box)
        return kept

    # -- ending -------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """End those that are ready, and the one being made if nobody waits for it; new ones take their place."""
        with self._lock:
            self._batch += 1
            old = self._take_all()
        self._wanted.set()
        for box in old:
            self._end(box)

    def close(self) -> None:
        """End all that is ready or being made, and make no more. Whoever waits for one is given None."""
        with self._calm:
            self._closing.set()
            self._calm.notify_all()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(10)
        with self._lock:
            old = self._take_all()
        for box in old:
            self._end(box)
        self._end_dead()

    def _end_dead(self) -> None:
        while self._dead:
            with contextlib.suppress(BelljarError, OSError, IndexError):
                self._end(self._dead.popleft())

    def _take_all(self) -> list[B]:
        """One by one: others claim at the same time, without the lock."""
        taken = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self._ready.popleft())
        return taken


def _shape(spec: Spec) -> Spec:
    """What is built into a sandbox when it is made; the rest the host applies to each cell."""
    same = {"timeout": None, "output": 0, "output_total": 0, "display": 0, "grace": 0.0}
    return replace(spec, limits=replace(spec.limits, **same))  # type: ignore[arg-type]
