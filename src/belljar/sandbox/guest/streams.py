"""Standard streams of a cell: live, buffered in bursts, and repaired after every cell.

The first writes of a burst go straight to the pipe. Beyond that, text is gathered and a short-lived thread passes it
on every few milliseconds, so that a loop of a million prints does not make a million system calls.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock, allocate_lock, start_new_thread
from fcntl import F_DUPFD_CLOEXEC, fcntl
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from time import monotonic, sleep

from . import private_builtins

private_builtins.protect(globals())


BURST = 64
"""Writes that may go straight out within one period."""
PERIOD = 0.02
"""Seconds that gathered text may wait."""
_BUFFER = 64 * 1024
_SAVED = 100
"""Duplicates of the standard descriptors live at or above this number."""
_STARTS_A_PROCESS = frozenset({"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"})

_PATCHABLE = frozenset({"write", "flush", "close"})
"""Methods that a cell may have put on a stream itself."""

_write = TextIOWrapper.write
_flush = TextIOWrapper.flush
_dup2 = os.dup2


class OutputStream(TextIOWrapper):
    """Standard output or standard error."""

    def __init__(self, number: int, name: str, gatherer: Gatherer) -> None:
        raw = FileIO(number, "w", closefd=False)
        raw.name = name
        super().__init__(BufferedWriter(raw, _BUFFER), encoding="utf-8", errors="backslashreplace", newline="\n")
        self.lock = RLock()  # reentrant: a signal handler of the cell may print as well
        self.gathering = False
        self.fresh = False
        self._left = BURST
        self._since = 0.0
        self._gatherer = gatherer

    def write(self, text: str, /) -> int:
        with self.lock:
            count = _write(self, text)
            if self.gathering:
                self.fresh = True
            elif self._left:
                self._left -= 1
                _flush(self)
            else:
                self._count()
        return count

    def flush(self) -> None:
        with self.lock:
            _flush(self)

    def close(self) -> None:
        """Only flush: what a cell closes, the next one wants to use."""
        if not self.closed:
            self.flush()

    def direct(self) -> None:
        """The burst is over."""
        self.gathering = False
        self._left = BURST

    def _count(self) -> None:
        now = monotonic()
        if now - self._since > PERIOD:
            self._since = now
            self._left = BURST
            _flush(self)
        else:
            self.gathering = self.fresh = True
            self._gatherer.watch(self)


class EmptyInput(TextIOWrapper):
    """Standard input, which is always at its end."""

    def __init__(self) -> None:
        super().__init__(BufferedReader(FileIO(0, "r", closefd=False)), encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Stay open: `exit()` closes standard input, and the next cell may read it."""


class Gatherer:
    """The thread that passes on gathered text; it lives only as long as a burst."""

    def __init__(self) -> None:
        self._streams: list[OutputStream] = []
        self._hooked = False
        self._reset()

    def _reset(self) -> None:
        self._streams.clear()
        self._watching = False
        self._lock = allocate_lock()

    def watch(self, stream: OutputStream) -> None:
        """Pass on what this stream gathers until it falls quiet."""
        with self._lock:
            if stream not in self._streams:
                self._streams.append(stream)
            if self._watching:
                return
            self._watching = True
        if not self._hooked:
            # A child process writes to the same pipe: what the cell printed before must be there first.
            self._hooked = True
            sys.addaudithook(self._before_process)
        start_new_thread(self._run, ())

    def flush(self) -> None:
        """Pass on everything now."""
        for stream in self._streams[:]:
            stream.flush()

    def forget(self) -> None:
        """In a forked child: the thread is gone."""
        for stream in self._streams:
            stream.direct()
        self._reset()

    def _run(self) -> None:
        quiet = False
        while not quiet:
            sleep(PERIOD)
            with self._lock:
                for stream in self._streams[:]:
                    self._pass_on(stream)
                quiet = not self._streams
                self._watching = not quiet

    def _pass_on(self, stream: OutputStream) -> None:
        # A taken lock means that someone is writing, and text that moves needs no help.
        if not stream.lock.acquire(blocking=False):
            return
        try:
            if not stream.fresh:
                stream.direct()
                self._streams.remove(stream)
            stream.fresh = False
            _flush(stream)
        except (OSError, ValueError):  # closed or detached by the cell
            if stream in self._streams:
                self._streams.remove(stream)
        finally:
            stream.lock.release()

    def _before_process(self, event: str, _arguments: tuple[object, ...]) -> None:
        if event in _STARTS_A_PROCESS and self._streams:
            self.flush()


