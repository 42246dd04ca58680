"""Process 1 of the jail: a small server that forks the init of each sandbox and starts zygotes.

It is bare so that forking it is cheap; the preloaded interpreter comes from a zygote and joins the init's namespaces.
It ends when the host is gone, and the kernel then ends everything inside.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from belljar.sandbox.local import confine, init, linux, messages, root

_BOOT = "import sys; sys.path.append({path!r}); from belljar.sandbox.local.{module} import main; main()"

_USUAL = 6
"""Descriptors that come with a sandbox: four, and those of its control groups."""
_LATER = 10
"""Milliseconds of peace before an init is made ahead of time: the sandbox of the moment needs the processors first."""


def command(module: str, *, site: bool) -> list[str]:
    """The command line of one of the jail's own processes, inside the jail's root."""
    flags = ["-I"] if site else ["-I", "-S"]
    return [root.PYTHON, *flags, "-c", _BOOT.format(path=root.CODE, module=module)]


def main() -> None:
    """Serve create requests on descriptor 3 until the host's pidfd, 4, says it ended."""
    linux.set_name("belljar-jail")
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # inits are reaped by the kernel; the host watches their pidfds
    gc.disable()
    gc.freeze()  # a collection in a child would touch, and so copy, every object
    sock, host = socket.socket(fileno=3), 4
    program = confine.call_filter()
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    zygotes: dict[str, socket.socket] = {}
    spare: Spare | None = None
    due = False
    watch = select.poll()
    watch.register(sock, select.POLLIN)
    watch.register(host, select.POLLIN)
    while True:
        ready = [fd for fd, _ in watch.poll(_LATER if due else None)]
        if host in ready:
            _end()
        if not ready:
            spare, due = _try_spare(own, program), False
            messages.rehearse({"environment": "", "again": False}, _USUAL)
            continue
        request, fds = messages.receive(sock)
        if request is None:
            _end()
        elif request.get("op") == "zygote":
            zygotes[request["name"]] = _start_zygote(request, fds)
            due = spare is None
        elif request.get("op") == "retire":
            zygotes.pop(request["name"]).close()
        elif request["environment"] not in zygotes:
            _tell(fds[1], {"error": f"no environment {request['environment']!r} in this jail"})
        elif request["again"]:
            _forward(zygotes[request["environment"]], again=True, fds=[fds[0], fds[0], *fds[1:]])
        else:
            _create(fds, spare or _try_spare(own, program), zygotes[request["environment"]])
            spare, due = None, True
        messages.close_all(fds)


def _end() -> NoReturn:
    """At once: with this process the kernel ends all others, and they would share the processors with a tidy exit."""
    os._exit(0)


def _start_zygote(request: dict[str, object], fds: list[int]) -> socket.socket:
    ours, theirs = messages.pair()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open("/dev/null", os.O_RDWR)
        messages.keep_only([null, 1, 2, theirs.detach(), fds[0]])
        line = command("zygote", site=bool(request["site"]))
        environment = request["variables"]
        assert isinstance(environment, dict)
        os.execve(line[0], line, environment)
    theirs.close()
    messages.send(ours, request)
    return ours


class Spare(NamedTuple):
    """An init that has its namespaces and waits to be told what for."""

    pid: int
    handle: int
    orders: socket.socket


def _try_spare(own: int, program: bytes) -> Spare | None:
    """Make one ahead of time: the next sandbox need not wait for it. None where the host has no room."""
    ours, theirs = messages.pair()
    with theirs:
        try:
            # A process never changes its own pid namespace, only that of its next children: the first one forked is
            # process 1 of the new one, and the way back is for the children after it.
            linux.unshare(linux.CLONE_NEWPID)
            pid = os.fork()
            if pid == 0:
                init.main(theirs.detach(), program)
            linux.setns(own, linux.CLONE_NEWPID)
            return Spare(pid, os.pidfd_open(pid), ours)
        except OSError:
            ours.close()
            return None


def _create(fds: list[int], spare: Spare | None, zygote: socket.socket) -> None:
    control, *rest = fds
    ready_in, ready_out = os.pipe()
    try:
        if spare is None:
            raise OSError("no process could be made for it; too many run on this host, or it has no memory left")
        _forward(zygote, again=False, fds=[spare.handle, ready_in, *rest])
        messages.send(spare.orders, {}, [control, ready_out])
        _tell(control, {"init": spare.pid}, [spare.handle])
    except OSError as error:
        _tell(control, {"error": f"making the sandbox: {error}"})
    finally:
        messages.close_all([ready_in, ready_out])
        if spare is not None:
            os.close(spare.handle)
            spare.orders.close()


def _tell(fd: int, message: object, fds: Sequence[int] = ()) -> None:
    """Over a descriptor that was lent to us."""
    with socket.socket(fileno=os.dup(fd)) as sock:
        messages.tell(sock, message, fds)


def _forward(zygote: socket.socket, *, again: bool, fds: list[int]) -> None:
    try:
        messages.send(zygote, {"again": again}, fds)
    except OSError:
        sys.exit("the zygote is gone")
