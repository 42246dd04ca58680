"""What a Files API answers with: the same values for every vendor, in camelCase where a page reads them."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any, BinaryIO, Self, cast

from belljar.files.limits import MIB
from belljar.output_names import is_figure

_IN_MEMORY = MIB
_PIECE = 256 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUploadResult:
    """A file that the vendor has now."""

    file_id: str
    filename: str
    size: int
    expires_at: datetime | None = None
    """When the vendor drops it; None: it is kept until it is deleted."""
    mime_type: str | None = None
    uri: str = ""
    """Where the vendor refers to it by an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata(FileUploadResult):
    """What the vendor says of a file."""

    created_at: datetime | None = None
    downloadable: bool = True
    """Some vendors give back only what code has made."""


class FileDownloadResult:
    """A file that was fetched: the first megabyte in memory, the rest on disk until it is closed."""

    def __init__(self, filename: str, mime_type: str, spool: BinaryIO) -> None:
        self.filename = filename
        self.mime_type = mime_type
        self.size = spool.seek(0, 2)
        self._spool = spool
        self._end = weakref.finalize(self, spool.close)

    @property
    def content(self) -> bytes:
        """All of it at once; `chunks()` for what may be large."""
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """Piece by piece, from the beginning."""
        self._spool.seek(0)
        while piece := self._spool.read(_PIECE):
            yield piece

    def close(self) -> None:
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"FileDownloadResult({self.filename!r}, {self.size} bytes)"


def spool() -> BinaryIO:
    """Where a download goes on its way."""
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(_IN_MEMORY))


def download_result(filename: str, mime_type: str, data: bytes) -> FileDownloadResult:
    """A file that came with an answer."""
    file = spool()
    file.write(data)
    return FileDownloadResult(filename, mime_type, file)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecutionOutputFile:
    """A file that code made. Its bytes stay where they are until `download`."""

    file_id: str
    filename: str
    """With its directories below the workspace, `a/r.csv`."""
    size: int
    mime_type: str | None = None
    told: str | None = field(default=None, metadata={"hidden": True})
    """The name that the vendor told, where another file has it, or where it is but an id."""
    download: Callable[[], FileDownloadResult] = field(repr=False, compare=False, metadata={"hidden": True})


def is_shown(file: CodeExecutionOutputFile) -> bool:
    """Whether it is a picture that code only showed."""
    return file.told is not None and is_figure(file.file_id, file.told)


def is_numbered(file: CodeExecutionOutputFile) -> bool:
    """Whether it has a number since another file has its name."""
    return file.told is not None and not is_figure(file.file_id, file.told)


def as_json(value: Any) -> Any:
    """A value of this room as JSON has it: camelCase names, dates as text, what is not data left out."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = (one for one in fields(value) if not one.metadata.get("hidden"))
        return {_camel(one.name): as_json(getattr(value, one.name)) for one in shown}
    if isinstance(value, Mapping):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
