"""What the acceptance tests of Open Responses ask of a server, all seventeen, checked by that specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.gateway.houses import House, Scene
from tests.gateway.shapes import by_open_responses, event_by_open_responses, open_responses
from tests.gateway.wiretap import TERMINAL, Wire
from websockets.sync.client import ClientConnection, connect

from belljar.testing import call

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture
def wire(house: House) -> Wire:
    return Wire(house.base_url)


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def asked(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "sim", "input": list(items), **more}


def complete(response: dict[str, Any]) -> dict[str, Any]:
    by_open_responses(response, "ResponseResource")
    assert response["status"] == "completed"
    assert response["output"]
    return response


# -- HTTP -------------------------------------------------------------------------------------------------------------


def test_basic_response(wire: Wire, scene: Scene) -> None:
    scene.play("Hello to you.")
    complete(wire.post("/responses", asked(user("Say hello."))))


def test_all_required_fields_are_in_every_snapshot(wire: Wire, scene: Scene) -> None:
    required = open_responses()["components"]["schemas"]["ResponseResource"]["required"]
    assert len(required) == 31
    scene.play("Hello.")
    snapshots = [event["response"] for event in wire.stream(asked(user("Say hello."))) if "response" in event]
    assert len(snapshots) == 3
    for snapshot in snapshots:
        assert set(required) <= set(snapshot)


def test_assistant_phase(wire: Wire, scene: Scene) -> None:
    scene.play("Done.")
    history = [
        user("Look it up."),
        {"type": "message", "role": "assistant", "content": "Looking.", "phase": "commentary"},
        {"type": "message", "role": "assistant", "content": "Found.", "phase": "final_answer"},
        user("And now?"),
    ]
    response = complete(wire.post("/responses", asked(*history)))
    kept = wire.get(f"/responses/{response['id']}/input_items?order=asc")["data"]
    assert [item.get("phase") for item in kept] == [None, "commentary", "final_answer", None]


def test_response_output_phase_schema(wire: Wire, scene: Scene) -> None:
    """An output message with a phase is one by the specification; ours have the same shape."""
    scene.play("Done.")
    response = complete(wire.post("/responses", asked(user("Go."))))
    [message] = response["output"]
    for phase in ("commentary", "final_answer"):
        by_open_responses({**response, "output": [{**message, "phase": phase}]}, "ResponseResource")


def test_streaming_response(wire: Wire, scene: Scene) -> None:
    scene.play("Count: one, two, three.")
    events = wire.stream(asked(user("Count to three.")))
    for event in events:
        event_by_open_responses(event)
    assert [event["type"] for event in events if event["type"] in TERMINAL] == ["response.completed"]
    complete(events[-1]["response"])


def test_an_event_is_never_split_over_two_writes(wire: Wire, scene: Scene) -> None:
    """The acceptance tests' own parser forgets, between two reads, what it has of an event."""
    scene.play("One two three four five six seven eight nine ten.")
    for chunk in wire.chunks({**asked(user("Count.")), "stream": True}):
        assert chunk.endswith(b"\n\n")


def test_system_prompt(wire: Wire, scene: Scene) -> None:
    scene.play("Ahoy!")
    complete(
        wire.post("/responses", asked({"type": "message", "role": "system", "content": "Be a pirate."}, user("Hi.")))
    )
    assert scene.asked[0].json["messages"][0] == {"role": "system", "content": "Be a pirate."}


def test_tool_calling(wire: Wire, scene: Scene) -> None:
    scene.play([call("get_weather", city="San Francisco")])
    response = complete(wire.post("/responses", asked(user("The weather?"), tools=[WEATHER])))
    [item] = response["output"]
    assert (item["type"], item["name"]) == ("function_call", "get_weather")
    assert json.loads(item["arguments"]) == {"city": "San Francisco"}


def test_image_input(wire: Wire, scene: Scene) -> None:
    scene.play("A pixel.")
    content = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": PIXEL}]
    complete(wire.post("/responses", asked({"type": "message", "role": "user", "content": content}, model="llava")))
    assert PIXEL in scene.asked[0].body.decode()


def test_multi_turn(wire: Wire, scene: Scene) -> None:
    scene.play("You are Ada.")
    said = {"type": "message", "role": "assistant", "content": "Hello Ada."}
    complete(wire.post("/responses", asked(user("I am Ada."), said, user("Who am I?"))))
    assert [one["role"] for one in scene.asked[0].json["messages"]] == ["user", "assistant", "user"]


