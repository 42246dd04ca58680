"""Codex, OpenAI's command line, as its users install it: only its base URL is ours."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.houses import House, Scene
from tests.gateway.test_node import INSTALLED, NODE

from belljar.testing import call

SETTINGS = """
model = "sim"
model_provider = "belljar"
[model_providers.belljar]
name = "Belljar"
base_url = "{}"
wire_api = "responses"
"""


@pytest.fixture
def codex(house: House, tmp_path: Path) -> Any:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    (home / "config.toml").write_text(SETTINGS.format(house.base_url))

    def run(*words: str) -> list[dict[str, Any]]:
        assert INSTALLED.is_dir(), "Codex is not installed; run: sh scripts/clients"
        command = [str(NODE), str(INSTALLED / "@openai" / "codex" / "bin" / "codex.js"), "exec", "--json"]
        free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        done = subprocess.run(
            [*command, *free, *words],
            cwd=project,
            env={**os.environ, "CODEX_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def items(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [one["item"] for one in events if one["type"] == "item.completed" and one["item"]["type"] == kind]


def test_it_runs_commands_and_goes_on(codex: Any, scene: Scene, tmp_path: Path) -> None:
    scene.play(
        ["<think>Six times seven.</think>", call("exec_command", cmd="echo $((6*7)) | tee made.txt")], "It is 42."
    )
    events = codex("What is six times seven?")
    [command] = items(events, "command_execution")
    assert (command["aggregated_output"], command["exit_code"]) == ("42\n", 0)
    assert [one["text"] for one in items(events, "agent_message")] == ["It is 42."]
    assert (tmp_path / "project" / "made.txt").read_text() == "42\n"
    scene.play("As I said, 42.")
    again = codex("resume", "--last", "Sure?")
    assert [one["text"] for one in items(again, "agent_message")] == ["As I said, 42."]
    said = [message.get("content") for message in scene.asked[-1].json["messages"]]
    assert "It is 42." in said
    assert said[-1] == "Sure?"


def test_tools_in_namespaces_are_called_and_tools_of_openais_own_are_left_out(codex: Any, scene: Scene) -> None:
    """A call that Codex does not find in the namespace it declared would end differently: as one of no known tool."""
    scene.play([call("multi_agent_v1__close_agent", target="nobody")], "There was none.")
    assert [one["text"] for one in items(codex("Close it."), "agent_message")] == ["There was none."]
    names = [tool["function"]["name"] for tool in scene.asked[0].json["tools"]]
    assert "multi_agent_v1__close_agent" in names
    assert "exec_command" in names
    assert not [one for one in names if "search" in one]
    answer = scene.asked[-1].json["messages"][-1]
    assert answer["role"] == "tool"
    assert "invalid agent id" in answer["content"]
