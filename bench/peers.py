"""The peers: other ways to run a model's code, as far as they are installed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from textwrap import shorten

from bench.floors import Absent, Driver

NAMES = ("jupyter", "llm-sandbox", "bubblewrap")


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that runs, or why it does not."""

    name: str
    driver: Driver | None = None
    absent: str = ""


def invite(name: str, pythons: Sequence[str]) -> Peer:
    """The first of these Pythons that can drive the peer, else our own. bubblewrap is a program: it runs our Python."""
    reasons = []
    for python in [sys.executable] if name == "bubblewrap" else [*pythons, sys.executable]:
        try:
            return Peer(name, Driver(name, python=python))
        except (Absent, OSError) as error:
            reasons.append(str(error))
    return Peer(name, absent=shorten("; ".join(dict.fromkeys(reasons)), 100))


@contextmanager
def invited(wanted: bool, pythons: Sequence[str]) -> Iterator[list[Peer]]:
    """All peers, ended afterwards."""
    with ExitStack() as stack:
        found = [invite(name, pythons) for name in NAMES] if wanted else []
        for peer in found:
            if peer.driver is not None:
                stack.enter_context(peer.driver)
        yield found
