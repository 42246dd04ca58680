"""Ports of this host: one for a program that starts later, and one on which nobody listens."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOWEST = 10_000
_DICE = random.SystemRandom()  # tests are run with the same seed side by side


def free_port() -> int:
    """One that is free, and stays so: it is not among those that the kernel gives to whoever asks for any."""
    highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = _DICE.randrange(_LOWEST, highest)
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


@contextmanager
def unused_port() -> Iterator[int]:
    """One on which nothing listens, and nothing else will as long as this is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
