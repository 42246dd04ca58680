"""Code that the vendor ran for the model, and the files that it made: one shape for all vendors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from belljar import autorun
from belljar.errors import WorkspaceSecurityError
from belljar.output_names import alone, below, figure, free_name, is_figure
from belljar.vendors.deltas import HostedEnd
from belljar.vendors.media_types import type_of
from belljar.wire.items import CellEnd, Logs

Outcome: TypeAlias = Literal["OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED"]
_OUTCOMES: Mapping[str, Outcome] = MappingProxyType(
    {"ok": "OUTCOME_OK", "completed": "OUTCOME_OK", "timed_out": "OUTCOME_DEADLINE_EXCEEDED"}
)
"""By how a cell ended, or else by what its item says."""


class Description(NamedTuple):
    """What the vendor says of a file."""

    path: str
    """Or the name alone, where the vendor tells no more."""
    size: int | None
    """None: it does not say."""
    mime_type: str | None = None


class OutputFile:
    """A file that the code made. What the answer does not say of it is asked for when it is first needed."""

    _alike: tuple[Sequence[OutputFile], int] = ((), 0)
    """Files of the same answer that may have the same path, and how many of them come first."""
    _names: Collection[str] = ()
    """Of all files of the answer."""

    def __init__(
        self,
        file_id: str,
        *,
        read: Callable[[], bytes],
        describe: Callable[[], Description],
        filename: str | None = None,
        path: str | None = None,
        container_id: str | None = None,
    ) -> None:
        self.file_id = file_id
        self.container_id = container_id
        self._read = read
        self._describe = describe
        self._filename = filename
        self._path = path

    @classmethod
    def of_bytes(cls, filename: str, data: bytes, mime_type: str) -> OutputFile:
        """One that came with the answer itself."""
        return cls(
            "",
            read=lambda: data,
            describe=lambda: Description(filename, len(data), mime_type),
            filename=filename,
            path=filename,
        )

    @property
    def filename(self) -> str:
        """What the vendor calls it: other files may have the same name, in other directories or at other times."""
        return self._filename or alone(self._description.path)

    @cached_property
    def path(self) -> str:
        """Where it is below the workspace, `a/r.csv`: its own among the files of an answer, by a number if need be."""
        return self._apart(below(self._path or self._description.path), {one.path for one in islice(*self._alike)})

    @cached_property
    def size(self) -> int:
        size = self._description.size
        return len(self.read()) if size is None else size

    @property
    def mime_type(self) -> str:
        told = None if self._filename and "." in self._filename else self._description.mime_type
        return told or type_of(self.filename)

    def read(self) -> bytes:
        return self._read()

    def save(self, place: str | Path = ".", *, overwrite: bool = False) -> Path:
        """Into a directory, under a name of its own and nowhere else, or as the file named; gives its path.

        The name in a directory is one that code chose: what tools run by itself is refused, and what is there already
        and differs stays, with a WorkspaceConflictError, unless told to `overwrite`.
        """
        path = Path(place).expanduser()
        if not path.is_dir():
            path.write_bytes(self.read())
            return path
        if why := autorun.refusal(self._name_alone):
            raise WorkspaceSecurityError(f"{self._name_alone!r} is not saved: {why}; name the file to save it as")
        from belljar.filesystem.export import OVERWRITE, Export  # not loaded for whoever only reads

        Export(path, overwrite=overwrite, remedy=OVERWRITE).save((self._name_alone,), [self.read()])
        return path / self._name_alone

    @cached_property
    def _name_alone(self) -> str:
        """For a place without directories: `r.csv`, and `r-2.csv` for that of another directory."""
        return self._apart(alone(self.path), {one._name_alone for one in islice(*self._alike)})

    def _apart(self, path: str, taken: set[str]) -> str:
        """The path, or where it is taken another, which is that of no other file either."""
        if path not in taken:
            return path
        above = path[: len(path) - len(alone(path))]
        return free_name(path, taken.union(f"{above}{name}" for name in self._names))

    @cached_property
    def _description(self) -> Description:
        return self._describe()

    def __repr__(self) -> str:
        return f"OutputFile({self._filename or self.file_id!r})"


def told_apart(files: Iterable[OutputFile]) -> list[OutputFile]:
    """The files of one answer, each once. No two have one path, and pictures that were only shown have names."""
    found = list({one.file_id or id(one): one for one in files}.values())
    named = [(one, alone(below(one._filename)) if one._filename else "") for one in found]
    taken = {name for _, name in named}
    alike: dict[str, list[OutputFile]] = {}
    number = 0
    for one, name in named:
        if is_figure(one.file_id, name):
            while name in taken:
                number += 1
                name = figure(number, name)
            one._path = name
            taken.add(name)
        same = alike.setdefault(name, [])
        one._alike, one._names = (same, len(same)), taken
        same.append(one)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """One piece of code that ran. Not every vendor tells stderr apart, an exit code and an exception; our own gateway
    tells all three.
    """

    code: str
    stdout: str = ""
    stderr: str = ""
    exit: int | None = None
    """The exit code, where the vendor tells."""
    outcome: Outcome = "OUTCOME_OK"
    output_files: tuple[OutputFile, ...] = field(default=())
    logs: str | None = None
    """Both streams as they came, and the value of its last line; None where the vendor does not tell."""

    @property
    def output(self) -> str:
        """Everything that it printed."""
        return self.stdout + self.stderr if self.logs is None else self.logs


def execution_of(cell: HostedEnd, files: Iterable[OutputFile]) -> CodeExecution:
    """What a vendor ran itself, as its dialect tells it."""
    item, ran = cell.item, cell.ran
    how = item.belljar.exit if isinstance(item.belljar, CellEnd) else item.status
    outcome, made = _OUTCOMES.get(how, "OUTCOME_FAILED"), tuple(files)
    if ran is None:
        logs = "".join(output.logs for output in item.outputs or () if isinstance(output, Logs))
        return CodeExecution(code=item.code or "", stdout=logs, logs=logs, outcome=outcome, output_files=made)
    return CodeExecution(
        code=ran.code, stdout=ran.stdout, stderr=ran.stderr, exit=ran.exit, outcome=outcome, output_files=made
    )
