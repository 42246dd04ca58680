"""One sandbox of the local jail, as steps without a loop.

Every operation is a generator that yields `Wait` when it needs the kernel to say something, and `Output`s where the
operation has any. `drive.py` runs such steps blocking or under asyncio; this file is the same for both and never
blocks longer than a system call.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import secrets
import select
import signal
import socket
import termios
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from belljar.errors import Lost, Refused
from belljar.sandbox import explain
from belljar.sandbox.base import KIB, MIB, Cell, Limits, Spec
from belljar.sandbox.guest import frames
from belljar.sandbox.local import messages
from belljar.sandbox.local.cgroups import Group
from belljar.sandbox.local.confine import Rlimits
from belljar.sandbox.local.files import Files
from belljar.sandbox.local.interpreter import CUT_OFF
from belljar.sandbox.local.jail import Jail
from belljar.sandbox.outputs import Display, Error, Exit, Output, Result, Stderr, Stdout

_START = 20.0
"""Seconds a sandbox may take to come up before we call it refused."""
_TICK = 0.25
"""How often a running cell is looked at when nothing happens."""
_DISPLAY_COST = 1024
"""Bytes that a display counts for beyond its own: a tiny one is still an object to everyone who handles it."""
_WORDS = 256 * KIB
"""The most that is kept of a message or a traceback, which the code words as it likes."""
_MOMENT = 0.2
"""How long an interpreter that went silent may take to be reported dead."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Come back when a descriptor of the box's `epoll` is ready, or after this many seconds."""

    seconds: float | None


T = TypeVar("T")
Steps: TypeAlias = Generator[Wait | Output, list[int], T]


