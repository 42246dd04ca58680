"""What changed in a workspace, as the kernel tells it: fanotify on the workspace's own file system.

The sandbox's init asks for it before it locks itself and hands the queue to the host; nobody inside can reach it. Where
the kernel will not (older ones, or too many queues of one user), there is none, and the host walks the tree instead.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field

from belljar.sandbox.local import linux

_MODIFY, _ATTRIB, _CLOSE_WRITE, _CLOSE_NOWRITE, _OPEN = 0x2, 0x4, 0x8, 0x10, 0x20
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _ONDIR = 0x4000, 0x40000000
_CLOSE = _CLOSE_WRITE | _CLOSE_NOWRITE
_WANTED = _MODIFY | _ATTRIB | _CLOSE | _OPEN | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONDIR
_REARRANGED = _ATTRIB | _MOVED_FROM | _MOVED_TO | _DELETE
"""What happens to a directory after which paths below it may be others, or be seen no more or again."""

_EVENT = struct.Struct("=IBBHQii")
_INFO = struct.Struct("=BBH8xIi")
_DFID_NAME = 2
_ROOM = 64 << 10
_ENOUGH, _MOST = 256 << 10, 4 << 20
"""Bytes of events that are read one by one: with more, a walk is quicker. Bytes after which we stop reading: the queue
may be filled as fast as it is read.
"""


def make(path: str, *, uid: int) -> int | None:
    """A queue of what changes in the file system at `path`; None where the kernel has none for us.

    Queues are counted for each user. Root makes it in the name of `uid`, so that sandboxes do not share 128 of them.
    """
    own = os.geteuid()
    borrow = own == 0 and os.getuid() == 0 and uid != 0
    try:
        if borrow:
            os.seteuid(uid)
        try:
            queue = linux.fanotify_init()
        finally:
            if borrow:
                os.seteuid(own)
    except OSError:
        return None
    try:
        linux.fanotify_mark_filesystem(queue, _WANTED, path)
    except OSError:
        os.close(queue)
        return None
    return queue


@dataclass(slots=True)
class Changes:
    """What happened since the last look, by the handle of a directory and a name in it."""

    names: dict[tuple[bytes, str], int] = field(default_factory=dict)
    """Files, and the bits of all that happened to them."""
    made: list[tuple[bytes, str]] = field(default_factory=list)
    """New directories."""
    unclear: bool = False
    """Directories were moved, removed or closed, or the queue was too short: only a walk can tell."""


def is_left_open(bits: int) -> bool:
    """Whether it was opened and, for all that is known, not closed: a mapping keeps it so, and tells of no writes."""
    return bool(bits & _OPEN) and not bits & _CLOSE


def read(queue: int) -> Changes | None:
    """Everything that is in the queue; None where that is nothing."""
    changes = None
    total = 0
    while True:
        try:
            data = os.read(queue, _ROOM)
        except BlockingIOError:
            return changes
        except OSError:
            return Changes(unclear=True)
        changes = changes or Changes()
        total += len(data)
        if total <= _ENOUGH and data:
            _take(data, changes)
            continue
        changes.unclear = True
        if total > _MOST or not data:
            return changes


def _take(data: bytes, changes: Changes) -> None:
    place = 0
    while place + _EVENT.size <= len(data):
        length, _, _, head, mask, _, _ = _EVENT.unpack_from(data, place)
        if length < _EVENT.size:
            changes.unclear = True
            return
        key = _parse_place(data, place + head, place + length)
        place += length
        if key is None:
            changes.unclear |= bool(mask & ~(_OPEN | _CLOSE | _ONDIR))
        elif not mask & _ONDIR:
            changes.names[key] = changes.names.get(key, 0) | mask
        elif mask & _REARRANGED:
            changes.unclear = True
        elif mask & _CREATE:
            changes.made.append(key)


def _parse_place(data: bytes, start: int, end: int) -> tuple[bytes, str] | None:
    """The directory and the name that an event is about."""
    while start + _INFO.size <= end:
        kind, _, length, size, type_ = _INFO.unpack_from(data, start)
        if length < _INFO.size:
            return None
        if kind == _DFID_NAME:
            at = start + _INFO.size
            handle = struct.pack("=i", type_) + data[at : at + size]
            return handle, os.fsdecode(data[at + size : start + length].partition(b"\0")[0])
        start += length
    return None
