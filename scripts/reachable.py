"""Fail if a module can be reached from no public entry point: what nothing imports is dead, however well it is tested.

Entry points are the command line, the public packages, and the programs that are started with `python -m`. A module is
reached by an import, or by its whole name in a string: lazy tables and processes of their own name modules so.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
ENTRIES = (
    "belljar",
    "belljar.__main__",
    "belljar.cli.__main__",
    "belljar.openai",
    "belljar.prompt.tool",
    "belljar.prompt.tool_result",
    "belljar.sandbox.conformance.__main__",
    "belljar.sandbox.local.zygote",  # started by the jail init, which names it in pieces
    "belljar.testing",
)


def modules() -> dict[str, Path]:
    """Every module of ours by its name; a package is its `__init__`."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def mentions(package: str, path: Path) -> set[str]:
    """Names that a module of this package imports or writes down; some are no modules."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "belljar." in node.value:
            names |= {word.strip("'\"()[]:;,") for word in node.value.replace(";", " ").replace(":", " ").split()}
    return names


def reached(known: dict[str, Path]) -> set[str]:
    seen: set[str] = set()
    waiting = list(ENTRIES)
    while waiting:
        name = waiting.pop()
        if name not in known or name in seen:
            continue
        seen.add(name)
        above = name.rpartition(".")[0]
        package = name if known[name].name == "__init__.py" else above
        waiting += [above, *mentions(package, known[name])]
    return seen


def main() -> int:
    known = modules()
    dead = sorted(set(known) - reached(known))
    for name in dead:
        print(f"{name} is reached from no entry point: use it, or delete it", file=sys.stderr)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
