"""`--out`: make the output directory before anything runs, and remove it again if nothing was saved."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from belljar.errors import InvalidRequest


@contextmanager
def directory_for(path: Path) -> Iterator[None]:
    """Whether it can be made is known for sure only by making it. What stays empty of it is removed at the end."""
    missing = [one for one in (path, *path.parents) if not os.path.lexists(one)]
    make_directory(path)
    try:
        yield
    finally:
        for one in missing:  # the deepest first; one that has something in it stays
            with contextlib.suppress(OSError):
                one.rmdir()


def make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InvalidRequest(f"--out: {str(path)!r} cannot be made: {why}; name a directory") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidRequest(f"--out: {str(path)!r} cannot be written to; name a directory of yours")
