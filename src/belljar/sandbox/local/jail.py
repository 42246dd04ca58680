"""The running jail, held by the host: one launcher, one init, a zygote for each environment."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import resource
import signal
import site
import socket
import subprocess
import sys
import sysconfig
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from belljar.errors import CannotConfine, Lost, Refused
from belljar.sandbox.local import messages, root, users
from belljar.sandbox.local.cgroups import Groups
from belljar.sandbox.local.steps import ENDING

_log = logging.getLogger("belljar.sandbox")

_BOOT = "import sys; sys.path.insert(0, {path!r}); from belljar.sandbox.local.launcher import main; main()"

ZYGOTE_VARIABLES = {
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    # One thread each while preloading: a fork keeps only the thread that calls it.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
GUEST_VARIABLES = {
    "PATH": f"{root.ENV}/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "TMPDIR": "/tmp",
    "USER": "user",
    "LANG": "C.UTF-8",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OUTPUT_DIR": "/mnt/data",  # where code that is written for sandbox pods puts its files
}


@dataclass(frozen=True, slots=True)
class Environment:
    """What a zygote has imported before the first sandbox."""

    name: str
    preload: tuple[str, ...] = ()
    site: bool = True
    settings: dict[str, Any] = field(default_factory=dict)


def python_home() -> root.PythonHome:
    """The Python that runs this process, as the jail will use it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    places = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    if site.ENABLE_USER_SITE and sys.prefix == sys.base_prefix:
        places.append(site.getusersitepackages())
    return root.PythonHome(
        executable=sys.executable,
        base_prefix=sys.base_prefix,
        version=version,
        shared=bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
        site_packages=root.site_packages(places),
    )


def code_directory() -> str:
    """The directory that holds the belljar package."""
    return str(Path(__file__).resolve().parents[3])


_HIGH = 4000
"""A descriptor number above those of many sandboxes, in a table of a few pages."""


