"""Format tracebacks as Python does, without the guest's own frames."""

from __future__ import annotations

import os
from collections.abc import Iterator
from traceback import FrameSummary, StackSummary, TracebackException

from . import private_builtins
from .interrupts import CELL

private_builtins.protect(globals())

HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_HEADER = "Traceback (most recent call last):\n"
_LONGEST = 60
"""Frames shown of one stack; more come only from recursion."""


class _Shortened(StackSummary):
    """A stack whose middle is left out."""

    def format(self, **options: object) -> list[str]:
        half = _LONGEST // 2
        head, tail = StackSummary.from_list(self[:half]), StackSummary.from_list(self[-half:])
        return [*head.format(), f"  [... {len(self) - 2 * half} frames left out ...]\n", *tail.format()]


def render(error: BaseException) -> str:
    """The traceback as text."""
    summary = TracebackException(type(error), error, error.__traceback__, compact=True)
    for part in _parts(summary, set()):
        if part.stack is not None:
            part.stack = _cut(part.stack)
    text = "".join(summary.format())
    # What the compiler refused was never on a stack.
    return text if summary.stack else text.removeprefix(_HEADER)


def name_of(kind: type[BaseException]) -> str:
    """The class as a traceback names it."""
    module, name = kind.__module__, kind.__qualname__
    return name if module in ("builtins", "__main__") else f"{module}.{name}"


def message_of(error: BaseException) -> str:
    """What the exception says, if it can."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception is the cell's own
        return "<exception str() failed>"


def _parts(summary: TracebackException | None, seen: set[int]) -> Iterator[TracebackException]:
    """The exception with everything that it was chained to or groups."""
    if summary is None or id(summary) in seen:
        return
    seen.add(id(summary))
    yield summary
    yield from _parts(summary.__cause__, seen)
    yield from _parts(summary.__context__, seen)
    for inner in summary.exceptions or ():
        yield from _parts(inner, seen)


def _cut(stack: StackSummary) -> StackSummary:
    frames: list[FrameSummary] = list(stack)
    if frames and frames[0].filename.startswith(HERE):
        # The guest came first, perhaps with an event loop behind it: begin where the cell does.
        first = next((at for at, frame in enumerate(frames) if frame.filename.startswith(CELL)), 0)
        frames = frames[first:]
    kept = StackSummary.from_list([frame for frame in frames if not frame.filename.startswith(HERE)])
    if len(kept) > _LONGEST and len(kept.format()) > _LONGEST:  # Python folds what repeats by itself
        return _Shortened(kept)
    return kept
