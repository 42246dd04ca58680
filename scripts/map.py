"""Write the map and the layers of the source into docs/architecture.md; `--check` only compares.

The map is every module with its first docstring line, the layers are those that import-linter checks.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/architecture.md"
MAP = "<!-- map: written by scripts/map.py -->\n", "<!-- end of map -->"
LAYERS = "<!-- layers: written by scripts/map.py -->\n", "<!-- end of layers -->"


def sign(module: Path) -> str:
    doc = ast.get_docstring(ast.parse(module.read_text())) if module.exists() else None
    if not doc:
        sys.exit(f"{module.relative_to(ROOT)}: needs a docstring; its first line stands in docs/architecture.md")
    return doc.splitlines()[0]


def rows(folder: Path, depth: int = 0) -> Iterator[tuple[str, str]]:
    yield "  " * depth + folder.name + "/", sign(folder / "__init__.py")
    for path in sorted(folder.iterdir(), key=lambda p: (p.is_dir(), p.name)):
        if path.is_dir() and any(path.rglob("*.py")):
            yield from rows(path, depth + 1)
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield "  " * (depth + 1) + path.name, sign(path)


def drawing() -> str:
    table = list(rows(ROOT / "src/belljar"))
    width = max(len(name) for name, _ in table) + 2
    return "".join(f"{name:{width}}{line}\n" for name, line in table)


def layers() -> str:
    """The rooms as pyproject.toml has them, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [told] = [one["layers"] for one in contracts if one["type"] == "layers" and "containers" not in one]
    return "".join(line.replace("(belljar.", "").replace(")", "") + "\n" for line in told)


def replaced(page: str, marks: tuple[str, str], text: str) -> str:
    begin, end = marks
    before, rest = page.split(begin)
    return f"{before}{begin}```\n{text}```\n{end}{rest.split(end)[1]}"


def main() -> None:
    page = PAGE.read_text()
    fresh = replaced(replaced(page, MAP, drawing()), LAYERS, layers())
    if "--check" in sys.argv and fresh != page:
        sys.exit("docs/architecture.md: the map is stale; run `make fix`")
    PAGE.write_text(fresh)


main()
