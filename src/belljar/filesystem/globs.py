"""One meaning of a glob, for searching and for mounts.

Case counts. `*` stays within a directory and `**` crosses any number of them, none included. A pattern without a slash
is about the name alone, at any depth; one with a slash starts at the root.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from belljar.filesystem.paths import Segments


def matches(path: Segments, pattern: str) -> bool:
    parts = [part for part in pattern.split("/") if part]
    if "/" not in pattern:
        parts = ["**", *parts]
    return len(path) in _reached(path, parts)


def excluded(path: Segments, patterns: Iterable[str]) -> bool:
    """As `matches`; besides, `name/*` means every directory of that name and all that it holds."""
    return any(matches(path, pattern) or _pruned(path, pattern) for pattern in patterns)


def _pruned(path: Segments, pattern: str) -> bool:
    name, _, rest = pattern.partition("/")
    return rest == "*" and any(fnmatchcase(segment, name) for segment in path[:-1])


def _reached(path: Segments, parts: list[str]) -> set[int]:
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
