"""`Sandbox`: the same without await. It waits in the calling thread, so it works in scripts, notebooks and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from belljar.errors import Lost
from belljar.sandbox.asking import Asked, make_cell, make_spec
from belljar.sandbox.base import Limits
from belljar.sandbox.default import default_source
from belljar.sandbox.outputs import Exit, Output, Run, fold

if TYPE_CHECKING:  # the jail's own modules load on Linux only; elsewhere `default_source` refuses with the remedy
    from belljar.sandbox.local.box import Box
    from belljar.sandbox.local.files import Files
    from belljar.sandbox.local.source import LocalSource


class Sandbox:
    """A Python under glass.

    >>> with Sandbox(memory="1g") as box:                     # doctest: +SKIP
    ...     box.run("x = 41")
    ...     box.run("x + 1").text
    '42'
    """

    def __init__(self, *, source: LocalSource | None = None, **asked: Unpack[Asked]) -> None:
        self.spec = make_spec(**asked)
        self._source = source
        self._turn = threading.Lock()
        self._stack = ExitStack()
        self._box: Box | None = None

    def __enter__(self) -> Self:
        source = self._source or default_source()
        from belljar.sandbox.local import drive

        self._drive = drive  # once: every cell would look for the module again
        self._box = self._stack.enter_context(source.lease(self.spec))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._box = None
        self._stack.close()

    @property
    def _open(self) -> Box:
        if self._box is None:
            raise Lost("the sandbox is not open; use it inside `with Sandbox() as box:`")
        return self._box

    @property
    def id(self) -> str:
        return self._open.id

    @property
    def limits(self) -> Limits:
        return self.spec.limits

    @property
    def files(self) -> Files:
        return self._open.files

    def run(self, code: str, *, timeout: float | None = None) -> Run:
        """Run a cell to its end."""
        return fold(self.stream(code, timeout=timeout))

    def stream(self, code: str, *, timeout: float | None = None) -> Iterator[Output]:
        """Outputs as they come; leaving early stops the cell. Cells of other threads wait their turn."""
        box = self._open
        with self._turn:
            finished = False
            outputs = self._drive.blocking(box, box.run(make_cell(code, timeout)))
            try:
                for output in outputs:
                    finished = isinstance(output, Exit)
                    yield output
            finally:
                if not finished:
                    box.interrupt()
                    for _ in outputs:
                        pass

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables; call it from another thread."""
        self._open.interrupt()

    def restart(self) -> None:
        """A new interpreter with the same files."""
        with self._turn:
            self._drive.finish(self._open, self._open.restart())

    def install(self, requirements: Sequence[str]) -> None:
        """Make these packages importable from the next cell on; variables are kept."""
        box = self._open
        with self._turn:
            box.install(*box.fetch(requirements))
