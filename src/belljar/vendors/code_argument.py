"""The code out of a call's arguments: as the model writes it, and thoroughly once it is whole.

Weak models forget to escape, misname the argument, wrap it in fences or send bare code. All that is put right, and
told in a short phrase.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from msgspec import Struct, field

from belljar.vendors.partial_json import Members, unescape_text

_CODE = "code"
_NAMES = (_CODE, "python", "source", "script", "input")
_WRAPPERS = ("arguments", "parameters", "input", _CODE)
_NOT_CODE = frozenset(["language", "requirements"])
_BARE = "code instead of JSON"
_DOUBLED = "JSON inside JSON"
_FENCED = "code fences"
_DEEPEST = 3
_FENCE = re.compile(r"```(?:[^\n`]*\n|(?:python|py)?[ \t]*)")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MORE = re.compile(r"[\"']\s*,\s*[\"']requirements[\"']\s*:")
_QUOTED = re.compile(r"[\"']([^\"']+)[\"']")


class Arguments(Struct, frozen=True):
    """What the model wants to run; `code` is empty where there is none to be found."""

    code: str
    requirements: tuple[str, ...] = ()
    repaired: str | None = None
    """What was put right."""


class CodeArgument:
    """One call. What `feed` gave, and then `rest`, is always exactly the `code` of `result`."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._members = Members(_CODE)
        self._lead: list[str] = []
        self._given = 0
        self._result: Arguments | None = None
        self._way: Literal["open", "bare", "string", "held", "over"] = "open"

    def feed(self, fragment: str) -> str:
        """The characters of the code that this fragment of the arguments adds."""
        self._text.append(fragment)
        self._result = None
        new = fragment if self._way == "bare" else self._stream_code(fragment)
        self._given += len(new)
        return new

    def _stream_code(self, fragment: str) -> str:
        new = self._members.feed(fragment)
        if self._way == "string":
            return new
        if self._way == "open":
            self._lead.append(new)
            begun = new.lstrip()  # whatever came before is blank
            if self._members.broken:
                text = "".join(self._text).lstrip()
                if text[0] not in "{[\"'`":
                    self._way = "bare"
                    return text
                self._way = "held"
            elif begun and begun[0] not in "`{":
                self._way = "string"
                return "".join(self._lead)
            elif begun:  # a fence, or JSON in its turn: told when all of it is there
                self._way = "held"
        if self._members.end is not None and self._way != "over":
            self._way = "over"
            return self.result().code
        return ""

    def result(self) -> Arguments:
        """The whole, when no more comes."""
        if self._result is None:
            read = _read("".join(self._text))
            notes = " and ".join(dict.fromkeys(read.notes)) or None
            self._result = Arguments(read.code, read.requirements, notes)
        return self._result

    def rest(self) -> str:
        """The end of the code that only the end of the arguments could tell."""
        return self.result().code[self._given :]


class _Object(list[tuple[str, Any]]):
    """A JSON object with its members in order, doubles included."""


class _Read(Struct):
    code: str
    requirements: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def add_note(self, what: str) -> _Read:
        return _Read(self.code, self.requirements, [what, *self.notes])


def _read(text: str, depth: int = 0) -> _Read:
    """Reads arguments in whatever shape they came; deeper where they were wrapped."""
    begun = text.lstrip()
    if depth > _DEEPEST or not begun:
        return _Read(begun)
    value = _json(begun)
    if isinstance(value, _Object):
        return _pick_code(value, depth)
    if isinstance(value, str):
        return _read(value, depth + 1).add_note(_DOUBLED)
    if isinstance(value, list) and _are_lines(value):
        return _Read("\n".join(value), (), ["a list of lines"])
    if begun.startswith("```"):
        return _read(_strip_fence(begun), depth + 1).add_note(_FENCED)
    if begun.startswith("{"):
        mended = _repair_object(begun, depth)
        if mended is not None:
            return mended
    return _Read(begun, (), [_BARE])


