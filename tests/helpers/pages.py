"""The blocks of code in the README and the docs, as users copy them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?:(?P<skip>not run)|run with): (?P<what>[^\n]+) -->\n+)?"
    r"^```(?P<language>python|bash|js)\n(?P<code>.*?)^```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    """Of its first line of code, in the page."""
    language: str
    code: str
    runs: bool
    """False where a comment before it says why it cannot: `<!-- not run: needs a key -->`."""
    clients: str
    """What has to be installed beside us for it, as a comment before it says: `<!-- run with: frameworks -->`."""

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text()
        for block in _BLOCK.finditer(text):
            line = text.count("\n", 0, block.start("code")) + 1
            where = str(page.relative_to(ROOT))
            runs = not block["skip"]
            clients = (block["what"] or "") if runs else ""
            yield Block(where, line, block["language"], block["code"], runs=runs, clients=clients)
