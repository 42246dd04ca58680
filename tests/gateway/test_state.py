"""What lives on: chains, conversations, background runs, healed containers, restarts."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import CODE, OUTPUTS, House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import ask, messages

from belljar.testing import Reply, ReplyStep, call


def wait_for(client: OpenAI, id: str, *states: str) -> Any:
    """Poll as a user would; pytest's own time limit ends a wait that is in vain."""
    while (found := client.responses.retrieve(id)).status not in states:
        time.sleep(0.02)
    return found


def test_a_response_is_kept_told_and_deleted(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1 + 1")], "two")
    made = ask(client, "add", metadata={"k": "v"})
    plain = client.responses.retrieve(made.id)
    assert cell(plain).outputs is None
    full = client.responses.retrieve(made.id, include=cast(Any, OUTPUTS))
    assert full.model_dump() == made.model_dump()
    [item] = client.responses.input_items.list(made.id)
    assert item.type == "message"
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, previous_response_id=made.id)
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


def test_store_false_leaves_nothing_behind(client: OpenAI, scene: Scene) -> None:
    scene.play("gone")
    made = ask(client, tools=[], store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_conversations_remember(client: OpenAI, scene: Scene) -> None:
    conversation = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "My name is Ada."}], metadata={"topic": "names"}
    )
    scene.play("Hello Ada.", "You are Ada.")
    ask(client, "Hi", tools=[], conversation=conversation.id)
    ask(client, "Who am I?", tools=[], conversation={"id": conversation.id})
    assert [one["content"] for one in messages(scene)] == ["My name is Ada.", "Hi", "Hello Ada.", "Who am I?"]
    items = list(client.conversations.items.list(conversation.id, order="asc"))
    assert [cast(Any, item).role for item in items] == ["user", "user", "assistant", "user", "assistant"]
    assert client.conversations.retrieve(conversation.id).metadata == {"topic": "names"}
    client.conversations.delete(conversation.id)
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(conversation.id)


def test_a_conversation_keeps_its_container(client: OpenAI, scene: Scene) -> None:
    conversation = client.conversations.create()
    scene.play([call("code_interpreter", code="kept = 7")], "ok", [call("code_interpreter", code="kept")], "7")
    ask(client, conversation=conversation.id)
    assert logs(ask(client, conversation=conversation.id)) == "7"


def test_a_background_response_goes_on_and_can_be_followed_from_anywhere(client: OpenAI, scene: Scene) -> None:
    gate = threading.Event()
    scene.play(Reply(steps=["one ", "two ", gate, "three"]))
    begun = ask(client, tools=[], background=True)
    assert begun.status == "queued"
    assert begun.usage is None
    wait_for(client, begun.id, "queued", "in_progress")
    stream = client.responses.retrieve(begun.id, stream=True)
    seen = [next(stream)]
    while seen[-1].type != "response.output_text.delta":
        seen.append(next(stream))
    gate.set()
    seen.extend(stream)
    kinds: list[str] = [event.type for event in seen]
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert kinds[-1] == "response.completed"
    done = wait_for(client, begun.id, "completed")
    assert done.output_text == "one two three"
    again = client.responses.retrieve(begun.id, stream=True, starting_after=3)
    assert [event.model_dump() for event in again] == [event.model_dump() for event in seen[4:]]


def test_a_background_response_can_be_cancelled(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="import time; time.sleep(600)")], "never")
    begun = ask(client, background=True)
    until_interpreting(client, begun.id)  # or its model might be asked in the middle of the next scene
    cancelled = client.responses.cancel(begun.id)
    assert cancelled.status == "cancelled"
    assert client.responses.cancel(begun.id).status == "cancelled"
    assert client.responses.retrieve(begun.id).status == "cancelled"
    scene.play("done")
    finished = ask(client, tools=[])
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(finished.id)


def test_a_background_response_that_fails_says_so(client: OpenAI, scene: Scene) -> None:
    scene.play(Reply(status=400, body=b'{"error":{"message":"no such thing"}}'))
    failed = wait_for(client, ask(client, tools=[], background=True).id, "failed", "completed")
    assert failed.status == "failed"
    assert failed.error is not None


def test_compaction_keeps_the_user_and_seals_the_rest(client: OpenAI, scene: Scene) -> None:
    scene.play("The capital is Paris.", "They spoke of Paris.", "Paris, as said.")
    first = ask(client, "Capital of France?", tools=[])
    made = client.responses.with_raw_response.compact(model="sim", previous_response_id=first.id)
    output: Any = json.loads(made.content)["output"]
    assert [item["type"] for item in output] == ["message", "compaction"]
    assert output[0]["content"] == [{"type": "input_text", "text": "Capital of France?"}]
    assert "Paris" not in str(output)
    assert (
        ask(client, cast(Any, [*output, {"role": "user", "content": "Again?"}]), tools=[]).output_text
        == "Paris, as said."
    )
    assert "They spoke of Paris." in str(messages(scene))
    sealed = output[1]
    sealed["encrypted_content"] = sealed["encrypted_content"][:-4] + "AAAA"
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, cast(Any, [sealed]), tools=[])
    assert caught.value.param == "input[0].encrypted_content"


