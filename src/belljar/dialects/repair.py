"""Code that a weak model wrote into its answer in place of calling the tool."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

import msgspec

from belljar.dialects.cells import NAME
from belljar.dialects.partial import CodeArgument
from belljar.wire import codec

_NAMES = frozenset([NAME, "python"])
_MOST_BEFORE = 500
_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_MARKUP = re.compile(
    r"<function=(\w+)>\s*<parameter=\w+>\n?(.*?)\n?</parameter>\s*</function>",
    re.DOTALL,
)
_BLOCK = re.compile(r"^```[ \t]*(\w*)[^\n]*\n(.*?)(?:^```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_HERE = re.compile(r"\s*(?:\$ )?python3?[ \t]*-?[ \t]*<<-?[ \t]*(['\"]?)(\w+)\1[ \t]*\n(.*?)\n\2\s*", re.DOTALL)
_SHELL_LINE = re.compile(r"^([ \t]*)[!%].*$", re.MULTILINE)
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


def fenced_call(text: str) -> str | None:
    """The code to run, if the answer is clearly a call that was only written down.

    That is one call in a form that models are trained on, or one block of Python that ends the answer and does
    something. Code that is shown, defined or explained is an answer, and stays one.
    """
    written = text.strip()
    tagged = _TAGGED.findall(written)
    if tagged:
        return _called(tagged[0].strip()) if len(tagged) == 1 else None
    if written.startswith(("{", "<function=")):
        return _called(written)
    blocks = list(_BLOCK.finditer(written))
    if len(blocks) != 1 or blocks[0].start() > _MOST_BEFORE or blocks[0].end() != len(written):
        return None
    language, code = blocks[0][1].lower(), blocks[0][2]
    match language:
        case "python" | "python3" | "py" | "ipython" | "tool_code":
            return code if _does_something(code) else None
        case "bash" | "sh" | "shell" | "console":
            here = _HERE.fullmatch(code)
            return here[3] if here else None
        case "json":
            return _called(code.strip())
        case _:
            return None


def _called(written: str) -> str | None:
    markup = _MARKUP.fullmatch(written)
    if markup:
        return markup[2] if markup[1] in _NAMES else None
    try:
        call: Any = codec.decode(written)
    except msgspec.DecodeError:
        return None
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call["function"]
    if not isinstance(call, dict) or call.get("name") not in _NAMES:
        return None
    given = call.get("arguments", call.get("parameters"))
    if given is None:
        return None
    argument = CodeArgument()
    argument.feed(given if isinstance(given, str) else msgspec.json.encode(given).decode())
    return argument.result().code or None


def _does_something(code: str) -> bool:
    """It is Python, and more than definitions."""
    try:
        with warnings.catch_warnings():  # of escapes that Python does not know: the run will tell
            warnings.simplefilter("ignore")
            tree = ast.parse(_SHELL_LINE.sub(r"\1...", code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(statement, _SILENT) and not _is_text(statement) for statement in tree.body)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
