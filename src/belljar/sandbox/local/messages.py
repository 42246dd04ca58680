"""Messages between the host and the jail's processes: JSON with descriptors, over SEQPACKET sockets."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypedDict

from belljar.sandbox.local import linux
from belljar.sandbox.local.confine import Rlimits

_LARGEST = 1 << 17
_MOST_DESCRIPTORS = 24


class Create(TypedDict):
    """Make a sandbox, or (`again`) a new interpreter in one: all that the jail's own processes are told of it.

    They are forked for every sandbox, so what they knew of one would be in the memory of the next. Whose it is and what
    it may do is for its own two processes alone, and waits for them in their sockets: `Walls` in `control`, `Start` in
    `status`.

    Descriptors, host to jail init: control, status, stdout, stderr, cgroups…; for `again`: the init's pidfd in place of
    control. Jail init to zygote: init's pidfd, ready pipe, status, stdout, stderr, cgroups…
    """

    environment: str
    again: bool


class Walls(TypedDict):
    """What the init of a sandbox is told. With it comes an eventfd, to which the host adds 1 when a cell begins and
    when it ends: nobody is woken by that.
    """

    uid: int
    disk: int
    scratch: int
    watch: bool
    """Whether to have the kernel tell what changes in the workspace."""
    limits: Rlimits
    idle_cpu_time: float | None


class Start(TypedDict):
    """What an interpreter is told."""

    limits: Rlimits
    settings: dict[str, Any]


class Excess(TypedDict):
    """What an init says unasked: that there was too much of something inside, and that it has ended processes."""

    excess: str
    """Of what, in words."""
    memory: bool
    turn: int
    """-1, where an answer has the number of the cell that it was asked for, if any."""


def pair(kind: socket.SocketKind = socket.SOCK_SEQPACKET) -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, kind)


def send(sock: socket.socket, message: object, fds: Sequence[int] = ()) -> None:
    socket.send_fds(sock, [json.dumps(message).encode()], list(fds))


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """A message and its descriptors; None when the peer is gone."""
    data, fds, _, _ = socket.recv_fds(sock, _LARGEST, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    return (json.loads(data) if data else None), list(fds)


def tell(sock: socket.socket, message: object, fds: Sequence[int] = ()) -> None:
    """To a host that may have let this sandbox go already: that ends nobody else's."""
    with suppress(OSError):
        send(sock, message, fds)


def rehearse(message: object, count: int) -> None:
    """Send ourselves a message like the next one, with as many descriptors; best effort.

    For a process that has just forked: all its memory is now shared with the child, and the first write to each page
    is slow. What the next message needs is written to while nobody waits.
    """
    with suppress(OSError):
        ours, theirs = pair()
        with ours, theirs:
            send(ours, message, [ours.fileno()] * count)
            close_all(receive(theirs)[1])


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


@contextmanager
def report_failure(where: Callable[[], socket.socket], step: str) -> Iterator[None]:
    """Tell the host what went wrong, then end: for a child that has not become anything yet.

    `where` gives the socket of the moment: such a child moves its descriptors about.
    """
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - the last door of a child: it tells, then ends
        try:
            send(where(), {"error": f"{step}: {type(error).__name__}: {error}"})
        finally:
            os._exit(70)


def keep_only(wanted: Sequence[int]) -> None:
    """Put `wanted` on descriptors 0, 1, 2, … in this order and close every other."""
    # By way of high numbers, or placing one could close the next.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 200) for fd in wanted]
    for place, fd in enumerate(high):
        os.dup2(fd, place, inheritable=True)
    linux.close_from(len(high))
