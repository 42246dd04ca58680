"""Every python and bash block of the README and the docs runs as it stands, as a user would run it.

A block that cannot run says why in a comment before it: `<!-- not run: needs a key -->`. A block that calls the
gateway or a sandbox server at its usual address calls one that was started for it. Those for programs of others are run
in `tests/gateway/test_recipes.py`.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import forked
from tests.helpers.pages import blocks
from tests.helpers.programs import needed

from belljar.gateway.store.local_store import open_store

ADDRESSES = {"http://127.0.0.1:8787": "gateway", "http://127.0.0.1:8080": "sandbox_server"}
BLOCKS = [
    pytest.param(block.language, block.code, id=block.name) for block in blocks() if block.runs and not block.clients
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `belljar serve`, on a port of its own."""
    with served("serve", "--no-discover", "--state-dir", str(tmp_path_factory.mktemp("state"))) as url:
        yield url


@pytest.fixture(scope="module")
def sandbox_server() -> Iterator[str]:
    """The address of `belljar sandbox`, on a port of its own."""
    with served("sandbox") as url:
        yield url


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where blocks keep settings and state: what they remove is nobody's own, and a gateway has been here."""
    made = tmp_path_factory.mktemp("home")
    records, _ = open_store(made / "state/belljar")
    asyncio.run(records.close())
    return {"XDG_STATE_HOME": str(made / "state"), "XDG_CONFIG_HOME": str(made / "config")}


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    with forked.Forked(*arguments, "--port", "0", "--json", preload=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


@pytest.mark.parametrize(("language", "code"), BLOCKS)
def test_block(language: str, code: str, home: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if re.search(r"\bcurl\b", code):
        needed("curl")
    for address, server in ADDRESSES.items():
        if address in code:
            code = code.replace(address, request.getfixturevalue(server))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    surroundings: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, **home, "PATH": path}}
    if language == "python":
        ran = forked.run("-c", code, timeout=100, **surroundings)
    else:
        command = ["bash", "-euo", "pipefail", "-c", code]
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 100}
        ran = subprocess.run(command, check=False, **given, **surroundings)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 2