def test_a_long_conversation_compacts_itself(client: OpenAI, scene: Scene) -> None:
    long = call("code_interpreter", code="1  # " + "x" * 9000)
    scene.play([long], "the summary", "answer", "follow-up")
    response = ask(client, "go on", context_management=[{"type": "compaction", "compact_threshold": 1000}])
    assert [item.type for item in response.output] == ["code_interpreter_call", "compaction", "message"]
    assert [one["role"] for one in messages(scene, 2)] == ["user", "system"]
    assert "the summary" in str(messages(scene, 2))
    ask(client, "next", previous_response_id=response.id, tools=[])
    assert "the summary" in str(messages(scene))
    assert "xxxx" not in str(messages(scene))


def renamed(response: Any) -> list[dict[str, Any]]:
    """The items as a proxy hands them on that puts its own names in the place of containers, as LiteLLM does."""
    found = [item.to_dict() for item in response.output]
    for item in found:
        if "container_id" in item:
            item["container_id"] = "cntr_bGl0ZWxsbTpjdXN0b21fbGxtX3Byb3ZpZGVyOm9wZW5haQ=="
    return found


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("include", [OUTPUTS, []])
def test_containers_are_found_again_by_the_calls_that_ran_in_them(
    client: OpenAI, scene: Scene, store: bool, include: list[str]
) -> None:
    """The ids of calls are left alone, and tell where they ran."""
    scene.play([call("code_interpreter", code="x = 41")], "set", [call("code_interpreter", code="x += 1")], "added")
    history: list[Any] = [{"role": "user", "content": "set"}]
    asked: Any = {"store": store, "include": include}
    first = ask(client, cast(Any, history), **asked)
    history += [*renamed(first), {"role": "user", "content": "add"}]
    second = ask(client, cast(Any, history), **asked)
    scene.play([call("code_interpreter", code="x")], "42")
    history += [*renamed(second), {"role": "user", "content": "show"}]
    third = ask(client, cast(Any, history), store=store)
    assert logs(third) == "42"
    assert {cell(one).container_id for one in (first, second, third)} == {cell(first).container_id}
    assert "not the container" not in json.dumps(messages(scene))


def test_a_call_that_nobody_knows_has_a_container_of_its_own(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], "one")
    [item, *_] = renamed(ask(client, store=False))
    for id in ("ci_" + "0" * 52, "ci_x", "ci_" + "z" * 52):
        scene.play([call("code_interpreter", code="2")], "two")
        response = ask(client, cast(Any, [{**item, "id": id}, {"role": "user", "content": "go"}]))
        assert logs(response) == "2"


def test_a_chain_whose_sandbox_is_gone_heals(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="v = 1; open('kept.txt', 'w').write('kept')")], "ok")
    first = ask(client)
    scene.play([call("code_interpreter", code="import os; os.kill(1, 9); os._exit(1)")], "ok")
    ask(client, previous_response_id=first.id)
    scene.play([call("code_interpreter", code="'v' in globals(), open('kept.txt').read()")], "ok")
    healed = ask(client, previous_response_id=first.id)
    assert "'kept')" in logs(healed)


def told(scene: Scene) -> list[str]:
    """What the model heard of each call, by the last question that it was asked."""
    return [str(one["content"]) for one in messages(scene) if one["role"] == "tool"]


@pytest.mark.parametrize("by", ["previous_response_id", "conversation", "input"])
def test_a_chain_whose_container_was_deleted_is_told_so_once(client: OpenAI, scene: Scene, by: str) -> None:
    up = client.files.create(file=("up.txt", b"up"), purpose="user_data")
    lost = {"type": "input_file", "filename": "lost.txt", "file_data": "data:text/plain;base64,aGk="}
    given: Any = [{"role": "user", "content": [{"type": "input_file", "file_id": up.id}, lost]}]
    chain: dict[str, Any] = {"conversation": client.conversations.create().id} if by == "conversation" else {}
    scene.play([call("code_interpreter", code="v = 1; open('made.txt', 'w').write('made')")], "ok")
    first = ask(client, given, **chain)
    client.containers.delete(cell(first).container_id)
    look: list[ReplyStep] = [call("code_interpreter", code="import os\n'v' in globals(), os.listdir()")]
    more = {"previous_response_id": first.id} if by == "previous_response_id" else chain
    again = (
        [{"role": "user", "content": given[0]["content"][:1]}, *(item.to_dict() for item in first.output)]
        if by == "input"
        else []
    )
    scene.play(look, look, "It is gone.")
    second = ask(client, cast(Any, [*again, {"role": "user", "content": "and now?"}]), **more)
    assert logs(second) == logs(second, 1) == "(False, ['up.txt'])"
    assert cell(second).container_id != cell(first).container_id
    before, moved, after = told(scene)
    assert moved.startswith("[This is not the container of the earlier calls: their variables and imports are gone, ")
    assert "files" in moved.partition("]")[0]
    assert moved.endswith("(False, ['up.txt'])")
    assert "not the container" not in before + after
    assert ("'lost.txt' was given earlier and is no longer here" in str(messages(scene))) is (by != "input")
    scene.play(look, "still gone")
    third = ask(client, previous_response_id=second.id)
    assert cell(third).container_id == cell(second).container_id
    *earlier, newest = told(scene)
    assert "not the container" not in newest
    assert str(earlier).count("not the container") == 1, "where it was said"


