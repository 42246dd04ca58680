"""Attacks by system call: every call that the filter denies, by number, with harmless arguments.

The numbers stand here a second time on purpose: an attack built from the filter's own table would vanish with the
entry that it tests. A refusal must come from the filter (EPERM); any other error means that the kernel looked at it.
"""

from __future__ import annotations

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks.attack import USABLE, Attack

# fmt: off
_CALLS: tuple[tuple[str, int | None, int | None, str], ...] = (
    # name, x86-64, arm64, arguments
    ("mount", 165, 40, "0, 0, 0, 0, 0"), ("umount2", 166, 39, "0, 0"), ("pivot_root", 155, 41, "0, 0"),
    ("move_mount", 429, 429, "-1, 0, -1, 0, 0"), ("open_tree", 428, 428, "-100, b'/', 1"),
    ("open_tree_attr", 467, 467, "-100, b'/', 1, 0, 0"), ("fsopen", 430, 430, "b'tmpfs', 0"),
    ("fsconfig", 431, 431, "-1, 0, 0, 0, 0"), ("fsmount", 432, 432, "-1, 0, 0"), ("fspick", 433, 433, "-100, b'/', 0"),
    ("mount_setattr", 442, 442, "-1, 0, 0, 0, 0"), ("statmount", 457, 457, "0, 0, 0, 0"),
    ("listmount", 458, 458, "0, 0, 0, 0"), ("chroot", 161, 51, "b'/tmp'"), ("setns", 308, 268, "-1, 0"),
    ("process_madvise", 440, 440, "-1, 0, 0, 0, 0"),
    ("keyctl", 250, 219, "0, -3, 0, 0, 0"), ("add_key", 248, 217, "0, 0, 0, 0, 0"),
    ("request_key", 249, 218, "0, 0, 0, 0"),
    ("bpf", 321, 280, "0, 0, 0"), ("perf_event_open", 298, 241, "0, 0, -1, -1, 0"), ("userfaultfd", 323, 282, "1"),
    ("io_uring_setup", 425, 425, "1, 0"), ("io_uring_enter", 426, 426, "-1, 0, 0, 0, 0, 0"),
    ("io_uring_register", 427, 427, "-1, 0, 0, 0"), ("fanotify_init", 300, 262, "0x200, 0"),
    ("fanotify_mark", 301, 263, "-1, 0, 0, -1, 0"), ("name_to_handle_at", 303, 264, "-100, b'/', 0, 0, 0"),
    ("open_by_handle_at", 304, 265, "-1, 0, 0"), ("init_module", 175, 105, "0, 0, 0"),
    ("finit_module", 313, 273, "-1, 0, 0"), ("delete_module", 176, 106, "b'belljar-none', 0x800"),
    ("kexec_load", 246, 104, "0, 1 << 20, 0, 0"), ("kexec_file_load", 320, 294, "-1, -1, 0, 0, 0"),
    ("reboot", 169, 142, "0, 0, 0, 0"), ("swapon", 167, 224, "0, 0"), ("swapoff", 168, 225, "0"),
    ("quotactl", 179, 60, "-1, 0, 0, 0"), ("quotactl_fd", 443, 443, "-1, 0, 0, 0"),
    ("acct", 163, 89, "b'/belljar-none'"),
    ("settimeofday", 164, 170, "0, 0"), ("clock_settime", 227, 112, "999, 0"), ("clock_adjtime", 305, 266, "999, 0"),
    ("adjtimex", 159, 171, "0"), ("iopl", 172, None, "0"), ("ioperm", 173, None, "128, 1, 0"),
    ("modify_ldt", 154, None, "0, 0, 0"), ("lookup_dcookie", 212, 18, "0, 0, 0"), ("vhangup", 153, 58, ""),
    ("syslog", 103, 116, "10, 0, 0"), ("sethostname", 170, 161, "0, 9999"), ("setdomainname", 171, 162, "0, 9999"),
    ("migrate_pages", 256, 238, "0, 0, 0, 0"), ("move_pages", 279, 239, "0, 0, 0, 0, 0, 0"),
    ("mbind", 237, 235, "0, 0, 0, 0, 0, 0"), ("set_mempolicy", 238, 237, "0, 0, 0"),
    ("set_mempolicy_home_node", 450, 450, "0, 0, 0, 0"), ("memfd_secret", 447, 447, "0"),
    ("lsm_set_self_attr", 460, 460, "0, 0, 0, 0"),
    ("remap_file_pages", 216, 234, "0, 0, 0, 0, 0"), ("create_module", 174, None, "0, 0"),
    ("get_kernel_syms", 177, None, "0"), ("query_module", 178, None, "0, 0, 0, 0, 0"),
    ("nfsservctl", 180, 42, "0, 0, 0"),
    ("_sysctl", 156, None, "0"), ("uselib", 134, None, "0"), ("ustat", 136, None, "0, 0"), ("sysfs", 139, None, "3"),
)
_ABSENT: tuple[tuple[str, int | None, int | None, str], ...] = (
    ("splice", 275, 76, "-1, 0, -1, 0, 0, 0"), ("tee", 276, 77, "-1, -1, 0, 0"), ("vmsplice", 278, 75, "-1, 0, 0, 0"),
    ("inotify_init", 253, None, ""), ("inotify_init1", 294, 26, "0"), ("io_setup", 206, 0, "1, 0"),
    ("io_destroy", 207, 1, "0"), ("io_submit", 209, 2, "0, 0, 0"), ("io_cancel", 210, 3, "0, 0, 0"),
    ("io_getevents", 208, 4, "0, 0, 0, 0, 0"), ("io_pgetevents", 333, 292, "0, 0, 0, 0, 0, 0"),
)
_OPTIONS = {
    # What has been a way into the kernel, or loads code into it: level, option.
    "TLS on top of TCP": (6, 31), "another congestion control": (6, 13), "zero copy receiving": (6, 35),
    "signatures of TCP": (6, 14), "repair of TCP": (6, 19), "a filter on a socket": (1, 26),
    "a BPF program on a socket": (1, 50), "a filter on a group of sockets": (1, 51), "zero copy sending": (1, 60),
    "a time to send at": (1, 61), "buffers past the limit": (1, 32), "a device to bind to": (1, 25),
    "a mark on packets": (1, 36), "encapsulation in UDP": (17, 100), "segments of UDP": (17, 103),
    "tables of netfilter": (0, 64), "tables of netfilter for IPv6": (41, 64), "multicast groups": (0, 35),
    "IPsec policies": (0, 17), "routing headers": (41, 57), "extension headers": (41, 54), "TLS itself": (282, 1),
    "the kernel's own ciphers": (279, 1),
}
_NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000,
    "pid": 0x20000000, "net": 0x40000000, "time": 0x00000080,
}
_FAMILIES = {
    "IPX": 4, "APPLETALK": 5, "NETLINK": 16, "PACKET": 17, "RDS": 21, "CAN": 29, "TIPC": 30, "BLUETOOTH": 31,
    "ALG": 38, "NFC": 39, "VSOCK": 40, "KCM": 41, "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45,
}
# fmt: on

