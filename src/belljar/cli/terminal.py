"""What code under glass prints, made fit for a terminal: colours and cursor movement pass, other controls are shown."""

from __future__ import annotations

import re
from typing import TextIO

_HARMLESS = re.compile(r"\x1b\[[0-9;]*[A-HJKSTfm]")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-HJKSTfm]|[\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;]*)?\Z")
_LONGEST = 64


class Screen:
    """Writes as text comes. A terminal obeys what it is sent (titles, clipboard, answers typed back), so untrusted text
    is only let through to one as far as it is harmless; a file or pipe gets every byte."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._guarded = stream.isatty()
        self._held = ""

    def write(self, text: str) -> None:
        if self._guarded:
            text = self._held + text
            unfinished = _UNFINISHED.search(text)
            self._held = unfinished[0] if unfinished and len(unfinished[0]) < _LONGEST else ""
            text = plain(text.removesuffix(self._held) if self._held else text)
        self._stream.write(text)
        self._stream.flush()


def plain(text: str) -> str:
    """Text with its control sequences made visible, but for harmless ones."""
    return _CONTROL.sub(lambda found: found[0] if _HARMLESS.fullmatch(found[0]) else f"\\x{ord(found[0]):02x}", text)
