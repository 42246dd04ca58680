"""The code of the founding documents: their Python blocks as they stand, and with only the import roots changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCUMENTS = ("code-interpreter-tool", "hosted-tools", "providers")
_PART = re.compile(r"^## (?P<heading>[^\n]+)$|^```python\n(?P<code>.*?)^```$", re.M | re.S)
_ROOTS = (
    (re.compile(r"^(from|import) (weakincentives|aios)\b", re.M), r"\1 belljar"),
    (re.compile(r"^from openai import", re.M), "from belljar.openai import"),
)


@dataclass(frozen=True)
class Block:
    """`name` is the heading it stands under, with a number where there are several."""

    document: str
    name: str
    code: str

    @property
    def ours(self) -> str:
        code = self.code
        for pattern, root in _ROOTS:
            code = pattern.sub(root, code)
        return code

    def run(self, names: dict[str, Any], reader: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Run it among these names, to which its own are added; `reader` is what the reader writes in the place of."""
        code = self.ours
        for theirs, mine in (reader or {}).items():
            assert theirs in code
            code = code.replace(theirs, mine)
        exec(compile(code, f"<{self.document}: {self.name}>", "exec", dont_inherit=True), names)
        return names


def read() -> dict[str, Block]:
    found: dict[str, Block] = {}
    for document in DOCUMENTS:
        heading, times = "", Counter[str]()
        for part in _PART.finditer((Path(__file__).parent / f"{document}.txt").read_text()):
            if part["heading"]:
                heading = part["heading"]
                continue
            times[heading] += 1
            name = heading if times[heading] == 1 else f"{heading} {times[heading]}"
            found[f"{document}: {name}"] = Block(document, name, part["code"])
    return found
