"""The recipe of the images, as far as it can be read: what it installs is there, and its list of parts is CycloneDX."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version

from tests.deploy.kustomization import ROOT

RECIPE = (ROOT / "deploy/image/Containerfile").read_text()


def test_the_extras_are_ours() -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = {extra for extras in re.findall(r"belljar\[([^\]]+)\] @", RECIPE) for extra in extras.split(",")}
    assert "data" in wanted
    assert wanted <= set(known)


def test_all_that_is_copied_is_let_through() -> None:
    """`.dockerignore` keeps everything out but what the recipe names."""
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", RECIPE, re.M) for name in line.split()}
    for name in copied:
        assert (ROOT / name).exists(), name
        assert any(name == one or name.startswith(f"{one}/") for one in let_in), name


def test_nobody_is_root_in_the_images() -> None:
    for target in ("gateway", "sandbox"):
        stage = re.split(r"^FROM ", RECIPE, flags=re.M)
        [text] = [one for one in stage if re.match(rf"\S+ AS {target}$", one, re.M)]
        assert re.findall(r"^USER (.*)$", text, re.M) == ["10001:10001"]


def test_the_list_of_parts_has_every_package_with_its_version() -> None:
    command = [sys.executable, str(ROOT / "deploy/image/write_sbom.py"), "belljar-sandbox"]
    told = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(2)]
    assert told[0] == told[1], "the same image has the same list"
    assert (told[0]["bomFormat"], told[0]["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", told[0]["serialNumber"])
    parts = {one["purl"]: one for one in told[0]["components"]}
    for name in ("aiohttp", "belljar", "numpy"):
        assert parts[f"pkg:pypi/{name}@{version(name)}"]["version"] == version(name)
    assert len(parts) == len(told[0]["components"])


def test_libraries_that_wheels_brought_patched_are_not_stripped() -> None:
    """Stripped, OpenBLAS of numpy's wheel was seen not to load: "ELF load command address/offset not page-aligned"."""
    stripped = re.findall(r"find (.+) -exec strip ", RECIPE)
    assert len(stripped) == 2
    assert all("-not -path './*.libs/*'" in one for one in stripped)
