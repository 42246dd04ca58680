"""Try every kernel feature that the jail needs, in a process of its own; print one JSON line for each.

The steps are the jail's own functions in the jail's own order, because the parts are not enough: on Ubuntu a user
namespace can be made but nothing mounted in it, in a container everything may work but a fresh /proc. Nothing is left
when the process ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from belljar.sandbox.local import cgroups, confine, landlock, linux, root

USER, PROCESSES, OTHERS = "user namespace", "process namespace", "other namespaces"
ROOT, PROC, INNER, LOCK = "private root", "fresh /proc", "inner user namespace", "call filter"
WALLS = (USER, PROCESSES, OTHERS, ROOT, PROC, INNER, LOCK)
OPENAT2, LANDLOCK, CGROUP = "openat2", "landlock", "cgroup"


def main(uid: int) -> None:
    """`uid` is the user a sandbox would have: as root one of its own, otherwise 0 of the jail's user namespace."""
    _tell(LANDLOCK, str(linux.landlock_abi()))
    with _step(OPENAT2):
        os.close(linux.openat2(os.open("/", os.O_PATH), ".", os.O_PATH, resolve=linux.RESOLVE_BENEATH))
    _tell(CGROUP, json.dumps(_cgroup(os.getppid())))
    pid = os.fork()
    if pid == 0:
        _walls(uid)
        os._exit(0)
    os.waitpid(pid, 0)


def _tell(step: str, error: str | None) -> None:
    os.write(1, json.dumps([step, error]).encode() + b"\n")


@contextmanager
def _step(name: str) -> Iterator[None]:
    """Tell how it went; what builds on a step that failed cannot be tried."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        name = PROC if "mount proc" in str(error) else name  # a part of building the root that has a remedy of its own
        _tell(name, f"{error.strerror}" if isinstance(error, OSError) and error.strerror else f"{error}")
        os._exit(1)
    _tell(name, None)


def _walls(uid: int) -> None:
    if uid == 0:
        with _step(USER):
            confine.enter_user_namespace(0)
    with _step(PROCESSES):
        linux.unshare(linux.CLONE_NEWPID)
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        return
    linux.die_with_parent(signal.SIGKILL)
    with _step(OTHERS):
        linux.unshare(linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS)
        linux.loopback_up()
    with _step(ROOT):
        root.build(
            root.Plan(
                binds=[("/usr", "/usr")],
                devices=[f"/dev/{name}" for name in landlock.DEVICES],
                links=[],
                texts=[],
                directories=["/tmp", "/proc", "/dev/shm", "/mnt/data"],
                environment={},
            )
        )
    with _step(PROC):  # once more, as each sandbox does it
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    with _step(INNER):
        confine.enter_user(uid, 256)
    with _step(LOCK):
        confine.lock(confine.call_filter(), files=True)


def _cgroup(host: int) -> dict[str, object]:
    """The rung that `cgroups.detect` would reach, without moving anybody; `host` is the process that would ask."""
    reasons: list[str] = []
    for version, look in (("v2", _version2), ("v1", _version1)):
        try:
            return {"kind": version, "cpu": look(host), "why": "; ".join(reasons)}
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else error
            reasons.append(f"version {version[1:]}: {what}")
    return {"kind": "none", "cpu": False, "why": "; ".join(reasons)}


def _version1(host: int) -> bool:
    memory, cpu = cgroups.find_own_group("memory"), cgroups.find_own_group("cpu")
    if memory is None:
        raise ValueError("no memory controller")
    for path in (memory, *([cpu] if cpu else [])):
        _make_and_remove(str(path))
    return cpu is not None


def _version2(host: int) -> bool:
    parent, controllers = cgroups.place({host, os.getpid()})
    _make_and_remove(str(parent))
    return "cpu" in controllers


def _make_and_remove(parent: str) -> None:
    path = f"{parent}/{cgroups.new_name()}"
    os.mkdir(path, 0o700)
    with suppress(FileNotFoundError):  # nobody holds it, so another who starts at this moment may sweep it
        os.rmdir(path)


if __name__ == "__main__":
    main(int(sys.argv[1]))
