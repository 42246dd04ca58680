"""Calls that a weak model wrote into its answer in place of making them."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from belljar.vendors import code_call
from belljar.vendors.chat import call_openings
from belljar.vendors.chat.call_openings import ARGUMENT_KEYS, NAME_KEYS, Names
from belljar.vendors.code_argument import CodeArgument
from belljar.wire.items import Json

MOST_BEFORE = 500
"""Characters of prose before it: what comes later is explained, not called."""
_MOST = 16
"""Calls in one answer."""

_STARTS = re.compile(r"^|(?=<)", re.MULTILINE)
_FENCES = "|".join(sorted(filter(None, call_openings.LANGUAGES), key=len, reverse=True))
_WRAPPED = re.compile(
    rf"(?:[\s,;]+|```(?:{_FENCES})?[ \t]*(?:\n|\Z)|function<｜tool▁sep｜>|"
    + "|".join(map(re.escape, (*call_openings.TAGS, *call_openings.ENDS)))
    + ")*"
)
"""What stands around calls."""
_NAMED = re.compile(
    r"(?:<function=|<function name=\"|<invoke name=\"|>>>|)([\w.-]+)"
    r"(?:\"?>|\[ARGS\]|<｜tool▁sep｜>|[ \t]*)(?:\s*```json)?\s*"
)
_PARAMETER = re.compile(r"<parameter(?:=| name=\")([\w.-]+)\"?>\n?")
_PARAMETER_END = "</parameter>"
_LOOSE = re.compile(r"\{\s*\"name\"\s*:\s*\"([^\"]+)\"\s*,\s*\"(?:arguments|parameters)\"\s*:\s*")
_LAST = (call_openings.FENCE, *call_openings.ENDS)
_BLOCK = re.compile(r"^```[ \t]*(\w*)[^\n]*\n(.*?)(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_HERE = re.compile(r"\s*(?:\$ )?python3?[ \t]*-?[ \t]*<<-?[ \t]*(['\"]?)(\w+)\1[ \t]*\n(.*?)\n\2\s*", re.DOTALL)
_SHELL_LINE = re.compile(r"^([ \t]*)[!%].*$", re.MULTILINE)
_SHELLS = frozenset(["bash", "sh", "shell", "console"])
_PYTHONS = frozenset(["python", "python3", "py", "ipython", *_SHELLS])
_SILENT = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Assign,
    ast.AnnAssign,
    ast.Pass,
)
_SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder(strict=False)


class WrittenCall(Struct, frozen=True):
    """One call: of the interpreter by its own name, whatever the model called it; `arguments` is JSON."""

    name: str
    arguments: str


class Written(Struct, frozen=True):
    """What was found, and where in the text it begins."""

    at: int
    calls: tuple[WrittenCall, ...]
    block: str | None = None
    """The code, where it is a block of that with no word of a call."""
    alone: bool = False
    """The answer has nothing else in it."""


def find_written_calls(
    text: str, names: Names, *, bare: bool = True, blocks: bool = True, wrong: bool = False
) -> Written | None:
    """The calls that the answer clearly is, though it only has them in writing.

    That are calls in a form that models are trained on, of what they were offered by name; or one block of Python that
    ends the answer and does something. Code that is shown, defined or explained is an answer, and stays one. `bare`
    says that JSON without a tag around it counts, `blocks` that Python does, `wrong` that it does though it cannot be
    parsed: whoever was told to call so learns by the error.
    """
    reader = _Reader(text, names)
    for at in find_starts(text):
        if call_openings.begins_call(text[at : at + call_openings.LONGEST], names, bare=bare):
            calls, end = reader.calls(at)
            if calls:
                return Written(at, tuple(dict.fromkeys(calls)), alone=not text[:at].strip() and end == len(text))
            break
    if bare and (calls := reader.object_alone()):
        return Written(0, tuple(dict.fromkeys(calls)), alone=True)
    return reader.block_at_end(python=blocks, wrong=wrong)


def find_starts(text: str, first: int = 0) -> Iterator[int]:
    """Where a call could begin: at the start of a line, or with a tag."""
    return (found.start() for found in _STARTS.finditer(text, first, MOST_BEFORE + 1))


class _Reader:
    def __init__(self, text: str, names: Names) -> None:
        self._text = text
        self._names = names

    def calls(self, at: int) -> tuple[list[WrittenCall], int]:
        """All that stand there one after the other, and where they end."""
        found: list[WrittenCall] = []
        at = _end(_WRAPPED, self._text, at)
        while len(found) < _MOST:
            some, end = self._some(at)
            if not some:
                break
            found += some
            at = _end(_WRAPPED, self._text, end)
        return found[:_MOST], at

    def object_alone(self) -> list[WrittenCall]:
        """JSON that is all of the answer, with the name wherever in it."""
        at = _end(_WRAPPED, self._text, 0)
        value, end = self._json(at)
        return self._read_calls(value) if _end(_WRAPPED, self._text, end) == len(self._text) else []

    def _some(self, at: int) -> tuple[list[WrittenCall], int]:
        text = self._text
        if text.startswith(call_openings.PYTHON_TAG, at):
            at += len(call_openings.PYTHON_TAG)
            value, end = self._json(at)
            if calls := self._read_calls(value):
                return calls, end
            return self._code(_strip_call_end(text, at)), len(text)
        if text.startswith(("{", "["), at):
            value, end = self._json(at)
            if value is not None:
                return self._read_calls(value), end
            return self._loose(at) or self._pythonic(at), len(text)
        return self._read_named_call(at)

    def _json(self, at: int) -> tuple[Any, int]:
        try:
            return _decoder.raw_decode(self._text, at) if self._text.startswith(("{", "["), at) else (None, at)
        except (ValueError, RecursionError):
            return None, at

    # -- forms

    def _read_calls(self, value: Any) -> list[WrittenCall]:
        """JSON as calls: an object, a list of them, or either with more around it."""
        if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        if isinstance(value, list):
            several = [self._read_calls(one) if isinstance(one, dict) else [] for one in value[:_MOST]]
            return [call for calls in several for call in calls] if all(several) else []
        if isinstance(value, dict) and isinstance(value.get("function"), dict):
            value = value["function"]
        if not isinstance(value, dict):
            return []
        name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), "")
        given = next((value[key] for key in ARGUMENT_KEYS if value.get(key) is not None), None)
        return [] if given is None else self._call(name, given)

    def _loose(self, at: int) -> list[WrittenCall]:
        """JSON that is none, with code in it: that is read with patience."""
        found = _LOOSE.match(self._text, at)
        if not found or found[1] not in self._names.code:
            return []
        given = _strip_call_end(self._text, found.end()).removesuffix("}").rstrip()
        argument = CodeArgument()
        argument.feed(given)
        return self._call(found[1], given) if argument.result().code != given else []

    def _read_named_call(self, at: int) -> tuple[list[WrittenCall], int]:
        """A name, and then arguments as JSON or in markup."""
        text = self._text
        found = _NAMED.match(text, at)
        if not found or found[1] not in self._names.all:
            return [], at
        begin = found.end()
        value, end = self._json(begin)
        if isinstance(value, dict):
            return self._call(found[1], value), end
        if not text.startswith("<", at):
            if found[1] in self._names.code and text.startswith(">>>", at):
                return self._code(_strip_call_end(text, begin)), len(text)
            return self._pythonic(at), len(text)
        schema = self._names.functions.get(found[1])
        values: dict[str, Json] = {}
        while (parameter := _PARAMETER.match(text, begin)) and (end := text.find(_PARAMETER_END, begin)) >= 0:
            value = text[parameter.end() : end].removesuffix("\n")
            values[parameter[1]] = _convert_value(parameter[1], value, schema)
            begin = _end(_SPACE, text, end + len(_PARAMETER_END))
        return self._call(found[1], values) if values else [], begin

    def _pythonic(self, at: int) -> list[WrittenCall]:
        return self._expression(_strip_call_end(self._text, at))

    def _expression(self, code: str) -> list[WrittenCall]:
        """Calls as Python has them, with nothing but literals in them."""
        tree = _parse_code(code)
        if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
            return []
        value = tree.body[0].value
        nodes = value.elts if isinstance(value, ast.List) else [value]
        calls: list[WrittenCall] = []
        for node in nodes[:_MOST]:
            if _find_called_name(node) == "print" and len(node.args) == 1:  # type: ignore[attr-defined]
                node = node.args[0]  # type: ignore[attr-defined]
            name = _find_called_name(node)
            if not isinstance(node, ast.Call) or node.args or name not in self._names.all:
                return []
            try:
                given = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
            except (ValueError, TypeError, RecursionError):
                return []
            calls += self._call(name, given)
        return calls

    def block_at_end(self, *, python: bool, wrong: bool) -> Written | None:
        """One block of code that ends the answer: a call of a function, or code that does something."""
        text = self._text.rstrip()
        blocks = list(_BLOCK.finditer(text))
        if len(blocks) != 1 or blocks[0].start() > MOST_BEFORE or blocks[0].end() != len(text):
            return None
        language, code = blocks[0][1].lower(), blocks[0][2]
        if language in _SHELLS:
            here = _HERE.fullmatch(code)
            code = here[3] if here else ""
        if not (language == "tool_code" or (python and language in _PYTHONS)):
            return None
        calls = self._expression(code) or (self._code(code) if _does_something(code, wrong=wrong) else [])
        return Written(blocks[0].start(), tuple(calls), code) if calls else None

    def _code(self, code: str) -> list[WrittenCall]:
        return self._call(code_call.NAME, {"code": code}) if self._names.code else []

    def _call(self, name: str, given: Any) -> list[WrittenCall]:
        try:
            arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        except (ValueError, TypeError, OverflowError, RecursionError):
            return []
        if name in self._names.code:
            argument = CodeArgument()
            argument.feed(arguments)
            return [WrittenCall(code_call.NAME, arguments)] if argument.result().code.strip() else []
        if name not in self._names.functions:
            return []
        return [WrittenCall(name, arguments)] if name in self._names.custom or _is_object(arguments) else []


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(arguments), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _convert_value(key: str, value: str, schema: Json) -> Json:
    """A value out of markup, which is text there: as the schema has it."""
    known = schema.get("properties") if isinstance(schema, dict) else None
    kind = known.get(key) if isinstance(known, dict) else None
    if not isinstance(kind, dict) or kind.get("type") in ("string", None):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _parse_code(code: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():  # of escapes that Python does not know: the run will tell
            warnings.simplefilter("ignore")
            return ast.parse(_SHELL_LINE.sub(r"\1...", code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_called_name(node: ast.expr) -> str:
    """The name of the function that an expression calls, if that is all it does."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _does_something(code: str, *, wrong: bool) -> bool:
    """It is Python, and more than definitions."""
    tree = _parse_code(code)
    if tree is None:
        return wrong
    return any(not isinstance(one, _SILENT) and not _is_text(one) for one in tree.body)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _strip_call_end(text: str, at: int) -> str:
    """From there on, without what stands around calls at the end."""
    end = len(text)
    before = end + 1
    while end < before:
        before = end
        while end > at and text[end - 1].isspace():
            end -= 1
        end -= next((len(last) for last in _LAST if text.endswith(last, at, end)), 0)
    return text[at:end]


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """How far a pattern comes from a place on, which may be no way at all."""
    found = pattern.match(text, at)
    return found.end() if found else at
