"""The rest of a large body: read by a thread from its connection, past the event loop and the parser."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

LARGE = 4 << 20
"""Bytes for which it is worth to give up a connection: the next request needs another."""
_SKIPPED = 1 << 16
CONNECTION = "belljar.connection"
"""The extension of ASGI's scope by which a server gives a request's connection away: `take()`."""


class CutOff(Exception):
    """The connection ended before the body did."""


class Stalled(Exception):
    """Nothing came for too long."""


class Rest:
    """Bytes that are still to come. One thread reads; any may stop it."""

    def __init__(self, connection: socket.socket, early: bytes, size: int, patience: float) -> None:
        """`early` of the `size` bytes have come already. `patience` is how many seconds the next may take."""
        connection.settimeout(patience)
        self._connection = connection
        self._early = memoryview(early)
        self.size = self._left = size
        self._closing = threading.Lock()

    def read(self, buffer: memoryview) -> int:
        """Put the next bytes into the buffer; how many, 0 at the end. Raises `CutOff` or `Stalled`."""
        if not self._left:
            return 0
        if self._early:
            count = min(len(buffer), len(self._early))
            buffer[:count], self._early = self._early[:count], self._early[count:]
        else:
            try:
                count = self._connection.recv_into(buffer, min(len(buffer), self._left))
            except TimeoutError:
                raise Stalled from None
            except OSError as error:
                raise CutOff from error
            if not count:
                raise CutOff
        self._left -= count
        return count

    def skip(self) -> None:
        """Read the rest of it without looking: a client that still sends reads no answer."""
        buffer = memoryview(bytearray(_SKIPPED))
        while self.read(buffer):
            pass

    def stop(self) -> None:
        """No more is read: whoever waits for bytes hears that there are none."""
        with self._closing, suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def close(self) -> None:
        """The thread is done with it."""
        with self._closing:
            self._connection.close()
