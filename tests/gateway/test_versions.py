"""A container has versions: a response remembers which it left, and whoever goes on from it hears what changed."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, Scene
from tests.gateway.test_first_minute import cell
from tests.gateway.test_loop import ask, messages
from tests.gateway.test_told import By, follow_up

from belljar.testing import Reply, call

BEGIN = "kept = 1; open('data.csv', 'w').write('a'); open('old.csv', 'w').write('o');"
BRANCH = "import os; open('data.csv', 'w').write('bb'); open('new.csv', 'w').write('n'); os.remove('old.csv')"
CHANGED = "[The container has changed since your last turn: "


def left(response: Response) -> dict[str, Any]:
    """The container as the response says that it left it."""
    found: Any = response.to_dict()["belljar"]
    return cast(dict[str, Any], found["container"])


def last(scene: Scene) -> str:
    return cast(str, messages(scene)[-1]["content"])


def test_of_two_branches_the_second_hears_what_the_first_did(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=BEGIN)], "begun", [call("code_interpreter", code=BRANCH)], "branched")
    root = ask(client, "begin")
    one = ask(client, "on", previous_response_id=root.id)
    assert CHANGED not in str([turn.json for turn in scene.asked]), "its own changes are no news to it"
    scene.play("other", "and on", "still")
    other = ask(client, "on too", previous_response_id=root.id)
    note = (
        f"{CHANGED}added new.csv; changed data.csv; removed old.csv; 1 cell was run in it, so variables may differ.]\n"
        "[/mnt/data holds now:\n- /mnt/data/data.csv (2 bytes)\n- /mnt/data/new.csv (1 bytes)]"
    )
    assert last(scene) == f"on too\n{note}"
    prefix = messages(scene)[:-1]
    ask(client, "go on", previous_response_id=other.id)
    assert messages(scene)[: len(prefix)] == prefix, "what was told before stands as it was"
    assert str(messages(scene)).count(CHANGED) == 1, "it is told once"
    ask(client, "go on", previous_response_id=one.id)
    assert CHANGED not in str(messages(scene)), "the first branch knows all of it"


def test_a_response_remembers_the_version_that_it_left(client: OpenAI, scene: Scene) -> None:
    code = call("code_interpreter", code="1")
    scene.play([code], [code], "ran twice", "ran nothing", [code], "ran")
    first = ask(client)
    container = cell(first).container_id
    assert left(first) == {"id": container, "version": 2}
    ends = [cast(Any, item.to_dict())["belljar"]["version"] for item in first.output if item.type != "message"]
    assert ends == [1, 2], "each cell tells the version that it left"
    second = ask(client, previous_response_id=first.id)
    client.containers.files.create(container, file=("up.csv", b"u"))
    third = ask(client, previous_response_id=second.id)
    assert [left(one)["version"] for one in (first, second, third)] == [2, 2, 4]
    assert [left(client.responses.retrieve(one.id)) for one in (first, third)] == [left(first), left(third)]
    scene.play("Hello.")
    assert "belljar" not in ask(client, "hi", tools=[]).to_dict()


@pytest.mark.parametrize("by", ["previous_response_id", "conversation", "input"])
def test_whoever_keeps_the_conversation_it_hears_of_files_that_came_and_went(
    client: OpenAI, scene: Scene, by: By
) -> None:
    scene.play([call("code_interpreter", code=BEGIN)], "begun", "I see.", "I know.")
    more = {"conversation": client.conversations.create().id} if by == "conversation" else {}
    first = ask(client, **more)
    container = cell(first).container_id
    ids = {one.path: one.id for one in client.containers.files.list(container)}
    client.containers.files.delete(ids["/mnt/data/old.csv"], container_id=container)
    client.containers.files.create(container, file=("up.csv", b"u"))
    second = follow_up(client, first, by)
    assert f"{CHANGED}added up.csv; removed old.csv.]" in last(scene)
    if by != "input":
        follow_up(client, second, by)
        assert last(scene) == "and now"


def test_files_of_the_request_itself_are_no_news(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=BEGIN)], "begun", "I see.")
    first = ask(client)
    uploaded = client.files.create(file=("mine.csv", b"m"), purpose="user_data")
    again = ask(
        client,
        previous_response_id=first.id,
        tools=[{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [uploaded.id]}}],
    )
    assert "- /mnt/data/mine.csv" in last(scene)
    assert CHANGED not in last(scene)
    assert left(again)["version"] == left(first)["version"] + 1


def test_what_changes_while_the_model_writes_is_told_with_its_next_call(client: OpenAI, scene: Scene) -> None:
    gate = threading.Event()
    scene.play(
        [call("code_interpreter", code=BEGIN)],
        Reply(steps=[gate, call("code_interpreter", code="2")]),
        [call("code_interpreter", code="3")],
        "done",
    )
    with client.responses.stream(model="sim", tools=cast(Any, CODE), input="go") as stream:
        for event in stream:
            done = event.type == "response.output_item.done" and event.item
            if done and done.type == "code_interpreter_call" and not gate.is_set():
                client.containers.files.create(done.container_id, file=("up.csv", b"u"))
                gate.set()
        response = stream.get_final_response()
    told = [one["content"] for one in messages(scene) if one["role"] == "tool"]
    assert told[1:] == [f"{CHANGED}added up.csv.]\n\n2", "3"]
    assert left(response)["version"] == 4


def test_where_no_message_takes_the_note_the_next_call_is_told(client: OpenAI, scene: Scene) -> None:
    tools: Any = [*CODE, {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]
    scene.play([call("code_interpreter", code=BEGIN)], [call("look")], [call("code_interpreter", code="2")], "done")
    first = ask(client, tools=tools)
    client.containers.files.create(cell(first).container_id, file=("up.csv", b"u"))
    [asked] = [one for one in first.output if one.type == "function_call"]
    answer: Any = [{"type": "function_call_output", "call_id": asked.call_id, "output": "seen"}]
    ask(client, answer, tools=tools, previous_response_id=first.id)
    assert CHANGED not in str(messages(scene, -2))
    assert last(scene) == f"{CHANGED}added up.csv.]\n\n2"


def test_a_file_that_is_as_it_was_is_not_told_of(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=BEGIN)], "begun", "I see.")
    first = ask(client)
    for content in (b"other", b"a"):
        client.containers.files.create(cell(first).container_id, file=("data.csv", content))
    again = ask(client, previous_response_id=first.id)
    assert CHANGED not in last(scene)
    assert left(again)["version"] == left(first)["version"] + 2
