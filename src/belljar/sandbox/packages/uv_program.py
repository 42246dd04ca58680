"""Find the uv program that fetches packages: `$UV`, then PATH, then the installed module; none that is too old."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping

from belljar.errors import BadSettings

PACKAGES_EXTRA = "pip install 'belljar[packages]'"
OLDEST = (0, 9)
"""The first version that has all the options we pass; pyproject.toml asks for the same."""


def find_uv(env: Mapping[str, str]) -> str:
    """The path of the first one that will do; `BadSettings` says what was found instead, and what to install."""
    unfit = []
    for place, path in _candidates(env):
        if path is None:
            unfit.append(f"{place} is no program")
        elif (version := _version(path)) is None:
            unfit.append(f"{path} does not say which version of uv it is")
        elif version < OLDEST:
            unfit.append(f"{path} is uv {'.'.join(map(str, version))}, which is too old")
        else:
            return path
    found = f" ({'; '.join(unfit)})" if unfit else ""
    oldest = ".".join(map(str, OLDEST))
    raise BadSettings(
        f"requirements: fetching packages needs uv {oldest} or newer, which is not installed here{found}; run: "
        f"{PACKAGES_EXTRA}"
    )


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """What could be it, with what named it, in the order in which they count. None: named, and not there."""
    path = env.get("PATH", os.defpath)
    if named := env.get("UV"):  # set by `uv run` and `uvx`, as a path; by people also as the name of a command
        yield f"UV={named}", shutil.which(named, path=path)
    if found := shutil.which("uv", path=path):
        yield found, found
    try:
        from uv import find_uv_bin

        found = os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return
    yield found, found


def _version(path: str) -> tuple[int, ...] | None:
    """What a program says of itself: (0, 9, 2); None if it is not uv."""
    try:
        ran = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=20, env={})
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = re.match(r"uv (\d+)\.(\d+)(?:\.(\d+))?\b", ran.stdout)
    return tuple(int(one) for one in said.groups() if one) if said and ran.returncode == 0 else None
