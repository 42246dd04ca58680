"""A sandbox of the local jail for callers without await: its steps run in the calling thread."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from belljar.sandbox.base import Cell
from belljar.sandbox.local import run_steps
from belljar.sandbox.local.box import Box
from belljar.sandbox.outputs import Exit, Output


class LocalBox:
    """What `belljar.Sandbox` is made of, where the sandbox is here."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self.files = box.files

    @property
    def id(self) -> str:
        return self._box.id

    def run(self, cell: Cell) -> Generator[Output, None, None]:
        """Outputs as they come; leaving early stops the cell."""
        finished = False
        outputs = run_steps.run_blocking(self._box, self._box.run(cell))
        try:
            for output in outputs:
                finished = isinstance(output, Exit)
                yield output
        finally:
            if not finished:
                self._box.interrupt()
                for _ in outputs:
                    pass

    def interrupt(self) -> None:
        self._box.interrupt()

    def restart(self) -> None:
        run_steps.finish(self._box, self._box.restart())

    def install(self, requirements: Sequence[str]) -> None:
        self._box.install(*self._box.fetch(requirements))
