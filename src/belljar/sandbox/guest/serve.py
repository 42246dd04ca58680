"""The guest's main loop: receive a cell, run it, report its end, and recover whatever the cell did."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import figures, frames, hints, ipython_display, private_builtins, tracebacks
from .blas import Blas
from .cell import Compiler, filename, remember
from .cell_runner import Runner
from .channel import Channel
from .display import DisplaySender
from .hints import Hints
from .imports import StandIns, Watcher
from .interrupts import Interrupts
from .magics import CALL, Magics
from .paths import Paths
from .streams import Streams

private_builtins.protect(globals())

# Bound now: a cell may replace any of these.
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit
_settrace, _setprofile = sys.settrace, sys.setprofile
_setitimer, _REAL = signal.setitimer, signal.ITIMER_REAL
_exit = os._exit
_shared = vars(builtins)
_RECURSION = max(1000, sys.getrecursionlimit())
_WIDTH, _COLUMNS = 140, 50
_STATE = 624
"""Numbers in the state of numpy's global generator."""


@dataclass(slots=True)
class Ending:
    """How a cell ended."""

    status: str = "ok"
    code: int | None = None
    error: dict[str, str] | None = None
    note: str = ""
    limit: str = ""
    """Which limit was met, where that is known in here."""


def prepare() -> Guest:
    """A guest that waits for a host. Made ahead of a fork, so that its children touch little memory of their own."""
    if sys.version_info >= (3, 14):
        import multiprocessing

        multiprocessing.set_start_method("fork", force=True)
    if "matplotlib" in sys.modules:
        figures.choose(sys.modules["matplotlib"])
        with contextlib.suppress(Exception):  # a rehearsal: whoever draws is told what is wrong
            figures.draw_once()
    if "pandas" in sys.modules:
        with contextlib.suppress(Exception):
            _rehearse(sys.modules["pandas"])
    return Guest()


