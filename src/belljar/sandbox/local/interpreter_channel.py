"""The host's connection to one interpreter: frames, standard output and error, and messages of the zygote."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator

from belljar.sandbox.base import KIB
from belljar.sandbox.guest import frames
from belljar.sandbox.local import messages


class Link:
    """Its sockets and pipes, and what is known of its end."""

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        self.paths = paths
        """What the interpreter knows to be on its path, of what the host put there."""
        self.status, self._status = messages.pair()
        self.stdout, self._stdout = os.pipe2(os.O_CLOEXEC)
        self.stderr, self._stderr = os.pipe2(os.O_CLOEXEC)
        for fd in (self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self.status.setblocking(False)
        self._execution: socket.socket | None = None
        self.handle: int | None = None
        self.greeted = False
        self.eof = False
        self.ended: int | None = None
        self._decoder = frames.FrameDecoder()

    @property
    def theirs(self) -> list[int]:
        return [self._status.fileno(), self._stdout, self._stderr]

    @property
    def watched(self) -> list[int]:
        return [self.status.fileno(), self.stdout, self.stderr]

    @property
    def execution(self) -> socket.socket:
        """The connection for frames, which the interpreter makes: it is there once the sandbox is up."""
        assert self._execution is not None
        return self._execution

    def connect(self, fd: int) -> socket.socket:
        """Take our end of the connection."""
        self._execution = socket.socket(fileno=fd)
        self._execution.setblocking(False)
        return self._execution

    def is_connection(self, fd: int) -> bool:
        return self._execution is not None and self._execution.fileno() == fd

    def close_theirs(self) -> None:
        self._status.close()
        os.close(self._stdout)
        os.close(self._stderr)

    def read_frames(self) -> Iterator[tuple[int, bytes]]:
        """The frames that are there; `Malformed` for what is none."""
        try:
            # Plain recv: descriptors that the code may push along are dropped by the kernel. A larger buffer would be
            # mapped and unmapped for every cell.
            data = self.execution.recv(16 * KIB)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.eof = True
            return
        yield from self._decoder.feed(data)

    def has_ended(self) -> bool:
        """Whether the process is gone, though nobody may have said yet how it went."""
        if self.handle is None:
            return True
        watch = select.poll()
        watch.register(self.handle, select.POLLIN)
        return bool(watch.poll(0))

    def close(self) -> None:
        self.status.close()
        if self._execution is not None:
            self._execution.close()
        os.close(self.stdout)
        os.close(self.stderr)
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None