def _json(text: str) -> Any:
    """None where it is not JSON, or JSON's own null: either way there is nothing to be had."""
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError):
        return None


def _repair_object(text: str, depth: int) -> _Read | None:
    """An object that is not quite JSON."""
    members = Members(_CODE)
    members.feed(text)
    members.finish()
    if members.end is not None and members.end < len(text.rstrip()):
        value = _json(text[: members.end])
        if isinstance(value, _Object):
            return _pick_code(value, depth).add_note("words after the arguments")
    if members.broken:
        quoted = _read_unescaped_code(text, members)
        if quoted is not None:
            return quoted
    found = _Object(members.strings)
    for name, start, end in members.nested:
        inside = _json(text[start:end])
        found.append((name, _QUOTED.findall(text[start:end]) if inside is None else inside))
    read = _pick_code(found, depth)
    if not read.code:
        return None
    return _Read(read.code, read.requirements, [*members.notes, *read.notes] or ["JSON that is none"])


def _read_unescaped_code(text: str, members: Members) -> _Read | None:
    """Code with quotes of its own that were not escaped: it goes on to the last of them."""
    if members.wanted_at is None:
        return None
    body = _MORE.split(text[members.wanted_at :], 1)
    inside = body[0] if len(body) > 1 else _without_end(body[0], members.wanted_quote)
    if inside is None:
        return None
    requirements = tuple(_QUOTED.findall(body[1])) if len(body) > 1 else ()
    double = 2 * members.wanted_quote
    if inside.startswith(double) and inside.endswith(double) and len(inside) >= 4:
        return _Read(unescape_text(inside[2:-2]), requirements, ["triple quotes"])
    return _Read(unescape_text(inside), requirements, ["quotes that were not escaped"])


def _without_end(body: str, quote: str) -> str | None:
    body = body.rstrip().removesuffix("}").rstrip()
    return body[:-1] if body.endswith(quote) else None


def _pick_code(members: _Object, depth: int) -> _Read:
    """The code among the members of an object."""
    requirements = next((_requirements(value) for name, value in members if name == "requirements"), ())
    for wanted in _NAMES:
        for name, value in members:
            if name == wanted and isinstance(value, str):
                read = _unwrap_code(value, depth)
                notes = read.notes if name == _CODE else [f"an argument named {name}", *read.notes]
                return _Read(read.code, requirements or read.requirements, notes)
    for name, value in members:
        if name in _NAMES and isinstance(value, list) and not isinstance(value, _Object) and _are_lines(value):
            return _Read("\n".join(value), requirements, ["a list of lines"])
        if name in _WRAPPERS and isinstance(value, _Object) and depth < _DEEPEST:
            return _pick_code(value, depth + 1).add_note("arguments inside arguments")
    texts = [(name, value) for name, value in members if isinstance(value, str) and name not in _NOT_CODE]
    if len(texts) == 1:
        name, value = texts[0]
        return _Read(_unwrap_code(value, depth).code, requirements, [f"an argument named {name}"])
    return _Read("", requirements)


def _unwrap_code(code: str, depth: int) -> _Read:
    """Code that is wrapped once more."""
    code = _SURROGATE.sub("\ufffd", code)
    begun = code.lstrip()
    if begun.startswith("```"):
        return _Read(_strip_fence(begun), (), [_FENCED])
    if begun.startswith("{"):
        value = _json(begun)
        if isinstance(value, _Object) and any(name == _CODE for name, _ in value) and depth < _DEEPEST:
            return _pick_code(value, depth + 1).add_note(_DOUBLED)
    return _Read(code)


def _strip_fence(text: str) -> str:
    return _FENCE.sub("", text, count=1).rstrip().removesuffix("```").rstrip()


def _are_lines(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(line, str) for line in value)


def _requirements(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = re.split(r"[,\n]+" if re.search(r"[<>=!~;@,\n]", value) else r"\s+", value)
    if not isinstance(value, list):
        return ()
    return tuple(name.strip() for name in value if isinstance(name, str) and name.strip())
