"""The jail's first process: make the outer namespaces and the root, then watch both host and jail.

It stays outside, small, and does one thing: when the host process ends in whatever way, it kills the jail and removes
the control groups that the host can no longer remove.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import time

from belljar.sandbox.local import confine, jail_init, linux, messages, root

ASIDE = "belljar-host"
"""The group of version 2 into which a host steps, so that groups beside it can have limits."""
_LETTING_GO = 5.0
"""Seconds for the kernel to take the last dead process out of its group."""
_PF_EXITING = 0x4
"""A flag of a process, in the ninth field of /proc/PID/stat."""


def main() -> None:
    """Descriptors: 3 the start message, then the jail init's own socket; 4 the host's pidfd."""
    linux.set_name("belljar")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sock, host = socket.socket(fileno=3), 4
    with messages.report_failure(lambda: sock, "starting the jail"):
        request, _ = messages.receive(sock)
        if request is None:
            return
        jail = _enter(request, sock, host)
    sock.close()
    _watch(host, jail, request["cgroups"])
    os._exit(0)  # nothing of this process is worth tidying, and someone may wait for its end


def _enter(request: dict[str, object], sock: socket.socket, host: int) -> int:
    """Start the jail's init as process 1 of a new process namespace; its pidfd."""
    if request["user_namespace"]:
        confine.enter_user_namespace(0)
    linux.unshare(linux.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        with messages.report_failure(lambda: sock, "building the jail's root"):
            linux.die_with_parent(signal.SIGKILL)  # the launcher may be killed too; the jail must not outlive it
            null = os.open("/dev/null", os.O_RDWR)
            messages.keep_only([null, 1, 2, sock.detach(), host])
            sock = socket.socket(fileno=3)
            linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
            root.build(request["plan"])  # type: ignore[arg-type]
            if not request["user_namespace"]:
                os.setgroups([])
            messages.send(sock, {"started": True})
            line = jail_init.command("jail_init", site=False)
            environment = request["variables"]
            assert isinstance(environment, dict)
            os.execve(line[0], line, environment)
    return os.pidfd_open(pid)


def _watch(host: int, jail: int, cgroups: list[str]) -> None:
    watch = select.poll()
    watch.register(host, select.POLLIN)
    watch.register(jail, select.POLLIN)
    ended = {fd for fd, _ in watch.poll()}
    if jail not in ended:
        signal.pidfd_send_signal(jail, signal.SIGKILL)
    # The kernel lets process 1 end only after all others of its pid namespace: nothing runs in the groups after this.
    os.waitid(os.P_PIDFD, jail, os.WEXITED)
    if host in ended or _is_exiting(host):
        for path in cgroups:
            remove_cgroup(path)
            step_back(os.path.dirname(path))


def _is_exiting(pidfd: int) -> bool:
    """Whether a process is on its way out, or gone.

    The kernel closes the sockets of a process that was killed before it tells of its end, and the jail ends with them:
    if closing takes a while, the first look sees only that. The flag is set before anything is closed.
    """
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as file:
            pid = next(line.split()[1] for line in file if line.startswith("Pid:"))
        with open(f"/proc/{pid}/stat") as file:
            flags = file.read().rpartition(")")[2].split()[6]
    except (OSError, StopIteration):
        return True
    return bool(int(flags) & _PF_EXITING)


def remove_cgroup(path: str, deadline: float | None = None) -> None:
    """Remove a control group and those below it; the kernel may need a moment to let go of the dead."""
    deadline = time.monotonic() + _LETTING_GO if deadline is None else deadline
    try:
        children = [entry.path for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    except OSError:  # it is gone, or not ours to look into
        return
    for child in children:
        remove_cgroup(child, deadline)
    pause = 0.0005
    while True:
        try:
            os.rmdir(path)
            return
        except OSError as error:
            # Anything else than a process or a group that is still in it stays as it is: gone, or not ours to remove.
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY) or time.monotonic() + pause > deadline:
                return
        time.sleep(pause)
        pause *= 1.2


def step_back(parent: str) -> None:
    """Return those who stepped aside, unless a group below still needs it: the kernel then refuses the first step."""
    try:
        with open(f"{parent}/{ASIDE}/cgroup.procs") as file:
            aside = file.read().split()
        with open(f"{parent}/cgroup.subtree_control") as file:
            enabled = {"memory", "cpu"} & {*file.read().split()}
        _write(f"{parent}/cgroup.subtree_control", " ".join(f"-{name}" for name in enabled))
        for pid in aside:
            _write(f"{parent}/cgroup.procs", pid)
        os.rmdir(f"{parent}/{ASIDE}")
    except OSError:
        pass


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
