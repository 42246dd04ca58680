"""Find the Python in a message: its fenced blocks, or the whole message when that is Python and not a sentence."""

from __future__ import annotations

import ast
import re
import warnings

LONGEST = 16 * 1024
"""Characters of a message that is parsed to see whether it is Python, while others wait; a fence needs no parsing."""

_FENCE = re.compile(
    r"^(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[^\s`]*+)[^\n`]*+\n"
    r"(?P<code>.*?)"
    r"(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "ipython3"})
_MAGIC = re.compile(r"^[ \t]*(?:[!%]\w|%%\w)[^\n]*$", re.MULTILINE)

_TELLING = (
    ast.Assign,
    ast.AsyncFunctionDef,
    ast.AsyncFor,
    ast.Attribute,
    ast.AugAssign,
    ast.Call,
    ast.ClassDef,
    ast.Delete,
    ast.Dict,
    ast.DictComp,
    ast.For,
    ast.FormattedValue,
    ast.FunctionDef,
    ast.GeneratorExp,
    ast.Import,
    ast.ImportFrom,
    ast.Lambda,
    ast.List,
    ast.ListComp,
    ast.NamedExpr,
    ast.Set,
    ast.SetComp,
    ast.Subscript,
)
"""What people do not write by accident. Names, texts, `and`, `or`, `not`, `in`, `is`, commas and dashes they do."""
_SAID = (ast.Sub, ast.Div, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def find_cells(message: str) -> tuple[str, ...]:
    """The pieces of Python to run, in order; none if the message is something else."""
    blocks = [found for found in _FENCE.finditer(message) if found["language"].lower() in _PYTHON]
    if blocks:
        return tuple(code for block in blocks if (code := _dedent(block["code"], block["indent"])).strip())
    return (message,) if is_python(message) else ()


def is_python(text: str) -> bool:
    """Whether a text without fences was meant to be run: `2 + 2` was, `thanks` and `not now` were not."""
    if not text.strip() or len(text) > LONGEST:
        return False
    plain = _MAGIC.sub("pass", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = compile(plain, "<message>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return plain != text or any(map(_is_telling, ast.walk(tree)))


def _is_telling(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float | complex) and not isinstance(value, bool)
        case ast.AnnAssign(value=value):
            return value is not None
        case ast.BinOp(op=op):
            return not isinstance(op, _SAID)
        case ast.Compare(ops=ops):
            return not all(isinstance(op, _SAID) for op in ops)
    return isinstance(node, _TELLING)


def _dedent(code: str, indent: str) -> str:
    """A fence inside a list is indented with what it holds."""
    return "".join(line.removeprefix(indent) for line in code.splitlines(keepends=True)) if indent else code