class Box:
    """A sandbox: its init, its interpreter of the moment, its files."""

    def __init__(self, jail: Jail, spec: Spec, *, uid: int, paths: tuple[str, ...] = ()) -> None:
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
        self._paths = paths
        self._group: Group | None = None
        self._control: socket.socket | None = None
        self._init: int | None = None
        self._files: Files | None = None
        self._interpreter: _Interpreter | None = None
        self._ooms = 0
        self._cells = 0
        self._running = False
        self._interrupt_asked = False
        self._lost: str | None = None

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    @property
    def files(self) -> Files:
        if self._files is None:
            raise Lost("the sandbox is closed")
        return self._files

    @property
    def alive(self) -> bool:
        """Whether its first process lives, which nobody has looked at while the sandbox lay ready."""
        if not self._lost and self._control is not None and self._control.fileno() in dict(self.epoll.poll(0)):
            self._read_control()
        return not self._lost

    # -- life ---------------------------------------------------------------------------------------------------

    def create(self) -> Steps[None]:
        """Bring it up; `Refused` with the reason if that cannot be done."""
        try:
            limits = self.limits
            self._group = self._jail.groups.make(
                self.id, memory=limits.memory, cpus=limits.cpus, metered=limits.cpu_time is not None
            )
            self._control, theirs = messages.pair()
            self._control.setblocking(False)
            self.epoll.register(self._control, select.EPOLLIN)
            with theirs:
                self._spawn(theirs.fileno(), again=False)
            yield from self._until_up()
        except BaseException:
            self._discard()
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
        self._drop_interpreter()
        yield from self._ask({"op": "kill"})
        assert self._init is not None
        self._spawn(self._init, again=True)
        yield from self._until_up()

    def close(self) -> Steps[None]:
        """End it; when this is done no process, mount or control group of it is left."""
        with self._touching:
            init, self._init = self._init, None
            self._discard()
        if init is None:
            return
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(init, signal.SIGKILL)
        with select.epoll() as self.epoll:
            self.epoll.register(init, select.EPOLLIN)
            while not (yield Wait(5.0)):
                pass
            self.epoll.unregister(init)
            os.close(init)
            pause = 0.0002
            while self._group is not None and not self._group.removed():
                yield Wait(pause := min(pause * 2, 0.05))

    def _discard(self) -> None:
        """Let go of every descriptor but the init's."""
        self._lost = self._lost or "it was closed"
        self._closed = True
        leave, self.leave = self.leave, None
        if leave is not None:
            leave()
        self._drop_interpreter()
        if self._control is not None:
            self._control.close()
        if self._files is not None:
            self._files.close()
        self._files = self._control = None
        self.epoll.close()
        if self._group is not None:
            self._group.close()
        if self._init is None and self._group is not None:
            self._group.removed()  # nothing entered it; should that be wrong, it goes with the jail

    def _spawn(self, first: int, *, again: bool) -> None:
        """Ask the jail for an interpreter, in a new sandbox or in this one."""
        limits = self.limits
        interpreter = _Interpreter()
        cgroups = self._group.open_procs() if self._group else []
        request = messages.Create(
            id=self.id,
            environment=self.spec.packages,
            again=again,
            uid=self._uid,
            disk=limits.disk,
            scratch=limits.scratch,
            limits=Rlimits(
                open_files=limits.open_files,
                file_size=limits.file_size or limits.disk,
                processes=limits.processes,
                address_space=None if self._group else limits.memory,
            ),
            settings={"memory": limits.memory, "paths": list(self._paths), "threads": _threads(limits)},
        )
        try:
            self._jail.create(request, [first, *interpreter.theirs, *cgroups])
        except BaseException:
            interpreter.close_theirs()
            interpreter.close()
            raise
        finally:
            messages.close_all(cgroups)
        interpreter.close_theirs()
        for fd in interpreter.watched:
            self.epoll.register(fd, select.EPOLLIN)
        self._interpreter = interpreter

    def _until_up(self) -> Steps[None]:
        deadline = time.monotonic() + _START
        interpreter = self._interpreter
        assert interpreter is not None
        while not (interpreter.greeted and interpreter.handle is not None and self._files is not None):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refused(f"the sandbox did not come up within {_START:g} s; {self._jail.complaint()}")
            for fd in (yield Wait(left)):
                if self._control is not None and fd == self._control.fileno():
                    self._read_control()
                elif fd == interpreter.status.fileno():
                    self._read_status(interpreter)
                elif fd == interpreter.execution.fileno():
                    for kind, _ in interpreter.read_frames():
                        interpreter.greeted |= kind == frames.HELLO
            if interpreter.ended is not None or interpreter.eof:
                raise Refused(f"the interpreter ended while starting ({interpreter.ended}); {self._jail.complaint()}")

    def _read_control(self) -> dict[str, Any] | None:
        """A message of the init's. Its end of the socket closing means the sandbox is gone."""
        assert self._control is not None
        try:
            message, fds = messages.receive(self._control)
        except BlockingIOError:
            return {}
        except OSError:
            message, fds = None, []
        match message:
            case None:
                self._lost = self._lost or "its first process ended"
                self.epoll.unregister(self._control)
            case {"error": error}:
                messages.close_all(fds)
                raise Refused(str(error))
            case {"init": _}:
                self._init = fds.pop()
            case {"made": _}:
                owner = self._uid if self._jail.first_uid is not None else None
                self._files = Files(fds.pop(), owner=owner, quota=self.limits.disk)
        messages.close_all(fds)
        return message

    def _read_status(self, interpreter: _Interpreter) -> None:
        """A message of the zygote's about the interpreter."""
        try:
            message, fds = messages.receive(interpreter.status)
        except BlockingIOError:
            return
        except OSError:
            message, fds = None, []
        match message:
            case None:
                if interpreter.ended is None:
                    interpreter.ended = -signal.SIGKILL
                self.epoll.unregister(interpreter.status)
            case {"error": error}:
                messages.close_all(fds)
                raise Refused(str(error))
            case {"interpreter": _}:
                interpreter.handle = fds.pop()
            case {"ended": int(status)}:
                interpreter.ended = status
        messages.close_all(fds)

    def _ask(self, request: dict[str, object]) -> Steps[dict[str, Any]]:
        """Ask the init something and wait for the answer."""
        if self._control is None or self._lost:
            raise Lost(f"the sandbox is gone: {self._lost}")
        with contextlib.suppress(OSError):
            messages.send(self._control, request)
        deadline = time.monotonic() + _START
        while True:
            message = self._read_control()
            if message is None or time.monotonic() > deadline:
                self._lost = "its first process does not answer"
                raise Lost(f"the sandbox is gone: {self._lost}")
            if message and "cpu" not in message:  # which answers an earlier question
                return message
            yield Wait(1.0)

    def _drop_interpreter(self) -> None:
        if self._interpreter is not None:
            self._interpreter.close()
            self._interpreter = None

    def _check(self) -> None:
        if self._lost:
            raise Lost(f"the sandbox is gone: {self._lost}; make a new one")

    # -- cells --------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Stop the running cell; nothing happens when none is. Safe from any thread."""
        with self._touching:
            if self._running:
                self._interrupt_asked = True
                self._signal(signal.SIGINT)

    def _signal(self, number: int) -> None:
        interpreter = self._interpreter
        if interpreter is not None and interpreter.handle is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(interpreter.handle, number)

    def run(self, cell: Cell) -> Steps[None]:
        """Outputs as they come; the last is an `Exit`."""
        started = time.monotonic()
        whole = yield from self._while_open(self._run(cell))
        if not whole:
            yield explain.lost(self._lost or "", seconds=time.monotonic() - started)

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
        if self._interpreter is not None and self._interpreter.status.fileno() in dict(self.epoll.poll(0)):
            self._read_status(self._interpreter)
            if self._interpreter.ended is not None:
                how = explain.ended(self._interpreter.ended, out_of_memory=False, limits=self.limits, seconds=0)
                self._drop_interpreter()
                yield Stderr(f"[Between two cells: {how.text}]\n")
        if self._interpreter is None:
            yield from self._restart()
        self._cells += 1
        self._interrupt_asked = False
        self._running = True
        try:
            yield from _Turn(self, cell, self._cells).steps()
        finally:
            self._running = False


