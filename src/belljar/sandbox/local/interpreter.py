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
_INIT, _READY, _STATUS = 3, 4, 5
"""Where descriptors are while it starts."""
_CONNECTION = 3
_SHARED = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS


@dataclass(frozen=True, slots=True)
class Mould:
    """What every interpreter of a zygote is made from."""

    guest: Guest
    settings: dict[str, Any]
    program: bytes


def main(
    again: bool,
    init: int,
    ready: int,
    status: socket.socket,
    fds: list[int],
    mould: Mould,
) -> None:
    """Never returns. `fds` are stdout, stderr and the cgroups' process lists. What is asked of it waits in `status`.

    Everything here is written to touch little: each page that it is the first to write to is copied, at some 3 us.
    """
    word = status.detach()
    with messages.report_failure(lambda: socket.socket(fileno=word), "starting the interpreter"):
        stdout, stderr, *cgroups = fds
        os.setsid()
        confine.leave_real_time()
        for cgroup in cgroups:  # first, so that as little as possible is charged to the zygote
            os.write(cgroup, b"0")
        null = os.open("/dev/null", os.O_RDONLY)
        messages.keep_only([null, stdout, stderr, init, ready, word])
        word = _STATUS
        linux.set_name("python")
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            _signal.signal(name, _signal.SIG_DFL)
        status = socket.socket(fileno=word)
        told, _ = messages.receive(status)
        if told is None:
            raise RuntimeError("the host has let go of the sandbox")
        request: messages.Start = told  # type: ignore[assignment]
        # Its namespaces are half made until it says so; an end of the pipe without a word means that it is gone.
        if not again and os.read(_READY, 1) != b"!":
            raise RuntimeError("the sandbox's init ended early")
        _join(request["limits"], status)
        confine.lock(mould.program, files=True)
        if request["limits"]["address_space"] is not None:
            confine.count_all_memory()
        linux.set_dumpable(True)  # only now: what else is inside may look into us from here on
        os.chdir("/mnt/data")
        status.detach()
        os.closerange(4, 16)
        gc.enable()
    try:
        mould.guest.serve(socket.socket(fileno=3), {**mould.settings, **request["settings"]})
    finally:
        os._exit(CUT_OFF)


def _connect(status: socket.socket) -> int:
    """Make the connection to the host in here, and send the host its end.

    A socket belongs to the network namespace that it was made in, whoever has it: one of the host's own would show the
    code the host's interfaces, and give it the host's names to bind. Sent before our limits: the kernel counts
    descriptors on their way for each user, against the sender's own limit.
    """
    ours, theirs = messages.pair(socket.SOCK_STREAM)
    with theirs:
        messages.send(status, {"connection": True}, [theirs.fileno()])
    return ours.detach()


def _join(limits: confine.Rlimits, status: socket.socket) -> None:
    # Joining these needs rights over them, which belong to the namespace outside: the user namespace comes last.
    linux.setns(_INIT, _SHARED)
    linux.unshare(linux.CLONE_NEWCGROUP)  # after the move into our group above, which becomes the root that we see
    ours = _connect(status)
    confine.set_limits(limits)
    if limits["address_space"] is not None:
        os.nice(confine.NICE)
    linux.setns(_INIT, linux.CLONE_NEWUSER)
    os.dup2(ours, _CONNECTION, inheritable=False)
    os.close(ours)
    os.setresgid(confine.INSIDE, confine.INSIDE, confine.INSIDE)
    os.setresuid(confine.INSIDE, confine.INSIDE, confine.INSIDE)
    processes = limits["processes"]
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
