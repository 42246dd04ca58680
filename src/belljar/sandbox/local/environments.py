"""Base environments: the packages that a sandbox starts with, and which are imported in advance."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from belljar.errors import BadSettings
from belljar.rooted_paths import open_plain
from belljar.sandbox import owned_directories
from belljar.sandbox.local.jail import Environment
from belljar.sandbox.packages import Stack

PRELOAD = ("numpy", "pandas", "pyarrow", "matplotlib.pyplot", "scipy", "PIL.Image", "openpyxl")
"""Imported in the zygote, where installed. Each costs every fork a little, so only what most cells use is here;
the rest of the stack is imported by the cell that wants it. Nothing that starts a thread may be (polars does)."""


def choose(setting: str, stack: Stack) -> str:
    """The environment that a sandbox starts with where none is asked for; `BadSettings` if it cannot be had."""
    if setting == "data" and (refusal := stack.refusal()):
        raise BadSettings(refusal)
    return setting if setting != "auto" else "data" if stack.begun else "none"


def environment(name: str, stack: Stack, *, preload: bool) -> Environment:
    """What the zygote of that name is told."""
    packages = stack.present if name == "data" else ()
    known = {module for one in packages for module in one.imports}
    loaded = tuple(module for module in PRELOAD if module.partition(".")[0] in known) if preload else ()
    settings = {
        "packages": [one.name for one in packages],
        "missed": stack.missed,
    }
    return Environment(name, loaded, site=name == "data", settings=settings)


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
        opened = open_plain(path)
    except OSError:
        return False
    with open(opened, "rb") as content:
        if os.fstat(opened).st_uid != os.geteuid():
            return False
        return hashlib.file_digest(content, "sha256").hexdigest() == digest


def _make_fonts(cache: Path, version: str) -> tuple[str, Path] | None:
    """In a directory of its own, where what matplotlib starts may leave caches too; the list alone is kept."""
    making = cache / "tmp"
    making.mkdir(parents=True, exist_ok=True)
    with owned_directories.work(making) as (folder, _):
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
