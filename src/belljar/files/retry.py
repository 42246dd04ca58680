"""Trying again what may work the next time, with pauses in a blocking program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import TypeVar

from belljar.errors import BelljarError
from belljar.vendors.retry import RetryLimits, choose_pause

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Retries:
    attempts: int
    sleep: Callable[[float], None]

    def run(self, attempt: Callable[[], _T]) -> _T:
        """The first answer; the error of the last attempt, or of the first that is sure to come again."""
        limits = RetryLimits(tries=self.attempts)
        tries, waited = 0, 0.0
        while True:
            try:
                return attempt()
            except BelljarError as error:
                tries += 1
                pause = choose_pause(error, tries, waited, limits, chance=random())
                if pause is None:
                    raise
            self.sleep(pause)
            waited += pause
