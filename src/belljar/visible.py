"""Escape control characters in text from sandboxes and servers, so that a terminal or log shows and never obeys them.

A name may hold what moves the cursor, erases, begins another line, or turns the order of letters round. Whoever reads
it then does not see what it says.
"""

from __future__ import annotations

import re

_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]")
"""Printable by their category, and yet nothing to be seen."""


def visible(text: str) -> str:
    r"""One line: controls, separators and characters without a shape are written out, as `\x1b` or `\u202e`."""
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(one if one.isprintable() and not _BLANK.match(one) else _written_out(one) for one in text)


def visible_lines(text: str) -> str:
    """As `visible`, where the lines are our own."""
    return "\n".join(map(visible, text.split("\n")))


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()
