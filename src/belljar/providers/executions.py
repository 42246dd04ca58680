"""Code that the vendor ran for the model, and the files that it made: one shape for all vendors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from belljar.providers.uploads import type_of

Outcome: TypeAlias = Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]


class Description(NamedTuple):
    """What the vendor says of a file."""

    filename: str
    size: int
    mime_type: str | None = None


class OutputFile:
    """A file that the code made. What the answer does not say of it is asked for when it is first needed."""

    def __init__(
        self,
        file_id: str,
        *,
        read: Callable[[], bytes],
        describe: Callable[[], Description],
        filename: str | None = None,
        container_id: str | None = None,
    ) -> None:
        self.file_id = file_id
        self.container_id = container_id
        self._read = read
        self._describe = describe
        self._filename = filename

    @classmethod
    def of_bytes(cls, filename: str, data: bytes, mime_type: str) -> OutputFile:
        """One that came with the answer itself."""
        return cls(
            "", read=lambda: data, describe=lambda: Description(filename, len(data), mime_type), filename=filename
        )

    @property
    def filename(self) -> str:
        return self._filename or self._description.filename

    @property
    def size(self) -> int:
        return self._description.size

    @property
    def mime_type(self) -> str:
        told = None if self._filename and "." in self._filename else self._description.mime_type
        return told or type_of(self.filename)

    def read(self) -> bytes:
        return self._read()

    def save(self, place: str | Path = ".") -> Path:
        """Into a directory, under its own name and nowhere else, or as the file named; gives its path."""
        path = Path(place)
        if path.is_dir():
            path /= Path(self.filename.replace("\\", "/")).name or "output"
        path.write_bytes(self.read())
        return path

    @cached_property
    def _description(self) -> Description:
        return self._describe()

    def __repr__(self) -> str:
        return f"OutputFile({self._filename or self.file_id!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """One piece of code that ran. OpenAI and xAI tell neither stderr apart nor an exit code, nor a raised exception."""

    code: str
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    """The exit code, where the vendor tells."""
    outcome: Outcome = "OUTCOME_OK"
    output_files: tuple[OutputFile, ...] = field(default=())

    @property
    def output(self) -> str:
        """Everything that it printed."""
        return self.stdout + self.stderr
