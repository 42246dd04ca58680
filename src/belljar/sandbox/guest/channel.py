"""The guest's end of the socket: send and receive whole frames, from any thread."""

from __future__ import annotations

import socket
from _thread import allocate_lock
from collections.abc import Mapping
from fcntl import ioctl
from struct import Struct
from time import sleep

from . import frames, private_builtins
from .interrupts import Interrupts

private_builtins.protect(globals())

_HEADER = Struct("<IB")
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

    def receive(self) -> tuple[int, bytes] | None:
        """The next request, as its kind and payload; None when the host is gone."""
        while True:
            whole = self._take()
            if whole is not None:
                return whole
            data = self._recv(16384)
            if not data:
                return None
            self._rest += data

    def _take(self) -> tuple[int, bytes] | None:
        rest = self._rest
        if len(rest) < _HEADER.size:
            return None
        length, kind = _HEADER.unpack_from(rest)
        end = _HEADER.size + length
        if len(rest) < end:
            return None
        self._rest = rest[end:]
        return kind, rest[_HEADER.size : end]

    def send(self, kind: int, value: Mapping[str, object]) -> None:
        """Send a JSON object."""
        self.send_frame(frames.encode_json(kind, value))

    def send_text(self, kind: int, number: int, text: str) -> None:
        """Send a text about a cell."""
        self.send_frame(frames.encode_text(kind, number, text))

    def send_bundle(self, kind: int, bundle: Mapping[str, str | bytes], *, at_once: bool = True) -> bool:
        """Send a MIME bundle; False if it is too large for a frame. If not at once, it goes with the next frame."""
        frame = frames.encode_bundle(kind, bundle)
        if len(frame) > frames.MAX_PAYLOAD:
            return False
        self.send_frame(frame, at_once)
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

    def send_frame(self, frame: bytes, at_once: bool = True) -> None:
        """Send a frame that is made already."""
        self._interrupts.hold()
        try:
            with self._lock:
                frame = self._later + frame
                self._later = b"" if at_once else frame
                if at_once and self.open:
                    self._sendall(frame)
        finally:
            self._interrupts.release()
