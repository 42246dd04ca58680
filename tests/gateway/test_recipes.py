"""The recipes of docs/clients.md for programs of others, run from the page as they stand, with those programs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.houses import House, Scene
from tests.gateway.test_node import INSTALLED as MODULES
from tests.gateway.test_node import NODE
from tests.helpers.pages import ROOT, blocks

FRAMEWORKS = ROOT / ".venv" / "clients" / "frameworks"
RECIPES = {block.name: block for block in blocks() if block.clients}
PROMISE = re.compile(r"(?://|#) prints (.+)$", re.M)
THINKING = ("qwen3:8b", "sim")
"""A model that has to think, on the page; and the one that plays its part, as `PARTS` has it."""
PARTS: dict[str, list[Any]] = {
    "import CodeAgent": [
        "<code>\nimport pandas as pd\nb = pd.read_csv('data.csv')['b']\n</code>",
        "<code>\nfinal_answer(b.sum())\n</code>",
    ]
}


def environment(clients: str, home: Path) -> dict[str, str]:
    """What a user has who installed them: a home of its own, and the programs in the path."""
    installed = {"frameworks": FRAMEWORKS, "node": MODULES}[clients]
    assert installed.is_dir(), f"the clients of {clients} are not installed; run: sh scripts/clients"
    found = [FRAMEWORKS / "bin", MODULES / ".bin", NODE.parent, Path(sys.executable).parent]
    quiet = {"HAYSTACK_TELEMETRY_ENABLED": "false", "LANGSMITH_TRACING": "false", "HF_HUB_OFFLINE": "1"}
    quiet |= {"PYTHONPATH": str(FRAMEWORKS)} if clients == "frameworks" else {}
    path = os.pathsep.join([*map(str, found), os.environ.get("PATH", os.defpath)])
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # they are large
    return {**ours, **quiet, "PATH": path, "HOME": str(home)}


def command(language: str, code: str, directory: Path) -> list[str]:
    if language == "js":
        (directory / "node_modules").symlink_to(MODULES)  # a script finds its packages beside itself
        (directory / "recipe.mjs").write_text(code)
        return [str(NODE), "recipe.mjs"]
    return [sys.executable, "-c", code] if language == "python" else ["bash", "-euo", "pipefail", "-c", code]


@pytest.mark.parametrize("name", RECIPES)
def test_recipe(name: str, house: House, scene: Scene, tmp_path: Path) -> None:
    recipe = RECIPES[name]
    scene.play(*(step for sign, part in PARTS.items() if sign in recipe.code for step in part))
    code = recipe.code.replace("http://127.0.0.1:8787", house.url).replace(*THINKING)
    ran = subprocess.run(
        command(recipe.language, code, tmp_path),
        cwd=tmp_path,
        env=environment(recipe.clients, tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    assert not scene.left
    assert [line for line in PROMISE.findall(recipe.code) if line not in ran.stdout.splitlines()] == []


def test_there_are_recipes_in_every_language() -> None:
    assert {recipe.language for recipe in RECIPES.values()} == {"python", "bash", "js"}
    assert len(RECIPES) >= 11
