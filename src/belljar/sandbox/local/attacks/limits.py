"""Attacks on resources: processes, memory, disk, time."""

from __future__ import annotations

from belljar.sandbox.base import MIB, Limits
from belljar.sandbox.local.attacks.attack import ALONE, CAN_FORK, USABLE, Attack

_SMALL = Limits(memory=192 * MIB, disk=16 * MIB, scratch=8 * MIB, processes=64, timeout=20.0, grace=0.5)
_MEMORY = ("killed:memory", "raised:MemoryError", "ok")
_TOGETHER = """
import select
os.mkfifo("/tmp/pipe")
children = []
for _ in range({count}):
    children.append(os.fork())
    if children[-1] == 0:
        kept = {take}
        time.sleep(60)
        os._exit(0)
if until(lambda: not all(map(alive, children)), 20):
    held("some were ended")
else:
    broken(f"all {{len(children)}} live on")
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""
_MANY = """
import mmap
total, share = 8, 64 << 20
ready = os.pipe()
for _ in range(total):
    if os.fork() == 0:
        {hide}
        kept = {take}
        os.write(ready[1], b"!")
        time.sleep(60)
        os._exit(0)
os.close(ready[1])
count, deadline = 0, time.monotonic() + 15
while time.monotonic() < deadline:
    left = [pid for pid in pids() if status(pid, "PPid") == str(os.getpid()) and alive(pid)]
    if len(left) < total:
        held(f"{{total - len(left)}} of {{total}} were killed")
        break
    time.sleep(0.05)
else:
    broken("all of them live on with 2.5 times the limit")
for pid in left:
    os.kill(pid, signal.SIGKILL)
"""
_WAITING = """
def pair():
    {pair}
most, told, children = 192 << 20, os.pipe(), []
for _ in range(6):
    children.append(os.fork())
    if children[-1] == 0:
        kept, sent = [], 0
        try:
            while len(kept) < 900:
                kept += pair()
                for one in kept[-2:]:
                    one.setblocking(False)
                    try:
                        while True:
                            sent += one.send(bytes({size}))
                    except (BlockingIOError, ConnectionError):
                        pass
        except OSError:
            pass
        os.write(told[1], struct.pack("q", sent))
        time.sleep(60)
        os._exit(0)
os.close(told[1])
reports, deadline = [], time.monotonic() + 15
os.set_blocking(told[0], False)
while len(reports) < len(children) and time.monotonic() < deadline and all(map(alive, children)):
    try:
        reports.append(struct.unpack("q", os.read(told[0], 8))[0])
    except BlockingIOError:
        time.sleep(0.01)
total = sum(reports)
if total <= most or until(lambda: not all(map(alive, children)), 5):
    held(f"{{total >> 20}} MiB waited in sockets")
else:
    broken(f"{{total >> 20}} MiB wait in sockets")
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""
_PAIRS = {
    "TCP": (
        "server = socket.create_server(('127.0.0.1', 0)); client = socket.create_connection(server.getsockname()); "
        "other = server.accept()[0]; server.close(); return [client, other]",
        65536,
    ),
    "TCP over IPv6": (
        "server = socket.create_server(('::1', 0), family=socket.AF_INET6); other = socket.socket(socket.AF_INET6); "
        "other.connect(server.getsockname()); client = server.accept()[0]; server.close(); return [client, other]",
        65536,
    ),
    "unix streams": ("return socket.socketpair()", 65536),
    "unix datagrams": ("return socket.socketpair(type=socket.SOCK_DGRAM)", 16384),
    "unix packets": ("return socket.socketpair(type=socket.SOCK_SEQPACKET)", 65536),
}

