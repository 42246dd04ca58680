"""The reference has every public name as Python finds it, and `make lint` tells when it is stale."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import belljar

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference.md").read_text()
SECTIONS = dict(re.findall(r"^## `(belljar\S*)`\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))


def test_every_name_of_belljar_is_there_once() -> None:
    marked = re.findall(r"^### `(\w+)` †$", PAGE, re.M)
    assert sorted(marked) == sorted(name for name in belljar.__all__ if not name.startswith("__"))


@pytest.mark.parametrize("package", sorted(set(SECTIONS) - {"belljar"}))
def test_a_package_tells_what_can_be_imported_from_it(package: str) -> None:
    module = importlib.import_module(package)
    told = set(re.findall(r"^### `(\w+)`", SECTIONS[package], re.M))
    also = re.search(r"^Also here, (.*)", SECTIONS[package], re.M | re.S)
    told |= {name for name in re.findall(r"`(\w+)`", also[1] if also else "") if name != "belljar"}
    assert told == set(getattr(module, "__all__", told))
    assert [name for name in told if not hasattr(module, name)] == []


def test_every_package_with_public_names_has_a_section() -> None:
    """A package that promises names is in the reference, unless it is a room that only its neighbours use."""
    inner = ("belljar.gateway", "belljar.sandbox")
    for path in (ROOT / "src/belljar").rglob("__init__.py"):
        package = ".".join(path.parent.relative_to(ROOT / "src").parts)
        if "__all__ = [" in path.read_text() and not package.startswith(inner):
            assert package in SECTIONS


def test_a_stale_page_is_told(tmp_path: Path) -> None:
    for name in ("src", "scripts", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "scripts/reference.py", "--check"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    module = tmp_path / "src/belljar/prompt/frozen.py"
    module.write_text(module.read_text().replace("def FrozenDataclass(", "def FrozenDataclass(extra: int = 0, "))
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "make fix" in ran.stderr