def _closed_first(sock: socket.socket) -> socket.socket:
    """The same socket under a high number.

    The kernel closes the descriptors of a process that was killed from the highest down, and the jail ends with this
    one: its processes are then killed where they sleep, and need not each wake up to find that the host is gone.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    place = _HIGH if limit == resource.RLIM_INFINITY else min(_HIGH, limit - 8)
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, place))


_MANY, _FEW = 1 << 16, 64
"""Workspaces that are watched. Each is one of the 128 queues that a user may have, which an ordinary user's programs
need too; as root each sandbox is a user of its own.
"""


class Jail:
    """A running jail. Loop- and thread-neutral: requests are single atomic messages."""

    def __init__(self, groups: Groups, *, layers: str | None = None, fonts: tuple[str, Path] | None = None) -> None:
        self.groups = groups
        self._plan = root.plan(python_home(), code=code_directory(), layers=layers, fonts=fonts)
        self.first_uid = users.find_first_uid()
        self.watches = threading.Semaphore(_MANY if self.first_uid is not None else _FEW)
        """Workspaces whose changes the kernel may tell us."""
        self._lock = threading.Lock()
        self._zygotes: dict[str, str] = {}
        self._started = 0
        self._owner = os.getpid()
        self._socket, theirs = messages.pair()
        self._socket = _closed_first(self._socket)
        self._stderr = open(os.memfd_create("belljar-stderr"), "w+b")  # noqa: SIM115 - as long-lived as the jail
        host = os.pidfd_open(os.getpid())
        try:
            self._process = self._launch(theirs, host)
        finally:
            theirs.close()
            os.close(host)
        # A host that ends without closing would leave its control groups for the next start to sweep.
        atexit.register(self.close)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _launch(self, theirs: socket.socket, host: int) -> subprocess.Popen[bytes]:
        """Start the launcher with its two descriptors at 3 and 4, an empty environment and nothing of ours else."""
        boot = _BOOT.format(path=code_directory())
        # By way of two numbers that are neither's: the first would take the second's place otherwise, wherever 3 and 4
        # are not free.
        one, two = [fd for fd in range(203, 207) if fd not in (theirs.fileno(), host)][:2]
        place = f"import os; os.dup2({theirs.fileno()}, {one}); os.dup2({host}, {two}); "
        place += f"os.dup2({one}, 3); os.dup2({two}, 4); "
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", place + boot],
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            cwd="/",
            pass_fds=(theirs.fileno(), host),
            start_new_session=True,
        )

    def _start(self) -> None:
        variables = {**ZYGOTE_VARIABLES, **self._plan["environment"]}
        request = {
            "plan": self._plan,
            "user_namespace": self.first_uid is None,
            "cgroups": [str(path) for path in self.groups.directories],
            "variables": variables,
        }
        messages.send(self._socket, request)
        self._socket.settimeout(30)
        try:
            answer, _ = messages.receive(self._socket)
        except TimeoutError:
            raise CannotConfine(f"the jail did not start within 30 s. {self.complaint()}") from None
        if not answer or "error" in answer:
            raise CannotConfine(
                f"the jail could not be made: {answer['error'] if answer else self.complaint()}. "
                "Run `belljar doctor` to see what this host lacks and how to mend it."
            )

    def add(self, environment: Environment) -> dict[str, Any]:
        """Start a zygote and wait until it has preloaded; what it says of itself. It replaces an earlier one.

        A new one now and then gives later sandboxes other addresses and another hash seed than earlier ones had.
        """
        self._started += 1
        name = f"{environment.name}-{self._started}"
        report, theirs = messages.pair()
        variables = {**ZYGOTE_VARIABLES, **self._plan["environment"]}
        guest = {**GUEST_VARIABLES, **self._plan["environment"]}
        with report:
            request = {
                "op": "zygote",
                "name": name,
                "preload": list(environment.preload),
                "site": environment.site,
                "variables": variables,
                "settings": {**environment.settings, "environment": guest},
            }
            with theirs, self._lock:
                self._send(request, [theirs.fileno()])
            report.settimeout(120)
            try:
                answer, _ = messages.receive(report)
            except TimeoutError:
                raise Refused(f"environment {environment.name!r} did not finish preloading within 120 s") from None
        if not answer or "error" in answer:
            reason = answer["error"] if answer else self.complaint()
            raise Refused(f"environment {environment.name!r} could not be loaded: {reason}")
        with self._lock:
            before = self._zygotes.get(environment.name)
            self._zygotes[environment.name] = name
            if before is not None:
                self._send({"op": "retire", "name": before}, [])
        return answer

    def create(self, environment: str, fds: list[int], *, again: bool) -> None:
        """Ask for an interpreter; the environment's zygote of the moment makes it."""
        with self._lock:
            if environment not in self._zygotes:
                raise Lost(f"the jail has no environment {environment!r} now; ask for the sandbox again")
            self._send(messages.Create(environment=self._zygotes[environment], again=again), fds)

    def close_before_end(self, fd: int) -> int:
        """The same descriptor under a number that the kernel closes before it ends the jail, if we are killed."""
        try:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, self._socket.fileno() + 1)
        except OSError:  # so many may not be open here
            return fd
        os.close(fd)
        return high

    def _send(self, message: object, fds: list[int]) -> None:
        try:
            messages.send(self._socket, message, fds)
        except OSError as error:
            raise Lost(f"the jail has ended ({error}); {self.complaint()}") from None

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended, or does so in this time. Blocking: what it held may end a moment before it does."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    def complaint(self) -> str:
        """The last words of the jail's own processes."""
        if self._stderr.closed:
            return "it was closed"
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return "last words: " + " | ".join(lines[-3:]) if lines else "it left no message"

    def close(self) -> None:
        """End it and everything inside. A forked child of the host only lets go of its copies."""
        atexit.unregister(self.close)
        if self._stderr.closed:
            return
        self._socket.close()
        if os.getpid() == self._owner:
            # The jail's init ends when its socket closes; the launcher when that has. Killing is for the stuck.
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                try:
                    self._process.wait(ENDING)
                except subprocess.TimeoutExpired:
                    _log.error("the jail was killed but process %s of it has not ended", self._process.pid)
            self.groups.close()
        else:
            self.groups.let_go()
        self._stderr.close()
