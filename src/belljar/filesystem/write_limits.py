"""What may be written into a filesystem: nothing, or so many bytes in all."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass

from belljar.errors import WorkspaceBudgetExceededError
from belljar.filesystem.paths import Segments, join_segments, path_error


@dataclass(frozen=True, slots=True)
class WriteLimits:
    read_only: bool
    max_bytes: int | None
    """That all files may hold together."""

    def check_writable(self, segments: Segments) -> None:
        if self.read_only:
            raise path_error(errno.EPERM, segments)

    def check_budget(self, segments: Segments, more: int, used: Callable[[], int]) -> None:
        """For so many bytes more at this path; `used` counts those that are there, where that matters."""
        if self.max_bytes is None or more <= 0:
            return
        total = used() + more
        if total > self.max_bytes:
            raise WorkspaceBudgetExceededError(
                f"{join_segments(segments)}: makes {total} bytes in all, and {self.max_bytes} are allowed"
            )
