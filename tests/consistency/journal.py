"""What clients asked and what they were told, in the order in which it happened: all that the checker believes."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["open", "told", "refused", "unknown"]
"""`unknown`: it may have been done, or be done yet: the connection broke, or it took too long, or a 5xx came."""


@dataclass
class Entry:
    """One request of one client."""

    number: int
    client: int
    kind: str
    gateway: int
    began: float
    at: float
    """The time of day then."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What identifies it in what is seen later, such as the token of a cell."""
    outcome: Outcome = "open"
    status: int = 0
    ended: float = 0.0
    told: Any = None


class Journal:
    """Kept in memory for the checker and in a file for people."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self._numbers = itertools.count()
        self._file = path.open("w")
        self.finished = 0
        self.news = asyncio.Event()
        """Something has ended."""

    def begin(self, client: int, kind: str, gateway: int, **asked: Any) -> Entry:
        entry = Entry(next(self._numbers), client, kind, gateway, time.monotonic(), time.time(), asked)
        self.entries.append(entry)
        return entry

    def end(self, entry: Entry, outcome: Outcome, status: int = 0, told: Any = None) -> None:
        entry.outcome, entry.status, entry.told, entry.ended = outcome, status, told, time.monotonic()
        self.finished += 1
        self.news.set()
        self._file.write(json.dumps(asdict(entry)) + "\n")
        self._file.flush()

    def note(self, what: str) -> None:
        """Something that was done to the gateways."""
        self._file.write(json.dumps({"at": time.monotonic(), "fault": what}) + "\n")
        self._file.flush()

    def all(self, *kinds: str) -> Iterator[Entry]:
        return (one for one in self.entries if one.kind in kinds)

    def close(self) -> None:
        self._file.close()