def test_another_container_that_is_named_is_told_of_even_if_the_code_does_not_run(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="v = 1")], "ok")
    first = ask(client)
    named = client.containers.create(name="other").id
    scene.play(
        [call("code_interpreter", code="v", requirements=["no such one"])], [call("code_interpreter", code="1")], "ok"
    )
    ask(client, previous_response_id=first.id, tools=[{"type": "code_interpreter", "container": named}])
    _, unrun, ran = told(scene)
    assert "not the container" in unrun
    assert "was not run" in unrun
    assert ran == "1"


@pytest.fixture
def own_house(scene: Scene, tmp_path: Path) -> House:
    return House(tmp_path / "state", "--upstream", f"loop={scene.server.base_url}")


def test_a_restart_keeps_responses_files_and_containers(own_house: House, scene: Scene) -> None:
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play([call("code_interpreter", code="w = 2; open('a.txt', 'w').write('A')")], "ok")
        first = ask(client, "hello")
        uploaded = client.files.create(file=("up.txt", b"up"), purpose="user_data")
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        assert client.responses.retrieve(first.id).output_text == "ok"
        assert client.files.content(uploaded.id).read() == b"up"
        scene.play([call("code_interpreter", code="'w' in globals(), open('a.txt').read()")], "ok")
        second = ask(client, previous_response_id=first.id)
        assert logs(second) == "(False, 'A')"
        assert cast(Any, cell(second)).belljar["healed"]
        assert "restarted" in str(messages(scene))
        assert cell(second).container_id == cell(first).container_id


def test_kill_minus_nine_leaves_nothing_running_and_nothing_half_written(own_house: House, scene: Scene) -> None:
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play([call("code_interpreter", code="import time; time.sleep(600)")], "never")
        begun = ask(client, background=True)
        seen = [event.type for event in until_interpreting(client, begun.id)]
        house.kill()
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        lost = client.responses.retrieve(begun.id)
        assert lost.status == "failed"
        assert lost.error is not None
        assert "stopped" in lost.error.message
        again = resumed(client, begun.id)
        assert [event["type"] for event in again[: len(seen)]] == seen
        assert [event["type"] for event in again[-2:]] == ["error", "response.failed"]
        assert again[-1]["response"]["status"] == "failed"
        scene.play([call("code_interpreter", code="'alive'")], "ok")
        assert logs(ask(client)) == "'alive'"


def until_interpreting(client: OpenAI, id: str) -> list[Any]:
    """The events of a background response until its code runs."""
    seen: list[Any] = []
    with client.responses.retrieve(id, stream=True) as stream:
        for event in stream:
            seen.append(event)
            if event.type == "response.code_interpreter_call.interpreting":
                break
    return seen


def resumed(client: OpenAI, id: str) -> list[dict[str, Any]]:
    """All events of a background response, numbered without gaps; the SDK would raise at one that tells of an error."""
    answer = httpx2.get(f"{client.base_url}responses/{id}?stream=true", timeout=60)
    frames = [frame.partition("data: ")[2] for frame in answer.text.split("\n\n") if "data: " in frame]
    assert frames.pop() == "[DONE]"
    events = [json.loads(frame) for frame in frames]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def test_a_background_response_that_outlives_its_gateway_has_failed(own_house: House, scene: Scene) -> None:
    """Told to stop, it waits a while; then what there is of it is kept."""
    own_house.environment["BELLJAR_DRAIN"] = "1"
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play([call("code_interpreter", code="import time; time.sleep(600)")], "never")
        begun = ask(client, background=True)
        assert client.responses.retrieve(begun.id).status == "in_progress"
        until_interpreting(client, begun.id)
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        ended = client.responses.retrieve(begun.id)
        assert (ended.status, cell(ended).status) == ("failed", "incomplete")
        assert ended.error is not None
        assert "stopped" in ended.error.message
        assert [event["type"] for event in resumed(client, begun.id)][-2:] == ["error", "response.failed"]