def test_compact_response(wire: Wire, scene: Scene) -> None:
    scene.play("They met.")
    compacted = wire.post("/responses/compact", asked(user("I am Ada."), user("Remember."), prompt_cache_key="key"))
    by_open_responses(compacted, "CompactResource")
    assert compacted["object"] == "response.compaction"
    assert [item["type"] for item in compacted["output"]].count("compaction") == 1


def test_compact_missing_model(wire: Wire) -> None:
    answer = wire.send("POST", "/responses/compact", {"input": [user("I am Ada.")]})
    assert answer.status == 400
    assert answer.json["error"]["param"] == "model"


# -- WebSocket --------------------------------------------------------------------------------------------------------


class Socket:
    """A connection, a turn at a time."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def turn(self, *items: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """The events of a turn, or its error."""
        self._connection.send(json.dumps({"type": "response.create", **asked(*items, **more)}))
        events: list[dict[str, Any]] = []
        while not events or (events[-1]["type"] not in TERMINAL and not is_refusal(events[-1])):
            events.append(json.loads(self._connection.recv(timeout=60)))
        for number, event in enumerate(events):
            if is_refusal(event):
                by_open_responses(event, "WebSocketErrorEvent")
            else:
                event_by_open_responses(event)
                assert event["sequence_number"] == number
        return events

    def answered(self, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
        return complete(self.turn(*items, **more)[-1]["response"])

    def refused(self, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
        [event] = self.turn(*items, **more)
        assert event["status"] == 400
        error: dict[str, Any] = event["error"]
        return error


def is_refusal(event: dict[str, Any]) -> bool:
    """An error instead of a stream; within a stream, `response.failed` follows the error."""
    return event["type"] == "error" and "sequence_number" not in event


@pytest.fixture
def sockets(house: House) -> Iterator[Any]:
    opened: list[ClientConnection] = []

    def open() -> Socket:
        opened.append(connect(f"{house.base_url.replace('http', 'ws', 1)}/responses"))
        return Socket(opened[-1])

    yield open
    for connection in opened:
        connection.close()


def test_websocket_response(sockets: Any, scene: Scene) -> None:
    scene.play("Hello.")
    sockets().answered(user("Say hello."))


def test_websocket_sequential_responses(sockets: Any, scene: Scene) -> None:
    scene.play("One.", "Two.")
    socket = sockets()
    first = socket.answered(user("One?"), store=False)
    second = socket.answered(user("Two?"), store=False)
    assert first["id"] != second["id"]


def test_websocket_continuation(sockets: Any, scene: Scene) -> None:
    scene.play("Hello Ada.", "You are Ada.")
    socket = sockets()
    first = socket.answered(user("I am Ada."), store=False)
    socket.answered(user("Who am I?"), store=False, previous_response_id=first["id"])
    assert [one["content"] for one in scene.asked[1].json["messages"]] == ["I am Ada.", "Hello Ada.", "Who am I?"]


def test_websocket_reconnect_store_false_recovery(sockets: Any, scene: Scene) -> None:
    scene.play("Hello Ada.", "Who?")
    first = sockets().answered(user("I am Ada."), store=False)
    fresh = sockets()
    error = fresh.refused(user("Who am I?"), store=False, previous_response_id=first["id"])
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")
    fresh.answered(user("Who am I?"), store=False)


def test_websocket_previous_response_not_found(sockets: Any) -> None:
    error = sockets().refused(user("Go on."), previous_response_id="resp_nobody_knows")
    assert error["code"] == "previous_response_not_found"


def test_websocket_failed_continuation_evicts_cache(sockets: Any, scene: Scene) -> None:
    scene.play([call("get_weather", city="Rome")])
    socket = sockets()
    first = socket.answered(user("The weather?"), store=False, tools=[WEATHER])
    unknown = {"type": "function_call_output", "call_id": "call_unknown", "output": "warm"}
    socket.refused(unknown, store=False, previous_response_id=first["id"])
    known = {**unknown, "call_id": first["output"][0]["call_id"]}
    error = socket.refused(known, store=False, previous_response_id=first["id"])
    assert error["code"] == "previous_response_not_found"


def test_websocket_compact_new_chain(wire: Wire, sockets: Any, scene: Scene) -> None:
    scene.play("Hello Ada.", "Ada was greeted.", "You are Ada.")
    socket = sockets()
    first = socket.answered(user("I am Ada."))
    compacted = wire.post("/responses/compact", {"model": "sim", "previous_response_id": first["id"]})
    socket.answered(*compacted["output"], user("Who am I?"), store=False)
    assert "Ada was greeted." in scene.asked[2].body.decode()
