"""What the package promises of its shape: the extra that it needs, and the modules that it has."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import requires

import pytest


def test_the_extra_names_the_sdk_and_its_oldest_version() -> None:
    [needed] = [
        one for one in requires("belljar") or () if one.startswith("openai") and "'openai'" in one.replace('"', "'")
    ]
    assert ">=" in needed


@pytest.mark.parametrize("name", ["adapter", "config", "workspace", "container", "container_fs", "compaction"])
def test_the_founding_documents_modules_are_there(name: str) -> None:
    assert import_module(f"belljar.adapters.openai.{name}").__doc__
