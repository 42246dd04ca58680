"""A preloaded interpreter that never runs user code: it forks the interpreter of each sandbox.

The packages are imported once here; a child shares the memory until it writes. Its only other work is to reap its
children and tell the host how each ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import shutil
import signal
import socket
import sys
import time
from typing import Any

from belljar.sandbox.guest import serve
from belljar.sandbox.local import confine, interpreter, linux, messages, root


def main() -> None:
    """Preload as told on descriptor 3, report on 4, then serve."""
    linux.set_name("belljar-zygote")
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    sock, report = socket.socket(fileno=3), socket.socket(fileno=4)
    request, _ = messages.receive(sock)
    if request is None:
        return
    with messages.report_failure(lambda: report, "preloading"):
        loaded, guest = _preload(request)
    messages.send(report, loaded)
    report.close()
    _serve(sock, interpreter.Mould(guest, request["settings"], confine.call_filter()))


def _preload(request: dict[str, Any]) -> tuple[dict[str, Any], serve.Guest]:
    started = time.monotonic()
    _copy_fonts()
    missing = {}
    for name in request["preload"]:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a broken package must not take the jail with it; the host is told
            missing[name] = f"{type(error).__name__}: {error}"
    guest = serve.prepare()
    # The variables until here were for the libraries' start; these are the cells', and the same for all of them.
    os.environ.clear()
    os.environ.update(request["settings"].pop("environment"))
    threads = _threads()
    if threads != 1:
        # A fork copies one thread only: locks held by the others would stay held for ever in every sandbox.
        raise RuntimeError(f"preloading left {threads} threads; one of {', '.join(request['preload'])} starts its own")
    if root.CODE in sys.path:
        sys.path.remove(root.CODE)
    gc.collect()
    gc.freeze()
    linux.collapse_heap()
    return {"loaded": True, "missing": missing, "seconds": time.monotonic() - started}, guest


def _threads() -> int:
    """How many there are, once those that are about to end have: matplotlib has one while it makes a list of fonts."""
    deadline = time.monotonic() + 1.0
    while (count := len(os.listdir("/proc/self/task"))) > 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    return count


def _copy_fonts() -> None:
    directory = os.environ.get("MPLCONFIGDIR")
    if directory and os.path.isdir(root.FONTS):
        os.makedirs(directory, exist_ok=True)
        for name in os.listdir(root.FONTS):
            with contextlib.suppress(OSError):  # matplotlib makes a list of its own then
                shutil.copyfile(f"{root.FONTS}/{name}", f"{directory}/{name}")


def _serve(sock: socket.socket, mould: interpreter.Mould) -> None:
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    children: dict[int, socket.socket] = {}
    watch = select.poll()
    watch.register(sock, select.POLLIN)
    retired = False
    while children or not retired:
        for fd, _ in watch.poll():
            if fd != sock.fileno():
                watch.unregister(fd)
                _bury(fd, children.pop(fd))
                continue
            request, fds = messages.receive(sock)
            if request is None:
                # Another has taken over; this one stays to tell how its own children end.
                retired = True
                watch.unregister(sock)
                continue
            handle = _spawn(request["again"], fds, own, mould, children)
            if handle is not None:
                watch.register(handle, select.POLLIN)
            messages.rehearse({"again": False}, len(fds))


def _spawn(
    again: bool,
    fds: list[int],
    own: int,
    mould: interpreter.Mould,
    children: dict[int, socket.socket],
) -> int | None:
    """Fork an interpreter into the sandbox's process namespace; its pidfd, or None if that failed."""
    init, ready, status_fd, *rest = fds
    status = socket.socket(fileno=status_fd)
    handle = None
    try:
        linux.setns(init, linux.CLONE_NEWPID)  # for the children only; this process stays where it is
        pid = os.fork()
        if pid == 0:
            interpreter.main(again, init, ready, status, rest, mould)
        handle = os.pidfd_open(pid)
        children[handle] = status
        messages.send(status, {"interpreter": pid}, [handle])
    except OSError as error:
        messages.tell(status, {"error": f"starting the interpreter: {error}"})
    finally:
        # Whatever happened: the next child must not be forked into this sandbox.
        linux.setns(own, linux.CLONE_NEWPID)
        messages.close_all([init, ready, *rest])
    if handle is None:
        status.close()
    return handle


def _bury(handle: int, status: socket.socket) -> None:
    """Reap a child and tell its host how it ended: a code, or minus a signal."""
    result = os.waitid(os.P_PIDFD, handle, os.WEXITED)
    os.close(handle)
    if result is not None:
        killed = result.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        messages.tell(status, {"ended": -result.si_status if killed else result.si_status})
    status.close()
