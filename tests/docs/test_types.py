"""Every python block of the README and the docs passes `mypy --strict` as it stands, and what users write is inferred.

Those for programs of others, which are not in our environment, are left out. One run of mypy over all of it, with the
settings and the cache of `make lint`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.pages import ROOT, blocks

INFERRED = ROOT / "tests/docs/inferred.py"


@pytest.mark.timeout(600)  # without a cache, all of the SDKs is read first
def test_blocks_are_typed(tmp_path: Path) -> None:
    pages: dict[str, str] = {}
    for block in blocks():
        if block.language == "python" and not block.clients:
            name = re.sub(r"\W", "_", block.name) + ".py"
            # Blank lines before it: the lines that mypy tells are those of the page.
            (tmp_path / name).write_text("\n" * (block.line - 1) + block.code)
            pages[name] = block.page
    assert len(pages) >= 30
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *map(str, tmp_path.iterdir()), str(INFERRED)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    told = re.sub(r"^\S*?([^/\s]+\.py):", lambda match: f"{pages.get(match[1], match[1])}:", ran.stdout, flags=re.M)
    assert ran.returncode == 0, f"{told}{ran.stderr}"
