"""The arguments of a call, which Vertex streams as values at JSON paths, written as JSON while they come."""

from __future__ import annotations

import re
from typing import TypeAlias

from belljar.wire import codec

Path: TypeAlias = tuple[str | int, ...]
Scalar: TypeAlias = str | float | bool | None

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
_ESCAPED = re.compile(r"\\(.)")


def read_path(text: str) -> Path:
    """`$.foo.bar[0]['a b']` as its steps; `ValueError` if it is none."""
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            break
        if found[2] is not None:
            steps.append(int(found[2]))
        else:
            quoted = found[3] if found[3] is not None else found[4]
            steps.append(found[1] if quoted is None else _ESCAPED.sub(r"\1", quoted))
        at = found.end()
    if not text.startswith("$") or at < len(text) or not steps or isinstance(steps[0], int):
        raise ValueError(f"{text!r} is no path into the arguments")
    return tuple(steps)


class ArgumentWriter:
    """One call. What `write` gave, and then `close`, is one JSON object."""

    __slots__ = ("_at", "_begun", "_in_text", "_seen")

    def __init__(self) -> None:
        self._begun = False
        self._at: Path = ()
        """Of the value that was written last; all its containers are open."""
        self._in_text = False
        """That value is a text whose end has not come."""
        self._seen: set[Path] = set()
        """Every place that has a value: none can have another."""

    def write(self, path: Path, value: Scalar, *, more: bool) -> str:
        """The JSON that this value adds; `more` of the same text is to come. `ValueError` if it is out of order."""
        if self._in_text and path == self._at and isinstance(value, str):
            self._in_text = more
            return codec.encode(value)[1:-1].decode() + ("" if more else '"')
        text = self._move_to(path)
        written = codec.encode(value).decode()
        self._in_text = more and isinstance(value, str)
        return text + (written[:-1] if self._in_text else written)

    def close(self) -> str:
        """The end of the object."""
        if not self._begun:
            return "{}"
        return self._end_text() + "".join("]" if isinstance(step, int) else "}" for step in reversed(self._at))

    def _end_text(self) -> str:
        ended, self._in_text = '"' if self._in_text else "", False
        return ended

    def _move_to(self, path: Path) -> str:
        """Closes what was left, opens what leads to the new place, names it."""
        text = [self._end_text()]
        shared = 0
        if self._begun:
            while shared < min(len(path), len(self._at)) and path[shared] == self._at[shared]:
                shared += 1
            if shared in (len(path), len(self._at)) or type(path[shared]) is not type(self._at[shared]):
                raise ValueError("a value comes where another one is")
            text += ["]" if isinstance(step, int) else "}" for step in reversed(self._at[shared + 1 :])]
            text.append(",")
        for depth in range(shared, len(path)):
            step, place = path[depth], path[: depth + 1]
            if place in self._seen:
                raise ValueError("a value comes again")
            self._seen.add(place)
            if depth > shared or not self._begun:
                text.append("[" if isinstance(step, int) else "{")
            if isinstance(step, str):
                text.append(codec.encode(step).decode() + ":")
            elif step and (*path[:depth], step - 1) not in self._seen:
                raise ValueError("a value of a list is left out")
        self._begun = True
        self._at = path
        return "".join(text)
