"""A file and some fields as a form that is sent piece by piece. Pure but for the chance in its boundary."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable

from msgspec import Struct


class MultipartForm(Struct, frozen=True):
    """What stands before the file's bytes and after them."""

    type: str
    """The content type, which names the boundary."""
    head: bytes
    tail: bytes

    @classmethod
    def of(cls, fields: Iterable[tuple[str, str]], *, name: str, type: str) -> MultipartForm:
        boundary = secrets.token_hex(16)
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in fields
        ]
        parts.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{_quote(name)}"\r\n'
            f"Content-Type: {type}\r\n\r\n"
        )
        return cls(
            f"multipart/form-data; boundary={boundary}", "".join(parts).encode(), f"\r\n--{boundary}--\r\n".encode()
        )

    def size(self, file: int) -> int:
        """Bytes of the whole with a file of so many."""
        return len(self.head) + file + len(self.tail)

    async def around(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        yield self.head
        async for chunk in chunks:
            yield chunk
        yield self.tail


def _quote(name: str) -> str:
    """As browsers write it: what would end the name or the line is escaped."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
