"""Programs of the system that some tests use and the project does not bring: `scripts/programs` installs them."""

from __future__ import annotations

import shutil

import pytest


def needed(package: str, *names: str) -> str:
    """Where the program is, by any of its names; without it the test is skipped, which CI does not allow."""
    for name in names or (package,):
        if found := shutil.which(name):
            return found
    pytest.skip(f"needs {package}; to install it: sh scripts/programs")
