"""A vendor that nobody has heard of: on a known wire it is one row and no code, and every face serves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from belljar.testing import LoopbackUpstream

ROW = """
from belljar.vendors.chat import servers
from belljar.vendors.vendor import Vendor

servers.VENDORS += (
    Vendor(
        name="acme",
        title="Acme",
        aliases=("rockets",),
        keys=("ACME_API_KEY",),
        address="ACME_BASE_URL",
        base_url="https://api.acme.example/v1",
        hosts=("acme.example",),
        model="rocket-1",
        client="belljar.providers.chat_client:ChatClient",
    ),
)
"""

CLIENT = """
from belljar.providers import create_client

with create_client("Rockets") as client:
    print(client.provider, client.get_model(), client.send_message("Hi").text)
"""

GATEWAY = """
from belljar.openai import OpenAI

with OpenAI.local() as client:
    print(client.responses.create(model="acme/rocket-1", input="Hi").output_text)
"""

MODELS = """
import sys
from belljar.cli import main

sys.exit(main(["models", "--json"]))
"""


def run(code: str, server: LoopbackUpstream, home: Path) -> str:
    environment = {**os.environ, "HOME": str(home), "ACME_API_KEY": "sk-acme", "ACME_BASE_URL": server.base_url}
    done = subprocess.run(
        [sys.executable, "-c", ROW + code], capture_output=True, text=True, env=environment, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_and_the_gateway_ask_it(tmp_path: Path) -> None:
    with LoopbackUpstream(["Up.", "And away."], models=["rocket-1"]) as server:
        assert run(CLIENT, server, tmp_path) == "acme rocket-1 Up.\n"
        assert run(GATEWAY, server, tmp_path) == "And away.\n"
        asked = [one for one in server.requests if one.path.endswith("/chat/completions")]
    assert [one.json["model"] for one in asked] == ["rocket-1"] * 2
    assert {one.headers["authorization"] for one in asked} == {"Bearer sk-acme"}


def test_it_stands_among_the_models(tmp_path: Path) -> None:
    with LoopbackUpstream() as server:
        rows = json.loads(run(MODELS, server, tmp_path))
    [row] = [one for one in rows if one["provider"] == "acme"]
    assert (row["usable"], row["models"]) == (True, ["rocket-1"])
