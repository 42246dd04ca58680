"""What an attack is, its verdict, and the few helpers its code may use. Values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

from belljar.sandbox.base import Limits


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt. Its code prints lines `held: …` or `BROKEN: …`; it holds with at least one of the first and none
    of the second, and only if the cell ends as expected and no tripwire on the host was touched."""

    name: str
    goal: str
    """What it would mean if it succeeded."""
    code: str
    ends: tuple[str, ...] = ("ok",)
    """How the cell may end: a status, or `killed:<reason>`, or `raised:<exception>`. Only ok needs a line."""
    after: str = ""
    """Run in the same sandbox afterwards: must hold as well."""
    plant: str = ""
    """Run in the neighbouring sandbox before."""
    neighbour: str = ""
    """Run in the neighbouring sandbox afterwards: must hold as well."""
    newcomer: str = ""
    """Run afterwards in a sandbox that is made then: must hold as well."""
    twin: bool = False
    """Run in both sandboxes; every `token: …` line must differ between them."""
    limits: Limits | None = None
    """A sandbox of its own with these limits, because the attack exhausts or breaks it."""
    after_another: bool = False
    """Make another sandbox first, like no other, and let it go: `HOST["asked"]` has what it was told, backwards."""
    provable: bool = False
    """May be run outside any jail without harm, and reports BROKEN there: proof that it can detect."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an attack."""

    attack: Attack
    held: bool
    detail: str


PRELUDE = r"""
import ctypes, errno, os, platform, re, signal, socket, struct, sys, time
SECRET = re.compile(rb"canary-[0-9a-f]{32}")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def held(why):
    print(f"held: {why}", flush=True)

def broken(what):
    print(f"BROKEN: {str(what)[:400]}", flush=True)

def judge(found, what):
    broken(f"{what}: {found}") if found else held(f"no {what}")

def refused(action, *names):
    "The kernel must answer with one of these errors; anything else got further than it should."
    try:
        answer = action()
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error.errno))
        held(name) if name in names else broken(f"{name} instead of {' or '.join(names)}")
    else:
        broken(f"it answered {answer!r}")

def call(numbers, *args):
    "A bare system call: numbers for x86-64 and arm64."
    number = numbers[("x86_64", "aarch64").index(platform.machine())]
    if number is None:
        raise OSError(errno.EPERM, "not on this machine")
    args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    answer = libc.syscall(ctypes.c_long(number), *args)
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer

def status(pid, field):
    "A field of /proc/PID/status; empty when the process is gone."
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith(field + ":")), "")
    except (FileNotFoundError, ProcessLookupError):
        return ""

def alive(pid):
    "A process whose first thread has ended looks dead while others of its threads live on."
    return status(pid, "State")[:1] not in ("Z", "X", "") or status(pid, "Threads") not in ("0", "1", "")

def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]

def until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True

def cell():
    return int(re.search(r"\d+", sys._getframe(1).f_code.co_filename)[0])

def frame(kind, payload):
    return struct.pack("<IB", len(payload), kind) + payload
"""

USABLE = "held('the sandbox is usable')"
CAN_FORK = """
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
held("the neighbour still forks")
"""
ALONE = """
def others():
    return [pid for pid in pids() if pid not in (1, os.getpid()) and alive(pid)]
until(lambda: not others(), 2)
judge(others(), "survivor")
"""
