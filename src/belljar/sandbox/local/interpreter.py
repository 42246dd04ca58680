"""The process that runs user code: join its sandbox, confine itself, then become the guest."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any

from belljar.sandbox.guest.serve import Guest
from belljar.sandbox.local import confine, linux, messages

CUT_OFF = 113
"""The exit code that says the guest lost its connection: the host has gone, or the code closed it."""

_signal = sys.modules["_signal"]
"""What is under `signal`, whose own functions turn every number into an enumeration's member."""
_SHARED = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class Mould:
    """What every interpreter of a zygote is made from."""

    guest: Guest
    settings: dict[str, Any]
    program: bytes


def main(
    request: dict[str, Any],
    init: int,
    ready: int,
    status: socket.socket,
    fds: list[int],
    mould: Mould,
) -> None:
    """Never returns. `fds` are exec, stdout, stderr and the cgroups' process lists.

    Everything here is written to touch little: each page that it is the first to write to is copied, at some 3 us.
    """
    word = status.detach()
    with messages.report_failure(lambda: socket.socket(fileno=word), "starting the interpreter"):
        execution, stdout, stderr, *cgroups = fds
        os.setsid()
        for cgroup in cgroups:  # first, so that as little as possible is charged to the zygote
            os.write(cgroup, b"0")
        null = os.open("/dev/null", os.O_RDONLY)
        messages.keep_only([null, stdout, stderr, execution, init, ready, word])
        word = 6
        linux.set_name("python")
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            _signal.signal(name, _signal.SIG_DFL)
        # Its namespaces are half made until it says so; an end of the pipe without a word means that it is gone.
        if not request["again"] and os.read(5, 1) != b"!":
            raise RuntimeError("the sandbox's init ended early")
        _join(request)
        confine.lock(mould.program, files=True)
        if request["limits"]["address_space"] is not None:
            confine.count_all_memory()
        linux.set_dumpable(True)  # only now: what else is inside may look into us from here on
        os.chdir("/mnt/data")
        os.closerange(4, 8)
        gc.enable()
    try:
        mould.guest.serve(socket.socket(fileno=3), {**mould.settings, **request["settings"]})
    finally:
        os._exit(CUT_OFF)


def _join(request: dict[str, Any]) -> None:
    # Joining these needs rights over them, which belong to the namespace outside: the user namespace comes last.
    linux.setns(4, _SHARED)
    linux.unshare(linux.CLONE_NEWCGROUP)  # after the move into our group above, which becomes the root that we see
    confine.set_limits(request["limits"])
    linux.setns(4, linux.CLONE_NEWUSER)
    os.setresgid(confine.INSIDE, confine.INSIDE, confine.INSIDE)
    os.setresuid(confine.INSIDE, confine.INSIDE, confine.INSIDE)
    processes = request["limits"]["processes"]
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
