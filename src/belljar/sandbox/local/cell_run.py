"""One cell from request to `Exit`: send it, pass on its output, enforce the limits, explain the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from belljar.errors import Lost
from belljar.sandbox import explain
from belljar.sandbox.base import KIB, Cell
from belljar.sandbox.guest import frames
from belljar.sandbox.local import messages, workers
from belljar.sandbox.local.files import Look
from belljar.sandbox.local.interpreter import CUT_OFF
from belljar.sandbox.local.output_capture import Printed
from belljar.sandbox.local.steps import ENDING, Steps, Wait
from belljar.sandbox.outputs import Display, Error, Exit, Limit, Output, Result

if TYPE_CHECKING:
    from belljar.sandbox.local.box import Box

_TICK = 0.25
"""How often a running cell is looked at when nothing happens."""
_DISPLAY_COST = 1024
"""Bytes that a display counts for beyond its own: a tiny one is still an object to everyone who handles it."""
_WORDS = 256 * KIB
"""The most that is kept of a message or a traceback, which the code words as it likes."""
_SHORT = 0.005
"""Seconds in which no one can have filled a sandbox's memory."""
_MOMENT = 0.2
"""How long an interpreter that went silent may take to be reported dead."""


Stop: TypeAlias = Literal["timed_out", "interrupted", "memory", "cpu", "output"]


