"""Attacks on the host's secrets: its variables, memory, files and descriptors."""

from __future__ import annotations

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks.attack import Attack

ATTACKS = (
    Attack(
        "keys in the environment",
        "The host's keys and settings would be in os.environ.",
        "judge([name for name, value in os.environb.items() if SECRET.search(value)], 'secret variable')",
        provable=True,
    ),
    Attack(
        "variables the jail did not set",
        "Something of the host's environment would have passed through.",
        """
ours = {"PATH", "HOME", "TMPDIR", "USER", "LANG", "MPLCONFIGDIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "OUTPUT_DIR",
        "LD_LIBRARY_PATH"}
judge(sorted(set(os.environ) - ours), "foreign variable")
""",
        provable=True,
    ),
    Attack(
        "environment of process 1",
        "The environment that the jail was started with could be read.",
        "refused(lambda: open('/proc/1/environ', 'rb').read(), 'EACCES', 'EPERM')",
    ),
    Attack(
        "environment of every process",
        "Some process in view would still carry the host's keys.",
        """
found = []
for pid in pids():
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if SECRET.search(file.read()):
                found.append(pid)
    except OSError:
        pass
judge(found, "process with a secret")
""",
        provable=True,
    ),
    Attack(
        "command lines",
        "Keys, settings or paths of the host would show in ps.",
        """
found = []
for pid in pids():
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        continue
    if SECRET.search(line) or any(path.encode() in line for path in HOST["paths"]):
        found.append(line)
judge(found, "telling command line")
""",
        provable=True,
    ),
    Attack(
        "inherited memory",
        "The memory copied from the jail's own processes would hold the host's keys.",
        """
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        if " rw" not in line:
            continue
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        for start in range(low, high, 1 << 22):
            try:
                memory.seek(start)
                if SECRET.search(memory.read(min(high - start, (1 << 22) + 64))):
                    found.append(line)
            except (OSError, OverflowError):
                pass
judge(found, "secret in memory")
""",
        provable=True,
    ),
    Attack(
        "inherited descriptors",
        "A descriptor of the host's or the jail's would be left open: a file, a directory, another sandbox's socket.",
        """
kinds = {0: "/dev/null", 1: "pipe:", 2: "pipe:", 3: "socket:"}
names = {}
for number in range(4096):
    try:
        os.fstat(number)
        names[number] = os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        pass
strange = {number: name for number, name in names.items()
           if (not name.startswith(kinds[number]) if number < 4 else name not in [names.get(n) for n in range(4)])}
judge(strange, "strange descriptor")
""",
        provable=True,
    ),
    Attack(
        "who is behind the connection",
        "The socket to the host would give away the host's process.",
        """
with socket.socket(fileno=os.dup(3)) as sock:
    pid, uid, gid = struct.unpack("iii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    judge(pid not in (0, os.getpid()) and pid, "process number")
    judge(sock.getpeername() or sock.getsockname(), "address")
""",
    ),
    Attack(
        "the host's network through the connection",
        "The socket to the host would belong to the host's network: its interfaces could be listed, its names taken.",
        """
import fcntl
with socket.socket(fileno=os.dup(3)) as sock:
    room = ctypes.create_string_buffer(4096)
    asked = bytearray(struct.pack("ixxxxQ", 4096, ctypes.addressof(room)))
    fcntl.ioctl(sock, 0x8912, asked)        # SIOCGIFCONF
    found = room.raw[:struct.unpack_from("i", asked)[0]]
    names = {found[at:at + 16].rstrip(b"\\0") for at in range(0, len(found), 40)}
    for number in range(1, 33):
        try:
            answer = fcntl.ioctl(sock, 0x8910, struct.pack("16si20x", b"", number))     # SIOCGIFNAME
            names.add(answer[:16].rstrip(b"\\0"))
        except OSError:
            pass
    judge(names - {b"lo"}, "interface of the host")
    try:
        sock.bind(HOST["abstract"])
        held("the host's name is free in here")
    except OSError as error:
        judge(error.errno == errno.EADDRINUSE, "name of the host's in the way")
""",
        limits=Limits(),
    ),
    Attack(
        "what earlier sandboxes asked for",
        "The memory that a sandbox is made from would tell the ids, limits and packages of those before it.",
        """
known = re.compile(rb"sbx_[0-9a-f]{24}")
found = []
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in maps:
        if " rw" not in line:
            continue
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        for start in range(low, high, 1 << 20):
            try:
                memory.seek(start)
                data = memory.read(min(high - start, (1 << 20) + 64))
            except (OSError, OverflowError):
                continue
            # Told backwards, or the question itself would be found.
            found += [text for text in known.findall(data) if text[::-1].decode() in HOST["asked"]]
judge(found, "trace of another sandbox")
""",
        limits=Limits(),
        after_another=True,
    ),
    Attack(
        "a file of the host",
        "Any file of the host could be read.",
        "refused(lambda: open(HOST['file'], 'rb').read(), 'ENOENT')",
        provable=True,
    ),
    Attack(
        "a file of the host, around corners",
        "A process directory or a parent directory would lead out of the jail's root.",
        """
found = []
tries = [f"/proc/{pid}/{door}{HOST['file']}" for pid in ("self", 1, HOST["pid"]) for door in ("root", "cwd")]
tries += ["../" * 40 + HOST["file"], "/proc/self/root/.." + HOST["file"], "/proc/thread-self/root" + HOST["file"]]
tries += [f"/proc/self/fd/{number}/..{HOST['file']}" for number in range(16)]
for path in tries:
    try:
        with open(path, "rb") as file:
            found.append((path, file.read(8)))
    except OSError:
        pass
judge(found, "way to the host's file")
""",
        provable=True,
    ),
    Attack(
        "home directories",
        "People's files would be in view.",
        """
found = [f"{top}/{name}" for top in ("/home", HOST["home"]) if os.path.isdir(top)
         for name in os.listdir(top) if name not in (".pyenv",)]
judge(found, "home")
""",
    ),
    Attack(
        "well-known secrets",
        "Passwords, keys, sockets of daemons or the host's state would be in view.",
        """
names = '''/etc/shadow /etc/gshadow /etc/sudoers /etc/ssh /etc/ssl/private /etc/machine-id /etc/kubernetes /etc/fstab
/root/.ssh /root/.netrc /root/.aws /root/.bash_history /root/.config /run/docker.sock /var/run/docker.sock
/run/containerd /run/secrets /var/run/secrets /run/systemd /run/dbus /run/user /var/lib /var/log /var/spool /boot /srv
/media /lost+found /sys/kernel /sys/fs/cgroup /sys/class /dev/kvm /dev/mem /dev/kmsg /dev/fuse /dev/net/tun /dev/vda
/dev/sda /dev/nvidia0 /dev/dri /dev/ptmx /dev/tty /dev/console /dev/vsock /dev/userfaultfd /dev/loop-control'''.split()
judge([name for name in names if os.path.lexists(name)], "secret place")
""",
        provable=True,
    ),
    Attack(
        "device nodes",
        "A device other than null, zero, full and the random ones could be opened.",
        """
known = {"null", "zero", "full", "random", "urandom", "shm", "fd", "stdin", "stdout", "stderr"}
judge(sorted(set(os.listdir("/dev")) - known), "other device")
""",
        provable=True,
    ),
    Attack(
        "the kernel's memory",
        "Kernel memory could be read.",
        """
for path in ("/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags", "/proc/vmallocinfo"):
    refused(lambda: open(path, "rb").read(1), "EACCES", "EPERM", "ENOENT")
""",
    ),
    Attack(
        "addresses of the kernel",
        "Where the kernel lies in memory would be known, which helps to exploit its bugs.",
        """
try:
    with open("/proc/kallsyms") as file:
        shown = [line for line in file if int(line.split()[0], 16)]
except FileNotFoundError:
    shown = []
judge(shown[:1], "address")
""",
    ),
    Attack(
        "keys in the kernel, and its command line",
        "Keyrings of the host's user would be listed, and how the kernel was started.",
        """
for name in ("keys", "key-users", "cmdline"):
    try:
        with open(f"/proc/{name}") as file:
            judge(file.read(), name)
    except FileNotFoundError:
        held(f"no {name}")
""",
        provable=True,
    ),
    Attack(
        "process 1 from within",
        "The sandbox's first process, which runs outside user control, could be inspected or taken over.",
        """
for name in ("mem", "maps", "environ", "auxv", "stack", "syscall"):
    refused(lambda: open(f"/proc/1/{name}", "rb").read(1), "EACCES", "EPERM")
for name in ("root", "cwd", "exe", "ns/mnt", "ns/user", "ns/net"):
    refused(lambda: os.readlink(f"/proc/1/{name}"), "EACCES", "EPERM")
for number in range(8):     # their numbers may show, not what they are
    refused(lambda: os.readlink(f"/proc/1/fd/{number}"), "EACCES", "EPERM", "ENOENT")
    refused(lambda: os.open(f"/proc/1/fd/{number}", os.O_RDWR), "EACCES", "EPERM", "ENOENT", "ENXIO")
refused(lambda: open("/proc/1/mem", "r+b"), "EACCES", "EPERM")
""",
    ),
    Attack(
        "names of control groups",
        "The layout of the host would show in /proc/self/cgroup.",
        """
with open("/proc/self/cgroup") as file:
    judge([line for line in file if line.rstrip().split(":", 2)[2] != "/"], "path")
""",
    ),
    Attack(
        "the package store",
        "Other users' requirements could be listed or changed.",
        """
refused(lambda: os.listdir("/pkgs"), "EACCES", "EPERM")
refused(lambda: os.chmod("/pkgs", 0o777), "EROFS", "EPERM")
refused(lambda: open("/pkgs/x", "w"), "EROFS", "EACCES")
""",
    ),
)
