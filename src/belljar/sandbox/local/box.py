"""One sandbox of the local jail: create, run, interrupt, restart, close, as steps without a loop.

Every operation is a generator that yields `Wait` when it needs the kernel to say something, and lists of `Output`
where the operation has any. `run_steps.py` runs them blocking or under asyncio; this file is the same for both and
never blocks longer than a system call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from belljar.errors import Lost, Refused
from belljar.sandbox import explain
from belljar.sandbox.base import Cell, Limits, Spec
from belljar.sandbox.guest import frames
from belljar.sandbox.local import messages, workers
from belljar.sandbox.local.cell_run import CellRun
from belljar.sandbox.local.cgroups import Group, is_gone
from belljar.sandbox.local.confine import Rlimits
from belljar.sandbox.local.files import Files
from belljar.sandbox.local.interpreter_channel import Link
from belljar.sandbox.local.jail import Jail
from belljar.sandbox.local.steps import ENDING, Steps, Wait
from belljar.sandbox.outputs import Stderr

_START = 20.0
"""Seconds a sandbox may take to come up before we call it refused."""

_log = logging.getLogger("belljar.sandbox")

Extend: TypeAlias = Callable[[Spec, Sequence[str]], tuple[Spec, tuple[str, ...]]]
"""The spec with these requirements too, and where they all are, inside. Blocks while it fetches them."""


class Box:
    """A sandbox: its init, its interpreter of the moment, its files."""

    def __init__(self, jail: Jail, spec: Spec, *, uid: int, paths: tuple[str, ...], extend: Extend) -> None:
        self.id = f"sbx_{secrets.token_hex(12)}"
        self.spec = spec
        self.epoll = select.epoll()
        self.leave: Callable[[], None] | None = None
        """Called before the descriptors go, for whoever waits on them."""
        self._touching = threading.RLock()
        """Held by whoever uses the descriptors: another thread may close the sandbox meanwhile."""
        self._closed = False
        self._jail = jail
        self._uid = uid
        self.paths = paths
        """What its interpreters have on `sys.path` beyond their environment."""
        self._extend = extend
        self.group: Group | None = None
        self.control: socket.socket | None = None
        self._init: int | None = None
        self._files: Files | None = None
        self._watched = False
        self._queue: int | None = None
        """Of what changed in the workspace, once nobody reads it any more."""
        self.link: Link | None = None
        self.ooms = 0
        self._cells = 0
        self._interpreters = 0
        self._running = False
        self._turns: int | None = None
        """Where its init sees whether a cell runs."""
        self.interrupt_asked = False
        self.excess: messages.Excess | None = None
        """Why its init has ended processes, until a cell's end tells."""
        self.lost: str | None = None

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    @property
    def metered_inside(self) -> bool:
        """Whether its init counts the processor time of cells, since no control group does."""
        return self.limits.cpu_time is not None and (self.group is None or self.group.account is None)

    @property
    def files(self) -> Files:
        if self._files is None:
            raise Lost("the sandbox is closed")
        return self._files

    @property
    def cells(self) -> int:
        """How many were begun."""
        return self._cells

    @property
    def interpreter(self) -> int:
        """The number of the one that the next cell will find, from 1 on: each has variables of its own."""
        return self._interpreters + (self.link is None)

    @property
    def alive(self) -> bool:
        """Whether its first process lives, which nobody has looked at while the sandbox lay ready.

        The jail takes it along when it ends, if a moment later.
        """
        if not self.lost and self.control is not None and self.control.fileno() in dict(self.epoll.poll(0)):
            self.read_control()
        return not self.lost and self._jail.alive

    # -- life ---------------------------------------------------------------------------------------------------

    def create(self) -> Steps[None]:
        """Bring it up; `Refused` with the reason if that cannot be done."""
        try:
            self.group = self._new_group()
            self._watched = self._jail.watches.acquire(blocking=False)
            self.control, theirs = messages.pair()
            self.control.setblocking(False)
            self._turns = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self.epoll.register(self.control, select.EPOLLIN)
            with theirs:
                messages.send(self.control, self._walls(), [self._turns])
                self._spawn(theirs.fileno(), again=False)
            yield from self._until_up()
        except BaseException:
            self._discard()
            self._close_queue()
            raise

    def prime(self) -> Steps[None]:
        """Run a cell that does nothing, so that the first real one finds its pages in place."""
        yield from self.run(Cell("None"))
        self._cells = 0

    def restart(self) -> Steps[None]:
        """A new interpreter among the same files; everything that ran inside is killed."""
        yield from self._while_open(self._restart())
        self._check()

    def _restart(self) -> Steps[None]:
        self._check()
        self.drop_link()
        yield from self.ask({"op": "kill"})
        assert self._init is not None
        self._spawn(self._init, again=True)
        yield from self._until_up()

    def fetch(self, requirements: Sequence[str]) -> tuple[Spec, tuple[str, ...]]:
        """What `install` takes, with these requirements too. Not a step: it blocks, and changes nothing."""
        return self._extend(self.spec, requirements)

    def install(self, spec: Spec, paths: tuple[str, ...]) -> None:
        """Have these paths instead; an interpreter that runs already is told with its next cell."""
        self._check()
        self.spec, self.paths = spec, paths

    def close(self) -> Steps[None]:
        """End it; when this is done no process, mount or control group of it is left.

        Where they will not go (a process that the kernel cannot end, one of the jail's own that is stuck and buries no
        children) the log has it, and we go on: whoever is done with a sandbox can do nothing about it.
        """
        with self._touching:
            init, self._init = self._init, None
            self._discard()
        with select.epoll() as self.epoll:
            try:
                if init is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(init, signal.SIGKILL)
                    self.epoll.register(init, select.EPOLLIN)
                if not (yield from self._until_gone(init)):
                    _log.error(self._remains(init))
            finally:
                self._close_queue()
                if init is not None:
                    os.close(init)

    def _close_queue(self) -> None:
        """After the init, which has it too: it would be the last to close it otherwise, and end later by that."""
        queue, self._queue = self._queue, None
        if queue is not None:
            workers.close_later(queue)

    def _until_gone(self, init: int | None) -> Steps[bool]:
        """Wait for the end of the init, which is the last of its processes, and for the control group; not for ever.

        A sandbox that was let go before its init was known may still be on its way in; its socket tells it to end.
        """
        pause, ended, desperate = 0.0002, init is None, self.group is None
        deadline = time.monotonic() + ENDING
        while True:
            if init is not None and not ended:
                ended = init in (yield Wait(max(0.0, deadline - time.monotonic())))
                if ended:
                    self.epoll.unregister(init)
            elif self.group is None or self.group.removed():
                return True
            else:
                yield Wait(pause := min(pause * 2, 0.05))
            if time.monotonic() > deadline:
                if desperate or self.group is None:
                    return False
                self.group.kill()
                desperate, deadline = True, time.monotonic() + ENDING

    def _remains(self, init: int | None) -> str:
        """What is left of a sandbox that would not go, in words."""
        what = "its processes" if init is None else f"process {_pid(init)} and those inside"
        if self.group is not None:
            what += f" in {', '.join(str(path) for path in self.group.directories if path.exists())}"
        return (
            f"sandbox {self.id} was killed but is not gone: {what} did not end. It can no longer be used and goes when "
            "Belljar ends; `ps -eo pid,stat,wchan:20,args` shows what its processes wait for"
        )

    def _discard(self) -> None:
        """Let go of every descriptor but the init's."""
        self.lost = self.lost or "it was closed"
        self._closed = True
        leave, self.leave = self.leave, None
        if leave is not None:
            leave()
        self.drop_link()
        if self.control is not None:
            self.control.close()
        turns, self._turns = self._turns, None
        if turns is not None:
            os.close(turns)
        if self._files is not None:
            self._queue = self._files.close()
        self._files = self.control = None
        if self._watched:
            self._watched = False
            self._jail.watches.release()
        self.epoll.close()
        if self.group is not None:
            self.group.close()

    def _spawn(self, first: int, *, again: bool) -> None:
        """Ask the jail for an interpreter, in a new sandbox or in this one."""
        link = Link(self.paths)
        cgroups = self._doors()
        settings = {"paths": self.paths, "threads": _threads(self.limits)}
        try:
            messages.send(link.status, messages.Start(limits=self._rlimits(), settings=settings))
            self._jail.create(self.spec.packages, [first, *link.theirs, *cgroups], again=again)
        except BaseException:
            link.close_theirs()
            link.close()
            raise
        finally:
            messages.close_all(cgroups)
        link.close_theirs()
        for fd in link.watched:
            self.epoll.register(fd, select.EPOLLIN)
        self.link = link
        self._interpreters += 1

    def _walls(self) -> messages.Walls:
        limits = self.limits
        return messages.Walls(
            uid=self._uid,
            disk=limits.disk,
            scratch=limits.scratch,
            watch=self._watched,
            limits=self._rlimits(),
            idle_cpu_time=limits.idle_cpu_time,
        )

    def _rlimits(self) -> Rlimits:
        limits = self.limits
        return Rlimits(
            open_files=limits.open_files,
            file_size=limits.file_size or limits.disk,
            processes=limits.processes,
            address_space=None if self.group else limits.memory,
        )

    def _new_group(self) -> Group | None:
        limits = self.limits
        return self._jail.groups.make(
            self.id, memory=limits.memory, cpus=limits.cpus, metered=limits.cpu_time is not None
        )

    def _doors(self) -> list[int]:
        """Descriptors through which an interpreter enters the control group."""
        if self.group is None:
            return []
        try:
            return self.group.open_procs()
        except OSError as error:
            if not is_gone(error):
                raise
            # Nobody is in it between two interpreters, so anyone with the right can remove it.
            self.group.close()
            self.group, self.ooms = self._new_group(), 0
            return self.group.open_procs() if self.group else []

    def _until_up(self) -> Steps[None]:
        deadline = time.monotonic() + _START
        link = self.link
        assert link is not None
        while not (link.greeted and link.handle is not None and self._files is not None):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refused(f"the sandbox did not come up within {_START:g} s; {self._jail.complaint()}")
            for fd in (yield Wait(left)):
                if self.control is not None and fd == self.control.fileno():
                    self.read_control()
                elif fd == link.status.fileno():
                    self.read_status(link)
                elif link.is_connection(fd):
                    for kind, _ in link.read_frames():
                        link.greeted |= kind == frames.HELLO
            if link.ended is not None or link.eof:
                raise Refused(f"the interpreter ended while starting ({link.ended}); {self._jail.complaint()}")

    def read_control(self) -> dict[str, Any] | None:
        """A message of the init's. Its end of the socket closing means the sandbox is gone."""
        assert self.control is not None
        try:
            message, fds = messages.receive(self.control)
        except BlockingIOError:
            return {}
        except OSError:
            message, fds = None, []
        match message:
            case None:
                self.lost = self.lost or "its first process ended"
                self.epoll.unregister(self.control)
            case {"error": error}:
                messages.close_all(fds)
                raise Refused(str(error))
            case {"init": _}:
                self._init = fds.pop()
            case {"excess": str(why), "memory": bool(memory)}:
                self.excess = messages.Excess(excess=why, memory=memory, turn=-1)
            case {"made": _}:
                owner = self._uid if self._jail.first_uid is not None else None
                queue = self._jail.close_before_end(fds.pop()) if len(fds) > 1 else None
                self._files = Files(fds.pop(), owner=owner, quota=self.limits.disk, queue=queue)
        messages.close_all(fds)
        return message

    def read_status(self, link: Link) -> None:
        """A message of the zygote's about the interpreter, or of the interpreter's own before it runs any code."""
        try:
            message, fds = messages.receive(link.status)
        except BlockingIOError:
            return
        except OSError:
            message, fds = None, []
        match message:
            case None:
                if link.ended is None:
                    link.ended = -signal.SIGKILL
                self.epoll.unregister(link.status)
            case {"error": error}:
                messages.close_all(fds)
                raise Refused(str(error))
            case {"interpreter": _}:
                link.handle = fds.pop()
            case {"connection": _}:
                self.epoll.register(link.connect(fds.pop()), select.EPOLLIN)
            case {"ended": int(status)}:
                link.ended = status
        messages.close_all(fds)

    def ask(self, request: dict[str, object]) -> Steps[dict[str, Any]]:
        """Ask the init something and wait for the answer."""
        if self.control is None or self.lost:
            raise Lost(f"the sandbox is gone: {self.lost}")
        with contextlib.suppress(OSError):
            messages.send(self.control, request)
        deadline = time.monotonic() + _START
        while True:
            message = self.read_control()
            if message is None or time.monotonic() > deadline:
                self.lost = "its first process does not answer"
                raise Lost(f"the sandbox is gone: {self.lost}")
            if message and message.get("turn") == request.get("turn"):  # else it answers an earlier question
                return message
            yield Wait(1.0)

    def drop_link(self) -> None:
        if self.link is not None:
            self.link.close()
            self.link = None

    def _check(self) -> None:
        if self.lost:
            raise Lost(f"the sandbox is gone: {self.lost}; make a new one")

    # -- cells --------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop the running cell; nothing happens when none is. Safe from any thread."""
        with self._touching:
            if self._running:
                self.interrupt_asked = True
                self.signal(signal.SIGINT)

    def signal(self, number: int) -> None:
        link = self.link
        if link is not None and link.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(link.handle, number)

    def run(self, cell: Cell) -> Steps[None]:
        """Outputs as they come; the last is an `Exit`."""
        started = time.monotonic()
        whole = yield from self._while_open(self._run(cell))
        if not whole:
            yield [explain.loss(self.lost or "", seconds=time.monotonic() - started)]

    def _while_open(self, steps: Steps[None]) -> Steps[bool]:
        """Steps that stop when someone else closes the sandbox: the numbers of its descriptors are then others'."""
        ready: list[int] | None = None
        try:
            while True:
                with self._touching:
                    if self._closed and ready is not None:
                        return False
                    try:
                        step = next(steps) if ready is None else steps.send(ready)
                    except StopIteration:
                        return True
                ready = yield step
        finally:
            steps.close()

    def _run(self, cell: Cell) -> Steps[None]:
        self._check()
        if self.link is None:
            yield from self._restart()
        self._cells += 1
        self.interrupt_asked = False
        self._running = True  # from here on an interrupt is the cell's, though it may not have begun
        self._tell_turn()
        try:
            yield from self._meter()
            turn = CellRun(self, cell, self._cells)
            if not turn.begin():
                yield from self._replace()
                yield from self._meter()
                turn = CellRun(self, cell, self._cells)
                turn.begin()
            yield from turn.steps()
        finally:
            self._running = False
            self._tell_turn()

    def _tell_turn(self) -> None:
        """That a cell begins or ends; nobody wakes up for it."""
        with self._touching:
            if self._turns is not None:
                os.eventfd_write(self._turns, 1)

    def _meter(self) -> Steps[None]:
        """Where the kernel does not count processor time for us, have the init count from here: the cell's alone."""
        if self.metered_inside:
            with contextlib.suppress(Lost):  # which the turn tells
                yield from self.ask({"op": "begin", "turn": self._cells})

    def _replace(self) -> Steps[None]:
        """Put a new interpreter in the place of one that ended between two cells, and say so."""
        link = self.link
        assert link is not None
        patience = time.monotonic() + 1.0
        while link.ended is None and time.monotonic() < patience:
            if link.status.fileno() in (yield Wait(0.1)):
                self.read_status(link)
        status = -signal.SIGKILL if link.ended is None else link.ended
        how = explain.process_end(status, out_of_memory=False, limits=self.limits, seconds=0)
        self.drop_link()
        yield [Stderr(f"[Between two cells: {how.text}]\n")]
        yield from self._restart()


def _pid(handle: int) -> str:
    """The number of the process that a handle is for."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return line.split()[1]
    return "?"


def _threads(limits: Limits) -> int:
    """How many threads linear algebra may use; past eight they mostly get in each other's way."""
    processors = len(os.sched_getaffinity(0))
    return max(1, min(8, processors, int(limits.cpus or processors)))
