"""How models are given files that come with a message: in the request or uploaded, which types, how large."""

from __future__ import annotations

from msgspec import Struct


class FileReading(Struct, frozen=True, kw_only=True):
    """One row. The model itself reads the file; what is for code goes another way."""

    largest: int
    """Bytes of one file."""
    types: tuple[str, ...] = ()
    """MIME types that they read, or how those begin, up to the slash; without any, the vendor alone knows."""
    uploaded: bool = False
    """The vendor wants it uploaded before; elsewhere it goes along in the request."""

    def reads(self, type: str) -> bool:
        return not self.types or any(type == one or (one[-1] == "/" and type.startswith(one)) for one in self.types)