class CellRun:
    """One cell from request to `Exit`."""

    _text: Printed
    _news: list[Output]
    """Outputs to be passed on."""
    _unsent = memoryview(b"")
    _done: dict[str, object] | None = None
    _stop: Stop | None = None
    """Why it is being stopped."""
    _stop_at = 0.0
    _next_signal = 0.0
    _killed = False
    _shown = 0
    _deaf_since: float | None = None
    _cut_off = False
    _killed_at: float | None = None
    _usage_asked = False

    def __init__(self, box: Box, cell: Cell, number: int) -> None:
        assert box.link is not None
        self._box = box
        self._limits = limits = box.limits
        self._link = box.link
        self._number = number
        self._code = cell.code
        self._timeout = cell.timeout if cell.timeout is not None else limits.timeout
        self._started = time.monotonic()
        self._files = box.files
        self._ooms = box.ooms
        self._cpu_before = box.group.cpu_seconds() if box.group else None
        self._next_usage = self._started

    def begin(self) -> bool:
        """Send the request, first of all: the guest works while the host gets ready. False if nobody is there."""
        frame = frames.encode_text(frames.RUN, self._number, self._code)
        if self._box.paths != self._link.paths:
            self._link.paths = self._box.paths
            frame = frames.encode_text(frames.PATHS, self._number, os.pathsep.join(self._link.paths)) + frame
        try:
            sent = self._link.execution.send(frame)
            if sent < len(frame):
                self._unsent = memoryview(frame)[sent:]
        except BlockingIOError:
            self._unsent = memoryview(frame)
        except OSError:
            return False
        self._text = Printed(self._link, self._files, self._limits, self._number)
        self._news = []
        return True

    def steps(self) -> Steps[None]:
        try:
            if self._unsent:
                yield from self._send_rest()
            over = self._is_over()
            while not over:
                ready = yield Wait(self._patience())
                self._take(ready)
                over = self._is_over()
                if not over:
                    self._mind()
                    yield from self._pass_on()
            yield from self._finish()
        finally:
            self._text.close()

    def _send_rest(self) -> Steps[None]:
        """What is larger than the socket's buffer: watch for room, but keep reading meanwhile."""
        sock = self._link.execution
        self._box.epoll.modify(sock, select.EPOLLIN | select.EPOLLOUT)
        while self._unsent and not self._is_over():
            ready = yield Wait(self._patience())
            self._take(ready)
            self._mind()
            yield from self._pass_on()
            try:
                self._unsent = self._unsent[sock.send(self._unsent) :]
            except BlockingIOError:
                continue
            except OSError:
                self._go_deaf()
                return
        if self._deaf_since is None:
            self._box.epoll.modify(sock, select.EPOLLIN)

    def _pass_on(self) -> Steps[None]:
        if self._news:
            news, self._news = self._news, []
            yield news

    def _is_over(self) -> bool:
        """Answered, ended or lost. An answer that crossed our kill on the way does not count: it will end."""
        if self._link.ended is not None or self._box.lost:
            return True
        return self._done is not None and not (self._killed or self._cut_off)

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

    def _take(self, ready: list[int]) -> None:
        """Read what is ready. Text before frames: what was printed before a frame was sent is ready with it or sooner,
        and the guest prints nothing more until a display has been taken.
        """
        interpreter = self._link
        if interpreter.stdout in ready or interpreter.stderr in ready:
            self._news.extend(self._text.read())
        if interpreter.status.fileno() in ready:
            self._box.read_status(interpreter)
        if interpreter.execution.fileno() in ready:
            self._take_frames()
        if self._box.control is not None and self._box.control.fileno() in ready:
            usage = self._box.read_control()
            if usage and "cpu" in usage:
                self._judge(usage)

    def _take_frames(self) -> None:
        try:
            for kind, payload in self._link.read_frames():
                if kind == frames.OK:
                    number, text = frames.decode_text(payload)
                    self._take_end({"id": number, "status": "ok", "result": text})
                elif kind == frames.DONE:
                    self._take_end(frames.decode_json(payload))
                elif kind in (frames.DISPLAY, frames.RESULT):
                    self._shown += len(payload) + _DISPLAY_COST
                    if self._too_much():
                        continue
                    bundle = frames.decode_bundle(payload)
                    self._news.append(Result(bundle) if kind == frames.RESULT else Display(bundle))
        except frames.Malformed:
            self._link.eof = True
        if self._link.eof:
            self._go_deaf()

    def _take_end(self, done: dict[str, object]) -> None:
        if done.get("id") == self._number:
            self._done = done
            if isinstance(text := done.get("result"), str) and text:
                self._news.append(Result({"text/plain": text[:_WORDS]}))

    def _go_deaf(self) -> None:
        """Nothing more can be understood from the interpreter; whether it is dead will be known in a moment."""
        if self._deaf_since is None:
            self._deaf_since = time.monotonic()
            self._box.epoll.unregister(self._link.execution)

    # -- limits -------------------------------------------------------------------------------------------------

    def _mind(self) -> None:
        """Start, repeat or escalate a stop."""
        now = time.monotonic()
        if self._stop is None:
            if self._box.interrupt_asked:
                self._begin_stop("interrupted", now)
                self._next_signal = now + self._limits.grace / 5  # the first has been sent by whoever asked
            elif self._timeout is not None and now >= self._started + self._timeout:
                self._begin_stop("timed_out", now)
            elif self._too_much():
                self._begin_stop("output", now)
            else:
                self._watch_usage(now)
        if self._deaf_since is not None and now >= self._deaf_since + _MOMENT and not self._cut_off:
            # Dead, and the zygote has yet to say how; or it lives but can no longer be understood: end it.
            if self._link.has_ended():
                self._deaf_since = now
                self._killed_at = self._killed_at or now
            else:
                self._cut_off = True
                self._kill(now)
        if self._stop is not None and not self._killed and now >= self._next_signal:
            if now >= self._stop_at + self._limits.grace:
                self._killed = True
                self._kill(now)
            else:
                # Once may hit a moment in which nobody listens, or an `except` that goes on.
                self._box.signal(signal.SIGINT)
                self._next_signal = now + self._limits.grace / 5
        if self._killed_at is not None and now >= self._killed_at + ENDING:
            self._box.lost = f"its interpreter was killed {ENDING:g} s ago and has not ended"

    def _kill(self, now: float) -> None:
        self._killed_at = self._killed_at or now
        self._box.signal(signal.SIGKILL)

    def _too_much(self) -> bool:
        """Text goes to a log beyond its cap; displays are held by whoever listens, so they have a cap of their own."""
        limits = self._limits
        return self._shown > limits.display or self._text.total + self._shown > limits.output_total

    def _begin_stop(self, why: Stop, now: float) -> None:
        self._stop, self._stop_at, self._next_signal = why, now, now

    def _watch_usage(self, now: float) -> None:
        """Read what the kernel counts; where it does not count for us, ask the init now and then."""
        if self._limits.cpu_time is None and self._box.group is not None:
            return
        used = self._box.group.cpu_seconds() if self._box.group else None
        if used is not None and self._cpu_before is not None:
            self._judge_cpu(used - self._cpu_before, now)
        elif now >= self._next_usage and not self._usage_asked and self._box.control is not None:
            with contextlib.suppress(OSError):
                messages.send(self._box.control, {"op": "usage", "turn": self._number})
                self._usage_asked = True

    def _judge(self, usage: dict[str, Any]) -> None:
        if usage.get("turn") != self._number:
            return  # asked by an earlier cell
        self._usage_asked = False
        now = time.monotonic()
        self._next_usage = now + 0.1
        if self._stop is None and self._box.group is None and usage["memory"] > self._limits.memory:
            self._begin_stop("memory", now)
            self._killed = True
            self._kill(now)
        if self._box.metered_inside:
            self._judge_cpu(usage["cpu"], now)

    def _judge_cpu(self, used: float, now: float) -> None:
        limit = self._limits.cpu_time
        if limit is not None and self._stop is None and used > limit:
            self._begin_stop("cpu", now)

    # -- the end ------------------------------------------------------------------------------------------------

    def _finish(self) -> Steps[None]:
        seconds = time.monotonic() - self._started
        if self._done is None:
            self._news.extend(self._text.read())
        if self._text.total:
            self._news.extend(self._text.finish())
        ended = self._link.ended is not None
        if self._stop is None:
            # The answer may have come before we looked at why.
            self._stop = "interrupted" if self._box.interrupt_asked else "output" if self._too_much() else None
        if ended or self._stop is not None:
            yield from self._pass_on()
            yield from self._clear(ended)
        outcome = self._outcome(seconds, kept=not ended)
        if ended:
            self._box.drop_link()
        if self._box.excess is not None:
            if not ended:
                outcome = explain.add_note(outcome, explain.ended_processes(self._box.excess["excess"]))
            self._box.excess = None
        looked = yield from self._look()
        self._news.extend(looked.changes)
        self._news.append(explain.add_note(outcome, looked.cut) if looked.cut else outcome)
        yield self._news

    def _clear(self, ended: bool) -> Steps[None]:
        """End what must not go on: all of it with the interpreter, or what the cell left running past its limit."""
        with contextlib.suppress(Lost):  # which the exit tells
            if ended:
                yield from self._box.ask({"op": "kill"})  # the next interpreter would do it, but may never come
            else:
                since = time.clock_gettime(time.CLOCK_BOOTTIME) - (time.monotonic() - self._started)
                if self._stop == "cpu":
                    since = 0.0  # what earlier cells left may be what used it, by itself or for this one
                yield from self._box.ask({"op": "sweep", "since": since})

    def _look(self) -> Steps[Look]:
        looked = self._files.glance()
        return looked if isinstance(looked, Look) else (yield from workers.run_aside(self._box.epoll, looked))

    def _outcome(self, seconds: float, *, kept: bool) -> Exit:
        limits, box = self._limits, self._box
        if box.lost:
            return explain.loss(box.lost, seconds=seconds)
        if box.group and (self._link.ended is not None or seconds > _SHORT):
            box.ooms = box.group.oom_kills()
        ooms = box.ooms
        if self._link.ended is not None and ooms > self._ooms:
            return explain.excess("memory", limits, kept=False, seconds=seconds)
        if self._link.ended is not None and self._stop is None and box.excess is not None:
            if box.excess["memory"]:
                return explain.excess("memory", limits, kept=False, seconds=seconds)
            return explain.ended_all(box.excess["excess"], seconds=seconds)
        match self._stop:
            case "timed_out":
                return explain.timeout(self._timeout or 0.0, kept=kept, seconds=seconds)
            case "interrupted":
                return explain.interrupt(kept=kept, error=_error(self._done), seconds=seconds)
            case "memory" | "cpu" | "output":
                return explain.excess(self._stop, limits, kept=kept, seconds=seconds)
        if self._done is None:
            status = self._link.ended if self._link.ended is not None else -signal.SIGKILL
            if status == CUT_OFF or (self._cut_off and status == -signal.SIGKILL):
                return explain.disconnect(seconds=seconds)
            return explain.process_end(status, out_of_memory=False, limits=limits, seconds=seconds)
        note = str(self._done.get("note") or "")[:_WORDS]
        if ooms > self._ooms:
            note = f"{note} A subprocess was killed: the memory limit is {explain.size(limits.memory)}.".strip()
        limit: Limit | None = "memory" if ooms > self._ooms else _limit(self._done)
        code = self._done.get("code")
        code = code if isinstance(code, int) else None
        if self._done.get("status") == "ok":
            return Exit("ok", note, code=code, seconds=seconds, limit=limit)
        # Also KeyboardInterrupt that nobody outside asked for: the code raised it.
        error = _error(self._done) or Error("Exception", "", "")
        return explain.exception(error, limits, code=code, note=note, seconds=seconds, limit=limit)


def _limit(done: dict[str, object]) -> Limit | None:
    """What the guest says it met. Code can make it say anything, and so gets no other remedy than one of ours."""
    told = done.get("limit")
    return next((limit for limit in get_args(Limit) if limit == told), None)


def _error(done: dict[str, object] | None) -> Error | None:
    match done:
        case {"error": {"type": str(kind), "message": str(message), "traceback": str(traceback)}}:
            return Error(kind[:256], message[:_WORDS], traceback[-_WORDS:])
    return None
