"""One meaning of a glob, for searching and for mounts.

Case counts. `*` stays within a directory and `**` crosses any number of them, none included. A pattern without a slash
is about the name alone, at any depth; one with a slash, or with `./` before it, starts at the root.

For mounts it is as in .gitignore besides: a pattern that fits a directory means all that is in it, and a slash at the
end fits directories alone.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from belljar.filesystem.paths import Segments

_WILD = frozenset("*?[")


def matches(path: Segments, pattern: str) -> bool:
    return len(path) in _reachable_counts(path, _parts(pattern, anchored="/" in pattern))


def leaves_out(path: Segments, pattern: str, *, is_directory: bool) -> bool:
    """Whether a mount leaves this out, and with a directory all that is in it; whoever asks has asked of those above.

    `name/*` is about every directory of that name, at whatever depth.
    """
    if pattern.endswith("/") and not is_directory:
        return False
    name, _, rest = pattern.partition("/")
    if rest == "*" and name != "." and len(path) > 1 and fnmatchcase(path[-2], name):
        return True
    return _fits(path, pattern)


def takes(path: Segments, pattern: str) -> bool:
    """Whether a mount takes this file: for itself or, where the pattern names a directory, for one that it lies in."""
    if not pattern.endswith("/") and _fits(path, pattern):
        return True
    names_directory = pattern.endswith("/") or not _WILD.intersection(pattern.rpartition("/")[2])
    return names_directory and any(_fits(path[:depth], pattern) for depth in range(1, len(path)))


def _fits(path: Segments, pattern: str) -> bool:
    return len(path) in _reachable_counts(path, _parts(pattern, anchored="/" in pattern.rstrip("/")))


@lru_cache(maxsize=256)
def _parts(pattern: str, *, anchored: bool) -> list[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    return parts if anchored else ["**", *parts]


def _reachable_counts(path: Segments, parts: list[str]) -> set[int]:
    """How many segments the parts can consume: sets, not recursion, so that no pattern is slow."""
    reached = {0}
    for index, part in enumerate(parts):
        if part == "**":
            # At the end it stands for something inside a directory, so it takes one segment at least.
            least = min(reached, default=len(path) + 1) + (index == len(parts) - 1)
            reached = set(range(least, len(path) + 1))
        else:
            reached = {n + 1 for n in reached if n < len(path) and fnmatchcase(path[n], part)}
    return reached
