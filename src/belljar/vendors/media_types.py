"""The MIME type of a file by its name, as vendors are told it."""

from __future__ import annotations

import mimetypes


def type_of(name: str) -> str:
    """The MIME type that a name tells."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
