"""Attacks on the host's side of the connection: false frames, endless output, hostile file names."""

from __future__ import annotations

from belljar.sandbox.base import KIB, MIB, Limits
from belljar.sandbox.local.attacks.attack import ALONE, USABLE, Attack

_SOON = Limits(timeout=20.0, grace=0.5)
_QUIET = Limits(output=64 * KIB, output_total=8 * MIB, timeout=20.0, grace=0.5, disk=64 * MIB)
_CUT = ("killed:disconnected",)
_BUNDLE = """
def bundle(size):
    header = b'{"text":{},"blobs":[["image/png",%d]]}' % size
    return frame(3, struct.pack("<I", len(header)) + header + bytes(size))
def send(data):
    view = memoryview(data)
    while view:
        view = view[os.write(3, view):]
"""

ATTACKS = (
    Attack(
        "a forged end",
        "A cell that says it has ended while it goes on would confuse the next one.",
        """
import json
held("forging")
os.write(3, frame(5, json.dumps({"id": cell(), "status": "ok", "code": None, "error": None}).encode()))
time.sleep(0.3)
""",
        ends=("ok",),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "a forged end of another cell",
        "The end of a cell that does not run would be believed.",
        """
for number in (0, -1, cell() + 7, 10 ** 30, "1", None, True if cell() != 1 else False, [cell()]):
    import json
    os.write(3, frame(5, json.dumps({"id": number, "status": "ok"}).encode()))
for number in (0, cell() + 7, 2 ** 32 - 1):
    os.write(3, frame(6, struct.pack("<I", number) + b"x"))
time.sleep(0.1)
held("still running")
""",
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "a forged end of the wrong shape",
        "Values of unexpected types would raise in the host.",
        """
import json
odd = {"id": cell(), "status": ["ok"], "code": True, "note": {"a": [1]}, "error": {"type": 1, "message": None}}
held("forging")
os.write(3, frame(5, json.dumps(odd).encode()))
""",
        ends=("ok", "raised:Exception"),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "garbage for frames",
        "Bytes that are no frame would hang or crash the host.",
        "os.write(3, b'\\xff' * 1000); time.sleep(10)",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "a frame of 4 GB",
        "The host would set aside what a header announces.",
        "os.write(3, struct.pack('<IB', 0xFFFFFFFF, 5)); time.sleep(10)",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "JSON that nests without end",
        "Parsing it would overflow the host's stack.",
        "os.set_blocking(3, True); os.write(3, frame(5, b'[' * 100_000)); time.sleep(10)",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "JSON with a number of a million digits",
        "Parsing it would keep the host busy for minutes.",
        "os.write(3, frame(5, b'{\"id\":' + b'9' * 100_000 + b'}')); time.sleep(10)",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "a bundle that lies about its size",
        "The host would read past the frame.",
        """
header = b'{"text":{},"blobs":[["image/png",99999999]]}'
os.write(3, frame(3, struct.pack("<I", len(header)) + header))
time.sleep(10)
""",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "displays without end",
        "Pictures would fill the host's memory, where text is cut.",
        _BUNDLE
        + """
for _ in range(64):
    send(bundle(1 << 20))
broken("64 MiB of displays were taken where 8 MiB of output are allowed")
""",
        ends=("killed:output",),
        after=USABLE,
        limits=_QUIET,
    ),
    Attack(
        "small displays without end",
        "Every tiny frame would cost the host an object, so that a little data takes much memory.",
        _BUNDLE
        + """
many = bundle(1) * 1000
for _ in range(600):
    send(many)
broken("600,000 displays were taken")
""",
        ends=("killed:output",),
        after=USABLE,
        limits=_QUIET,
    ),
    Attack(
        "output without end",
        "Text would fill the host's memory or disk.",
        """
line = b"x" * 65536
while True:
    os.write(1, line)
    os.write(2, line)
""",
        ends=("killed:output",),
        after=USABLE,
        limits=_QUIET,
    ),
    *(
        Attack(
            f"{kind} in place of the output log",
            "The host would write the log elsewhere, hang, or raise.",
            f"""
path = f"/mnt/data/output-{{cell()}}.log"
{make}
held("in place")
print("x" * (1 << 20))
""",
            after=USABLE,
            limits=_QUIET,
        )
        for kind, make in (
            ("a directory", "os.makedirs(path + '/full')"),
            ("a link", "os.symlink('/etc/passwd', path)"),
            ("a pipe", "os.mkfifo(path)"),
            ("a pipe that is read", "os.mkfifo(path); keep = os.open(path, os.O_RDWR)"),
            ("a socket", "keep = socket.socket(socket.AF_UNIX); keep.bind(path)"),
        )
    ),
    Attack(
        "descriptors pushed at the host",
        "The host would collect descriptors until it has no more.",
        """
with socket.socket(fileno=os.dup(3)) as sock:
    for _ in range(20):
        try:
            socket.send_fds(sock, [frame(2, b"{}")], [0] * 100)
        except OSError as error:
            held(errno.errorcode[error.errno])      # too many in flight
held("sent")
""",
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "urgent bytes",
        "Out-of-band data would keep the host awake.",
        """
with socket.socket(fileno=os.dup(3)) as sock:
    try:
        sock.send(frame(2, b"{}"), socket.MSG_OOB)
    except OSError:
        pass
held("sent")
""",
        ends=("ok", "killed:disconnected"),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "hang up",
        "A cell that closes its connection would hang the host.",
        "os.close(3); time.sleep(10)",
        ends=_CUT,
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "close everything",
        "A cell that closes all its descriptors would hang the host.",
        "os.closerange(0, 4096)",
        ends=("killed:disconnected", "killed:exited"),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "end the interpreter",
        "The host would wait for ever for an interpreter that is gone.",
        "os._exit(7)",
        ends=("killed:exited",),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "crash the interpreter",
        "The host would wait for ever for an interpreter that crashed.",
        "ctypes.string_at(0)",
        ends=("killed:crashed",),
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "a child that outlives the interpreter",
        "A child that keeps the connection open would pass for the interpreter.",
        """
if call((57, 220), *((17, 0, 0, 0, 0) if platform.machine() == "aarch64" else ())) == 0:    # past Python's own fork
    time.sleep(60)
os._exit(3)
""",
        ends=("killed:exited",),
        after=ALONE,
        limits=_SOON,
    ),
    Attack(
        "a tree deeper than a path may be long",
        "Looking for changed files would fail in the host.",
        """
for _ in range(300):
    os.mkdir("d" * 50)
    os.chdir("d" * 50)
open("deep", "w").close()
os.chdir("/mnt/data")
held("made")
""",
        after=USABLE,
        limits=_SOON,
    ),
    Attack(
        "names that are no text",
        "Names with any byte in them would raise in the host.",
        """
for name in (b"\\xff\\xfe", b"a\\nb", b"\\x1b[2J", b"-rf", b" ", b"\\xed\\xa0\\x80", b"n" * 255, b"%s%n", b"..."):
    open(name, "wb").close()
held("made")
""",
        after=USABLE,
        limits=_SOON,
    ),
)
