"""The members of a JSON object as its text arrives, read with more patience than JSON asks for.

Exact for JSON; beyond it come single quotes, raw line breaks, escapes that do not exist and commas too many. What was
forgiven is noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

_H = "[0-9a-fA-F]"
_HIGH, _LOW = f"[dD][89abAB]{_H}{{2}}", f"[dD][c-fC-F]{_H}{{2}}"
_SPACE = re.compile(r"\s*")
_CONTROL = re.compile(r"[\x00-\x1f]")
_BODIES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        quote: re.compile(
            rf"(?:[^{quote}\\]++|\\(?:[^u]|u(?:(?!{_HIGH}){_H}{{4}}|{_HIGH}\\u{_LOW}))){{0,1000}}",
        )
        for quote in "\"'"
    }
)
"""As much of a string as is complete, whole surrogate pairs included.

No group here may be possessive: Python 3.11.0 to 3.11.4, Debian's among them, match that wrongly. What is not remembers
each turn it took, so the turns are counted.
"""
_UNFINISHED = re.compile(rf"\\(?:u(?:{_H}{{0,3}}|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F]{_H}?)?)?)?)?))?")
"""A backslash and what may yet become an escape."""
_LONE = re.compile(rf"\\u{_H}{{4}}")
_ESCAPE = re.compile(rf"\\(?:u({_HIGH})\\u({_LOW})|u({_H}{{4}})|(.))", re.DOTALL)
_MEANINGS = MappingProxyType(
    {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
)
_INNER = re.compile(r"[^\"{}\[\]]+")
_INNER_STRING = re.compile(r"(?:[^\"\\]++|\\.){0,1000}", re.DOTALL)
_BARE = re.compile(r"[^,}]*")

_MOST = 4000
"""Strings and brackets that are followed: more than any call has, and each costs a microsecond or two."""

CUT = "a missing end"
_State: TypeAlias = Callable[[str, int], int]


def unescape_text(raw: str) -> str:
    """What the inside of a string means. Half of a surrogate pair is no character and becomes U+FFFD."""
    return _ESCAPE.sub(_unescape_match, raw) if "\\" in raw else raw


def _unescape_match(found: re.Match[str]) -> str:
    high, low, unit, char = found.groups()
    if high:
        return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + (int(low, 16) - 0xDC00))
    if unit:
        code = int(unit, 16)
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    return _MEANINGS.get(char, f"\\{char}")


class Members:
    """One object. `feed` gives what it adds to the text of the first string member that has the name `wanted`."""

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted
        self._state: _State = self._begin
        self._tail = ""
        self._base = 0
        """Where in the text the piece at hand begins."""
        self._out: list[str] = []
        self._name = ""
        self._quote = ""
        self._sink: list[str] = []
        self._is_name = False
        self._streams = False
        self._start = 0
        self._depth = 0
        self._after_comma = False
        self._parts = 0
        self.strings: list[tuple[str, str]] = []
        """The string members in order, the last of them perhaps cut."""
        self.nested: list[tuple[str, int, int]] = []
        """Arrays and objects: where in the text each is."""
        self.notes: list[str] = []
        self.end: int | None = None
        """Where in the text the object has ended."""
        self.wanted_at: int | None = None
        """Where in the text the inside of the wanted string begins."""
        self.wanted_quote = ""
        self.broken = False
        """It is no object, or not one that can be followed."""

    def feed(self, fragment: str) -> str:
        data = self._tail + fragment
        self._tail = ""
        at = 0
        while at < len(data):
            at = self._state(data, at)
        self._base += len(data) - len(self._tail)
        said = "".join(self._out)
        self._out.clear()
        return said

    def finish(self) -> None:
        """No more comes: a string that was begun ends here."""
        if self.end is None and not self.broken:
            self._note(CUT)
            if self._state == self._string and not self._is_name:
                self.strings.append((self._name, "".join(self._sink)))

    def _note(self, what: str) -> None:
        if what not in self.notes:
            self.notes.append(what)

    # -- states: each takes what it can from a place on, and says how far it came

    def _begin(self, data: str, at: int) -> int:
        at = _past_space(data, at)
        if at < len(data):
            if data[at] != "{":
                return self._break(data)
            self._state = self._key
        return at + 1

    def _key(self, data: str, at: int) -> int:
        at = _past_space(data, at)
        if at == len(data):
            return at
        char = data[at]
        if self._is_too_much():
            return self._leave(data)
        if char in _BODIES:
            return self._open(char, at, is_name=True)
        if char == "}":
            if self._after_comma:
                self._note("a trailing comma")
            return self._close(data, at)
        return self._break(data)

    def _colon(self, data: str, at: int) -> int:
        at = _past_space(data, at)
        if at < len(data):
            if data[at] != ":":
                return self._break(data)
            self._state = self._value
        return at + 1

    def _value(self, data: str, at: int) -> int:
        at = _past_space(data, at)
        if at == len(data):
            return at
        char = data[at]
        if char in _BODIES:
            return self._open(char, at, is_name=False)
        if char in "{[":
            self._start, self._depth = self._base + at, 0
            self._state = self._inside
            return at
        if char in ",}":
            return self._break(data)
        self._state = self._word
        return at

    def _word(self, data: str, at: int) -> int:
        """A number or a literal, which nobody asks for."""
        end = _end(_BARE, data, at)
        if end < len(data):
            self._state = self._after
        return end

    def _inside(self, data: str, at: int) -> int:
        """An array or an object, skipped; only strings with double quotes can hide brackets in it."""
        at = _end(_INNER, data, at)
        if at == len(data):
            return at
        if self._is_too_much():
            return self._leave(data)
        if data[at] == '"':
            self._state = self._inside_string
        else:
            self._depth += 1 if data[at] in "{[" else -1
            if self._depth == 0:
                self.nested.append((self._name, self._start, self._base + at + 1))
                self._state = self._after
        return at + 1

    def _inside_string(self, data: str, at: int) -> int:
        at = _end_of_all(_INNER_STRING, data, at)
        if at == len(data):
            return at
        if data[at] == '"':
            self._state = self._inside
            return at + 1
        return self._keep(data, at)  # a backslash whose escape is still to come

    def _string(self, data: str, at: int) -> int:
        end = _end_of_all(_BODIES[self._quote], data, at)
        self._say(data[at:end])
        if end == len(data):
            return end
        if data[end] == self._quote:
            return self._shut(end)
        if _UNFINISHED.fullmatch(data, end):
            return self._keep(data, end)
        end_of_escape = end + (6 if _LONE.match(data, end) else 2)
        self._say(data[end:end_of_escape])
        return end_of_escape

    def _after(self, data: str, at: int) -> int:
        at = _past_space(data, at)
        if at == len(data):
            return at
        if data[at] == "}":
            return self._close(data, at)
        if data[at] != ",":
            return self._break(data)
        self._after_comma = True
        self._state = self._key
        return at + 1

    def _over(self, data: str, at: int) -> int:
        return len(data)

    # -- steps between them

    def _open(self, quote: str, at: int, *, is_name: bool) -> int:
        if quote == "'":
            self._note("single quotes")
        self._quote, self._sink, self._is_name = quote, [], is_name
        self._after_comma = False
        self._streams = not is_name and self._name == self._wanted and self.wanted_at is None
        if self._streams:
            self.wanted_at, self.wanted_quote = self._base + at + 1, quote
        self._state = self._string
        return at + 1

    def _say(self, raw: str) -> None:
        if not raw:
            return
        if _CONTROL.search(raw):
            self._note("raw line breaks")
        text = unescape_text(raw)
        self._sink.append(text)
        if self._streams:
            self._out.append(text)

    def _shut(self, at: int) -> int:
        text = "".join(self._sink)
        if self._is_name:
            self._name = text
            self._state = self._colon
        else:
            self.strings.append((self._name, text))
            self._state = self._after
        return at + 1

    def _close(self, data: str, at: int) -> int:
        self.end = self._base + at + 1
        self._state = self._over
        return at + 1

    def _break(self, data: str) -> int:
        self.broken = True
        return self._leave(data)

    def _is_too_much(self) -> bool:
        self._parts += 1
        return self._parts > _MOST

    def _leave(self, data: str) -> int:
        """Follow it no further: what came so far counts, as if it had been cut here."""
        self._state = self._over
        return len(data)

    def _keep(self, data: str, at: int) -> int:
        self._tail = data[at:]
        return len(data)


def _past_space(data: str, at: int) -> int:
    return _end(_SPACE, data, at)


def _end(pattern: re.Pattern[str], data: str, at: int) -> int:
    """How far a pattern comes from a place on, which may be no way at all."""
    found = pattern.match(data, at)
    return found.end() if found else at


def _end_of_all(pattern: re.Pattern[str], data: str, at: int) -> int:
    """Where it ends, matched again and again."""
    while at < len(data) and (end := _end(pattern, data, at)) > at:
        at = end
    return at
