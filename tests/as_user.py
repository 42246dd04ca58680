"""Starts Python as another user, even where the interpreter or the checkout lies in a closed directory.

The jail must work for an ordinary user, and tests mostly run as root from places such as /root/.pyenv that nobody else
may enter. So the child first makes a mount namespace of its own, in which every closed directory on the way is
replaced by an open, empty one that shows only what is needed; then it gives up being root.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from belljar.sandbox.local import linux

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCE = CHECKOUT / "src"
ORDINARY = 12345
"""The uid of the ordinary user: in no passwd file."""
GROUPS = (4, 27, 46, 998, ORDINARY)
"""Those of a login, which it cannot give up: adm, sudo, plugdev, docker by their usual numbers, and its own."""
SECRET = Path("/usr/src/for-a-group-alone")

_BOOT = """
import json, sys
order = json.loads(sys.argv[1])
sys.path[:0] = order["path"]
from tests import as_user
as_user.become(order)
"""


def users() -> list[str]:
    """Who the tests can be: root and an ordinary user where they run as root, else only oneself."""
    return ["root", "ordinary"] if os.geteuid() == 0 else ["ordinary"]


def start(
    user: str,
    module: str,
    *args: str,
    variables: Mapping[str, str],
    stderr: int | None = None,
    secret_of: int | None = None,
) -> subprocess.Popen[str]:
    """Run a module of ours as this user, with pipes for its input and output.

    For the ordinary user there can be a file below /usr that is closed to everybody but root and one group.
    """
    path = [str(SOURCE), str(CHECKOUT)]
    uid = ORDINARY if user == "ordinary" and os.geteuid() == 0 else None
    order = {"uid": uid, "path": path, "module": module, "args": list(args), "secret_of": secret_of}
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, json.dumps(order)],
        env={"PATH": os.defpath, "PYTHONPATH": ":".join(path), **variables},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def become(order: dict[str, object]) -> None:
    """In the child: become the user, then the module. Never returns."""
    uid, module, args, secret_of = order["uid"], str(order["module"]), order["args"], order["secret_of"]
    assert isinstance(args, list)
    if isinstance(uid, int):
        linux.unshare(linux.CLONE_NEWNS)
        linux.mount("none", "/", None, linux.MS_REC | linux.MS_SLAVE)
        open_up([Path(sys.base_prefix), Path(sys.prefix), CHECKOUT])
        if isinstance(secret_of, int):
            linux.mount("tmpfs", str(SECRET.parent), "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, data="size=1m,mode=755")
            SECRET.write_text("secret")
            os.chown(SECRET, 0, secret_of)
            SECRET.chmod(0o640)
        os.setgroups(GROUPS)
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.execv(sys.executable, [sys.executable, "-m", module, *args])


def open_up(needed: Iterable[Path]) -> None:
    """Make these directories reachable for everyone, and nothing else that lies beside them."""
    closed: dict[Path, list[Path]] = {}
    for path in {path.resolve() for path in needed}:
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(folder, []).append(path)
                break
    for folder, inside in closed.items():
        trees = [(linux.clone_tree(str(path)), path) for path in inside]
        linux.mount("tmpfs", str(folder), "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, data="size=1m,mode=755")
        for tree, path in sorted(trees, key=lambda item: len(item[1].parts)):
            path.mkdir(parents=True, exist_ok=True)
            linux.attach_tree(tree, str(path))
            os.close(tree)