def test_a_directory_has_one_gateway_and_the_commands_beside_it(own_house: House, scene: Scene) -> None:
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play([call("code_interpreter", code="import time; time.sleep(600)")], "never")
        begun = ask(client, background=True)
        until_interpreting(client, begun.id)
        second = House(house.state).run()
        assert (second.returncode, second.stdout.count("\n")) == (2, 1)
        told = json.loads(second.stdout)
        assert (told["output"], told["code"]) == ("error", "invalid_request")
        for word in (str(house.state), f"process {house.process.pid} on ", "--state-dir"):
            assert word in told["message"]
        assert "Traceback" not in second.stderr
        assert client.responses.retrieve(begun.id).status == "in_progress"
        made = house.keys("add", "beside")
        assert house.keys("revoke", made["id"])["revoked_at"]
        assert client.responses.cancel(begun.id).status == "cancelled"


@pytest.mark.parametrize("moment", ["at once", "while the model talks", "while code runs", "at its end"])
def test_a_background_response_that_is_deleted_stays_so(
    client: OpenAI, house: House, scene: Scene, moment: str
) -> None:
    gate = threading.Event()
    code = "import time; time.sleep(600)" if moment == "while code runs" else "1"
    scene.play(Reply(steps=["a ", gate, call("code_interpreter", code=code)]), "b")
    if moment == "at once":  # with a model that no late request can confuse
        begun = ask(client, "```python\nimport time; time.sleep(600)\n```", model="belljar", background=True)
    else:
        begun = ask(client, background=True)
        stream = client.responses.retrieve(begun.id, stream=True)
        next(event for event in stream if event.type == "response.output_text.delta")
        if moment != "while the model talks":
            gate.set()
        if moment == "while code runs":
            next(event for event in stream if event.type == "response.code_interpreter_call.interpreting")
        elif moment == "at its end":
            next(event for event in stream if event.type == "response.code_interpreter_call.completed")
    client.responses.delete(begun.id)
    gate.set()
    assert ask(client, model="belljar", tools=[]).output_text
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(begun.id)
    rows = sqlite3.connect(f"file:{house.state / 'records.db'}?mode=ro", uri=True)
    assert rows.execute("SELECT count(*) FROM responses WHERE id = ?", (begun.id,)).fetchone() == (0,)
    assert rows.execute("SELECT count(*) FROM events WHERE response_id = ?", (begun.id,)).fetchone() == (0,)
    rows.close()


def test_cancelling_from_several_sides_at_once(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="import time; time.sleep(600)")], "never")
    begun = ask(client, background=True)
    until_interpreting(client, begun.id)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: client.responses.cancel(begun.id), range(8)))
    assert [one.status for one in told] == ["cancelled"] * 8
    assert {cell(one).status for one in told} == {"incomplete"}


def test_an_explicit_container_that_expired_is_refused_and_auto_heals_it(own_house: House, scene: Scene) -> None:
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play([call("code_interpreter", code="open('f', 'w').write('f')")], "ok")
        first = ask(client)
    rows = sqlite3.connect(own_house.state / "records.db")
    with rows:
        rows.execute("UPDATE containers SET last_active_at = last_active_at - 3600")
    rows.close()
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        id = cell(first).container_id
        assert client.containers.retrieve(id).status == "expired"
        with pytest.raises(openai.BadRequestError, match="Container is expired"):
            ask(client, tools=[{"type": "code_interpreter", "container": id}])
        scene.play([call("code_interpreter", code="open('f').read()")], "ok")
        assert logs(ask(client, previous_response_id=first.id, tools=CODE)) == "'f'"
        assert client.containers.retrieve(id).status == "running"


def test_a_gateway_without_the_interpreter_refuses_it_by_name(scene: Scene, tmp_path: Path) -> None:
    settings = tmp_path / "config.yaml"
    settings.write_text("providers:\n  code_interpreter:\n    enabled: false\n")
    with (
        House(tmp_path / "state", "--config", str(settings), "--upstream", f"loop={scene.server.base_url}") as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="switched off") as caught:
            ask(client)
        assert caught.value.param == "tools[0].type"
        scene.play("fine without")
        assert ask(client, tools=[]).output_text == "fine without"
        assert "tools" not in scene.asked[0].json


def test_nothing_of_an_unstored_response_is_in_the_store(own_house: House, scene: Scene) -> None:
    with own_house as house, OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        scene.play("a secret word: xyzzy")
        ask(client, "tell me plugh", tools=[], store=False)
    kept = b"".join(path.read_bytes() for path in own_house.state.rglob("*") if path.is_file())
    assert b"xyzzy" not in kept
    assert b"plugh" not in kept
