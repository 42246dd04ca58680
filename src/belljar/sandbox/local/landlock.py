"""Landlock rules, a second lock on files and signals: read the root, write three directories."""

from __future__ import annotations

import os
import struct

from belljar.sandbox.local import linux

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
MAKE_CHAR, MAKE_BLOCK = 1 << 6, 1 << 11
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2

DEVICES = ("null", "zero", "full", "random", "urandom")
WRITABLE = ("/tmp", "/dev/shm", "/mnt/data")


def list_rights(abi: int) -> tuple[int, int]:
    """What a kernel of this version can be asked to judge: (file rights, scopes)."""
    rights = (1 << 13) - 1
    rights |= REFER if abi >= 2 else 0
    rights |= TRUNCATE if abi >= 3 else 0
    rights |= IOCTL_DEV if abi >= 5 else 0
    return rights, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if abi >= 6 else 0


def restrict() -> int:
    """Lock this process and its children; the version used, 0 where the kernel has none."""
    abi = linux.landlock_abi()
    if abi == 0:
        return 0
    rights, scopes = list_rights(abi)
    # A kernel refuses rights and scopes that it does not know, so it gets those of its version and no more.
    ruleset = linux.landlock_create(struct.pack("QQQ", rights, 0, scopes)[: 24 if abi >= 6 else 16 if abi >= 4 else 8])
    device = READ_FILE | (WRITE_FILE | TRUNCATE) & rights
    rules = [("/", EXECUTE | READ_FILE | READ_DIR)]
    rules += [(path, rights & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)) for path in WRITABLE]
    rules += [(f"/dev/{name}", device) for name in DEVICES]
    for path, access in rules:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)  # a rule is about what this opens now, not about the path later
        linux.landlock_allow(ruleset, fd, access)
        os.close(fd)
    linux.landlock_restrict(ruleset)
    os.close(ruleset)
    return abi
