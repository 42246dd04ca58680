"""Paths inside a filesystem: relative segments that cannot lead out of its root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, TypeAlias

from belljar.errors import WorkspaceSecurityError

Segments: TypeAlias = tuple[str, ...]

WORKSPACE: Final = "/mnt/data"
"""What the root of a workspace is called where code runs in it."""


@dataclass(frozen=True, slots=True)
class VfsPath:
    """A relative path as its segments; `VfsPath(())` is the root."""

    segments: Segments

    def __post_init__(self) -> None:
        for segment in self.segments:
            if segment in ("", ".", "..") or "/" in segment or "\0" in segment:
                raise WorkspaceSecurityError(f"VfsPath: {segment!r} is no name of a file or directory")

    def __str__(self) -> str:
        return "/".join(self.segments) or "."


def segments_of(path: str | VfsPath, *roots: str) -> Segments:
    """`/` and `.` are the filesystem's own root, wherever that is; `..` is refused even where it would stay inside.

    `roots` are absolute paths by which that root is known outside: what lies beneath one of them is meant from there.
    """
    if isinstance(path, VfsPath):
        return path.segments
    segments = tuple(segment for segment in path.split("/") if segment not in ("", "."))
    if ".." in segments:
        raise WorkspaceSecurityError(f"{path!r}: '..' is refused; name the path from the root")
    return VfsPath(segments).segments[_depth_below(path, segments, roots) :]


def _depth_below(path: str, segments: Segments, roots: tuple[str, ...]) -> int:
    """How many of the segments name the root; none where the path is not absolute."""
    if not path.startswith("/"):
        return 0
    known = (segments_of(root) for root in roots)
    return max((len(root) for root in known if segments[: len(root)] == root), default=0)


def path_error(code: int, segments: Segments) -> OSError:
    """The error of this number, about a path."""
    return OSError(code, os.strerror(code), join_segments(segments))


def join_segments(segments: Segments) -> str:
    return "/".join(segments) or "."
