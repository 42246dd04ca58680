"""Bind the address of a server before anything else starts, so that early clients wait and are not refused."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from belljar.config import variables
from belljar.errors import InvalidRequest

_BACKLOG = 2048
_FIRST_PASSED = 3
"""The descriptor of the first socket that systemd passes on: SD_LISTEN_FDS_START."""


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket of our own at this address; `InvalidRequest` names what is in the way and the remedy.

    A `shared` one lets further sockets of this user have the same address.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        door = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise _no_address(host, error) from None
    try:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
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
    """A socket that is a file for its owner alone; one that is left of an earlier server is replaced.

    One that systemd has made there (a unit with ListenStream) is used as it is, and left: it says itself who may come.
    """
    if (passed := _find_passed(path)) is not None:
        with passed:
            yield passed
        return
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


def _find_passed(path: Path) -> socket.socket | None:
    """The one that systemd passed on to this process, and to no parent of it, if it is at this path."""
    told = variables("LISTEN_PID", "LISTEN_FDS")
    if told.get("LISTEN_PID") != str(os.getpid()) or not told.get("LISTEN_FDS", "").isdecimal():
        return None
    for descriptor in range(_FIRST_PASSED, _FIRST_PASSED + int(told["LISTEN_FDS"])):
        door = socket.socket(fileno=descriptor)
        if door.family == socket.AF_UNIX and door.getsockname() == os.fspath(path):
            door.set_inheritable(False)
            return door
        door.detach()
    return None
