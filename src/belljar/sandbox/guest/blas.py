"""Restore the threads of linear algebra libraries after the fork.

A zygote may have one thread only, so numpy is loaded with one. A cell that looks like linear algebra gets the rest;
one that does not is spared them.
"""

from __future__ import annotations

import sys
from typing import Any

from . import private_builtins

private_builtins.protect(globals())

_WORDS = (
    "linalg",
    "dot(",
    "@",
    "matmul",
    "einsum",
    "sklearn",
    "scipy",
    "statsmodels",
    "lstsq",
    "corr(",
    "cov(",
    "inner(",
)


class Blas:
    """The libraries that are loaded, found once before the fork."""

    def __init__(self) -> None:
        self._controller: Any = None
        self._threads = 1
        if "numpy" in sys.modules:
            try:
                from threadpoolctl import ThreadpoolController
            except ImportError:
                return
            self._controller = ThreadpoolController()

    def know(self, threads: int) -> None:
        """How many a cell may have."""
        self._threads = threads

    def prepare(self, source: str) -> None:
        """Give a cell its threads if it seems to want them; once is enough."""
        if self._threads > 1 and self._controller is not None and any(word in source for word in _WORDS):
            self._controller.limit(limits=self._threads)
            self._threads = 1
