"""Write the map of the source into docs/architecture.md, from first docstring lines; `--check` only compares."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/architecture.md"
BEGIN, END = "<!-- map: written by scripts/map.py -->\n", "<!-- end of map -->"


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


def main() -> None:
    table = list(rows(ROOT / "src/belljar"))
    width = max(len(name) for name, _ in table) + 2
    drawing = "".join(f"{name:{width}}{line}\n" for name, line in table)
    page = PAGE.read_text()
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    fresh = f"{before}{BEGIN}```\n{drawing}```\n{END}{after}"
    if "--check" in sys.argv and fresh != page:
        sys.exit("docs/architecture.md: the map is stale; run `make fix`")
    PAGE.write_text(fresh)


main()