def _threads(limits: Limits) -> int:
    """How many threads linear algebra may use; past eight they mostly get in each other's way."""
    processors = len(os.sched_getaffinity(0))
    return max(1, min(8, processors, int(limits.cpus or processors)))


class _Interpreter:
    """The interpreter of the moment: its sockets and pipes, and what is known of its end."""

    def __init__(self) -> None:
        self.status, self._status = messages.pair()
        self.execution, self._execution = messages.pair(socket.SOCK_STREAM)
        self.stdout, self._stdout = os.pipe2(os.O_CLOEXEC)
        self.stderr, self._stderr = os.pipe2(os.O_CLOEXEC)
        for fd in (self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self.status.setblocking(False)
        self.execution.setblocking(False)
        self.handle: int | None = None
        self.greeted = False
        self.eof = False
        self.ended: int | None = None
        self._decoder = frames.Decoder()

    @property
    def theirs(self) -> list[int]:
        return [self._status.fileno(), self._execution.fileno(), self._stdout, self._stderr]

    @property
    def watched(self) -> list[int]:
        return [self.status.fileno(), self.execution.fileno(), self.stdout, self.stderr]

    def close_theirs(self) -> None:
        self._status.close()
        self._execution.close()
        os.close(self._stdout)
        os.close(self._stderr)

    def read_frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames that are there; `Malformed` for what is none."""
        try:
            # Plain recv: descriptors that the code may push along are dropped by the kernel. A larger buffer would be
            # mapped and unmapped for every cell.
            data = self.execution.recv(64 * KIB)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.eof = True
            return
        yield from self._decoder.feed(data)

    def close(self) -> None:
        self.status.close()
        self.execution.close()
        os.close(self.stdout)
        os.close(self.stderr)
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class _Turn:
    """One cell from request to `Exit`."""

    def __init__(self, box: Box, cell: Cell, number: int) -> None:
        assert box._interpreter is not None
        self._box = box
        self._limits = box.limits
        self._interpreter = box._interpreter
        self._number = number
        self._code = cell.code
        self._timeout = cell.timeout if cell.timeout is not None else box.limits.timeout
        self._started = time.monotonic()
        self._boot_time = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._text = _Text(box, number)
        self._done: dict[str, object] | None = None
        self._ooms = box._ooms
        self._stop: str | None = None
        self._stop_at = 0.0
        self._next_signal = 0.0
        self._killed = False
        self._shown = 0
        self._deaf_since: float | None = None
        self._cut_off = False
        self._cpu_before = box._group.cpu_seconds() if box._group else None
        self._usage_asked = False
        self._next_usage = self._started

    def steps(self) -> Steps[None]:
        try:
            yield from self._send()
            while not self._over():
                ready = yield Wait(self._patience())
                yield from self._take(ready)
                self._mind()
            yield from self._finish()
        finally:
            self._text.close()

    def _send(self) -> Steps[None]:
        data = memoryview(frames.encode_json(frames.RUN, {"id": self._number, "code": self._code}))
        sock = self._interpreter.execution
        watching = False
        while data:
            try:
                data = data[sock.send(data) :]
            except BlockingIOError:
                # Larger than the socket's buffer: watch for room, but keep reading meanwhile.
                if not watching:
                    self._box.epoll.modify(sock, select.EPOLLIN | select.EPOLLOUT)
                    watching = True
                ready = yield Wait(self._patience())
                yield from self._take(ready)
                self._mind()
                if self._over():
                    return
            except OSError:
                self._go_deaf()
                return
        if watching:
            self._box.epoll.modify(sock, select.EPOLLIN)

    def _over(self) -> bool:
        return self._done is not None or self._interpreter.ended is not None or bool(self._box._lost)

    def _patience(self) -> float:
        now = time.monotonic()
        times = [now + _TICK]
        if self._timeout is not None and self._stop is None:
            times.append(self._started + self._timeout)
        if self._stop is not None and not self._killed:
            times.append(self._next_signal)
        if self._deaf_since is not None and not self._cut_off:
            times.append(self._deaf_since + _MOMENT)
        return max(0.0, min(times) - now)

    def _take(self, ready: list[int]) -> Steps[None]:
        """Read what is ready. Text before frames: the guest prints nothing more until a display has been taken."""
        interpreter = self._interpreter
        if {interpreter.stdout, interpreter.stderr, interpreter.execution.fileno()}.intersection(ready):
            yield from self._text.read()
        if interpreter.status.fileno() in ready:
            self._box._read_status(interpreter)
        if interpreter.execution.fileno() in ready:
            yield from self._take_frames()
        if self._box._control is not None and self._box._control.fileno() in ready:
            usage = self._box._read_control()
            if usage and "cpu" in usage:
                self._judge(usage)

    def _take_frames(self) -> Steps[None]:
        try:
            for kind, payload in self._interpreter.read_frames():
                if kind in (frames.DISPLAY, frames.RESULT):
                    self._shown += len(payload) + _DISPLAY_COST
                    if self._too_much():
                        continue
                    bundle = frames.decode_bundle(payload)
                    yield Result(bundle) if kind == frames.RESULT else Display(bundle)
                elif kind == frames.DONE:
                    done = frames.decode_json(payload)
                    if done.get("id") == self._number:
                        self._done = done
        except frames.Malformed:
            self._interpreter.eof = True
        if self._interpreter.eof:
            self._go_deaf()

    def _go_deaf(self) -> None:
        """Nothing more can be understood from the interpreter; whether it is dead will be known in a moment."""
        if self._deaf_since is None:
            self._deaf_since = time.monotonic()
            self._box.epoll.unregister(self._interpreter.execution)

    # -- limits -------------------------------------------------------------------------------------------------

    def _mind(self) -> None:
        """Start, repeat or escalate a stop."""
        now = time.monotonic()
        if self._stop is None:
            if self._box._interrupt_asked:
                self._begin_stop("interrupted", now)
                self._next_signal = now + self._limits.grace / 5  # the first has been sent by whoever asked
            elif self._timeout is not None and now >= self._started + self._timeout:
                self._begin_stop("timed_out", now)
            elif self._too_much():
                self._begin_stop("output", now)
            else:
                self._watch_usage(now)
        if self._deaf_since is not None and now >= self._deaf_since + _MOMENT and not self._cut_off:
            # It lives but can no longer be understood: end it. Had it died, the zygote would have said so by now.
            self._cut_off = True
            self._box._signal(signal.SIGKILL)
        if self._stop is not None and not self._killed and now >= self._next_signal:
            if now >= self._stop_at + self._limits.grace:
                self._killed = True
                self._box._signal(signal.SIGKILL)
            else:
                # Once may hit a moment in which nobody listens, or an `except` that goes on.
                self._box._signal(signal.SIGINT)
                self._next_signal = now + self._limits.grace / 5

    def _too_much(self) -> bool:
        """Text goes to a log beyond its cap; displays are held by whoever listens, so they have a cap of their own."""
        limits = self._limits
        return self._shown > limits.display or self._text.total + self._shown > limits.output_total

    def _begin_stop(self, why: str, now: float) -> None:
        self._stop, self._stop_at, self._next_signal = why, now, now

    def _watch_usage(self, now: float) -> None:
        """Read what the kernel counts; where it does not count for us, ask the init now and then."""
        if self._limits.cpu_time is None and self._box._group is not None:
            return
        used = self._box._group.cpu_seconds() if self._box._group else None
        if used is not None:
            self._judge_cpu(used, now)
        elif now >= self._next_usage and not self._usage_asked and self._box._control is not None:
            with contextlib.suppress(OSError):
                messages.send(self._box._control, {"op": "usage", "turn": self._number})
                self._usage_asked = True

    def _judge(self, usage: dict[str, Any]) -> None:
        if usage.get("turn") != self._number:
            return  # asked by an earlier cell
        self._usage_asked = False
        now = time.monotonic()
        self._next_usage = now + 0.1
        if self._stop is None and self._box._group is None and usage["memory"] > self._limits.memory:
            self._begin_stop("memory", now)
            self._killed = True
            self._box._signal(signal.SIGKILL)
        self._judge_cpu(usage["cpu"], now)

    def _judge_cpu(self, used: float, now: float) -> None:
        if self._cpu_before is None:
            # The first look comes a moment after the start: give the cell what it can have used by then.
            self._cpu_before = max(0.0, used - (now - self._started) * (os.cpu_count() or 1))
            return
        limit = self._limits.cpu_time
        if limit is not None and self._stop is None and used - self._cpu_before > limit:
            self._begin_stop("cpu", now)

    # -- the end ------------------------------------------------------------------------------------------------

    def _finish(self) -> Steps[None]:
        seconds = time.monotonic() - self._started
        if self._done is None:
            yield from self._text.read()
        yield from self._text.finish()
        ended = self._interpreter.ended is not None
        with contextlib.suppress(Lost):  # which the exit tells
            if ended:
                yield from self._box._ask({"op": "kill"})  # the next interpreter would do it, but may never come
            elif self._stop in ("timed_out", "cpu", "output"):
                # What the cell left running would go on past its limit.
                yield from self._box._ask({"op": "sweep", "since": self._boot_time})
        outcome = self._outcome(seconds, kept=not ended)
        if ended:
            self._box._drop_interpreter()
        if self._box._files is not None:
            for change in self._box._files.changes():  # noqa: UP028 - a list has no send()
                yield change
        yield outcome

    def _outcome(self, seconds: float, *, kept: bool) -> Exit:
        limits, box = self._limits, self._box
        if box._lost:
            return explain.lost(box._lost, seconds=seconds)
        ooms = box._ooms = box._group.oom_kills() if box._group else 0
        if self._interpreter.ended is not None and ooms > self._ooms:
            return explain.over("memory", limits, kept=False, seconds=seconds)
        error = _error(self._done)
        match self._stop:
            case "timed_out":
                return explain.timed_out(self._timeout or 0.0, kept=kept, seconds=seconds)
            case "interrupted":
                return explain.interrupted(kept=kept, error=error, seconds=seconds)
            case "memory" | "cpu" | "output":
                return explain.over(self._stop, limits, kept=kept, seconds=seconds)
        if self._done is None:
            status = self._interpreter.ended if self._interpreter.ended is not None else -signal.SIGKILL
            if self._cut_off or status == CUT_OFF:
                return explain.disconnected(seconds=seconds)
            return explain.ended(status, out_of_memory=False, limits=limits, seconds=seconds)
        note = str(self._done.get("note") or "")[:_WORDS]
        if ooms > self._ooms:
            note = f"{note} A subprocess was killed: the memory limit is {explain.size(limits.memory)}.".strip()
        code = self._done.get("code")
        code = code if isinstance(code, int) else None
        if self._done.get("status") == "ok":
            return Exit("ok", note, code=code, seconds=seconds)
        if self._done.get("status") == "interrupted" and error is not None:
            # KeyboardInterrupt that nobody outside asked for: the code raised it.
            return explain.raised(error, limits, code=code, note=note, seconds=seconds)
        return explain.raised(error or Error("Exception", "", ""), limits, code=code, note=note, seconds=seconds)


def _error(done: dict[str, object] | None) -> Error | None:
    match done:
        case {"error": {"type": str(kind), "message": str(message), "traceback": str(traceback)}}:
            return Error(kind[:256], message[:_WORDS], traceback[-_WORDS:])
    return None


class _Text:
    """What a cell prints: decoded as it comes up to the cap, the whole of it in a log file beyond."""

    def __init__(self, box: Box, number: int) -> None:
        assert box._interpreter is not None
        self._limits = box.limits
        self._box = box
        self._name = f"output-{number}.log"
        self._pipes = (
            (box._interpreter.stdout, Stdout, codecs.getincrementaldecoder("utf-8")("backslashreplace")),
            (box._interpreter.stderr, Stderr, codecs.getincrementaldecoder("utf-8")("backslashreplace")),
        )
        self._kept: list[bytes] = []
        self._log: int | None = None
        self._full = False
        self.total = 0

    def read(self) -> Iterator[Output]:
        """What is in the pipes now; a bounded amount, should someone write as fast as we read."""
        for fd, kind, decoder in self._pipes:
            enough = self.total + 4 * MIB
            while self.total < enough:
                if self.total >= self._limits.output:
                    if not self._spill(fd):
                        break
                    continue
                try:
                    data = os.read(fd, min(256 * KIB, self._limits.output - self.total))
                except BlockingIOError:
                    break
                if not data:
                    break
                self.total += len(data)
                self._kept.append(data)
                if text := decoder.decode(data):
                    yield kind(text)

    def finish(self) -> Iterator[Output]:
        """The ends of broken characters, and a word on what was cut."""
        for _, kind, decoder in self._pipes:
            if text := decoder.decode(b"", final=True):
                yield kind(text)
        if self._log is not None:
            for fd, _, _ in self._pipes:
                with contextlib.suppress(OSError):
                    fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 64 * KIB)
            where = f"all of it is in {self._name}" + (", as far as the workspace had room" if self._full else "")
            shown = explain.size(self._limits.output)
            yield Stderr(f"\n[output cut at {shown} of {explain.size(self.total)}; {where}]\n")

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            os.close(log)

    def _spill(self, fd: int) -> bool:
        """Move what is in the pipe to the log without looking at it; False when the pipe is empty."""
        if self._log is None:
            if not any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4))):
                return False  # exactly at the cap, and nothing more yet
            self._open_log()
        assert self._log is not None
        target = self._log
        try:
            if not self._full:
                moved = os.splice(fd, target, MIB, flags=os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE)
            else:
                moved = len(os.read(fd, MIB))
        except BlockingIOError:
            return False
        except OSError:
            self._full = True
            return True
        self.total += moved
        return moved > 0

    def _open_log(self) -> None:
        for fd, _, _ in self._pipes:
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, MIB)
        self._log = self._box.files.append(self._name)
        try:
            for data in self._kept:
                os.write(self._log, data)
        except OSError:
            self._full = True
        self._kept.clear()
