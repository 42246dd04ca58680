"""Attacks on other processes: the host's, the jail's own, and what is left behind."""

from __future__ import annotations

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks.attack import ALONE, CAN_FORK, USABLE, Attack

_CLONE = """
def clone(flags):
    return call((56, 220), flags, 0, 0, 0, 0)
def beat():
    while True:
        with open("beat", "a") as file:
            file.write("x")
        time.sleep(0.01)
"""

ATTACKS = (
    Attack(
        "processes of the host",
        "The host's processes would be in view.",
        """
own = os.getpid()
found = [pid for pid in pids() if pid not in (1, own) and status(pid, "PPid") not in ("1", str(own))]
if os.path.exists(f"/proc/{HOST['pid']}"):
    found.append(HOST["pid"])
judge(found, "foreign process")
""",
        provable=True,
    ),
    Attack(
        "attach to process 1",
        "The sandbox's first process could be driven by a debugger.",
        """
refused(lambda: call((101, 117), 16, 1, 0, 0), "EPERM")       # PTRACE_ATTACH
refused(lambda: call((101, 117), 0x4206, 1, 0, 0), "EPERM")   # PTRACE_SEIZE
""",
    ),
    Attack(
        "attach to a process of the host",
        "A process of the host could be driven by a debugger.",
        "refused(lambda: call((101, 117), 0x4206, HOST['pid'], 0, 0), 'EPERM')",
        provable=True,
    ),
    Attack(
        "read another process's memory",
        "Memory of process 1 could be copied.",
        """
buffer = ctypes.create_string_buffer(8)
near = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 8)
for pid in (1, os.getpid()):
    refused(lambda: call((310, 270), pid, near, 1, near, 1, 0), "EPERM")
    refused(lambda: call((311, 271), pid, near, 1, near, 1, 0), "EPERM")
""",
        provable=True,
    ),
    Attack(
        "take a descriptor of another process",
        "The first process's socket to the host could be duplicated and used.",
        """
for pid in (1, os.getpid()):
    handle = os.pidfd_open(pid)
    refused(lambda: call((438, 438), handle, 3, 0), "EPERM")
    os.close(handle)
""",
    ),
    Attack(
        "compare kernel objects",
        "kcmp would give away where kernel objects lie.",
        "refused(lambda: call((312, 272), os.getpid(), os.getpid(), 0, 0, 0), 'EPERM')",
        provable=True,
    ),
    Attack(
        "kill process 1",
        "Code could end or stop the process that holds its limits.",
        """
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
held("process 1 lives: " + status(1, "State"))
""",
        after=USABLE,
    ),
    Attack(
        "kill everything",
        "kill(-1) would reach other sandboxes or the host.",
        """
try:
    os.kill(-1, signal.SIGKILL)
except OSError as error:
    held(errno.errorcode[error.errno])
else:
    held("only this sandbox's own were reached")
""",
        neighbour=CAN_FORK,
    ),
    Attack(
        "signal a process of the host",
        "Processes of the host could be stopped.",
        """
refused(lambda: os.kill(HOST["pid"], signal.SIGUSR1), "ESRCH", "EPERM")
refused(lambda: os.killpg(HOST["pid"], signal.SIGUSR1), "ESRCH", "EPERM")
refused(lambda: os.pidfd_open(HOST["pid"]), "ESRCH")
refused(lambda: call((234, 131), HOST["pid"], HOST["pid"], signal.SIGUSR1), "ESRCH", "EPERM")
""",
        provable=True,
    ),
    Attack(
        "signal the host's side of the connection",
        "F_SETOWN on the shared socket would send signals to the host.",
        """
import fcntl
try:
    fcntl.fcntl(3, fcntl.F_SETOWN, HOST["pid"])
except OSError as error:
    held(errno.errorcode[error.errno])
else:
    owner = fcntl.fcntl(3, fcntl.F_GETOWN)
    fcntl.fcntl(3, fcntl.F_SETOWN, 0)
    judge(owner == HOST["pid"], "owner outside")
""",
    ),
    Attack(
        "starve process 1",
        "The process that counts memory and processor time could be starved by its prisoners, and would not count.",
        """
zero = ctypes.byref(ctypes.c_int(0))
attributes = (ctypes.c_uint32 * 12)(48, 5)
refused(lambda: call((144, 119), 1, 5, zero), "EPERM")                    # sched_setscheduler SCHED_IDLE
refused(lambda: call((314, 274), 1, attributes, 0), "EPERM")              # sched_setattr
refused(lambda: call((142, 118), 1, zero), "EPERM")                       # sched_setparam
refused(lambda: os.sched_setaffinity(1, {0}), "EPERM")
refused(lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), "EPERM")
refused(lambda: os.setpriority(os.PRIO_PGRP, 1, 19), "EPERM")
refused(lambda: os.setpriority(os.PRIO_USER, 0, 19), "EPERM")
refused(lambda: call((251, 30), 1, 1, 3 << 13), "EPERM")                  # ioprio_set IDLE
""",
    ),
    Attack(
        "limit process 1",
        "Code could take away what the first process needs to keep order: files, memory, time.",
        """
limits = (ctypes.c_uint64 * 2)(1 << 40, 1 << 40)
for which in (0, 6, 7, 9):
    refused(lambda: call((302, 261), 1, which, limits, None), "EPERM")
""",
    ),
    Attack(
        "real-time priority",
        "Code could take a processor for itself and stall the machine.",
        """
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    refused(lambda: os.sched_setscheduler(0, policy, os.sched_param(1)), "EPERM")
refused(lambda: os.setpriority(os.PRIO_PROCESS, 0, -10), "EPERM", "EACCES")
""",
    ),
    Attack(
        "hang on a process outside",
        "A brother of the interpreter's (CLONE_PARENT) would be reached by no stop and keep its sandbox from ending.",
        _CLONE
        + """
def brother(flags):
    made = clone(flags)
    if made == 0:
        os._exit(0)
    return made
for flags in (0x8011, 0x8000, 0x800A, 0x9011, 0xA011, 0x808011, 0xC011):
    refused(lambda: brother(flags), "EPERM")
""",
        provable=True,
    ),
    Attack(
        "outlive the cell",
        "A process could get out of the way of the stop after a time-out and go on.",
        _CLONE
        + """
import threading
def own_session():
    os.setsid()
    if os.fork() == 0:
        beat()
def below_a_subreaper():
    libc.prctl(36, 1, 0, 0, 0)                          # PR_SET_CHILD_SUBREAPER
    if os.fork() == 0:
        if os.fork() == 0:
            beat()
        os._exit(0)
    time.sleep(60)
def deaf():
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN) if number < 32 else None
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    beat()
def without_its_first_thread():
    threading.Thread(target=beat).start()
    call((60, 93), 0)                                   # exit, this thread alone
def stopped():
    os.kill(os.getpid(), signal.SIGSTOP)
for way in (beat, own_session, below_a_subreaper, deaf, without_its_first_thread, stopped):
    if os.fork() == 0:
        way()
        os._exit(0)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)           # or the end of such a child would be ours
for flags in (0, signal.SIGUSR1, 0x11 | 0x800000, 0x11 | 0x2000):    # other ends, CLONE_UNTRACED, CLONE_PTRACE
    if clone(flags) == 0:
        beat()
time.sleep(60)
""",
        ends=("timed_out",),
        after=ALONE,
        limits=Limits(timeout=1.0, grace=0.3),
    ),
    Attack(
        "outlive the cell, holding the interpreter",
        "A child made by vfork keeps its parent from hearing an interrupt, and would go on when it is killed.",
        _CLONE
        + """
if clone(0x4011) == 0:
    beat()
""",
        ends=("timed_out",),
        after=ALONE,
        limits=Limits(timeout=1.0, grace=0.3),
    ),
    Attack(
        "zombies",
        "Orphans would stay as zombies and fill the process table.",
        """
for _ in range(50):
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
gone = until(lambda: not [pid for pid in pids() if pid not in (1, os.getpid()) and status(pid, "State")[:1] == "Z"])
judge(not gone, "zombie left")
""",
    ),
)
