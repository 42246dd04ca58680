"""Small files that code made, sent along with the call that made them: for callers who ask, and within bounds."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from msgspec import structs

from belljar.gateway.store.base import Blobs, ContainerFileRecord
from belljar.wire.items import CellEnd, InlineFile

LARGEST = 256 << 10
"""Bytes of one file."""
MOST_BYTES = 1 << 20
MOST_FILES = 20
"""Of one response: all that is larger or more is fetched by its id, as everything can be."""


class Inliner:
    """What one response may still send along."""

    def __init__(self, blobs: Blobs, *, wanted: bool) -> None:
        self._blobs = blobs
        self._files = MOST_FILES if wanted else 0
        self._bytes = MOST_BYTES

    async def add(self, end: CellEnd, made: Sequence[ContainerFileRecord]) -> CellEnd:
        """The end of a cell with those of its files that fit, in their order."""
        found: list[InlineFile] = []
        for file in made:
            if self._files and file.path in end.files and file.size <= min(LARGEST, self._bytes):
                data = b"".join([chunk async for chunk in self._blobs.stream(file.blob)])
                url = f"data:{file.type};base64,{base64.b64encode(data).decode()}"
                found.append(InlineFile(path=file.path, file_id=file.id, url=url))
                self._files -= 1
                self._bytes -= len(data)
        return structs.replace(end, inline_files=tuple(found)) if found else end
