"""Trying again what may work the next time, after the pause that the vendor asks for or one that grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from belljar.errors import BelljarError

_T = TypeVar("_T")
_FIRST = 0.5
_LONGEST = 60.0


@dataclass(frozen=True, slots=True)
class Retries:
    attempts: int
    sleep: Callable[[float], None]

    def run(self, attempt: Callable[[], _T]) -> _T:
        """The first answer; the error of the last attempt, or of the first that is sure to come again."""
        for number in range(1, self.attempts):
            try:
                return attempt()
            except BelljarError as error:
                wait = getattr(error, "after", None)
                wait = _FIRST * 2 ** (number - 1) if wait is None else wait
                if error.retryable is False or wait > _LONGEST:
                    raise
                self.sleep(wait)
        return attempt()
