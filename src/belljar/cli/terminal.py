"""Write to a terminal safely: colours of printed output pass, other control sequences do not."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import TextIO

from belljar.visible import visible, visible_lines

_CONTROL = re.compile(r"\n|\x1b\[([0-9;]{0,60})([ACDGKm])|[\x00-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNFINISHED = re.compile(r"\x1b(\[[0-9;]*)?\Z")
_LONGEST = 64
_GOES_ON = "     | "
"""Stands before what did not fit in a line of ours, so that a long name cannot begin a line of its own."""
_NARROW = 40


class TerminalWriter:
    """Writes as text comes. A terminal obeys what it is sent (titles, clipboard, answers typed back), so untrusted text
    is only let through to one as far as it is harmless; a file or pipe gets every byte.

    Harmless are colours, and moving within a line or up to lines that the same text has written: what stood there
    before, which may be ours, is out of its reach.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._guarded = stream.isatty()
        self._held = ""
        self._rows = 0
        """Lines that it may go up. Those that were too long for the terminal took more, so this is the least."""
        self._coloured = self._climbed = False
        self.within = False
        """Whether a line has begun and not ended."""

    def write(self, text: str) -> None:
        """What code prints, or a model says."""
        if text:
            self.within = not text.endswith("\n")
        if self._guarded:
            text = self._held + text
            unfinished = _UNFINISHED.search(text)
            self._held = unfinished[0] if unfinished and len(unfinished[0]) < _LONGEST else ""
            text = _CONTROL.sub(self._pass_sequence, text.removesuffix(self._held) if self._held else text)
        self._stream.write(text)
        self._stream.flush()

    def say(self, text: str) -> None:
        """Lines of our own, which may name what is from inside."""
        self.settle()
        if self._guarded:
            text = "\n".join(lay_out(text, width(self._stream)))
        self._stream.write(visible_lines(text) + "\n")
        self._stream.flush()
        self.within = False

    def settle(self) -> None:
        """Before lines of our own: no colour hides them, and nothing stands below them that is not ours."""
        orders = visible(self._held) + "\x1b[0m" * self._coloured + "\x1b[J" * self._climbed
        if orders:
            self._stream.write(orders)
            self._stream.flush()
        self._held = ""
        self._rows = 0
        self._coloured = self._climbed = False

    def _pass_sequence(self, found: re.Match[str]) -> str:
        if found[0] == "\n":
            self._rows += 1
            return "\n"
        match found[2]:
            case "m":
                self._coloured = True
            case "A":
                up = 1 if found[1] in ("", "0") else int(found[1]) if found[1].isdecimal() else self._rows + 1
                if up > self._rows:
                    return visible(found[0])
                self._rows -= up
                self._climbed = True
            case None:
                return visible(found[0])
        return found[0]


def width(paper: TextIO) -> int:
    """How many characters fit in a line."""
    try:
        columns = os.get_terminal_size(paper.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return max(columns or shutil.get_terminal_size().columns, _NARROW)


def lay_out(text: str, columns: int) -> Iterator[str]:
    """Lines of ours, each in as many as it takes; all but the first begin with a mark."""
    for line in visible_lines(text).split("\n"):
        row, rest = _cut(line, columns)
        yield row
        while rest:
            row, rest = _cut(rest, columns - len(_GOES_ON))
            yield _GOES_ON + row


def shorten(text: str, columns: int) -> str:
    """One line that fits, and says so where it is cut."""
    text = visible(text)
    row, rest = _cut(text, columns)
    return f"{_cut(text, columns - 2)[0]}…" if rest else row


def _cut(text: str, columns: int) -> tuple[str, str]:
    """What fits, and the rest. Some letters take two places, and terminals differ on which."""
    if len(text) <= columns and text.isascii():
        return text, ""
    used = 0
    for at, character in enumerate(text):
        used += 1 if character.isascii() else 2
        if used > columns:
            return text[:at], text[at:]
    return text, ""


def forget_typed(keyboard: TextIO) -> None:
    """Drop what was typed and not read."""
    import termios

    if keyboard.isatty():
        termios.tcflush(keyboard.fileno(), termios.TCIFLUSH)
