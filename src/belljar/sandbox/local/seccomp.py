"""Compile the system-call filter: a policy as data to a BPF decision tree. Pure."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable

EPERM, ENOSYS = errno.EPERM, errno.ENOSYS
EAFNOSUPPORT, EPROTONOSUPPORT = errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT
ENOPROTOOPT = errno.ENOPROTOOPT

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine name -> (column in NUMBERS, audit architecture)."""

HIGHEST = 469
"""Newer calls than these were unknown when the list was made: they answer ENOSYS, as on an older kernel."""

# fmt: off
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # other processes' memory and descriptors
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "move_mount": (429, 429),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "statmount": (457, 457),
    "listmount": (458, 458), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    # large kernel interfaces with a history
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    # the machine itself
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89), "settimeofday": (164, 170),
    "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "iopl": (172, None),
    "ioperm": (173, None), "modify_ldt": (154, None), "lookup_dcookie": (212, 18), "vhangup": (153, 58),
    "syslog": (103, 116), "sethostname": (170, 161), "setdomainname": (171, 162),
    # memory placement and oddities
    "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235), "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450), "memfd_secret": (447, 447), "lsm_set_self_attr": (460, 460),
    "remap_file_pages": (216, 234),
    # obsolete
    "create_module": (174, None), "get_kernel_syms": (177, None), "query_module": (178, None),
    "nfsservctl": (180, 42), "_sysctl": (156, None), "uselib": (134, None), "ustat": (136, None), "sysfs": (139, None),
    # pages of files lent to pipes and sockets: the way into each other's page cache; libraries copy instead
    "splice": (275, 76), "tee": (276, 77), "vmsplice": (278, 75),
    # what others do with files that they share with the code; libraries look now and then instead
    "inotify_init": (253, None), "inotify_init1": (294, 26),
    # counted for the whole machine
    "io_setup": (206, 0), "io_destroy": (207, 1), "io_submit": (209, 2), "io_cancel": (210, 3),
    "io_getevents": (208, 4), "io_pgetevents": (333, 292),
    # judged by their arguments
    "clone": (56, 220), "clone3": (435, 435), "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29),
    "personality": (135, 92), "fcntl": (72, 25), "prlimit64": (302, 261), "setrlimit": (160, 164),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122), "setpriority": (141, 140), "ioprio_set": (251, 30), "setsockopt": (54, 208),
    "close_range": (436, 436),
}
# fmt: on

SCHEDULING = frozenset({"sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity"})
BY_ARGUMENT = SCHEDULING | {
    "clone", "clone3", "socket", "socketpair", "ioctl", "personality", "fcntl", "prlimit64", "setrlimit",
    "setpriority", "ioprio_set", "setsockopt", "close_range",
}  # fmt: skip
MISSING = frozenset({
    "splice", "tee", "vmsplice", "inotify_init", "inotify_init1", "io_setup", "io_destroy", "io_submit", "io_cancel",
    "io_getevents", "io_pgetevents",
})  # fmt: skip
"""Answered as by a kernel that does not have them, since libraries then do without."""
DENIED = frozenset(NUMBERS) - BY_ARGUMENT - MISSING