ATTACKS = (
    Attack(
        "fork bomb, patient",
        "One sandbox could use up the machine's processes.",
        """
made, why = [], "no error in 4000 forks"
while len(made) < 4000:
    try:
        child = os.fork()
    except BlockingIOError:
        why = "EAGAIN"
        break
    if child == 0:
        time.sleep(60)
        os._exit(0)
    made.append(child)
judge(len(made) > 64 or why != "EAGAIN", f"{len(made)} processes")
""",
        neighbour=CAN_FORK,
        after="""
for pid in pids():
    if pid not in (1, os.getpid()):
        os.kill(pid, signal.SIGKILL)
held("all killed")
""",
        limits=_SMALL,
    ),
    Attack(
        "fork bomb, wild",
        "Processes that fork faster than they are killed would outlive the cell that is stopped.",
        """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
        ends=("timed_out",),
        neighbour=CAN_FORK,
        after=ALONE,
        limits=Limits(memory=512 * MIB, processes=64, timeout=1.0, grace=0.3),
    ),
    Attack(
        "threads without end",
        "Threads would not count as processes.",
        """
import threading
wait, made = threading.Event(), []
try:
    while len(made) < 1000:
        thread = threading.Thread(target=wait.wait, daemon=True)
        thread.start()
        made.append(thread)
except RuntimeError:
    pass
wait.set()
judge(len(made) > 64, f"{len(made)} threads")
""",
        neighbour=CAN_FORK,
        limits=_SMALL,
    ),
    Attack(
        "memory: the heap",
        "One sandbox could use up the machine's memory.",
        """
kept = []
try:
    for _ in range(64):
        kept.append(bytearray(b"x") * (16 << 20))
except MemoryError:
    kept.clear()    # variables are kept, and the next cell wants some
    raise
broken(f"{len(kept) * 16} MiB")
""",
        ends=("killed:memory", "raised:MemoryError"),
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "memory: a shared mapping",
        "Shared memory would not be counted.",
        """
import mmap
kept = []
try:
    for _ in range(64):
        kept.append(mmap.mmap(-1, 16 << 20))
        kept[-1].write(b"x" * (16 << 20))
except (MemoryError, OSError) as error:
    kept.clear()
    raise MemoryError from error
broken(f"{len(kept) * 16} MiB")
""",
        ends=("killed:memory", "raised:MemoryError"),
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "memory: many processes",
        "Each process would stay below the limit while together they take everything.",
        _MANY.format(hide="pass", take='bytearray(b"x") * share'),
        ends=_MEMORY,
        after=ALONE,
        limits=_SMALL,
    ),
    Attack(
        "memory: processes that hide",
        "A process that forbids looking into it would not be counted.",
        _MANY.format(hide="libc.prctl(4, 0, 0, 0, 0)", take='bytearray(b"x") * share'),
        ends=_MEMORY,
        after=ALONE,
        limits=_SMALL,
    ),
    Attack(
        "memory: processes without a first thread",
        "A process whose first thread has ended shows no memory of its own, and would not be counted.",
        _MANY.format(
            hide="import threading; alone = lambda: until(lambda: status('self', 'State')[:1] == 'Z'); "
            "take = lambda: [alone(), bytearray(b'x') * share, time.sleep(60)]; "
            "threading.Thread(target=take).start(); call((60, 93), 0)",
            take="None",
        ),
        ends=_MEMORY,
        after=ALONE,
        limits=_SMALL,
    ),
    Attack(
        "memory: files without a name",
        "memfd files are in memory but in no process, so nobody would count them.",
        """
kept = 0
try:
    for number in range(64):
        handle = os.memfd_create("x")
        for _ in range(16):
            kept += os.write(handle, bytes(1 << 20))
except OSError as error:
    held(f"{errno.errorcode[error.errno]} after {kept >> 20} MiB")
else:
    time.sleep(1)
    broken(f"{kept >> 20} MiB")
""",
        ends=_MEMORY,
        after=USABLE,
        limits=_SMALL,
    ),
    *(
        Attack(
            f"memory: what waits in sockets, {name}",
            "What was sent and not yet received is in no process, so nobody would count it.",
            _WAITING.format(pair=pair, size=size),
            ends=_MEMORY,
            after=USABLE,
            limits=_SMALL,
        )
        for name, (pair, size) in _PAIRS.items()
    ),
    Attack(
        "memory: larger buffers of sockets",
        "A socket could hold as much as the machine lets any socket have.",
        """
for family in (1, 2, 10):
    with socket.socket(family) as sock:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            before = sock.getsockopt(socket.SOL_SOCKET, option)
            sock.setsockopt(socket.SOL_SOCKET, option, 4 * before)
            judge(sock.getsockopt(socket.SOL_SOCKET, option) > before, f"larger buffer of family {family}")
        for option in (32, 33):
            refused(lambda: sock.setsockopt(socket.SOL_SOCKET, option, 1 << 20), "ENOPROTOOPT")
with open("/proc/sys/net/ipv4/tcp_rmem") as reads, open("/proc/sys/net/ipv4/tcp_wmem") as writes:
    judge(max(int(reads.read().split()[2]), int(writes.read().split()[2])) > 1 << 17, "room in a TCP socket")
""",
        provable=True,
    ),
    Attack(
        "memory: mappings",
        "The kernel's own records of mappings are in no process's size; many also make every look at processes slow.",
        """
libc.mmap.restype = ctypes.c_void_p
for number in range(32_000):
    libc.mmap(None, ctypes.c_size_t(4096), 1 + 2 * (number % 2), 0x22, -1, ctypes.c_long(0))
children = []
try:
    for _ in range(48):
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep(60)
            os._exit(0)
except OSError:
    pass
if until(lambda: not all(map(alive, children)), 15):
    held("some were killed")
else:
    broken(f"{len(children)} processes with 32,000 mappings each live on")
for pid in children:
    os.kill(pid, signal.SIGKILL)
""",
        ends=_MEMORY,
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "memory: System V segments",
        "Segments outlive every process: they would be counted nowhere and never go away.",
        """
libc.shmat.restype, kept = ctypes.c_void_p, 0
try:
    for _ in range(512):
        number = call((29, 194), 0, 1 << 20, 0o1600)
        address = libc.shmat(number, None, 0)
        ctypes.memset(address, 1, 1 << 20)
        libc.shmdt(ctypes.c_void_p(address))
        kept += 1
except OSError as error:
    judge(kept > 8, f"{kept} MiB before {errno.errorcode[error.errno]}")
else:
    broken(f"{kept} MiB")
""",
        ends=_MEMORY,
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "memory: every file system full",
        "Files in memory together with the code's own memory would leave the sandbox unusable for good.",
        """
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    try:
        with open(f"{folder}/full", "wb", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
    except OSError as error:
        held(f"{folder}: {errno.errorcode[error.errno]}")
""",
        ends=_MEMORY,
        after=USABLE,
        limits=Limits(memory=128 * MIB, disk=64 * MIB, scratch=32 * MIB, timeout=20.0),
    ),
    Attack(
        "fill the workspace and scratch space",
        "One sandbox could fill the host's disk or memory with files.",
        """
for folder, most in (("/mnt/data", 16), ("/tmp", 8), ("/dev/shm", 8)):
    written, number = 0, 0
    try:
        while written <= 64 << 20:
            with open(f"{folder}/fill{number}", "wb", buffering=0) as file:
                written += file.write(bytes(1 << 20))
            number += 1
        broken(f"{folder}: {written} bytes")
    except OSError as error:
        name = errno.errorcode[error.errno]
        judge(name != "ENOSPC" or written > most << 20, f"{folder}: {name} after {written} bytes")
    for n in range(number + 1):
        os.unlink(f"{folder}/fill{n}")
""",
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "use up the inodes",
        "Millions of empty files would use up the kernel's memory.",
        """
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    os.mkdir(f"{folder}/many")
    number = 0
    try:
        while number < 100_000:
            os.symlink("x", f"{folder}/many/{number}")
            number += 1
        broken(f"{folder}: {number} entries")
    except OSError as error:
        name = errno.errorcode[error.errno]
        judge(name != "ENOSPC", f"{folder}: {name} after {number}")
""",
        ends=_MEMORY,
        after=USABLE,
        limits=Limits(memory=512 * MIB, timeout=30.0),
    ),
    Attack(
        "a file of a petabyte",
        "A sparse file would make whoever copies it write for ever.",
        """
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    with open(f"{folder}/sparse", "wb") as file:
        for size in (1 << 50, 17 << 20):
            refused(lambda: os.truncate(file.fileno(), size), "EFBIG")
            refused(lambda: os.posix_fallocate(file.fileno(), 0, size), "EFBIG", "ENOSPC")
            refused(lambda: os.pwrite(file.fileno(), b"x", size), "EFBIG")
    os.unlink(f"{folder}/sparse")
""",
        limits=_SMALL,
    ),
    Attack(
        "open files without end",
        "One sandbox could use up the machine's file table.",
        """
kept = []
try:
    for _ in range(20_000):
        kept.append(os.open("/dev/null", os.O_RDONLY))
    broken(f"{len(kept)} files")
except OSError as error:
    held(f"{errno.errorcode[error.errno]} at {len(kept)}")
finally:
    for number in kept:
        os.close(number)
""",
    ),
    Attack(
        "open files of many processes",
        "Each process would stay below its limit while together they use up the machine's file table.",
        _TOGETHER.format(count=40, take="[os.open('/dev/null', os.O_RDONLY) for _ in range(1000)]"),
        ends=_MEMORY,
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "open files of a thread alone",
        "A thread with open files of its own would hide them from whoever counts those of processes.",
        """
refused(lambda: call((56, 220), 0x10900, 0, 0, 0, 0), "EPERM")       # CLONE_THREAD without CLONE_FILES
refused(lambda: call((436, 436), 1 << 20, (1 << 20) + 1, 2), "EPERM")  # CLOSE_RANGE_UNSHARE
""",
    ),
    Attack(
        "watches by epoll",
        "The kernel counts them for each user: an ordinary user's own programs could make none.",
        _TOGETHER.format(
            count=1,
            take="[os.open('/tmp/pipe', os.O_RDWR) for _ in range(480)], [select.epoll() for _ in range(480)]; "
            "[one.register(number) for one in kept[1] for number in kept[0]]",
        ),
        ends=_MEMORY,
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "watches by epoll of the interpreter itself",
        "The kernel counts them for each user: an ordinary user's own programs could make none.",
        """
import select
os.mkfifo("/tmp/pipe")
files = [os.open("/tmp/pipe", os.O_RDWR) for _ in range(480)]
kept = [select.epoll() for _ in range(480)]
for one in kept:
    for number in files:
        one.register(number)
time.sleep(15)
broken(f"{len(kept) * len(files)} watches")
""",
        ends=("killed:processes",),
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "descriptors on their way",
        "The kernel counts them for each user: no other sandbox, and no program of the user's, could pass any on.",
        """
import array
kept, sent = socket.socketpair(), 0
kept[0].setblocking(False)
numbers = array.array("i", [0] * 250)
try:
    while sent < 100_000:
        kept[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
        sent += len(numbers)
    broken(f"{sent} on their way")
except OSError as error:
    held(f"{errno.errorcode[error.errno]} at {sent}")
""",
        newcomer="held('a new sandbox starts')",
        after=USABLE,
        limits=_SMALL,
    ),
    Attack(
        "a loop without end",
        "A cell could run for ever, deaf to interrupts.",
        """
signal.signal(signal.SIGINT, signal.SIG_IGN)
while True:
    pass
""",
        ends=("timed_out",),
        after=USABLE,
        limits=Limits(timeout=0.5, grace=0.3),
    ),
)
