"""What the decoders of streams share: payloads one by one, and an error only after the deltas that came before it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from msgspec import DecodeError

from belljar.errors import Garbled, ProviderError
from belljar.vendors.deltas import Decoder, Delta
from belljar.vendors.sse import Lines

_SHOWN = 200
_HALF = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
"""An escape in JSON, with half of a surrogate pair in a group: some servers send the two in two tokens."""


def _whole(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if escape[1] else escape[0]


class StreamDecoder(Decoder, ABC):
    """One answer. An error that shares a read with deltas is raised by the next call, so that no split loses any."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._lines = Lines()
        self._failure: ProviderError | None = None

    def feed(self, data: bytes) -> list[Delta]:
        if self._failure is not None:
            raise self._failure
        out: list[Delta] = []
        try:
            self._take_all(self._lines.feed(data), out)
        except ProviderError as failure:
            self._failure = failure
            if not out:
                raise
        return out

    def close(self) -> list[Delta]:
        if self._failure is not None:
            raise self._failure
        out: list[Delta] = []
        self._take_all(self._lines.close(), out)
        self._end(out)
        return out

    def _take_all(self, payloads: list[bytes], out: list[Delta]) -> None:
        payload = b""
        try:
            for payload in payloads:
                if b"\\ud" in payload or b"\\uD" in payload:
                    payload = _HALF.sub(_whole, payload)
                self._take(payload, out)
        except (DecodeError, RecursionError, UnicodeError) as error:
            shown = payload[:_SHOWN].decode(errors="replace")
            raise Garbled(f"{self._upstream} sent what cannot be read ({error}): {shown}") from None

    @abstractmethod
    def _take(self, payload: bytes, out: list[Delta]) -> None:
        """Adds what this payload says to `out`."""

    @abstractmethod
    def _end(self, out: list[Delta]) -> None:
        """The body ended: adds what is left, or raises `Garbled` where it ended too soon."""
