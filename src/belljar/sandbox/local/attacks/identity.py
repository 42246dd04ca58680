"""Attacks on privilege: capabilities, users, limits, set-user-id programs."""

from __future__ import annotations

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks.attack import Attack

_PRCTL = """
libc.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4
def prctl(*args):
    answer = libc.prctl(*args)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "prctl")
    return answer
"""

ATTACKS = (
    Attack(
        "capabilities",
        "Code would hold powers of root.",
        """
sets = {name: status("self", name) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
judge({name: value for name, value in sets.items() if int(value, 16)}, "capability")
""",
        provable=True,
    ),
    Attack(
        "no new privileges, and the filter",
        "A program run by the code could gain privileges, or no filter would be in force.",
        """
judge(status("self", "NoNewPrivs") != "1", "way to new privileges")
judge(status("self", "Seccomp") != "2", "lack of a filter")
""",
        provable=True,
    ),
    Attack(
        "user and groups",
        "Code would run as a user, or in a group, that owns things.",
        """
judge(os.getresuid() != (1000,) * 3 or os.getresgid() != (1000,) * 3, "other user")
with open("/proc/sys/kernel/overflowgid") as file:
    nobody = int(file.read())
judge(set(os.getgroups()) - {1000, nobody}, "group that has a name here")
for name in ("uid_map", "gid_map"):
    with open(f"/proc/self/{name}") as file:
        lines = [line.split() for line in file]
    judge(len(lines) != 1 or lines[0][0] != "1000" or lines[0][2] != "1", "other mapping")
with open("/proc/self/setgroups") as file:
    judge(file.read().strip() != "deny", "right to set groups")
""",
        provable=True,
    ),
    Attack(
        "what groups open",
        "An ordinary user's groups cannot be given up: files that are for one of them alone could be read.",
        """
import stat
looked, found = 0, []
def look(folder):
    global looked
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        info, looked = entry.stat(follow_symlinks=False), looked + 1
        is_folder = stat.S_ISDIR(info.st_mode)
        everybody = stat.S_IROTH | (stat.S_IXOTH if is_folder else 0)
        if not stat.S_ISLNK(info.st_mode) and info.st_uid != 1000 and info.st_mode & everybody != everybody:
            try:
                os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
                found.append(entry.path)
            except OSError:
                pass
        if is_folder:
            look(entry.path)
for name in sorted(set(os.listdir("/")) - {"proc"}):
    look("/" + name)
judge(found[:5], f"file for a group alone among {looked}, in {len(os.getgroups())} groups")
""",
        limits=Limits(timeout=600.0),
    ),
    Attack(
        "become root",
        "Code could change its user.",
        """
for user in (0, 1, 65534):
    refused(lambda: os.setresuid(user, user, user), "EPERM", "EINVAL")
    refused(lambda: os.setresgid(user, user, user), "EPERM", "EINVAL")
refused(lambda: os.setgroups([0]), "EPERM")
refused(lambda: open("/proc/self/uid_map", "wb", buffering=0).write(b"0 0 1"), "EPERM", "EACCES")
refused(lambda: open("/proc/self/gid_map", "wb", buffering=0).write(b"0 0 1"), "EPERM", "EACCES")
""",
    ),
    Attack(
        "raise capabilities",
        "Code could give itself capabilities.",
        _PRCTL
        + """
header = struct.pack("Ii", 0x20080522, 0)
refused(lambda: call((126, 91), header, struct.pack("6I", *[0xFFFFFFFF] * 6)), "EPERM")
refused(lambda: call((126, 91), header, struct.pack("6I", 0, 0, 1 << 21, 0, 0, 0)), "EPERM")
refused(lambda: prctl(47, 2, 21, 0, 0), "EPERM")       # ambient
refused(lambda: prctl(28, 1, 0, 0, 0), "EPERM")        # securebits
judge([cap for cap in range(41) if libc.prctl(23, cap, 0, 0, 0) == 1], "capability in the bounding set")
""",
    ),
    Attack(
        "tricks with prctl",
        "Code could undo what was set before it ran.",
        _PRCTL
        + """
refused(lambda: prctl(38, 0, 0, 0, 0), "EINVAL")                   # no_new_privs off
refused(lambda: prctl(24, 0, 0, 0, 0), "EPERM")                    # bounding set
refused(lambda: prctl(4, 2, 0, 0, 0), "EINVAL")                    # dumpable to root only
refused(lambda: prctl(35, 6, 0, 0, 0), "EPERM", "EINVAL")          # PR_SET_MM
judge(prctl(39, 0, 0, 0, 0) != 1, "way back from no_new_privs")
""",
    ),
    Attack(
        "raise the limits",
        "Code could lift its own limits.",
        """
import resource
for name in ("NOFILE", "NPROC", "FSIZE", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING", "RTPRIO", "NICE"):
    kind = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY:
        broken(f"{name} is not limited")
        continue
    try:
        resource.setrlimit(kind, (hard, hard + 1))
        broken(f"{name} was raised")
    except (ValueError, OSError):
        held(name)
""",
    ),
    Attack(
        "set-user-id programs",
        "su, mount or a copy of them would give root's rights.",
        """
points = {}
with open("/proc/self/mountinfo") as file:
    for line in file:
        fields = line.split()
        points[fields[4]] = fields[5].split(",")
judge([point for point, flags in points.items() if "nosuid" not in flags], "mount without nosuid")
devices = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
judge([point for point in points if "nodev" not in points[point] and point not in devices], "mount without nodev")
""",
        provable=True,
    ),
    Attack(
        "a set-user-id program, run",
        "A program marked set-user-id would run as its owner.",
        """
import shutil, subprocess
found = []
for folder in ("/usr/bin", "/usr/sbin", "/usr/local/bin"):
    for entry in os.scandir(folder) if os.path.isdir(folder) else ():
        if entry.is_file(follow_symlinks=False) and entry.stat().st_mode & 0o6000:
            child = subprocess.Popen([entry.path], stdin=subprocess.PIPE, stdout=-3, stderr=-3)
            users = {status(child.pid, "Uid"), status(child.pid, "Gid")} - {""}
            child.kill()
            child.communicate()
            if any(set(ids.split()) != {"1000"} for ids in users):
                found.append((entry.path, users))
judge(found, "program that gained a user")
""",
    ),
    Attack(
        "a set-user-id file of one's own",
        "Code could leave a set-user-id program for the host to run.",
        """
import shutil, subprocess
shutil.copy("/usr/bin/env", "mine")
os.chmod("mine", 0o6755)
refused(lambda: os.chown("mine", 0, 0), "EPERM", "EINVAL")
shown = subprocess.run(["./mine", "/usr/bin/id", "-u"], capture_output=True, text=True).stdout.strip()
os.unlink("mine")
judge(shown != "1000", "other user")
""",
    ),
    Attack(
        "make a device",
        "Code could make a node for the host's disk and read it.",
        """
import stat
for folder in ("/tmp", "/dev/shm", "/mnt/data"):
    refused(lambda: os.mknod(f"{folder}/disk", stat.S_IFBLK | 0o666, os.makedev(254, 0)), "EPERM", "EACCES")
    refused(lambda: os.mknod(f"{folder}/memory", stat.S_IFCHR | 0o666, os.makedev(1, 1)), "EPERM", "EACCES")
""",
    ),
    Attack(
        "escape the out-of-memory killer",
        "Code could have the kernel kill something of the host's instead of it.",
        """
judge(open("/proc/self/oom_score_adj").read().strip() != "1000", "way to be spared")
refused(lambda: open("/proc/self/oom_score_adj", "wb", buffering=0).write(b"-1000"), "EACCES", "EPERM")
""",
        provable=True,
    ),
)