class Streams:
    """The three standard streams, with spare descriptors to bring them back."""

    def __init__(self) -> None:
        self._gatherer = Gatherer()

    def open(self) -> None:
        """Take the descriptors as they are now."""
        self._saved = [(fcntl(number, F_DUPFD_CLOEXEC, _SAVED), number) for number in (0, 1, 2)]
        self._build()
        os.register_at_fork(
            before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
        )

    def flush(self) -> None:
        """Everything printed is in the pipe."""
        try:
            self.stdout.flush()
            self.stderr.flush()
        except (OSError, ValueError, AttributeError):  # the cell closed or detached something
            self.restore()

    def settle(self) -> None:
        """Everything printed is in the pipe, also by way of what the cell has put in the streams' place."""
        names, stdout, stderr = vars(sys), self.stdout, self.stderr
        if (
            names.get("stdout") is stdout
            and names.get("stderr") is stderr
            and _PATCHABLE.isdisjoint(vars(stdout))
            and _PATCHABLE.isdisjoint(vars(stderr))
        ):
            self.flush()
        else:
            self.restore()

    def restore(self) -> None:
        """Undo what a cell did to the streams: closed, replaced or redirected ones work again."""
        for saved, number in self._saved:
            _dup2(saved, number)
        for stream in (self.stdout, self.stderr):
            if not _PATCHABLE.isdisjoint(vars(stream)):
                for name in _PATCHABLE:
                    vars(stream).pop(name, None)
        try:
            self.stdout.flush()
            self.stderr.flush()
            if self.stdin.closed:
                self._build()
        except (OSError, ValueError, AttributeError):
            self._rebuild()
        names = vars(sys)
        if (
            names.get("stdout") is not self.stdout
            or names.get("stderr") is not self.stderr
            or names.get("stdin") is not self.stdin
        ):
            _flush_quietly(names.get("stdout"))
            _flush_quietly(names.get("stderr"))
            self._assign()

    def _build(self) -> None:
        self.stdin = EmptyInput()
        self.stdout = OutputStream(1, "<stdout>", self._gatherer)
        self.stderr = OutputStream(2, "<stderr>", self._gatherer)
        self._assign()

    def _rebuild(self) -> None:
        old = ((self.stdout, "stdout"), (self.stderr, "stderr"))
        self._build()
        # Log handlers hold on to the stream that they were made with.
        logging = sys.modules.get("logging")
        for handler in getattr(getattr(logging, "root", None), "handlers", ()):
            for stream, name in old:
                if getattr(handler, "stream", None) is stream:
                    handler.stream = getattr(self, name)

    def _assign(self) -> None:
        sys.stdin = sys.__stdin__ = self.stdin  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self.stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self.stderr  # type: ignore[misc]

    def _before_fork(self) -> None:
        self._forking = (self.stdout, self.stderr)
        for stream in self._forking:
            stream.lock.acquire()
            try:
                _flush(stream)
            except (OSError, ValueError):
                pass

    def _after_fork(self) -> None:
        for stream in self._forking:
            stream.lock.release()

    def _after_fork_in_child(self) -> None:
        self._after_fork()
        self._gatherer.forget()


def _flush_quietly(stream: object) -> None:
    try:
        stream.flush()  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - whatever a cell put in place of a stream
        pass
