"""Print how large our files and functions are. A mirror, not a gate: norms in docs/architecture.md."""

import ast
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent


def p90(sizes: list[int]) -> int:
    return sorted(sizes)[int(len(sizes) * 0.9)]


def functions(path: Path) -> list[tuple[int, str]]:
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


print(f"{'':10}{'files':>6}{'lines':>8}{'file median / p90 / max':>26}{'function median / p90 / max':>30}")
largest: list[tuple[int, str]] = []
for room in ("src", "tests", "bench", "scripts"):
    paths = sorted((ROOT / room).rglob("*.py"))
    if not paths:
        continue
    lines = [len(path.read_text().splitlines()) for path in paths]
    found = [function for path in paths for function in functions(path)] or [(0, "")]
    sizes = [size for size, _ in found]
    files = f"{median(lines):.0f} / {p90(lines)} / {max(lines)}"
    print(f"{room:10}{len(paths):6}{sum(lines):8}{files:>26}{f'{median(sizes):.0f} / {p90(sizes)} / {max(sizes)}':>30}")
    if room == "src":
        largest = sorted(found, reverse=True)[:8]
print("\nlargest functions")
for size, name in largest:
    print(f"{size:6} {name}")
