"""Programs of the system that some tests use and the project does not bring: `scripts/programs` installs them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

KUBERNETES = os.environ.get("BELLJAR_KUBERNETES")
"""Where that is not the user's cache; settings of ours are taken out of the environment later."""


def needed(package: str, *names: str) -> str:
    """Where the program is, by any of its names; without it the test is skipped, which CI does not allow."""
    for name in names or (package,):
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs {package}; to install it: sh scripts/programs")


def control_plane() -> Path:
    """Where `make kubernetes` has put etcd, kube-apiserver and kube-controller-manager."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(KUBERNETES or caches / "belljar" / "kubernetes-1.20.2") / "bin"


def has_control_plane() -> bool:
    return (control_plane().parent / "ready").exists()