_NOT_PROVABLE = {"vhangup", "process_madvise", "nfsservctl", "lookup_dcookie"}

ATTACKS = (
    *(
        Attack(
            f"call {name}",
            f"A part of the kernel that code has no business with ({name}) would be open to attack.",
            f"refused(lambda: call(({x86}, {arm}), {args}), 'EPERM')",
            provable=name not in _NOT_PROVABLE,
        )
        for name, x86, arm, args in _CALLS
    ),
    *(
        Attack(
            f"call {name}",
            f"Memory of files that others use, what they do with them, or what the machine has in all ({name}).",
            f"refused(lambda: call(({x86}, {arm}), {args}), 'ENOSYS', 'EPERM')",
            provable=name != "inotify_init",
        )
        for name, x86, arm, args in _ABSENT
    ),
    *(
        Attack(
            f"socket option: {name}",
            "A part of the network code that no program in here needs would be open to attack.",
            f"""
for family in (1, 2, 10):
    with socket.socket(family) as sock:
        refused(lambda: sock.setsockopt({level}, {option}, b"tls" + bytes(61)), "ENOPROTOOPT")
""",
        )
        for name, (level, option) in _OPTIONS.items()
    ),
    Attack(
        "what others do in a directory",
        "What the host and other sandboxes do with files that all can read would be told, file by file.",
        """
import fcntl
for path in ("/usr", "/usr/bin", "/opt", "/mnt/data", "/dev"):
    folder = os.open(path, os.O_RDONLY)
    refused(lambda: fcntl.fcntl(folder, 1026, 1), "EPERM")      # F_NOTIFY
    os.close(folder)
""",
        provable=True,
    ),
    *(
        Attack(
            f"new {name} namespace by unshare",
            "Code could make itself root of a namespace of its own and reach much more of the kernel.",
            f"refused(lambda: call((272, 97), {flag}), 'EPERM')",
            provable=name == "user",
        )
        for name, flag in _NAMESPACES.items()
    ),
    *(
        Attack(
            f"new {name} namespace by clone",
            "Code could start a process in a namespace of its own.",
            f"""
def clone():
    child = call((56, 220), {flag} | 17, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    return child
refused(clone, "EPERM")
""",
            provable=name == "user",
        )
        for name, flag in _NAMESPACES.items()
        if name != "time"  # its bit means something else to clone
    ),
    Attack(
        "new namespaces by clone3",
        "The newer call, whose flags a filter cannot see, would make namespaces.",
        """
def clone3(flags):
    child = call((435, 435), (ctypes.c_uint64 * 11)(flags, 0, 0, 0, 17), 88)
    if child == 0:
        os._exit(0)
    return child
refused(lambda: clone3(0x10000000), "ENOSYS")
refused(lambda: clone3(0), "ENOSYS")
""",
        provable=True,
    ),
    Attack(
        "join a namespace by its file",
        "Code could go where the jail's own processes are.",
        """
for name in ("mnt", "user", "pid", "net", "ipc", "uts", "cgroup"):
    handle = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    refused(lambda: call((308, 268), handle, 0), "EPERM")
    os.close(handle)
handle = os.pidfd_open(1)
refused(lambda: call((308, 268), handle, 0x00020000), "EPERM")
os.close(handle)
""",
    ),
    Attack(
        "make the root writable again",
        "Read-only mounts could be remounted or peeled off.",
        """
libc.mount.argtypes = (ctypes.c_char_p,) * 3 + (ctypes.c_ulong, ctypes.c_char_p)
def mount(*args):
    if libc.mount(*args) < 0:
        raise OSError(ctypes.get_errno(), "mount")
def umount(path):
    if libc.umount2(path, 2) < 0:
        raise OSError(ctypes.get_errno(), "umount")
refused(lambda: mount(b"none", b"/", None, 32 | 4096, None), "EPERM")
refused(lambda: mount(b"none", b"/usr", None, 32 | 4096, None), "EPERM")
refused(lambda: mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None), "EPERM")
refused(lambda: mount(b"proc", b"/tmp", b"proc", 0, None), "EPERM")
for path in (b"/proc", b"/tmp", b"/mnt/data", b"/dev/shm", b"/usr", b"/"):
    refused(lambda: umount(path), "EPERM")
""",
    ),
    *(
        Attack(
            f"socket family {name}",
            f"Rarely used network code of the kernel (AF_{name}) would be open to attack.",
            f"""
for kind in (1, 2, 3, 5):
    refused(lambda: call((41, 198), {number}, kind, 0), "EAFNOSUPPORT")
    refused(lambda: call((53, 199), {number}, kind, 0, (ctypes.c_int * 2)()), "EAFNOSUPPORT")
""",
            provable=name in ("NETLINK", "PACKET"),
        )
        for name, number in _FAMILIES.items()
    ),
    Attack(
        "raw sockets",
        "Packets could be forged.",
        """
refused(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1), "EPERM")
refused(lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58), "EPERM")
""",
    ),
    Attack(
        "rare protocols",
        "Rarely used protocols over IP (SCTP, DCCP, MPTCP, UDP-Lite, L2TP) would be open to attack.",
        """
for family in (2, 10):
    for kind, protocol in ((1, 132), (5, 132), (6, 33), (1, 262), (2, 136), (2, 115), (1, 256)):
        refused(lambda: call((41, 198), family, kind, protocol), "EPROTONOSUPPORT" if kind == 1 else "EPERM")
""",
    ),
    Attack(
        "type into the terminal",
        "Code could type commands into the terminal that Belljar was started from.",
        """
import fcntl
for request in (0x5412, 0x541C):
    for number in range(4):
        refused(lambda: fcntl.ioctl(number, request, b"x"), "EPERM")
refused(lambda: call((16, 29), 1, 0x5412 | 1 << 32, b"x"), "EPERM")
refused(lambda: os.open("/dev/tty", os.O_RDWR), "ENOENT", "ENXIO")
""",
    ),
    Attack(
        "change personality",
        "Address randomisation could be switched off, or old ways of the kernel switched on.",
        """
for value in (0x0040000, 0x0400000, 0x0100000, 8):
    refused(lambda: call((135, 92), value), "EPERM")
""",
        provable=True,
    ),
    Attack(
        "file leases",
        "A lease on a file makes whoever opens it wait: the host, or programs that share a read-only file.",
        """
import fcntl
open("leased", "w").close()
with open("leased") as file:
    refused(lambda: fcntl.fcntl(file, 1024, fcntl.F_RDLCK), "EPERM")
os.unlink("leased")
""",
    ),
    Attack(
        "x32 numbers",
        "The same calls under their x32 numbers would pass the filter.",
        """
for number in (41, 101, 165, 272, 308, 512, 520, 521, 534, 539, 540):
    refused(lambda: call((0x40000000 | number, 0x40000000 | number), 0, 0, 0, 0, 0), "ENOSYS")
""",
    ),
    Attack(
        "numbers nobody knows",
        "A call added to the kernel after the filter was written would be open.",
        """
for number in (470, 471, 475, 500, 511, 548, 1000, 0x3FFFFFFF, 0x7FFFFFFF, -1, -2):
    refused(lambda: call((number, number), 0, 0, 0, 0, 0), "ENOSYS")
""",
    ),
    Attack(
        "calls of the 32-bit kind",
        "The 32-bit door (int 0x80) has numbers of its own, which a filter for 64 bits does not judge.",
        """
if platform.machine() != "x86_64":
    held("this machine has no such door")
else:
    import mmap
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))       # mov eax, 20 (getpid); int 0x80; ret
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    broken(f"it answered {ctypes.CFUNCTYPE(ctypes.c_int)(address)()}")
""",
        ends=("killed:crashed", "ok"),
        after=USABLE,
        limits=Limits(),
        provable=True,
    ),
    Attack(
        "loosen the filter",
        "Code could take its own filter off.",
        """
libc.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4
def prctl(*args):
    if libc.prctl(*args) < 0:
        raise OSError(ctypes.get_errno(), "prctl")
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(allow)))
refused(lambda: prctl(22, 0, 0, 0, 0), "EINVAL")                                # PR_SET_SECCOMP, disabled
child = os.fork()
if child == 0:
    prctl(22, 2, ctypes.addressof(program), 0, 0)                               # a second filter that allows all
    try:
        call((272, 97), 0)
    except OSError as error:
        os._exit(error.errno == errno.EPERM)
    os._exit(0)
judge(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 1, "way around the first filter")
""",
    ),
)