class Guest:
    """One interpreter, one host."""

    def __init__(self) -> None:
        self._interrupts = Interrupts()
        self._streams = Streams()
        self._channel = Channel(self._interrupts)
        self._hints = Hints()
        self._screen = DisplaySender(self._channel, self._streams)
        self._magics = Magics(self._hints, self._streams.flush)
        self._runner = Runner(self._interrupts)
        self._compiler = Compiler()
        self._blas = Blas()
        self._name = ""
        self._source = ""
        self._paths = Paths()
        self._install()
        self._compiler.compile("0", filename(0))  # the parser's own caches
        version = ".".join(str(part) for part in sys.version_info[:3])
        self._hello = frames.encode_json(frames.HELLO, {"python": version})

    def serve(self, sock: socket.socket, settings: Mapping[str, Any]) -> None:
        """Answer requests until the host hangs up."""
        self._interrupts.install()
        self._channel.connect(sock)
        self._channel.send_frame(self._hello)
        self._start(settings)  # not before: the host has work of its own to do until the first cell comes
        while True:
            try:
                self._runner.wait(self._channel.fileno())
                request = self._channel.receive()
            except Exception as error:  # noqa: BLE001 - a signal handler that a cell left behind raised here
                if isinstance(error, ConnectionError) or getattr(error, "errno", None) == errno.EBADF:
                    return
                continue
            if request is None:
                self._streams.flush()
                return
            kind, payload = request
            number, text = frames.decode_text(payload)
            if kind == frames.PATHS:
                self._paths.wanted = text.split(os.pathsep) if text else ()
            else:
                self._answer(number, text)

    def _start(self, settings: Mapping[str, Any]) -> None:
        sys.path[:] = ["", *(entry for entry in sys.path if entry != "")]
        self._paths.wanted = settings.get("paths") or None
        self._streams.open()
        self._hints.know(
            settings.get("packages", ()),
            workdir=settings.get("workdir", "/mnt/data"),
            missed=settings.get("missed", ()),
        )
        self._blas.know(settings.get("threads", 1))
        _start_afresh()
        os.register_at_fork(after_in_child=self._channel.close)

    def _answer(self, number: int, source: str) -> None:
        ending = self._run(number, source)
        if not self._channel.open:
            self._end_child(ending)
        result = self._screen.take_held()
        try:
            self._tell(number, ending, result)
        except (TypeError, NameError, AttributeError, RecursionError):  # a cell broke what encoding leans on
            private_builtins.restore()
            self._tell(number, ending, result)
        self._mend()  # while the host is busy with the answer

    def _tell(self, number: int, ending: Ending, result: str) -> None:
        if ending.status == "ok" and not ending.note and not ending.limit:
            self._channel.send_text(frames.OK, number, result)
        else:
            done = {"id": number, "status": ending.status, "code": ending.code, "error": ending.error}
            self._channel.send(frames.DONE, {**done, "note": ending.note, "limit": ending.limit, "result": result})

    def _run(self, number: int, source: str) -> Ending:
        self._name, self._source = filename(number), source
        self._interrupts.install()
        failure = self._run_guarded(self._execute)
        if figures.any_open():
            failure = self._run_guarded(self._screen.show_figures) or failure
        self._screen.forget()
        if failure is None:
            return Ending(limit=self._hints.limit(None))
        self._mend()
        ending = self._explain(failure)
        failure.__traceback__ = None  # it would keep the cell's objects alive
        return ending

    def _run_guarded(self, step: Callable[[], None]) -> BaseException | None:
        """Run something of the cell's; whatever it raises is a value. The only place where an interrupt may land."""
        failure: BaseException | None = None
        try:
            self._interrupts.busy = True
            step()
        except BaseException as error:  # noqa: BLE001 - this is the guest's cell runner
            self._interrupts.busy = False
            failure = error
        # No line between the step and here can be interrupted: the handler runs only at calls and jumps.
        self._interrupts.busy = False
        return self._tidy(failure)

    def _tidy(self, failure: BaseException | None) -> BaseException | None:
        """Undo what would stop the guest from answering, and pass on what was printed."""
        try:
            if _getrecursionlimit() < _RECURSION:
                _setrecursionlimit(_RECURSION)
            _settrace(None)
            _setprofile(None)
            _setitimer(_REAL, 0)  # an alarm does not outlive its cell
            self._streams.settle()
        except BaseException as error:  # noqa: BLE001 - an alarm that rang just now
            return failure or error
        return failure

    def _mend(self) -> None:
        """Undo what would stop the next cell, or the words on this one's failure."""
        for _ in range(3):
            try:
                private_builtins.heal()
                self._streams.restore()
                return
            except BaseException:  # noqa: BLE001 - a signal handler that the cell left behind
                continue

    def _execute(self) -> None:
        if self._paths.wanted is not None:
            self._paths.place()
        name, source = self._name, self._source
        remember(name, source)
        cell = self._compiler.compile(source, name)
        if "asyncio" in source:
            self._runner.provide_loop()
        self._blas.prepare(source)
        try:
            value = self._runner.run(cell)
            if value is not None:
                _shared["_"] = value
                self._screen.result(value)
        finally:
            self._magics.finish()

    def _explain(self, failure: BaseException) -> Ending:
        for _ in range(2):
            try:
                return self._describe(failure)
            except Exception:  # noqa: BLE001 - the cell broke what tracebacks lean on
                private_builtins.restore()
        name = type(failure).__name__
        return Ending("raised", error={"type": name, "message": "", "traceback": f"{name}\n"})

    def _describe(self, failure: BaseException) -> Ending:
        if isinstance(failure, SystemExit):
            return self._end_by_exit(failure)
        remember(self._name, self._source)
        text = tracebacks.render(failure) + self._hints.after_traceback(failure)
        error = {
            "type": tracebacks.name_of(type(failure)),
            "message": tracebacks.message_of(failure),
            "traceback": text,
        }
        status = "interrupted" if isinstance(failure, KeyboardInterrupt) else "raised"
        return Ending(status, error=error, limit=self._hints.limit(failure))

    def _end_by_exit(self, failure: SystemExit) -> Ending:
        code = failure.code
        if code is None or code is False or code == 0:
            return Ending(code=0, note="The cell ended itself with exit code 0; variables are kept.")
        if not isinstance(code, int):
            self._streams.stderr.write(f"{code}\n")
            self._streams.flush()
            code = 1
        note = f"The cell ended itself with exit code {code}; variables are kept."
        message = tracebacks.message_of(failure)
        error = {"type": "SystemExit", "message": message, "traceback": f"SystemExit: {message}\n"}
        return Ending("raised", int(code), error, note)

    def _end_child(self, ending: Ending) -> None:
        """A forked child that came to the end of the cell has done its work."""
        if ending.error is not None and ending.error["type"] != "SystemExit":
            self._streams.stderr.write(ending.error["traceback"])
        self._streams.flush()
        _exit(ending.code if ending.code is not None else int(ending.error is not None))

    def _install(self) -> None:
        """Put in place what cells find: builtins, import hooks, warnings."""
        hints.install()
        _shared["display"] = self._screen.display
        _shared[CALL] = self._magics
        private_builtins.keep()
        warnings.formatwarning = self._format_warning
        show = self._screen.show_figures
        Watcher(
            {
                "matplotlib": figures.choose,
                "matplotlib.backends.backend_agg": lambda module: figures.attach(module, show),
                "pandas": _widen,
            }
        )
        figures.use()
        StandIns(ipython_display.ipython(self._screen.display))

    def _format_warning(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        """As Python does it, but a warning that points beyond the cell's own code is put on the cell."""
        if filename.startswith(tracebacks.HERE):
            return f"{self._name}: {category.__name__}: {message}\n"
        return _format_warning(message, category, filename, lineno, line)


_format_warning = warnings.formatwarning


def _widen(pandas: ModuleType) -> None:
    """Tables as wide as a reader of logs can take."""
    pandas.set_option("display.width", _WIDTH)
    pandas.set_option("display.max_columns", _COLUMNS)


def _rehearse(pandas: Any) -> None:
    """What most first cells do with a table, once: the modules it pulls in and the caches it fills are then shared."""
    table = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.5], "c": ["x", "y", "x"]})
    text = io.StringIO()
    table.to_csv(text, index=False)
    again = pandas.read_csv(io.StringIO(text.getvalue()))
    for value in (again.describe(), again.groupby("c")["a"].sum(), again.sum(numeric_only=True), again.head()):
        repr(value)
        if hasattr(value, "_repr_html_"):
            value._repr_html_()


def _start_afresh() -> None:
    """Undo what a fork shares with its siblings: numpy's global generator."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        # What seed() comes to by a longer way, on which it touches three times as much of the memory that is shared.
        numpy_random.set_state(("MT19937", memoryview(os.urandom(4 * _STATE)).cast("I"), _STATE))
