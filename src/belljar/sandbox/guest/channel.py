"""The guest's end of the socket: whole frames, one at a time, from any thread."""

from __future__ import annotations

import json
import socket
from _thread import allocate_lock
from collections.abc import Mapping
from fcntl import ioctl
from struct import Struct
from time import sleep

from . import frames, originals
from .interrupts import Interrupts

originals.protect(globals())

_HEADER = Struct("<IB")
_LENGTH = Struct("<I")
# Bound now: a cell may replace json.dumps.
_dumps = json.JSONEncoder(separators=(",", ":")).encode
_loads = json.JSONDecoder().decode

_UNREAD = 0x5411
"""SIOCOUTQ: how much of what was sent lies unread."""
_MOST_WAIT = 1.0


class Channel:
    """Frames over a connected stream socket."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._lock = allocate_lock()
        self._interrupts = interrupts
        self._rest = b""
        self._later = b""
        self.open = False

    def connect(self, sock: socket.socket) -> None:
        sock.set_inheritable(False)
        self._sock = sock
        self._sendall = sock.sendall
        self._recv = sock.recv
        self.open = True

    def fileno(self) -> int:
        return self._sock.fileno()

    def close(self) -> None:
        """Hang up on this side only: a forked child must not speak for its parent."""
        self.open = False
        self._lock = allocate_lock()
        self._sock.close()

    def receive(self) -> dict[str, object] | None:
        """The next request; None when the host is gone."""
        while True:
            whole = self._take()
            if whole is not None:
                value = _loads(whole)
                return value if isinstance(value, dict) else {}
            data = self._recv(16384)
            if not data:
                return None
            self._rest += data

    def _take(self) -> str | None:
        rest = self._rest
        if len(rest) < _HEADER.size:
            return None
        end = _HEADER.size + _HEADER.unpack_from(rest)[0]
        if len(rest) < end:
            return None
        self._rest = rest[end:]
        return rest[_HEADER.size : end].decode("utf-8")

    def send(self, kind: int, value: Mapping[str, object]) -> None:
        """Send a JSON object."""
        self._send(kind, _dumps(value).encode("ascii"))

    def send_bundle(self, kind: int, bundle: Mapping[str, str | bytes], *, at_once: bool = True) -> bool:
        """Send a MIME bundle; False if it is too large for a frame. If not at once, it goes with the next frame."""
        text = {mime: data for mime, data in bundle.items() if isinstance(data, str)}
        blobs = [(mime, data) for mime, data in bundle.items() if isinstance(data, bytes)]
        header = _dumps({"text": text, "blobs": [(mime, len(data)) for mime, data in blobs]}).encode("ascii")
        payload = b"".join((_LENGTH.pack(len(header)), header, *(data for _, data in blobs)))
        if len(payload) > frames.MAX_PAYLOAD:
            return False
        self._send(kind, payload, at_once)
        return True

    def settle(self) -> None:
        """Wait until the host has taken everything: text has a way of its own, and must not overtake a display."""
        waited, pause = 0.0, 0.00002
        try:
            while waited < _MOST_WAIT and self.open and ioctl(self._sock, _UNREAD, b"\0\0\0\0") != b"\0\0\0\0":
                sleep(pause)
                waited += pause
                pause = min(2 * pause, 0.005)
        except (OSError, ValueError):  # the cell closed the socket, which sending will tell
            pass

    def _send(self, kind: int, payload: bytes, at_once: bool = True) -> None:
        frame = frames.encode(kind, payload)
        self._interrupts.hold()
        try:
            with self._lock:
                frame = self._later + frame
                self._later = b"" if at_once else frame
                if at_once and self.open:
                    self._sendall(frame)
        finally:
            self._interrupts.release()
