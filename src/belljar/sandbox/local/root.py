"""The root directory inside the jail: planned on the host as data, built by the launcher.

Nothing of the host's layout is shown but /usr and a few files of /etc: Python and its packages appear under /opt
whatever their place on the host, so a prefix below /tmp or in a closed home directory works like any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypedDict

from belljar.sandbox.local import linux
from belljar.sandbox.local.landlock import DEVICES

BASE, ENV, CODE, LAYERS, FONTS = "/opt/python", "/opt/env", "/opt/belljar", "/pkgs", "/opt/fonts"
PYTHON = f"{ENV}/bin/python"

_ETC = ("ld.so.cache", "alternatives", "fonts", "localtime", "ssl/certs", "mime.types", "protocols", "services")
_TEXTS = {
    "/etc/passwd": "root:x:0:0:root:/:/usr/sbin/nologin\nuser:x:1000:1000:user:/tmp:/bin/sh\n",
    "/etc/group": "root:x:0:\nuser:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "/etc/resolv.conf": "",
    "/etc/hostname": "belljar\n",
}
_DIRECTORIES = ("/tmp", "/proc", "/dev/shm", "/mnt/data", "/run", "/home", "/var/tmp")
_VOLATILE = ("/tmp/", "/mnt/data/", "/dev/", "/proc/", "/var/tmp/")


class Plan(TypedDict):
    """What to put where, in order. JSON-shaped: it travels to the launcher over a socket."""

    binds: list[tuple[str, str]]
    devices: list[str]
    links: list[tuple[str, str]]
    texts: list[tuple[str, str]]
    directories: list[str]
    environment: dict[str, str]


class PythonHome(TypedDict):
    """Where Python is on the host."""

    executable: str
    base_prefix: str
    version: str
    shared: bool
    site_packages: list[str]


def plan(home: PythonHome, *, code: str, layers: str | None = None, fonts: tuple[str, Path] | None = None) -> Plan:
    """The jail's root for this Python. `code` is the directory that holds the belljar package.

    `fonts` is a list of fonts, its name and where it is.
    """
    binds: list[tuple[str, str]] = [("/usr", "/usr")]
    links: list[tuple[str, str]] = [("/mnt/data/workspace", "/workspace")]  # files that were mounted there by that name
    texts = dict(_TEXTS)
    environment: dict[str, str] = {}
    for name in ("bin", "sbin", "lib", "lib64", "lib32"):
        path = f"/{name}"
        if os.path.islink(path):
            links.append((os.readlink(path), path))
        elif os.path.isdir(path):
            binds.append((path, path))
    binds += [(f"/etc/{name}", f"/etc/{name}") for name in _ETC if os.path.exists(f"/etc/{name}")]

    base = os.path.realpath(home["base_prefix"])
    inner = base if base == "/usr" or base.startswith("/usr/") else BASE
    if inner == BASE:
        binds.append((base, BASE))
        if home["shared"] and base.startswith(_VOLATILE):
            environment["LD_LIBRARY_PATH"] = f"{BASE}/lib"
        elif home["shared"]:
            links.append((BASE, base))  # the loader looks for libpython by the path it was built with
    relative = os.path.relpath(os.path.realpath(home["executable"]), base)
    if relative.startswith(".."):
        raise ValueError(f"{home['executable']} is not inside its own prefix {base}")
    executable = f"{inner}/{relative}"
    links += [(executable, f"{ENV}/bin/{name}") for name in ("python", "python3", f"python{home['version']}")]
    texts[f"{ENV}/pyvenv.cfg"] = (
        f"home = {os.path.dirname(executable)}\ninclude-system-site-packages = false\nversion = {home['version']}\n"
    )
    first, *others = home["site_packages"] or [""]
    if first:
        binds.append((first, f"{ENV}/lib/python{home['version']}/site-packages"))
    extra = []
    for index, path in enumerate(others):
        binds.append((path, f"/opt/site/{index}"))
        extra.append(f"/opt/site/{index}")
    if extra:
        environment["PYTHONPATH"] = ":".join(extra)

    binds.append((f"{code}/belljar", f"{CODE}/belljar"))
    if layers:
        binds.append((layers, LAYERS))
    if fonts:
        binds.append((str(fonts[1]), f"{FONTS}/{fonts[0]}"))
    return Plan(
        binds=binds,
        devices=[f"/dev/{name}" for name in DEVICES],
        links=links,
        texts=list(texts.items()),
        directories=list(_DIRECTORIES),
        environment=environment,
    )


def build(plan: Plan) -> None:
    """Make the planned root and enter it. Run in a fresh mount namespace, with the right to mount."""
    # Slave, so that no mount of ours is seen on the host; the clones below are taken before anything covers them.
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_SLAVE)
    read_only = linux.MOUNT_ATTR_RDONLY | linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NODEV
    trees = [(*_detach_tree(source, read_only), target) for source, target in plan["binds"]]
    device = linux.MOUNT_ATTR_NOSUID | linux.MOUNT_ATTR_NOEXEC
    trees += [(*_detach_tree(path, device), path) for path in plan["devices"]]
    # Any directory will do to build on: the namespace is ours alone and the host's tree goes away below.
    new = "/tmp"
    linux.mount("tmpfs", new, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, data="size=4m,nr_inodes=8192,mode=755")
    for path in plan["directories"]:
        os.makedirs(new + path, exist_ok=True)
    for tree, is_directory, target in trees:
        _place(new + target, is_directory)
        linux.attach_tree(tree, new + target)
        os.close(tree)
    for pointee, path in plan["links"]:
        os.makedirs(os.path.dirname(new + path), exist_ok=True)
        if not os.path.lexists(new + path):
            os.symlink(pointee, new + path)
    for path, text in plan["texts"]:
        os.makedirs(os.path.dirname(new + path), exist_ok=True)
        with open(new + path, "w", encoding="utf-8") as file:
            file.write(text)
    _link_all(new + "/dev", [("/proc/self/fd", "fd"), *((f"fd/{n}", name) for n, name in enumerate(_STREAMS))])
    # A place for the zygote to write while it preloads; every sandbox mounts its own over it.
    linux.mount("tmpfs", new + "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, data="size=16m,mode=1777")
    # While the old one is still in sight: a user namespace may only mount what it can already see.
    linux.mount("proc", new + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    os.chdir(new)
    # Onto itself: the old root then lies on top of the new one, and needs no directory to be put in.
    linux.pivot_root(".", ".")
    linux.umount(".")
    os.chdir("/")
    linux.mount(
        "none", "/", None, linux.MS_REMOUNT | linux.MS_BIND | linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    )


_STREAMS = ("stdin", "stdout", "stderr")


def _detach_tree(source: str, attributes: int) -> tuple[int, bool]:
    tree = linux.clone_tree(source)
    linux.set_mount(tree, attributes)
    return tree, os.path.isdir(source)


def _place(path: str, is_directory: bool) -> None:
    os.makedirs(path if is_directory else os.path.dirname(path), exist_ok=True)
    if not is_directory:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _link_all(directory: str, links: Iterable[tuple[str, str]]) -> None:
    for pointee, name in links:
        os.symlink(pointee, f"{directory}/{name}")


def site_packages(candidates: Sequence[str]) -> list[str]:
    """Those of the candidates that exist, without repeats or ones that /usr already shows."""
    kept: list[str] = []
    for path in candidates:
        real = os.path.realpath(path)
        if os.path.isdir(real) and real not in kept:
            kept.append(real)
    return kept
