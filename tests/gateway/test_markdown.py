"""The page's Markdown: no line takes longer to read than its length calls for. A model may write what it likes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.gateway.test_node import NODE

MODULE = Path(__file__).parents[2] / "src/belljar/gateway/web/markdown.js"
MANY = 100_000
PROGRAM = """
const { blocks, spans } = await import(process.argv[1]);
let text = "";
for await (const piece of process.stdin) text += piece;
console.log(JSON.stringify(JSON.parse(text).map((one) => [blocks(one), spans(one).length])));
"""


def read(texts: list[str]) -> list[list[dict[str, object]]]:
    node = NODE if NODE.exists() else shutil.which("node")
    assert node, "Node is not installed; run: sh scripts/clients"
    command = [node, "--input-type=module", "-e", PROGRAM, MODULE.as_uri()]
    told = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=90, check=True)
    return [found for found, _ in json.loads(told.stdout)]


def test_lines_that_mean_harm_are_read_in_time() -> None:
    """Each took from seconds to hours where a pattern tried it in every way; all of them take half a second."""
    spaces = " " * MANY
    found = read(
        [
            f"# {spaces}x # y",
            f"# a{' #' * MANY}b",
            f"# {'#' * MANY}x{spaces}y",
            f"```{'a' * MANY}`",
            f"```{spaces}`",
            f"a|b\n|-{spaces}x",
            f"a|b\n{'|- ' * MANY}x",
            f"[a](b{spaces}c)",
        ]
    )
    assert [one[0]["type"] for one in found] == ["heading"] * 3 + ["paragraph"] * 5


def test_what_is_meant_is_still_understood() -> None:
    headings, fence, table = read(["## Hello  ## \n# a #b\n# \n#", "``` py x\nc\n```", "a|b\n  :-- | --:  \n1|2"])
    assert [(one["type"], one.get("level"), one["text"]) for one in headings] == [
        ("heading", 2, "Hello"),
        ("heading", 1, "a #b"),
        ("heading", 1, ""),
        ("paragraph", None, "#"),
    ]
    assert (fence[0]["language"], fence[0]["text"]) == ("py", "c")
    assert (table[0]["head"], table[0]["align"], table[0]["rows"]) == (["a", "b"], ["start", "end"], [["1", "2"]])
