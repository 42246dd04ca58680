"""Bind the address of a server before anything else starts, so that early clients wait and are not refused."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from belljar.errors import InvalidRequest

_BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A socket of our own at this address; `InvalidRequest` names what is in the way and the remedy."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _no_address(host, error) from None
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind(address)
        door.listen(_BACKLOG)
    except OSError as error:
        door.close()
        match error.errno:
            case errno.EADDRINUSE:
                other = f"--port {port + 1}" if port < 65535 else "--port 0"
                message = f"port: {port} is in use on {host}; stop what listens there, or choose another: {other}"
            case errno.EACCES:
                message = f"port: {port} is reserved for root; choose one above 1023: --port 8787"
            case _:
                raise _no_address(host, error) from None
        raise InvalidRequest(message, param="port") from None
    return door


def _no_address(host: str, error: OSError | UnicodeError) -> InvalidRequest:
    why = error.strerror if isinstance(error, OSError) else "not a name"
    message = f"host: {host!r} is not an address of this machine ({why}); use 127.0.0.1, or 0.0.0.0 for all"
    return InvalidRequest(message, param="host")


@contextlib.contextmanager
def listen_unix(path: Path) -> Iterator[socket.socket]:
    """A socket that is a file for its owner alone; one that is left of an earlier server is replaced."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        os.fchmod(door.fileno(), 0o600)  # before anyone can see it
        try:
            _remove_stale(path)
            door.bind(os.fspath(path))
            door.listen(_BACKLOG)
            ours = os.lstat(path).st_ino
        except OSError as error:
            remedy = "make its directory, or name another" if error.errno == errno.ENOENT else "name another"
            why = error.strerror or str(error)
            raise InvalidRequest(f"socket: {path} cannot be used ({why}); {remedy}", param="socket") from None
        try:
            yield door
        finally:
            with contextlib.suppress(OSError):
                if os.lstat(path).st_ino == ours:
                    os.unlink(path)


def _remove_stale(path: Path) -> None:
    """Nobody listens at it any more. Anything that is not a socket stays."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(errno.EEXIST, "there is a file that is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(os.fspath(path))
            except ConnectionRefusedError:
                os.unlink(path)
            else:
                raise OSError(errno.EADDRINUSE, "another server listens there")
