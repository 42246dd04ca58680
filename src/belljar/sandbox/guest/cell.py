"""Compile a cell. Its last expression is compiled apart, as its value is shown."""

from __future__ import annotations
import __future__ as future

import ast
import linecache
import re
from inspect import CO_COROUTINE
from types import CodeType
from typing import NamedTuple

from . import magics, private_builtins
from .interrupts import CELL

private_builtins.protect(globals())

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in future.all_feature_names:
    _FUTURES |= getattr(future, _name).compiler_flag

_compile = compile
_lines = linecache.cache

_WANTS_LOOP = frozenset({"create_task", "ensure_future", "get_running_loop", "current_task"})
_WANTED = re.compile("|".join(_WANTS_LOOP))
_BRINGS_LOOP = ("asyncio.run(", "import run", "run_until_complete", "run_forever", "asyncio.Runner")


_LONGER = re.compile("[\n;=%!?]|^\\s|" + "|".join(_WANTS_LOOP))
"""In everything that is not plainly a single expression: such a one needs no syntax tree to be made of it."""


class CompiledCell(NamedTuple):
    """What to run, in two parts, and how."""

    body: CodeType | None
    value: CodeType | None
    """The last expression, if its value is to be shown."""
    inside: bool
    """Whether it needs the event loop to be running."""


def filename(number: int) -> str:
    return f"{CELL}{number}>"


def remember(name: str, source: str) -> None:
    """Let tracebacks, warnings and `inspect` find the cell's lines."""
    _lines[name] = (len(source), None, source.splitlines(keepends=True), name)


class Compiler:
    """Compiles cells; `from __future__` statements hold for the cells that follow."""

    def __init__(self) -> None:
        self._flags = _AWAIT

    def compile(self, source: str, name: str) -> CompiledCell:
        if not _LONGER.search(source):
            try:
                value = _compile(source, name, "eval", self._flags, dont_inherit=True)
                return CompiledCell(None, value, _is_async(value))
            except (SyntaxError, ValueError):
                pass  # a statement, or a mistake, which the long way tells of
        tree, source = self._parse(source, name)
        body, value = _split(tree, source)
        flags = self._flags
        code = result = None
        if body.body:
            code = _compile(body, name, "exec", flags, dont_inherit=True)
            flags |= code.co_flags & _FUTURES
        if value is not None:
            result = _compile(value, name, "eval", flags, dont_inherit=True)
        self._flags = flags
        return CompiledCell(code, result, _is_async(code) or _is_async(result) or _wants_loop(source, tree))

    def _parse(self, source: str, name: str) -> tuple[ast.Module, str]:
        if source.lstrip().startswith("%%"):
            source = magics.rewrite_cell(source)
        while True:
            try:
                tree = _compile(source, name, "exec", self._flags | ast.PyCF_ONLY_AST, dont_inherit=True)
                return tree, source
            except SyntaxError as error:
                rewritten = magics.rewrite_line(source, error.lineno or 0)
                if rewritten is None:
                    raise
                source = rewritten


def _split(tree: ast.Module, source: str) -> tuple[ast.Module, ast.Expression | None]:
    if not tree.body or not isinstance(tree.body[-1], ast.Expr) or _is_muted(tree.body[-1], source):
        return tree, None
    last = tree.body[-1]
    return ast.Module(tree.body[:-1], tree.type_ignores), ast.Expression(last.value)


def _is_muted(last: ast.Expr, source: str) -> bool:
    """Whether a semicolon follows the last expression."""
    if ";" not in source:
        return False
    line = source.encode("utf-8", "surrogatepass").splitlines()[(last.end_lineno or 1) - 1]
    return line[last.end_col_offset or 0 :].lstrip().startswith(b";")


def _is_async(code: CodeType | None) -> bool:
    return code is not None and bool(code.co_flags & CO_COROUTINE)


def _wants_loop(source: str, tree: ast.Module) -> bool:
    """Whether a cell without `await` still needs a running loop: it makes tasks and brings no loop of its own."""
    if not _WANTED.search(source) or any(text in source for text in _BRINGS_LOOP):
        return False
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    return not used.isdisjoint(_WANTS_LOOP)
