"""Bodies that come packed, unpacked as they arrive and never more at once than asked for."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from belljar.errors import InvalidRequest
from belljar.wire.faults import Fault

PIECE = 1 << 20
"""Bytes that are unpacked at a time: however little a bomb is packed, its reader's own limit ends it."""
_GZIP = 16 + zlib.MAX_WBITS


class Unpacker(Protocol):
    """Packed bytes in, plain bytes out, a piece at a time."""

    def feed(self, data: bytes) -> bytes:
        """A piece of what these bytes, and those that are waiting, unpack to."""
        ...

    @property
    def waiting(self) -> bool:
        """There may be more without further bytes."""
        ...

    @property
    def over(self) -> bool:
        """What was packed is there in whole."""
        ...


class Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> bytes:
        try:
            piece = self._stream.decompress(self._stream.unconsumed_tail + data, PIECE)
        except zlib.error:
            raise _broken("gzip") from None
        if self._stream.unused_data:
            raise _broken("gzip", "there is something after its end")
        return piece

    @property
    def waiting(self) -> bool:
        return bool(self._stream.unconsumed_tail)

    @property
    def over(self) -> bool:
        return self._stream.eof


class Zstd:
    """By the standard library, which has it from Python 3.14 on, or by its backport: the extra `zstd`."""

    def __init__(self, zstd: Any) -> None:
        self._stream = zstd.ZstdDecompressor()
        self._error = zstd.ZstdError

    def feed(self, data: bytes) -> bytes:
        try:
            piece: bytes = self._stream.decompress(data, PIECE)
        except (self._error, EOFError):
            raise _broken("zstd") from None
        if self._stream.unused_data:
            raise _broken("zstd", "there is something after its end")
        return piece

    @property
    def waiting(self) -> bool:
        return not self._stream.needs_input and not self._stream.eof

    @property
    def over(self) -> bool:
        return bool(self._stream.eof)


def _known() -> Mapping[str, Callable[[], Unpacker]]:
    known: dict[str, Callable[[], Unpacker]] = {"gzip": Gzip}
    with suppress(ImportError):
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        known["zstd"] = lambda: Zstd(zstd)
    return known


KNOWN = _known()
ACCEPTED = (b"accept-encoding", ", ".join(KNOWN).encode())
"""The header that tells a client what it could have sent."""


def unpacker(encoding: str) -> Unpacker | None:
    """For a body of this Content-Encoding; None where we know no such."""
    make = KNOWN.get(encoding)
    return None if make is None else make()


def unknown(encoding: str) -> Fault:
    accepted = " or ".join(f"'{name}'" for name in KNOWN)
    return Fault(
        status=415,
        type="invalid_request_error",
        code="unsupported_content_encoding",
        message=f"Unsupported content encoding: '{encoding}'. Send the body as it is, or packed as {accepted}.",
    )


def cut_short(encoding: str) -> InvalidRequest:
    return _broken(encoding, "it ends too soon")


def _broken(encoding: str, why: str = "its bytes cannot be unpacked") -> InvalidRequest:
    return InvalidRequest(f"The request body is not valid {encoding}, as its Content-Encoding says it is: {why}.")
