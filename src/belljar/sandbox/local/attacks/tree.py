"""Attacks on the file system: writing to read-only places, and the kernel's settings."""

from __future__ import annotations

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks.attack import Attack

ATTACKS = (
    Attack(
        "write anywhere",
        "Code could change what it shares with the host or with others.",
        """
found, looked = [], 0
folders = [("/", 0)]
while folders:
    folder, depth = folders.pop()
    looked += 1
    try:
        os.close(os.open(f"{folder}/.belljar-was-here", os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
        os.unlink(f"{folder}/.belljar-was-here")
        found.append(folder)
    except OSError:
        pass
    try:
        entries = list(os.scandir(folder)) if depth < 3 else []
    except OSError:
        continue
    for entry in entries:
        if entry.is_dir(follow_symlinks=False) and entry.path not in ("/proc", "/tmp", "/dev/shm", "/mnt/data"):
            folders.append((entry.path, depth + 1))
judge(found, f"writable directory among {looked}")
""",
    ),
    Attack(
        "change files that are shared",
        "A program or a package that the host uses could be changed.",
        """
for path in ("/usr/bin/env", os.__file__, "/etc/passwd", "/etc/hosts", "/etc/resolv.conf", "/etc/ld.so.cache"):
    refused(lambda: open(path, "r+b"), "EROFS", "EACCES")
    refused(lambda: os.truncate(path, 0), "EROFS", "EACCES")
    refused(lambda: os.unlink(path), "EROFS", "EACCES")
    refused(lambda: os.rename(path, path + "x"), "EROFS", "EACCES")
    refused(lambda: os.chmod(path, 0o777), "EROFS", "EPERM")
    refused(lambda: os.chown(path, 1000, 1000), "EROFS", "EPERM")
    refused(lambda: os.utime(path), "EROFS", "EPERM", "EACCES")
    refused(lambda: os.setxattr(path, "user.x", b"x"), "EROFS", "EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP")
    refused(lambda: os.link(path, "/mnt/data/linked"), "EXDEV", "EPERM", "EACCES")
""",
    ),
    Attack(
        "make entries in the root",
        "Code could put programs, links or sockets in the way of the jail's own processes.",
        """
for folder in ("/", "/usr/bin", "/etc", "/dev", "/opt", "/opt/env/bin", "/run", "/home", "/var/tmp", "/mnt", "/pkgs"):
    path = f"{folder}/belljar-was-here"
    refused(lambda: os.mkdir(path), "EROFS", "EACCES", "ENOENT")
    refused(lambda: os.symlink("/tmp", path), "EROFS", "EACCES", "ENOENT")
    refused(lambda: os.mkfifo(path), "EROFS", "EACCES", "ENOENT")
    refused(lambda: socket.socket(socket.AF_UNIX).bind(path), "EROFS", "EACCES", "ENOENT")
    refused(lambda: os.open(folder, os.O_TMPFILE | os.O_WRONLY), "EROFS", "EACCES", "ENOENT", "EOPNOTSUPP")
""",
    ),
    Attack(
        "settings of the kernel",
        "Code could change the running kernel: where core dumps go, what may be mapped, the host's name.",
        """
for name in '''kernel/core_pattern kernel/modprobe kernel/hostname kernel/domainname kernel/randomize_va_space
kernel/unprivileged_bpf_disabled kernel/shmmax kernel/shmall kernel/msgmax kernel/sem kernel/ns_last_pid
kernel/pid_max vm/overcommit_memory vm/drop_caches vm/mmap_min_addr fs/suid_dumpable fs/file-max
net/ipv4/ip_forward net/ipv4/ping_group_range net/core/somaxconn user/max_user_namespaces'''.split():
    refused(lambda: open("/proc/sys/" + name, "wb", buffering=0).write(b"1"), "EACCES", "EPERM", "ENOENT", "EROFS")
refused(lambda: open("/proc/sysrq-trigger", "wb", buffering=0).write(b"h"), "EACCES", "EPERM", "ENOENT")
for name in ("/proc/self/mem", "/proc/self/clear_refs", "/proc/self/coredump_filter", "/proc/self/attr/current",
             "/proc/self/timerslack_ns", "/proc/self/comm", "/proc/1/oom_score_adj", "/proc/1/comm"):
    refused(lambda: open(name, "r+b", buffering=0), "EACCES", "EPERM", "ENOENT")
""",
    ),
    Attack(
        "the host's /sys",
        "Devices and control groups of the host would be in reach.",
        "judge(os.path.isdir('/sys') and os.listdir('/sys'), 'entry of /sys')",
        provable=True,
    ),
    Attack(
        "core dumps",
        "A crash would write a file somewhere, or start the host's crash handler.",
        """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
with open("/proc/sys/kernel/core_pattern") as file:
    piped = file.read(1) == "|"
judge(hard > 1 or (piped and hard == 0), f"limit of {hard}, where a piped handler respects only 1")
refused(lambda: call((302, 261), 0, resource.RLIMIT_CORE, (ctypes.c_uint64 * 2)(0, 0), 0), "EPERM")
if platform.machine() == "x86_64":
    refused(lambda: call((160, 0), resource.RLIMIT_CORE, (ctypes.c_uint64 * 2)(0, 0)), "EPERM")
child = os.fork()
if child == 0:
    os.chdir("/mnt/data")
    os.kill(os.getpid(), signal.SIGSEGV)
_, ended = os.waitpid(child, 0)
judge(os.WCOREDUMP(ended) or [name for name in os.listdir("/mnt/data") if name.startswith("core")], "core dump")
""",
    ),
    Attack(
        "hidden files of earlier sandboxes",
        "What another sandbox wrote would still be on the disk or in memory.",
        """
left = [f"{top}/{name}" for top in ("/tmp", "/dev/shm", "/var/tmp") for name in os.listdir(top)]
judge([path for path in left if path != "/tmp/matplotlib"], "left-over file")
""",
        limits=Limits(),
    ),
)
