"""The base environments: which packages a sandbox starts with, and which of them are already imported."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

from belljar.errors import BadSettings
from belljar.sandbox import owned
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


def font_list(cache: Path) -> tuple[str, Path] | None:
    """matplotlib's list of fonts, its name and where it is; made once, or every start looks at every font file.

    It is kept by the digest of its content. Nothing else that lies in the cache is taken for it, and one that was cut
    off or changed is made anew. None where it can neither be found nor kept: the zygote makes a list of its own then.
    """
    try:
        version = importlib.metadata.version("matplotlib")
        return _kept_fonts(cache, version) or _make_fonts(cache, version)
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError, subprocess.SubprocessError):
        return None


def _kept_fonts(cache: Path, version: str) -> tuple[str, Path] | None:
    pattern = re.compile(rf"matplotlib-{re.escape(version)}-([0-9a-f]{{64}})-(fontlist-[\w.-]+\.json)")
    for entry in os.listdir(cache) if cache.exists() else ():
        if found := pattern.fullmatch(entry):
            if _is_whole(cache / entry, found[1]):
                return found[2], cache / entry
            with contextlib.suppress(OSError):
                (cache / entry).unlink()
    return None


def _is_whole(path: Path, digest: str) -> bool:
    """Whether it is a file of ours with that content."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return False
        with open(file, "rb", closefd=False) as content:
            return hashlib.file_digest(content, "sha256").hexdigest() == digest
    finally:
        os.close(file)


def _make_fonts(cache: Path, version: str) -> tuple[str, Path] | None:
    """In a directory of its own, where what matplotlib starts may leave caches too; the list alone is kept."""
    making = cache / "tmp"
    making.mkdir(parents=True, exist_ok=True)
    with owned.work(making) as (folder, _):
        variables = {"MPLCONFIGDIR": str(folder), "HOME": str(folder), "PATH": os.defpath}
        command = [sys.executable, "-I", "-c", "import matplotlib.font_manager"]
        subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        for made in folder.glob("fontlist-*.json"):
            content = made.read_bytes()
            json.loads(content)  # a full disk cuts it off, and matplotlib says nothing
            made.chmod(0o644)
            digest = hashlib.sha256(content).hexdigest()
            kept = _kept_fonts(cache, version)  # another may have started at the same time
            return kept or (made.name, made.rename(cache / f"matplotlib-{version}-{digest}-{made.name}"))
    return None
