"""The address that the gateway listens on: taken first, so that a client that comes early waits and is not refused."""

from __future__ import annotations

import errno
import socket

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
