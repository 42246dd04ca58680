"""Guess the MIME type of a file from its name: the same on every host."""

from __future__ import annotations

import functools
import mimetypes

_TYPES = mimetypes.MimeTypes(filenames=())
for _extension, _type in {
    ".parquet": "application/vnd.apache.parquet",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".md": "text/markdown",
    ".jsonl": "application/jsonl",
    ".ipynb": "application/x-ipynb+json",
    ".log": "text/plain",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".webp": "image/webp",
}.items():
    _TYPES.add_type(_type, _extension)


def guess_type(name: str) -> str:
    _, dot, extensions = name.rpartition("/")[2].lstrip(".").partition(".")
    return _type_of(extensions) if dot else "application/octet-stream"


@functools.lru_cache(1024)
def _type_of(extensions: str) -> str:
    """Kept for a while: there are many files, and few kinds of them."""
    return _TYPES.guess_type(f"x/x.{extensions}")[0] or "application/octet-stream"
