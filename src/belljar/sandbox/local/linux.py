"""Linux system calls that Python lacks, as thin functions that raise OSError. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_REC, MS_SLAVE, MS_BIND = 16384, 1 << 19, 4096
MNT_DETACH = 2

MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC = 1, 2, 4, 8

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 1, 2, 4, 8

_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
_MOVE_MOUNT_F_EMPTY_PATH = 4

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NAME = 1, 4, 22, 15
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 38, 47
_SECCOMP_MODE_FILTER = 2

# Numbers from 424 on are the same on every architecture; only these differ.
_MACHINE = platform.machine()
_PIVOT_ROOT, _CAPSET = {"x86_64": (155, 126), "aarch64": (41, 91)}.get(_MACHINE, (0, 0))
_FANOTIFY_INIT, _FANOTIFY_MARK, _NAME_TO_HANDLE_AT = {"x86_64": (300, 301, 303), "aarch64": (262, 263, 264)}.get(
    _MACHINE, (0, 0, 0)
)
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 428, 429, 436, 437, 442
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def _check(value: int, what: str) -> int:
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def _syscall(what: str, number: int, *args: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *args), what)


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, flags: int) -> None:
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(flags)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind.encode() if kind else None, flags, data.encode() if data else None
    )
    _check(result, f"mount {kind or source} on {target}")


def umount(target: str, flags: int = MNT_DETACH) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    _syscall("pivot_root", _PIVOT_ROOT, ctypes.c_char_p(new.encode()), ctypes.c_char_p(old.encode()))


def clone_tree(path: str) -> int:
    """A detached copy of the mount at `path` and all below it."""
    return _syscall(
        f"open_tree {path}",
        _OPEN_TREE,
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(path)),
        ctypes.c_uint(_OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE),
    )


def set_mount(tree: int, attributes: int) -> None:
    """Set attributes on a detached tree, recursively, before anything can see it."""
    request = struct.pack("QQQQ", attributes, 0, 0, 0)
    _syscall(
        "mount_setattr",
        _MOUNT_SETATTR,
        ctypes.c_int(tree),
        ctypes.c_char_p(b""),
        ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE),
        ctypes.c_char_p(request),
        ctypes.c_size_t(len(request)),
    )


def attach_tree(tree: int, target: str) -> None:
    _syscall(
        f"move_mount to {target}",
        _MOVE_MOUNT,
        ctypes.c_int(tree),
        ctypes.c_char_p(b""),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(target)),
        ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH),
    )


def openat2(directory: int, name: str, flags: int, *, mode: int = 0, resolve: int) -> int:
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode, resolve)
    number = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(directory),
        ctypes.c_char_p(os.fsencode(name)),
        ctypes.c_char_p(how),
        ctypes.c_size_t(len(how)),
    )
    if number < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)
    return int(number)


_FAN_CLOEXEC, _FAN_NONBLOCK, _FAN_REPORT_DFID_NAME = 1, 2, 0xC00
_FAN_MARK_ADD, _FAN_MARK_FILESYSTEM = 1, 0x100
_HANDLE_ROOM = 128


def fanotify_init() -> int:
    """A queue of events that tell the directory, by its handle, and the name in it."""
    flags = _FAN_CLOEXEC | _FAN_NONBLOCK | _FAN_REPORT_DFID_NAME
    return _syscall("fanotify_init", _FANOTIFY_INIT, ctypes.c_uint(flags), ctypes.c_uint(os.O_RDONLY))


def fanotify_mark_filesystem(queue: int, events: int, path: str) -> None:
    """Have the queue told of these events in all of the file system at `path`."""
    _syscall(
        f"fanotify_mark {path}",
        _FANOTIFY_MARK,
        ctypes.c_int(queue),
        ctypes.c_uint(_FAN_MARK_ADD | _FAN_MARK_FILESYSTEM),
        ctypes.c_uint64(events),
        ctypes.c_int(_AT_FDCWD),
        ctypes.c_char_p(os.fsencode(path)),
    )


def get_handle(fd: int) -> bytes:
    """What the kernel calls a file for good, whatever its path: the type of the handle, and its bytes."""
    buffer = ctypes.create_string_buffer(struct.pack("=Ii", _HANDLE_ROOM, 0), 8 + _HANDLE_ROOM)
    mount = ctypes.c_int()
    _syscall(
        "name_to_handle_at",
        _NAME_TO_HANDLE_AT,
        ctypes.c_int(fd),
        ctypes.c_char_p(b""),
        buffer,
        ctypes.byref(mount),
        ctypes.c_int(_AT_EMPTY_PATH),
    )
    size, kind = struct.unpack_from("=Ii", buffer.raw)
    return struct.pack("=i", kind) + buffer.raw[8 : 8 + size]


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    _syscall("close_range", _CLOSE_RANGE, ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0))


def prctl(option: int, a: int = 0, b: int = 0) -> None:
    _check(_libc.prctl(option, a, b, 0, 0), f"prctl {option}")


def set_name(name: str) -> None:
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    prctl(_PR_SET_NAME, ctypes.addressof(buffer))


def die_with_parent(signal: int) -> None:
    prctl(_PR_SET_PDEATHSIG, signal)


def set_dumpable(on: bool) -> None:
    prctl(_PR_SET_DUMPABLE, int(on))


def no_new_privileges() -> None:
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Bounding, ambient, inheritable, permitted, effective: all empty."""
    capability = 0
    while _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    if ctypes.get_errno() != errno.EINVAL:  # which stands for the first that this kernel does not know
        _check(-1, f"prctl {_PR_CAPBSET_DROP}")
    prctl(_PR_CAP_AMBIENT, 4)  # PR_CAP_AMBIENT_CLEAR_ALL
    header = struct.pack("Ii", 0x20080522, 0)
    data = bytes(24)
    _syscall("capset", _CAPSET, ctypes.c_char_p(header), ctypes.c_char_p(data))


CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE, CAP_SYS_ADMIN = 0, 1, 5, 6, 7, 19, 21


def capable(*capabilities: int) -> bool:
    """Whether this process has all of these now."""
    with open("/proc/self/status") as file:
        mask = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return all(mask >> capability & 1 for capability in capabilities)


def install_filter(program: bytes) -> None:
    """Install a seccomp BPF program (8 bytes an instruction)."""
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(fprog, len(fprog))
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))


def landlock_abi() -> int:
    """The Landlock version of this kernel; 0 without."""
    number = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), ctypes.c_void_p(None), ctypes.c_size_t(0), ctypes.c_uint(1))
    return max(0, int(number))


def landlock_create(attributes: bytes) -> int:
    return _syscall(
        "landlock_create_ruleset",
        _LANDLOCK_CREATE,
        ctypes.c_char_p(attributes),
        ctypes.c_size_t(len(attributes)),
        ctypes.c_uint(0),
    )


def landlock_allow(ruleset: int, directory: int, access: int) -> None:
    rule = struct.pack("=Qi", access, directory)
    _syscall(
        "landlock_add_rule",
        _LANDLOCK_ADD,
        ctypes.c_int(ruleset),
        ctypes.c_int(1),
        ctypes.c_char_p(rule),
        ctypes.c_uint(0),
    )


def landlock_restrict(ruleset: int) -> None:
    _syscall("landlock_restrict_self", _LANDLOCK_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint(0))


def loopback_up() -> None:
    """Bring `lo` up in the current network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        name = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(sock, 0x8913, name), 16)[0]  # SIOCGIFFLAGS
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP


def collapse_heap() -> None:
    """Ask for huge pages under the heap, so that a fork copies fewer page-table entries. Best effort."""
    with open("/proc/self/maps") as maps:
        ranges = [line.split() for line in maps]
    size = 2 << 20
    for fields in ranges:
        if fields[1] != "rw-p" or (len(fields) > 5 and fields[5] != "[heap]"):
            continue
        low, high = (int(part, 16) for part in fields[0].split("-"))
        start, end = (low + size - 1) // size * size, high // size * size
        for address in range(start, end, size):
            _libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(25))  # MADV_COLLAPSE
