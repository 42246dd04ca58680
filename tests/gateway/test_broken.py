"""Whatever breaks in the gateway, a response comes to an end: it has failed, it is kept so, and its stream says so."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, House, Scene
from websockets.sync.client import connect

from belljar.testing import call

PATIENCE = 60.0
WHERE = ["emitter", "end", "encoder", "interpreter", "records"]
"""What can be broken, and is met by any stream that runs code and is stored."""


class Faulty(House):
    """A gateway whose parts break when they are told to."""

    def start(self, **options: Any) -> subprocess.Popen[str]:
        program = Path(__file__).with_name("faulty.py")
        return subprocess.Popen([sys.executable, str(program), *self.command], text=True, **options)


def put(broken: Path, names: str) -> None:
    """All of it at once: the gateway may look at any moment."""
    new = broken.with_suffix(".new")
    new.write_text(names)
    new.replace(broken)


@pytest.fixture(scope="module")
def faulty(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    state = tmp_path_factory.mktemp("faulty") / "state"
    broken = state.with_name("broken")
    put(broken, "")
    with Faulty(state, "--upstream", f"loop={_scene.server.base_url}", environment={"BROKEN": str(broken)}) as house:
        yield house


@pytest.fixture
def broken(faulty: House) -> Iterator[Path]:
    """What is written here breaks."""
    path = faulty.state.with_name("broken")
    yield path
    put(path, "")


@pytest.fixture
def client(faulty: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=faulty.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(autouse=True)
def script(scene: Scene) -> None:
    scene.play(call("code_interpreter", code="6 * 7"), "It is 42.")


ASKED: Any = {"model": "sim", "input": "six by seven", "tools": CODE}


def events_of(opened: Any) -> list[dict[str, Any]]:
    """Of a stream as it comes: the SDK raises at the first error, and a response that failed is told after it."""
    with opened as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: {")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def ended(client: OpenAI, id: str) -> Any:
    """The response as it is kept, once it has an end."""
    deadline = time.monotonic() + PATIENCE
    while True:
        response = client.responses.retrieve(id)
        if response.status not in ("queued", "in_progress"):
            return response
        assert time.monotonic() < deadline, "it never ends"
        time.sleep(0.05)


def check_failed(response: Any) -> None:
    if not isinstance(response, dict):
        response = response.to_dict()
    assert response["status"] == "failed"
    assert response["error"]["code"] == "server_error"
    assert response["error"]["message"]


def check_ends_as_failed(events: list[dict[str, Any]]) -> str:
    """The id of the response that they are of."""
    numbers = [event["sequence_number"] for event in events]
    assert numbers == sorted(set(numbers))  # what could not be told is missing among them
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    check_failed(events[-1]["response"])
    id: str = events[-1]["response"]["id"]
    return id


@pytest.mark.parametrize("where", WHERE)
def test_a_stream_ends_as_failed(client: OpenAI, broken: Path, where: str) -> None:
    put(broken, where)
    id = check_ends_as_failed(events_of(client.responses.with_streaming_response.create(**ASKED, stream=True)))
    put(broken, "")
    if where != "records":
        check_failed(client.responses.retrieve(id))


@pytest.mark.parametrize("where", [*WHERE, "events"])
def test_one_in_the_background_ends_as_failed(client: OpenAI, broken: Path, where: str) -> None:
    put(broken, where if where != "records" else "")
    begun = client.responses.create(**ASKED, background=True)
    put(broken, where)
    if where == "records":
        with pytest.raises(openai.InternalServerError):
            ended(client, begun.id)  # for as long as nothing can be kept
        put(broken, "")
    response = ended(client, begun.id)
    check_failed(response)
    put(broken, "")
    check_ends_as_failed(events_of(client.responses.with_streaming_response.retrieve(begun.id, stream=True)))
    assert client.responses.retrieve(begun.id) == response


@pytest.mark.parametrize("where", [*WHERE[:-1], "events"])
def test_whoever_follows_one_in_the_background_is_told(client: OpenAI, broken: Path, where: str) -> None:
    put(broken, where)
    opened = client.responses.with_streaming_response.create(**ASKED, background=True, stream=True)
    id = check_ends_as_failed(events_of(opened))
    put(broken, "")
    check_failed(ended(client, id))


@pytest.mark.parametrize("where", WHERE)
def test_a_turn_of_a_websocket_ends_as_failed(faulty: House, broken: Path, where: str) -> None:
    put(broken, where)
    address = faulty.base_url.replace("http://", "ws://") + "/responses"
    with connect(address, open_timeout=PATIENCE, max_size=None) as socket:
        socket.send(json.dumps({"type": "response.create", **ASKED}))
        last: Any = {"type": ""}
        while last["type"] not in ("response.completed", "response.failed"):
            last = json.loads(socket.recv(PATIENCE))
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == "server_error"


@pytest.mark.parametrize("where", WHERE[:-1])
def test_a_chat_ends_with_an_error(client: OpenAI, broken: Path, where: str) -> None:
    put(broken, where)
    asked: Any = {"model": "sim", "messages": [{"role": "user", "content": "six by seven"}], "tools": CODE}
    with pytest.raises(openai.APIError, match="The gateway failed"):
        list(client.chat.completions.create(**asked, stream=True))


@pytest.mark.parametrize("where", ["emitter", "end", "interpreter", "records"])
def test_an_answer_in_one_piece_is_an_error_and_the_next_is_none(
    client: OpenAI, scene: Scene, broken: Path, where: str
) -> None:
    put(broken, where)
    with pytest.raises(openai.InternalServerError, match="request id"):
        client.responses.create(**ASKED)
    put(broken, "")
    scene.play("All is well.")
    assert client.responses.create(model="sim", input="and now?").output_text == "All is well."