NEW_NAMESPACES = 0x7E020000
CLONE_PARENT = 0x8000
"""A brother, not a child: its parent would be the zygote, outside, which does not know it and would never bury it."""
CLONE_THREAD, CLONE_FILES, CLOSE_RANGE_UNSHARE = 0x10000, 0x400, 2
"""All threads of a process have the same open files, or nobody could count them. libc never asks for another thing."""
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
SOCK_STREAM, SOCKET_TYPES = 1, 0xF
"""The second without the flags that come with the type. Nothing but streams on the loopback: what waits in datagrams
is in no control group of version 1, and in no process's size.
"""
SOCKET_PROTOCOLS = {AF_UNIX: (0, 1), AF_INET: (0, 6), AF_INET6: (0, 6)}
"""The family's own, TCP: no SCTP, DCCP, MPTCP and the like, loaded when first asked for."""
TERMINAL_INJECTION = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX."""
PERSONALITIES = (0, 0xFFFFFFFF)
"""The ordinary one, and the query."""
F_SETLEASE, F_NOTIFY = 1024, 1026
"""A lease makes whoever opens the file wait for the one who holds it: the host, on a file of the workspace. The other
tells what others do in a directory, as inotify does.
"""
SOCKET_OPTIONS = {
    # Addresses, buffers, time-outs, keeping alive, credentials, time stamps; no programs, marks, devices, zero copy.
    1: (2, 5, 6, 9, 10, 12, 13, 15, 16, 18, 19, 20, 21, 29, 34, 35, 40, 42, 63, 64, 66, 67, 76),
    # Type of service, time to live, path MTU, errors, binding without a port.
    0: (1, 2, 10, 11, 24),
    # Everyday ones; no other congestion control, no upper protocols (TLS), no signatures, no repair, no zero copy.
    6: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18, 23, 25),
    # Hops, path MTU, errors, IPv6 alone, traffic class.
    41: (16, 23, 25, 26, 67),
}
"""SOL_SOCKET, IPPROTO_IP, IPPROTO_TCP, IPPROTO_IPV6: what programs use. Each other option is a door of its own, and
some load code into the kernel when first asked for.
"""
SOL_SOCKET, SO_SNDBUF, SO_RCVBUF = 1, 7, 8
"""Answered as done, and nothing is done: what waits in sockets is memory, and how much may is said by the sandbox."""
INIT = 1
"""The sandbox's process 1 has the same user as the code, which could otherwise starve it or take its limits away."""
PRIO_USER, IOPRIO_WHO_USER = 2, 3
RLIMIT_CORE = 4
"""Held at 1, the only value that keeps the kernel from starting a piped crash handler; so it may not be lowered."""

_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_DONE = _ERRNO
"""No error, and no call."""
_LD, _AND, _JA, _JEQ, _JGE, _JSET, _RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARG = 0, 4, 16

Instruction = tuple[int, int, int, int]
Block = list[Instruction]


def _deny(number: int) -> int:
    return _ERRNO | number


def _ret(action: int) -> Block:
    return [(_RET, 0, 0, action)]


def _load(offset: int) -> Instruction:
    return (_LD, 0, 0, offset)


def _one_of(argument: int, values: Iterable[int], otherwise: int, then: Block | None = None) -> Block:
    """Allow, or go on to `then`, when the argument is one of the values."""
    kept = list(values)
    block = [_load(_FIRST_ARG + 8 * argument)]
    for index, value in enumerate(kept):
        block.append((_JEQ, len(kept) - index, 0, value))
    return [*block, *_ret(otherwise), *(then or _ret(_ALLOW))]


def _none_of(argument: int, values: Iterable[int], otherwise: int, then: Block | None = None) -> Block:
    """Allow, or go on to `then`, unless the argument is one of the values."""
    kept, rest = list(values), then or _ret(_ALLOW)
    block = [_load(_FIRST_ARG + 8 * argument)]
    for index, value in enumerate(kept):
        block.append((_JEQ, len(kept) - index - 1 + len(rest), 0, value))
    return [*block, *rest, *_ret(otherwise)]


def _known_option() -> Block:
    """The level, then the option of that level."""
    block: Block = [_load(_FIRST_ARG + 8)]
    for level, options in SOCKET_OPTIONS.items():
        judged = _one_of(2, options, _deny(ENOPROTOOPT))
        if level == SOL_SOCKET:
            judged = _none_of(2, (SO_SNDBUF, SO_RCVBUF), _DONE, judged)
        block += [(_JEQ, 0, len(judged), level), *judged]
    return [*block, *_ret(_deny(ENOPROTOOPT))]


def _known_socket() -> Block:
    """The family, then the type of those that reach a network, then the protocol."""
    block: Block = [_load(_FIRST_ARG)]
    for family, protocols in SOCKET_PROTOCOLS.items():
        judged = _one_of(2, protocols, _deny(EPROTONOSUPPORT))
        if family != AF_UNIX:
            stream = [_load(_FIRST_ARG + 8), (_AND, 0, 0, SOCKET_TYPES), (_JEQ, 1, 0, SOCK_STREAM)]
            judged = [*stream, *_ret(_deny(EPERM)), *judged]
        block += [(_JEQ, 0, len(judged), family), *judged]
    return [*block, *_ret(_deny(EAFNOSUPPORT))]


