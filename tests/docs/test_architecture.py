"""The walk of one request, as docs/architecture.md has it, is one way: no module of it can import an earlier one."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PAGE = (ROOT / "docs/architecture.md").read_text()


@cache
def path_of(module: str) -> Path | None:
    path = SOURCE.joinpath(*module.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()), None)


def steps() -> list[list[str]]:
    """The modules that each step of the walk names."""
    [walk] = re.findall(r"<!-- walk: .*?-->(.*?)<!-- end of walk -->", PAGE, re.S)
    return [re.findall(r"`(belljar(?:\.\w+)+)`", step) for step in re.split(r"^\d+\. ", walk, flags=re.M)[1:]]


@cache
def imported(module: str) -> set[str]:
    """What a module imports when it is loaded or later; not what only a type checker sees."""
    path = path_of(module)
    assert path is not None
    tree = ast.parse(path.read_text())
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    named: set[str] = set()
    for node in ast.walk(tree):
        if node in guarded:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return {name for name in named if name.startswith("belljar.") and path_of(name)}


def reached(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        for name in imported(waiting.pop()) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def test_every_module_of_the_walk_is_there() -> None:
    assert len(steps()) >= 8
    assert [name for step in steps() for name in step if path_of(name) is None] == []


def test_no_step_knows_one_above_it() -> None:
    walk = steps()
    for number, step in enumerate(walk):
        above = {name for earlier in walk[:number] for name in earlier if not name.startswith("belljar.wire")}
        assert [(name, sorted(known)) for name in step if (known := reached(name) & above)] == []
