"""Attacks on other sandboxes of the same jail."""

from __future__ import annotations

from belljar.sandbox.local.attacks.attack import Attack

_KEY = 0x62656C6C

ATTACKS = (
    Attack(
        "files of a neighbour",
        "What another sandbox keeps in its workspace or in /tmp could be read.",
        """
found = []
for top in ("/mnt/data", "/tmp", "/dev/shm", "/var/tmp", "/run"):
    for folder, _, names in os.walk(top):
        found += [f"{folder}/{name}" for name in names if name == "neighbours-file"]
judge(found, "file of the neighbour")
""",
        plant="""
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    with open(f"{folder}/neighbours-file", "w") as file:
        file.write("mine")
""",
    ),
    Attack(
        "shared memory of a neighbour",
        "System V memory, queues or semaphores of another sandbox could be used.",
        f"""
refused(lambda: call((29, 194), {_KEY}, 4096, 0o666), "ENOENT")
refused(lambda: call((68, 186), {_KEY}, 0o666), "ENOENT")
refused(lambda: call((64, 190), {_KEY}, 1, 0o666), "ENOENT")
""",
        plant=f"""
call((29, 194), {_KEY}, 4096, 0o1666)
call((68, 186), {_KEY}, 0o1666)
call((64, 190), {_KEY}, 1, 0o1666)
""",
    ),
    Attack(
        "message queue of a neighbour",
        "POSIX queues of another sandbox could be opened.",
        "refused(lambda: call((240, 180), b'belljar-neighbour', os.O_RDWR, 0, 0), 'ENOENT', 'EACCES')",
        plant="""
try:
    call((240, 180), b"belljar-neighbour", os.O_RDWR | os.O_CREAT, 0o666, 0)
except PermissionError:
    pass  # Landlock knows no rule for queues, so nobody has any
""",
    ),
    Attack(
        "sockets of a neighbour",
        "Servers in another sandbox could be called.",
        """
def connect(family, address):
    with socket.socket(family) as sock:
        sock.connect(address)
refused(lambda: connect(socket.AF_UNIX, "\\0neighbour"), "ECONNREFUSED", "EPERM")
refused(lambda: connect(socket.AF_INET, ("127.0.0.1", 47113)), "ECONNREFUSED")
""",
        plant="""
neighbour_abstract = socket.socket(socket.AF_UNIX)
neighbour_abstract.bind("\\0neighbour")
neighbour_abstract.listen()
neighbour_tcp = socket.socket()
neighbour_tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
neighbour_tcp.bind(("127.0.0.1", 47113))
neighbour_tcp.listen()
""",
    ),
    Attack(
        "processes of a neighbour",
        "Another sandbox's processes could be seen or signalled.",
        """
found = []
for pid in pids():
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"86399" in file.read():
                found.append(pid)
    except OSError:
        pass
judge(found, "process of the neighbour")
""",
        plant="""
import subprocess
neighbour_process = subprocess.Popen(["/bin/sleep", "86399"])
""",
    ),
    Attack(
        "the same random numbers",
        "Two sandboxes forked from one process would draw the same numbers: keys and names could be foretold.",
        """
import random, secrets, tempfile, uuid
draws = [random.random(), random.Random().random(), os.urandom(8).hex(), uuid.uuid4(), secrets.token_hex(8),
         next(tempfile._get_candidate_names())]
try:
    import numpy
    draws += [numpy.random.rand(), numpy.random.default_rng().random(), numpy.random.RandomState().rand()]
except ImportError:
    pass
for draw in draws:
    print(f"token: {draw}")
held(f"{len(draws)} sources drawn from")
""",
        twin=True,
    ),
)
