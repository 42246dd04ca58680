"""A vendor that nobody has heard of, whom every face serves.

On a known wire it is one row and no code. With a wire of its own it is a package with a folder of pure modules and a
client of sixty lines, which is found by being installed: `tin_can` beside this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

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


def run(code: str, home: Path, **variables: str) -> str:
    """What the program prints, with nothing said on the side."""
    environment = {**os.environ, "HOME": str(home), **variables}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# -- one row ----------------------------------------------------------------------------------------------------------


def run_row(code: str, server: LoopbackUpstream, home: Path) -> str:
    return run(ROW + code, home, ACME_API_KEY="sk-acme", ACME_BASE_URL=server.base_url)


def test_the_library_and_the_gateway_ask_it(tmp_path: Path) -> None:
    with LoopbackUpstream(["Up.", "And away."], models=["rocket-1"]) as server:
        assert run_row(CLIENT, server, tmp_path) == "acme rocket-1 Up.\n"
        assert run_row(GATEWAY, server, tmp_path) == "And away.\n"
        asked = [one for one in server.requests if one.path.endswith("/chat/completions")]
    assert [one.json["model"] for one in asked] == ["rocket-1"] * 2
    assert {one.headers["authorization"] for one in asked} == {"Bearer sk-acme"}


def test_it_stands_among_the_models(tmp_path: Path) -> None:
    with LoopbackUpstream() as server:
        rows = json.loads(run_row(MODELS, server, tmp_path))
    [row] = [one for one in rows if one["provider"] == "acme"]
    assert (row["usable"], row["models"]) == (True, ["rocket-1"])


# -- a wire of its own ------------------------------------------------------------------------------------------------

PACKAGE = Path(__file__).parent / "tin_can"
OVER = {"over": [3, 2]}

TALK = """
from belljar import RateLimited
from belljar.providers import create_client
from belljar.providers.failures import ClientError

add = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"a": {}, "b": {}}}}
heard = []
with create_client("String", tools=[add], system="Be brief.") as client:
    asked = client.send_message("Hi", on_text=heard.append)
    [call] = asked.tool_calls
    done = client.send_tool_results([{"tool_use_id": call["id"], "content": "3"}])
    print(client.provider, client.get_model(), heard, call["name"], call["input"], done.text, done.usage.total_tokens)
    try:
        client.send_message("More")
    except RateLimited as error:
        print(type(error).__name__, isinstance(error, ClientError), error.error_code, error.after)
"""

SERVE = """
import openai
from belljar.openai import OpenAI

with OpenAI.local() as client:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    ran = client.responses.create(model="tin-2", input="Add", tools=tools)
    print([item.type for item in ran.output], ran.output_text, ran.usage.total_tokens)
    try:
        client.responses.create(model="tin_can/tin-1", input="More")
    except openai.RateLimitError as error:
        print(error.code, error.response.headers.get("x-should-retry"))

upstreams = {"far": {"base_url": %r, "dialect": "tin_can", "api_key": "sk-far"}}
with OpenAI.local(upstreams=upstreams) as client:
    print(client.responses.create(model="far/tin-1", input="Hi").output_text)
"""


class TinCan:
    """A server of Tin Can's wire: a list of lines a question, or the status and the body of an error."""

    def __init__(self, *script: list[dict[str, Any]] | tuple[int, dict[str, Any]]) -> None:
        left, self.asked = list(script), list[tuple[str, str, Any]]()
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._send(200, json.dumps({"data": [{"id": "tin-2"}, {"id": "tin-1"}]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                asked.append((self.path, self.headers["x-can-key"], body))
                answer = left.pop(0)
                if isinstance(answer, tuple):
                    self._send(answer[0], json.dumps({"oops": answer[1]}).encode())
                else:
                    self._send(200, b"".join(json.dumps(line).encode() + b"\n" for line in answer))

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02))
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def run_installed(code: str, server: TinCan, home: Path) -> str:
    path = os.pathsep.join(filter(None, [str(PACKAGE), os.environ.get("PYTHONPATH")]))
    return run(code, home, PYTHONPATH=path, TIN_CAN_API_KEY="sk-can", TIN_CAN_BASE_URL=server.base_url)


def test_the_library_talks_to_it(tmp_path: Path) -> None:
    call = {"do": "add", "with": '{"a": 1, "b": 2}', "as": "c1"}
    limited = (429, {"why": "easy", "kind": "busy", "wait": 4})
    with TinCan([{"words": "I "}, {"words": "add."}, call, OVER], [{"words": "It is 3."}, OVER], limited) as server:
        told = run_installed(TALK, server, tmp_path).splitlines()
    assert told == [
        "tin_can tin-2 ['I ', 'add.'] add {'a': 1, 'b': 2} It is 3. 5",
        "TinCanError True RATE_LIMIT 4.0",
    ]
    (path, key, first), (_, _, second), _ = server.asked
    assert (path, key, first["rules"], first["talk"]) == (
        "/v1/say?to=tin-2",
        "sk-can",
        "Be brief.",
        [{"who": "me", "words": "Hi"}],
    )
    assert [line["who"] for line in second["talk"]] == ["me", "you", "you", "tool"]


def test_the_gateway_runs_code_for_it(tmp_path: Path) -> None:
    code = {"do": "code_interpreter", "with": '{"code": "print(1 + 2)"}', "as": "c1"}
    spent = (429, {"why": "no string left", "kind": "spent"})
    with TinCan([code, OVER], [{"words": "It is 3."}, OVER], spent, [{"words": "Far."}, OVER]) as server:
        told = run_installed(SERVE % server.base_url, server, tmp_path).splitlines()
    assert told == ["['code_interpreter_call', 'message'] It is 3. 10", "insufficient_quota false", "Far."]
    _, (_, _, after), (path, _, _), (_, far, _) = server.asked
    assert [line["who"] for line in after["talk"]] == ["me", "you", "tool"]
    assert after["talk"][2]["words"].startswith("3")
    assert (path, far) == ("/v1/say?to=tin-1", "sk-far")


def test_belljar_models_lists_it(tmp_path: Path) -> None:
    with TinCan() as server:
        rows = json.loads(run_installed(MODELS, server, tmp_path))
    [row] = [one for one in rows if one["provider"] == "tin_can"]
    assert (row["usable"], row["models"]) == (True, ["tin-2", "tin-1"])
