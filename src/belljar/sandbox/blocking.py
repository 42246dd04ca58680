"""`Sandbox`: a sandbox without await, for scripts, notebooks and threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self, Unpack

from belljar.errors import Lost
from belljar.sandbox.base import BlockingBox, BlockingFiles, BlockingSource, Limits
from belljar.sandbox.default import chosen_source
from belljar.sandbox.outputs import Exit, Output, Run, fold
from belljar.sandbox.remedies import Reader, address_to
from belljar.sandbox.validation import SandboxOptions, make_cell, make_spec


class Sandbox:
    """A Python under glass.

    >>> with Sandbox(memory="1g") as box:                     # doctest: +SKIP
    ...     box.run("x = 41")
    ...     box.run("x + 1").text
    '42'
    """

    def __init__(self, *, source: BlockingSource | str | None = None, **asked: Unpack[SandboxOptions]) -> None:
        """`source` is where it comes from: the address of a sandbox server, or a source that several share.

        Without, where the settings `sandbox_url` or `sandbox_warm_pool` say, else this host's own jail.
        """
        self.spec = make_spec(**asked)
        self._source = source
        self._turn = threading.Lock()
        self._stack = ExitStack()
        self._box: BlockingBox | None = None

    def __enter__(self) -> Self:
        source, ours = chosen_source(self._source, needs="hold")
        if ours:
            self._stack.callback(source.shut)
        self._box = self._stack.enter_context(source.hold(self.spec))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._box = None
        self._stack.close()

    @property
    def _open(self) -> BlockingBox:
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
    def files(self) -> BlockingFiles:
        return self._open.files

    def run(self, code: str, *, timeout: float | None = None) -> Run:
        """Run a cell to its end."""
        return fold(self.stream(code, timeout=timeout))

    def stream(self, code: str, *, timeout: float | None = None) -> Iterator[Output]:
        """Outputs as they come; leaving early stops the cell. Cells of other threads wait their turn."""
        box = self._open
        with self._turn, closing(box.run(make_cell(code, timeout))) as outputs:
            for output in outputs:
                yield address_to(output, Reader.PROGRAM) if isinstance(output, Exit) else output

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables; call it from another thread."""
        self._open.interrupt()

    def restart(self) -> None:
        """A new interpreter with the same files."""
        with self._turn:
            self._open.restart()

    def install(self, requirements: Sequence[str]) -> None:
        """Make these packages importable from the next cell on; variables are kept."""
        box = self._open
        with self._turn:
            box.install(requirements)
