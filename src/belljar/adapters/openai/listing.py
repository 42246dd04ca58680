"""A container's flat listing as a tree: which files there are, and which directories follow from their paths."""

from __future__ import annotations

import errno
import os

from belljar.adapters.openai.archives import MARKER
from belljar.adapters.openai.container_files import Kept
from belljar.filesystem.paths import Segments, join_segments


class Listing:
    """Files are added newest first: of several with one path, the first counts and the others are older."""

    def __init__(self) -> None:
        self._kept: dict[Segments, list[Kept]] = {}
        self._directories: dict[Segments, dict[str, bool]] = {(): {}}
        """What is in each: whether it is a directory, by name."""

    def add(self, kept: Kept) -> None:
        self._kept.setdefault(kept.segments, []).append(kept)
        is_directory = False
        here = kept.segments
        while here:
            here, name = here[:-1], here[-1]
            known = here in self._directories
            self._directories.setdefault(here, {})[name] = is_directory
            if known and is_directory:
                return
            is_directory = True

    def replace(self, segments: Segments, size: int) -> None:
        """A file that was put in place since, of which no more is known."""
        self._kept.pop(segments, None)
        self.add(Kept("", segments, size, 0, "user"))

    def files(self) -> list[Kept]:
        return [kept[0] for segments, kept in self._kept.items() if segments[-1] != MARKER]

    def of(self, segments: Segments) -> list[Kept]:
        """Those of one path, newest first."""
        return self._kept.get(segments, [])

    def beneath(self, segments: Segments) -> list[Kept]:
        """All of a file or of a directory."""
        return [one for at, kept in self._kept.items() if at[: len(segments)] == segments for one in kept]

    def is_file(self, segments: Segments) -> bool:
        return segments in self._kept

    def is_directory(self, segments: Segments) -> bool:
        return segments in self._directories

    def find_file(self, segments: Segments) -> Kept | None:
        """A file; None for a directory. The usual OSError where there is neither."""
        if segments in self._kept:
            return self._kept[segments][0]
        if segments in self._directories:
            return None
        self._check_parents(segments)
        raise _fault(errno.ENOENT, segments)

    def file(self, segments: Segments) -> Kept:
        kept = self.find_file(segments)
        if kept is None:
            raise _fault(errno.EISDIR, segments)
        return kept

    def names(self, segments: Segments) -> list[tuple[str, bool]]:
        """What is in a directory, by name, and whether each is one itself."""
        if self.find_file(segments) is not None:
            raise _fault(errno.ENOTDIR, segments)
        return sorted((name, kind) for name, kind in self._directories[segments].items() if name != MARKER)

    def check_place(self, segments: Segments) -> None:
        """Whether a file can be put there."""
        self._check_parents(segments)
        if segments in self._directories:
            raise _fault(errno.EISDIR, segments)

    def _check_parents(self, segments: Segments) -> None:
        for depth in range(1, len(segments)):
            if segments[:depth] in self._kept:
                raise _fault(errno.ENOTDIR, segments[:depth])


def _fault(code: int, segments: Segments) -> OSError:
    return OSError(code, os.strerror(code), join_segments(segments))
