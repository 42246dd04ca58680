"""The SDK before the one in our environment: openai 2.x, from a directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.gateway.houses import House, Scene

from belljar.testing import call

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".venv" / "clients" / "openai2"
SESSION = Path(__file__).parent / "clients" / "openai2.py"


def test_openai_2_creates_streams_attaches_and_compacts(house: House, scene: Scene) -> None:
    assert INSTALLED.is_dir(), "openai 2.x is not installed; run: sh scripts/clients"
    scene.play(
        [call("code_interpreter", code="open('made.txt', 'w').write('by code')")],
        "See [it](sandbox:/mnt/data/made.txt).",
        [call("code_interpreter", code="open('made.txt').read()")],
        "Read.",
        "It was long.",
    )
    done = subprocess.run(
        [sys.executable, "-S", "-W", "error", SESSION, house.base_url],
        env={**os.environ, "PYTHONPATH": str(INSTALLED)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["version"].startswith("2.")
    cell, message = seen["output"]
    assert cell["outputs"] == [{"type": "logs", "logs": "7"}]
    assert message["content"][0]["text"] == "See [it](sandbox:/mnt/data/made.txt)."
    assert seen["downloaded"] == "by code"
    assert seen["kinds"][0] == "response.created"
    assert seen["kinds"][-1] == "response.completed"
    again, _ = seen["streamed"]
    assert again["outputs"] == [{"type": "logs", "logs": "'by code'"}]
    assert again["container_id"] == cell["container_id"]
    put, by_json, by_form = seen["attached"]
    assert put == "/mnt/data/über.txt"
    assert by_json == by_form == "/mnt/data/zwölf.csv"
    assert seen["files"] == {put: 14, by_json: 4}
    assert seen["sent"] == "sent as a form"
    assert seen["file"] == ["zwölf.csv", "1,2\n"]
    assert (seen["listed"], seen["deleted"], seen["container"]) == (True, True, "running")
    assert seen["compacted"] == ["message", "compaction"]
    assert seen["refused"] == ["missing_required_parameter", "tools[0].container"]
