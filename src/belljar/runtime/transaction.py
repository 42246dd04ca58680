"""Transactions: restore a session and its resources when something fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from belljar.runtime.session import SessionProtocol


@runtime_checkable
class Snapshotable(Protocol):
    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any, /) -> None: ...


@dataclass(slots=True)
class Transaction:
    failed: bool = False

    def fail(self) -> None:
        """Roll back at the end, without an exception."""
        self.failed = True


@contextmanager
def transaction(session: SessionProtocol, resources: Iterable[Snapshotable] = ()) -> Iterator[Transaction]:
    """Roll back on an exception, which goes on its way, and on `fail()`. Log slices are kept.

    Of the session, what was changed in here is undone, and nothing that other threads change meanwhile: not even those
    that were started in here, unless they run in a copy of this context.
    """
    kept = [(resource, resource.snapshot()) for resource in resources]
    current = Transaction()
    with session.undoable() as undo:
        try:
            yield current
        except BaseException:
            current.fail()
            raise
        finally:
            if current.failed:
                undo()
                for resource, snapshot in kept:
                    resource.restore(snapshot)
