"""Confine a process: drop privileges, capabilities and system calls, in an order that matters.

Order matters. Limits come before credentials, because they may need the old ones; the user namespace comes after all
others, so that they belong to the outside and no capability held inside reaches them; no_new_privs comes before
Landlock and seccomp, which need it; seccomp comes last, because it forbids most of the steps above it.
"""

from __future__ import annotations

import os
import platform
import resource
from typing import TypedDict

from belljar.sandbox.local import landlock, linux, seccomp

INSIDE = 1000
"""The uid and gid that jailed code sees as its own."""


NICE = 10
"""How much code steps back where no control group weighs it: a ninth of what an ordinary process gets."""


class Rlimits(TypedDict):
    """Per-process limits. JSON-shaped: they travel over a socket."""

    open_files: int
    file_size: int
    processes: int
    address_space: int | None
    """Only where no cgroup bounds memory: bytes on top of what the process has at its start."""


def set_limits(limits: Rlimits) -> None:
    """All per-process limits but the number of processes, which counts in the user namespace."""
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"1000")  # when the machine itself runs out of memory, a sandbox goes before anything of the host's
    for kind, value in (
        (resource.RLIMIT_CORE, 1),  # 0 would still start a crash handler that core_pattern pipes to
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_FSIZE, limits["file_size"]),
        (resource.RLIMIT_MEMLOCK, 64 << 10),
        (resource.RLIMIT_MSGQUEUE, 800 << 10),
        (resource.RLIMIT_SIGPENDING, 1024),
        (resource.RLIMIT_RTPRIO, 0),
        (resource.RLIMIT_NICE, 0),
    ):
        _lower(kind, value)
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    wanted = 8 << 20
    if soft == resource.RLIM_INFINITY or soft > wanted:
        resource.setrlimit(resource.RLIMIT_STACK, (wanted, hard))
    if limits["address_space"] is not None:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        _lower(resource.RLIMIT_AS, now + limits["address_space"])


def leave_real_time() -> None:
    """Code is never in a hurry, and no control group takes who is."""
    if os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def enter_user(uid: int, processes: int) -> None:
    """Become `uid` of the surrounding namespace, seen as 1000 in a user namespace of its own."""
    if os.getuid() != uid:
        # Groups, then gid, then uid: after the last of them we may change none.
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    linux.set_dumpable(True)  # a change of user clears it, and the maps below are then root's
    enter_user_namespace(INSIDE)
    # After it: since Linux 5.14 processes are counted for each user namespace, so no other sandbox counts against us.
    _lower(resource.RLIMIT_NPROC, processes)


def enter_user_namespace(inside: int) -> None:
    """A user namespace of our own, in which we are `inside`, user and group alike, and nobody else exists."""
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER)
    # "setgroups" first: without privilege outside, the kernel takes a gid_map only where setgroups is denied for good.
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inside} {uid} 1"), ("gid_map", f"{inside} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def lock(program: bytes, *, files: bool) -> None:
    """The point of no return: no capabilities, no new privileges, Landlock on files if asked, the call filter."""
    linux.drop_capabilities()
    linux.no_new_privileges()  # without privilege, the kernel takes neither Landlock's rules nor a filter before this
    if files:
        landlock.restrict()
    linux.install_filter(program)


def count_all_memory() -> None:
    """Where no cgroup counts memory, forbid what would be in no process's size either. After `lock`."""
    linux.install_filter(seccomp.no_hidden_files(platform.machine()))


def call_filter() -> bytes:
    """The call filter for this machine; made once, before forking."""
    return seccomp.program(platform.machine())
