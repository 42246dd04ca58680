"""The base environments: which packages a sandbox starts with, and which of them are already imported."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from belljar.errors import BadSettings
from belljar.sandbox.local.jail import Environment
from belljar.sandbox.packages import Installed, installed

NAMES = ("data", "none")

PRELOAD = ("numpy", "pandas", "pyarrow", "matplotlib.pyplot", "scipy", "PIL.Image", "openpyxl")
"""Imported in the zygote, where installed. Each costs every fork a little, so only what most cells use is here;
the rest of the stack is imported by the cell that wants it. Nothing that starts a thread may be (polars does)."""

HOW_TO_ADD = (
    "To add packages, name them outside: Sandbox(requirements=[...]) or its install([...]), "
    "`belljar run --require NAME`, or the `requirements` argument of the tool. Nothing can be installed from inside."
)


def environment(name: str, packages: tuple[Installed, ...], *, preload: bool) -> Environment:
    """An environment by name; `BadSettings` with the remedy if it is not there."""
    if name not in NAMES:
        raise BadSettings(f"packages: {name!r} is not an environment; use one of {', '.join(NAMES)}")
    if name == "none":
        return Environment(name, site=False, settings={"packages": [], "how_to_add": HOW_TO_ADD})
    if importlib.util.find_spec("pandas") is None or importlib.util.find_spec("matplotlib") is None:
        raise BadSettings(
            "packages: 'data' is not installed; run: pip install 'belljar[data]' (or use packages='none')"
        )
    names = tuple(name for name in PRELOAD if importlib.util.find_spec(name.partition(".")[0]) is not None)
    settings = {"packages": [package.name for package in packages], "how_to_add": HOW_TO_ADD}
    return Environment(name, names if preload else (), settings=settings)


def data_stack(site_packages: list[str]) -> tuple[Installed, ...]:
    """What `belljar[data]` has put there, exactly: the packages a cell can count on."""
    wanted = set()
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for line in importlib.metadata.requires("belljar") or ():
            if "extra ==" in line and "'data'" in line.replace('"', "'"):
                wanted.add(_normal(line))
    found = installed([Path(path) for path in site_packages])
    return tuple(p for p in found if _normal(p.name) in wanted) if wanted else found  # run from a bare checkout


def _normal(requirement: str) -> str:
    end = next((i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_.")), len(requirement))
    return requirement[:end].lower().replace("_", "-").replace(".", "-")


def font_list(cache: Path) -> str | None:
    """A directory with matplotlib's list of fonts, made once: without it every start looks at every font file."""
    try:
        version = importlib.metadata.version("matplotlib")
        directory = cache / f"matplotlib-{version}"
        if not any(directory.glob("fontlist-*.json")):
            directory.mkdir(parents=True, exist_ok=True)
            code = "import matplotlib.font_manager"
            variables = {"MPLCONFIGDIR": str(directory), "HOME": str(directory), "PATH": os.defpath}
            subprocess.run([sys.executable, "-I", "-c", code], env=variables, capture_output=True, timeout=120)
        for path in directory.iterdir():
            path.chmod(0o644) if path.is_file() else None
        directory.chmod(0o755)
        return str(directory)
    except (importlib.metadata.PackageNotFoundError, OSError, subprocess.SubprocessError):
        return None  # a convenience only: the zygote makes its own list then
