"""Record what one call changes in a session, so that exactly this can be undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeAlias

from belljar.runtime.slices import Values

Change: TypeAlias = tuple[Values, Values]
"""A slice before and after."""


@dataclass(frozen=True, slots=True, eq=False)
class Journal:
    """The changes of one owner, by the type of the slice and in their order."""

    owner: object
    changes: dict[type, list[Change]] = field(default_factory=dict)


_OPEN: ContextVar[tuple[Journal, ...]] = ContextVar("belljar_journals", default=())
"""Those that are kept where this code runs: a thread has none of its starter's, unless it runs in its context."""


@contextmanager
def keep_journal(owner: object) -> Iterator[Journal]:
    """Keep a journal of what is changed in here."""
    journal = Journal(owner)
    token = _OPEN.set((*_OPEN.get(), journal))
    try:
        yield journal
    finally:
        _OPEN.reset(token)


def note(owner: object, changed: Mapping[type, Change]) -> None:
    """Write a change into every journal that is kept of its owner."""
    for journal in _OPEN.get():
        if journal.owner is owner:
            for slice_type, change in changed.items():
                journal.changes.setdefault(slice_type, []).append(change)


def without(changes: Sequence[Change], now: Values) -> Values:
    """The slice as it was. Where others have changed it too, as it is now, without what these changes put there."""
    afters = [after for _, after in changes]
    befores = [before for before, _ in changes]
    if afters[-1] is now and all(after is before for after, before in zip(afters, befores[1:], strict=False)):
        return befores[0]
    put = {id(value) for before, after in changes for value in _new(before, after)}
    return tuple(value for value in now if id(value) not in put)


def _new(before: Values, after: Values) -> Iterator[object]:
    known = set(map(id, before))
    return (value for value in after if id(value) not in known)
