"""Files on their way to a vendor: the port through which a client uploads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from belljar.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReference:
    """A file that the vendor has."""

    id: str
    filename: str
    mime_type: str
    uri: str = ""
    """Where the vendor refers to it by an address."""


class Uploads(Protocol):
    """Brings a file to the vendor."""

    def upload(self, path: Path) -> FileReference: ...


def readable(path: str | Path) -> Path:
    """The path of a file that is there."""
    found = Path(path).expanduser()
    if not found.is_file():
        raise InvalidRequest(f"files: there is no file {str(path)!r}; name one that is there", param="files")
    return found
