"""Process 1 of a sandbox: make its namespaces and mounts, then hold them, reap processes and measure usage.

It runs no code of the user's, yet lives under the same walls (but Landlock, which would keep it from signalling the
interpreter). When the host's end of its socket closes, it ends, and the kernel ends everything else inside.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterable

from belljar.sandbox.local import change_queue, confine, linux, messages, root, usage
from belljar.sandbox.local.watcher import Excess, Turns, Watcher, make_allowance

_PAGE = os.sysconf("SC_PAGE_SIZE")
_ASKED = 0.5
"""Seconds for which the host has the memory in view, once it has asked for it."""
_EMPTY = "/etc/resolv.conf"
_NO_SETUID = linux.MS_NOSUID | linux.MS_NODEV


def main(orders: int, program: bytes) -> None:
    """Never returns. Gets ready as far as it can, then waits for its socket and the pipe to say so on."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    messages.keep_only([null, null, null, orders])
    linux.set_name("belljar-init")
    # The interpreter is a child of another process outside; orphans land here, and nobody asks how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    problem = _namespaces()
    with socket.socket(fileno=3) as waiting:
        order, fds = messages.receive(waiting)
    if order is None:
        os._exit(0)
    messages.keep_only([0, 1, 2, *fds])
    sock = socket.socket(fileno=3)
    with messages.report_failure(lambda: sock, "making the sandbox"):
        if problem is not None:
            raise problem
        told, lent = messages.receive(sock)  # from the host itself: it passed through no process that others come from
        if told is None:
            os._exit(0)
        request: messages.Walls = told  # type: ignore[assignment]
        _mounts(request)
        # The host gets the workspace as a descriptor, since no path of its own leads into this mount namespace.
        data = os.open("/mnt/data", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        queue = change_queue.make("/mnt/data", uid=request["uid"]) if request["watch"] else None
        # Before our limits: the kernel counts descriptors on their way for each user, against the sender's own limit.
        sent = [data] if queue is None else [data, queue]
        messages.send(sock, {"made": True}, sent)
        os.close(data)  # but not the queue: the last to close one waits, and that must not be a host that is killed
        confine.set_limits(request["limits"])
        confine.enter_user(request["uid"], request["limits"]["processes"])
        linux.set_dumpable(False)  # nobody inside may look into process 1
        confine.lock(program, files=False)
        os.write(4, b"!")  # only now may the interpreter join: all mounts stand, and this process is locked
        os.close(4)
    watcher = Watcher(request["limits"]["address_space"], Turns(*lent), make_allowance(request["idle_cpu_time"]))
    _serve(sock, watcher)
    os._exit(0)


def _namespaces() -> OSError | None:
    """What needs no request; what went wrong is told when there is someone to tell."""
    try:
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
        linux.loopback_up()
        socket.sethostname("belljar")
        linux.mount("proc", "/proc", "proc", _NO_SETUID | linux.MS_NOEXEC)
        _bound_sockets()
        _hide(("keys", "key-users", "cmdline"))
    except OSError as error:
        return error
    return None


def _mounts(request: messages.Walls) -> None:
    uid, disk, scratch = request["uid"], request["disk"], request["scratch"]
    _bound_ipc(scratch)
    # After the settings above, which are written there. A bind mount takes its flags only when it is mounted again.
    linux.mount("/proc/sys", "/proc/sys", None, linux.MS_BIND)
    read_only = linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | _NO_SETUID | linux.MS_NOEXEC
    linux.mount("none", "/proc/sys", None, read_only)
    linux.mount("tmpfs", "/tmp", "tmpfs", _NO_SETUID, data=f"size={scratch},nr_inodes=32k,mode=1777")
    linux.mount("tmpfs", "/dev/shm", "tmpfs", _NO_SETUID, data=f"size={scratch},nr_inodes=8k,mode=1777")
    linux.mount(
        "tmpfs", "/mnt/data", "tmpfs", _NO_SETUID, data=f"size={disk},nr_inodes=64k,mode=700,uid={uid},gid={uid}"
    )
    _show_fonts(uid)


def _hide(names: Iterable[str]) -> None:
    """Empty what /proc tells of the host whoever asks: its user's keys, how its kernel was started."""
    for name in names:
        if os.path.exists(f"/proc/{name}"):
            linux.mount(_EMPTY, f"/proc/{name}", None, linux.MS_BIND)


def _bound_sockets() -> None:
    """What may wait in a socket on the loopback; 6 and 4 MiB otherwise, which nobody but control groups count."""
    for name in ("tcp_rmem", "tcp_wmem"):
        _set(f"net/ipv4/{name}", "4096 65536 131072")


def _bound_ipc(scratch: int) -> None:
    """System V objects outlive every process and are in none's size: as much as /dev/shm may hold, and few of them."""
    for name, value in (("shmall", scratch // _PAGE), ("shmmni", 256), ("msgmni", 64), ("sem", "250 4096 100 128")):
        _set(f"kernel/{name}", value)


def _set(name: str, value: object) -> None:
    with contextlib.suppress(OSError), open(f"/proc/sys/{name}", "w") as file:
        file.write(str(value))  # older kernels let only the machine's root do this


def _show_fonts(uid: int) -> None:
    """The font list made on the host, where a subprocess's matplotlib looks for it."""
    if os.path.isdir(root.FONTS):
        os.mkdir("/tmp/matplotlib", 0o700)
        for name in os.listdir(root.FONTS):
            os.symlink(f"{root.FONTS}/{name}", f"/tmp/matplotlib/{name}")
        os.chown("/tmp/matplotlib", uid, uid)


def _serve(sock: socket.socket, watcher: Watcher) -> None:
    """Answer the host, and look now and then whether there is too much of anything inside."""
    watch = select.poll()
    watch.register(sock, select.POLLIN)
    meter, memory = usage.Meter(), watcher.memory
    next_look, asked = time.monotonic() + watcher.pause, 0.0
    while True:
        ready = watch.poll(max(0.0, next_look - time.monotonic()) * 1000)
        if time.monotonic() >= next_look:
            # While a cell runs, the host asks for the memory, and ends the cell by its own word.
            if excess := watcher.look(memory=time.monotonic() > asked + _ASKED):
                _end_excess(sock, watcher, excess)
            next_look = time.monotonic() + watcher.pause
        if not ready:
            continue
        request, _ = messages.receive(sock)
        match request:
            case None:
                return
            case {"op": "begin", "turn": turn}:
                meter.begin(usage.measure_processes())
                messages.send(sock, {"turn": turn})
            case {"op": "usage", "turn": turn}:
                used = meter.look(usage.measure_processes())
                held = 0 if memory is None else usage.memory(memory)
                messages.send(sock, {"cpu": used, "memory": held, "turn": turn})
                asked = time.monotonic()
            case {"op": "kill"}:
                _kill_all()
                messages.send(sock, {"killed": True})
            case {"op": "sweep", "since": float(since)}:
                _sweep(int(since * usage.TICKS))
                messages.send(sock, {"killed": True})
            case _:
                pass


def _end_excess(sock: socket.socket, watcher: Watcher, excess: Excess) -> None:
    """What the code has started; the interpreter only if that is not enough. The host says why with the next cell."""
    if excess.interpreter:
        _kill_all()
    else:
        _sweep(0)
    interpreter = usage.interpreter()
    dying = any(_lives(pid) for pid in usage.pids() if pid != interpreter)
    if not dying and watcher.judge(memory=True):  # else what they hold still counts: the next look will tell
        _kill_all()
    messages.tell(sock, messages.Excess(excess=excess.why, memory=excess.memory, turn=-1))


def _kill_all() -> None:
    """At one stroke, so that nothing can fork away from it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    _until_gone(usage.pids())


def _sweep(started: int) -> None:
    """Kill what was started since, but not the interpreter.

    The kernel knows the time in hundredths of a second: what an earlier cell started in the same one goes too, since
    nothing of this cell may stay.
    Stopped first and killed when no more appear: the stopped keep their place among the processes allowed, so a
    fork bomb runs dry instead of outrunning us.
    """
    interpreter = usage.interpreter()
    stopped: set[int] = set()
    for _ in range(1000):
        others = (pid for pid in usage.pids() if pid != interpreter and pid not in stopped)
        fresh = [pid for pid in others if _is_younger(pid, started)]
        if not fresh:
            break
        for pid in fresh:
            _send(pid, signal.SIGSTOP)
        stopped.update(fresh)
    for pid in stopped:
        _send(pid, signal.SIGKILL)
    _until_gone(stopped)


def _until_gone(pids: Iterable[int]) -> None:
    """Wait, though not for ever: the killed hold what they held until they are gone."""
    patience = time.monotonic() + 2
    while time.monotonic() < patience and any(_lives(pid) for pid in pids):
        time.sleep(0.001)


def _lives(pid: int) -> bool:
    seen = usage.stat(pid)
    return seen is not None and (seen.state not in (b"Z", b"X") or seen.threads > 1)


def _is_younger(pid: int, started: int) -> bool:
    seen = usage.stat(pid)
    return seen is not None and seen.started >= started


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