def _no_core_limit() -> Block:
    """prlimit64 may read the limit on core dumps, not set it: its third argument must be null."""
    pointer = _FIRST_ARG + 8 * 2
    return [
        _load(_FIRST_ARG + 8),
        (_JEQ, 0, 4, RLIMIT_CORE),
        _load(pointer),
        (_JEQ, 0, 3, 0),
        _load(pointer + 4),
        (_JEQ, 0, 1, 0),
        *_ret(_ALLOW),
        *_ret(_deny(EPERM)),
    ]


def _judgement(name: str) -> Block:
    match name:
        case "clone":  # threads and children yes; new namespaces, brothers, threads with files of their own no
            flags = [_load(_FIRST_ARG), (_JSET, 2, 0, NEW_NAMESPACES | CLONE_PARENT)]
            thread = [(_JSET, 0, 2, CLONE_THREAD), (_JSET, 1, 0, CLONE_FILES)]
            return [*flags, *thread, *_ret(_deny(EPERM)), *_ret(_ALLOW)]
        case "close_range":
            return [_load(_FIRST_ARG + 16), (_JSET, 0, 1, CLOSE_RANGE_UNSHARE), *_ret(_deny(EPERM)), *_ret(_ALLOW)]
        case "clone3":  # its flags lie behind a pointer; libc falls back to clone
            return _ret(_deny(ENOSYS))
        case "socket" | "socketpair":
            return _known_socket()
        case "ioctl":
            return _none_of(1, TERMINAL_INJECTION, _deny(EPERM))
        case "personality":
            return _one_of(0, PERSONALITIES, _deny(EPERM))
        case "fcntl":
            return _none_of(1, (F_SETLEASE, F_NOTIFY), _deny(EPERM))
        case "setsockopt":
            return _known_option()
        case _ if name in MISSING:
            return _ret(_deny(ENOSYS))
        case "setpriority":
            return _none_of(0, (PRIO_USER,), _deny(EPERM), _none_of(1, (INIT,), _deny(EPERM)))
        case "ioprio_set":
            return _none_of(0, (IOPRIO_WHO_USER,), _deny(EPERM), _none_of(1, (INIT,), _deny(EPERM)))
        case "prlimit64":
            return _none_of(0, (INIT,), _deny(EPERM), _no_core_limit())
        case "setrlimit":
            return _none_of(0, (RLIMIT_CORE,), _deny(EPERM))
        case _ if name in SCHEDULING:
            return _none_of(0, (INIT,), _deny(EPERM))
        case _:
            return _ret(_deny(EPERM))


def _tree(runs: list[tuple[int, Block]]) -> Block:
    """A balanced search over runs (first number, what to do from there on)."""
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    left, right = _tree(runs[:middle]), _tree(runs[middle:])
    if len(left) > 255:  # more than a condition can cross; an unconditional jump can
        return [(_JGE, 0, 1, runs[middle][0]), (_JA, 0, 0, len(left)), *left, *right]
    return [(_JGE, len(left), 0, runs[middle][0]), *left, *right]


def program(machine: str) -> bytes:
    """The filter for a machine, ready to install. KeyError for one that has no table."""
    column, architecture = ARCHITECTURES[machine]
    special = {number: _judgement(name) for name, row in NUMBERS.items() if (number := row[column]) is not None}
    runs: list[tuple[int, Block]] = [(0, _ret(_ALLOW))]
    for number in sorted(special):
        if runs[-1][0] == number:
            runs.pop()
        if not (runs and runs[-1][1] == special[number]):
            runs.append((number, special[number]))
        runs.append((number + 1, _ret(_ALLOW)))
    runs.append((HIGHEST + 1, _ret(_deny(ENOSYS))))
    head: Block = [_load(_ARCH), (_JEQ, 1, 0, architecture), *_ret(_KILL_PROCESS), _load(_NUMBER)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in [*head, *_tree(runs)])


MEMFD_CREATE = (319, 279)


def no_hidden_files(machine: str) -> bytes:
    """A second filter for where no cgroup counts memory: files that are in no directory and in no process's size."""
    column, _ = ARCHITECTURES[machine]
    block = [_load(_NUMBER), (_JEQ, 0, 1, MEMFD_CREATE[column]), *_ret(_deny(ENOSYS)), *_ret(_ALLOW)]
    return b"".join(struct.pack("HBBI", *instruction) for instruction in block)
