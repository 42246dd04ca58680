"""Programs of ours, forked from a process that has loaded what they are made of: that takes half of their time.

A process of its own each, with its own variables, directory, terminal and standard streams, as if it were started by
`python -m belljar.cli …` or `python -c …`. What is proven of starting itself, and of what is loaded when, is proven by
real starts.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import fcntl
import gc
import io
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import traceback
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.helpers import loop_guard

from belljar.cli import main
from belljar.sandbox.local import environments

ROOT = Path(__file__).parents[2]
LOADED = (
    "belljar.cli.run",
    "belljar.gateway.app",
    "belljar.http_server.run",
    "belljar.openai",
    "belljar.providers.responses_client",
    "belljar.sandbox.remote",
    "belljar.sandbox.server.run",
    "openai.types.responses",
    "uvloop",
)


class Forked(subprocess.Popen[str]):
    """What `subprocess` makes of a process, but for how it begins and who hears of its end, which is its parent."""

    def __init__(
        self,
        *argv: str,
        guard: float | None = None,
        preload: bool = False,
        session: bool = False,
        terminal: bool = False,
        **options: Any,
    ) -> None:
        """`belljar argv…`; or with `-c`, a program.

        With a `guard` over its event loop, which tells of what holds it for longer than so many seconds. Without
        `preload`, sandboxes load of the data stack what code asks for, and starting takes a second less.
        With a `session` of its own; `terminal`: that of its standard input.
        """
        how = {"guard": guard, "preload": preload, "session": session or terminal, "terminal": terminal}
        self._asked = {"argv": argv, **how}
        self._zygote = _zygote()
        super().__init__([sys.executable, *argv], text=True, **options)

    def _execute_child(self, *given: Any) -> None:
        """In place of fork and exec: the order of what is given has been the same since Python 3.2."""
        directory, variables = given[5], given[6]
        ends: tuple[int, ...] = given[10:16]
        streams = [own if own != -1 else number for number, own in enumerate((ends[0], ends[3], ends[5]))]
        told = {"cwd": str(directory or Path.cwd()), "env": dict(os.environ if variables is None else variables)}
        try:
            self.pid = self._zygote.ask({**self._asked, **told}, streams)
            self._end = os.pidfd_open(self.pid)  # its parent takes no notice of its end before it is asked to
            self._child_created = True
        finally:
            self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], 0)[0]:
            self._note_end()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self._note_end()
        return self.returncode

    def _note_end(self) -> None:
        self.returncode = self._zygote.ask({"ended": self.pid})
        os.close(self._end)


def run(*argv: str, timeout: float = 60.0, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same to its end."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with Forked(*argv, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class _Zygote:
    def __init__(self) -> None:
        self._door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        # The surroundings of the commands under test, as far as Python looks at them when it starts.
        variables = {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": str(ROOT / "src")}
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-c", _PROGRAM, str(number)]
            self._process = subprocess.Popen(
                command, env=variables, pass_fds=[number], stdin=subprocess.DEVNULL, start_new_session=True
            )
        atexit.register(self._close)

    def _close(self) -> None:
        self._door.close()
        self._process.wait()

    def ask(self, what: dict[str, Any], streams: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._door, [json.dumps(what).encode()], streams)
            return int(self._door.recv(100))


_PROGRAM = f"""
import sys
sys.path.append({str(ROOT)!r})
from tests.helpers.forked import serve
serve(int(sys.argv[1]))
"""
_zygote = cache(_Zygote)
"""One for each test process, which it ends with."""


def serve(number: int) -> NoReturn:
    """What the zygote does: forks whatever is asked for."""
    for module in LOADED:
        import_module(module)
    gc.freeze()  # a collection in a child would touch, and so copy, every object
    door = socket.socket(fileno=number)
    while True:
        data, streams, _, _ = socket.recv_fds(door, 1 << 20, 3)
        if not data:
            os._exit(0)
        asked = json.loads(data)
        if "ended" in asked:
            told = os.waitstatus_to_exitcode(os.waitpid(asked["ended"], 0)[1])
        elif (told := os.fork()) == 0:
            door.close()
            _become(asked, streams)
        for stream in streams:
            os.close(stream)
        door.send(str(told).encode())


def _become(asked: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    code: object = 1
    try:
        _surround(asked, streams)
        if asked["guard"] is not None:
            loop_guard.install(asked["guard"])
        if not asked["preload"]:
            vars(environments)["PRELOAD"] = ()
        code = _run(*asked["argv"])
    except SystemExit as left:
        code = left.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as Python itself tells of it
        traceback.print_exc()
    # As Python ends, but without freeing every object one by one, which takes longer than most of what is run here.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)


def _surround(asked: dict[str, Any], streams: Sequence[int]) -> None:
    """Its session, streams, variables and directory."""
    if asked["session"]:
        os.setsid()
    if asked["terminal"]:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    sys.stdin = _stream(0, sys.stdin)
    sys.stdout = _stream(1, sys.stdout)
    sys.stderr = _stream(2, sys.stderr)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    tempfile.tempdir = None


def _run(*argv: str) -> int:
    program = argv[1] if argv[:1] == ("-c",) else None
    sys.path[:] = [os.getcwd() if program is None else "", *(path for path in sys.path[1:] if path != str(ROOT))]
    sys.argv = ["belljar", *argv] if program is None else ["-c", *argv[2:]]
    if program is None:
        return main()
    module = vars(sys.modules["__main__"])
    module.clear()
    module |= {"__name__": "__main__", "__builtins__": builtins}
    exec(compile(program, "<string>", "exec"), module)
    return 0


def _stream(number: int, model: Any) -> Any:
    """As Python opens its own at the start."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffered: Any = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, model.encoding, model.errors, "\n", line_buffering=number == 2 or raw.isatty())
