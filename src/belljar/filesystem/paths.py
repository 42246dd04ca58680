"""Paths inside a filesystem: relative segments that cannot lead out of its root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from belljar.errors import WorkspaceSecurityError

Segments: TypeAlias = tuple[str, ...]


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


def segments_of(path: str | VfsPath) -> Segments:
    """`/` and `.` are the filesystem's own root, wherever that is; `..` is refused even where it would stay inside."""
    if isinstance(path, VfsPath):
        return path.segments
    segments = tuple(segment for segment in path.split("/") if segment not in ("", "."))
    if ".." in segments:
        raise WorkspaceSecurityError(f"{path!r}: '..' is refused; name the path from the root")
    return VfsPath(segments).segments


def spelled(segments: Segments) -> str:
    return "/".join(segments) or "."
