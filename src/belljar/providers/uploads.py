"""Files on their way to a vendor: the port through which a client uploads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from belljar.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReference:
    """A file that the vendor has, or is given with the message."""

    id: str
    filename: str
    mime_type: str
    uri: str = ""
    """Where the vendor refers to it by an address."""
    data: bytes | None = field(default=None, repr=False)
    """The file itself, where it goes along with the message and the vendor has none."""


class Uploads(Protocol):
    """Brings a file to the vendor."""

    def upload(self, path: Path) -> FileReference: ...


def readable(path: str | Path) -> Path:
    """The path of a file that is there."""
    found = Path(path).expanduser()
    if not found.is_file():
        raise InvalidRequest(f"files: there is no file {str(path)!r}; name one that is there", param="files")
    return found
