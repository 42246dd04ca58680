"""Which blobs are what their name says: the fraction of a second in a file's time tells who answers for its bytes."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from pathlib import Path

_SECOND = 10**9
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def _fraction(of: str) -> int:
    return int.from_bytes(hashlib.sha256(of.encode()).digest()[:8]) % _SECOND


_SETTLED = _fraction("settled")


class Trust:
    """Trusted is what was finished since the machine started, or is on the disk for sure.

    A killed process takes no bytes with it: they are the kernel's. A power cut takes those that were not on the disk
    yet, and may leave a file of the right name that is short, or of the right size with other bytes. A time of day
    would tell which may be such only if clocks never went back, so the fraction is made from the boot's id instead;
    where a disk does not keep it, or another boot wrote it, nothing is trusted before it is read.
    """

    def __init__(self, boot: str | None = None) -> None:
        self._boot = _fraction(_this_boot() if boot is None else boot)

    def has(self, found: os.stat_result) -> bool:
        return _part(found) in (self._boot, _SETTLED)

    def is_settled(self, found: os.stat_result) -> bool:
        return _part(found) == _SETTLED

    def give(self, file: int | Path) -> None:
        """To bytes that were written just now."""
        _stamp(file, int(time.time()), self._boot)

    def give_back(self, file: int | Path, found: os.stat_result) -> None:
        """To bytes that were read just now, and are what they should be. They are as old as they were."""
        _stamp(file, int(found.st_mtime), self._boot)

    def settle(self, file: int | Path, found: os.stat_result) -> None:
        """To bytes that are on the disk for sure, and for good."""
        _stamp(file, int(found.st_mtime), _SETTLED)

    def renew(self, file: int | Path, found: os.stat_result) -> None:
        """A new time, and the same trust."""
        _stamp(file, int(time.time()), _part(found))


def _this_boot() -> str:
    try:
        return _BOOT.read_text()
    except OSError:
        return secrets.token_hex(16)  # then every start is a boot


def _part(found: os.stat_result) -> int:
    return found.st_mtime_ns % _SECOND


def _stamp(file: int | Path, second: int, part: int) -> None:
    at = second * _SECOND + part
    os.utime(file, ns=(at, at))
