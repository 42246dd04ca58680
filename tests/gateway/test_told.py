"""What the model reads: of its container before it calls, and of its calls afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Literal, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import OUTPUTS, House, Scene
from tests.gateway.test_first_minute import cell, logs, said
from tests.gateway.test_loop import ask, messages
from tests.unit.test_packages import wheel

from belljar.testing import Reply, ReplyStep, call

HANDY = "import importlib.util as util; print(util.find_spec('handy'))"
MAKE = "open('made.csv', 'w').write('a\\n1\\n');"


@pytest.fixture(scope="module")
def large(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Containers have more memory than usual, packages come from a directory, and a response has few turns."""
    home = tmp_path_factory.mktemp("large")
    (home / "links").mkdir()
    wheel(home / "links", "handy")
    given = {
        "BELLJAR_CONTAINER_MEMORY": "4g",
        "BELLJAR_FIND_LINKS": str(home / "links"),
        "BELLJAR_OFFLINE": "true",
        "BELLJAR_CACHE_DIR": str(home / "cache"),
        "BELLJAR_MAX_TURNS": "3",
    }
    with House(home / "state", "--upstream", f"loop={_scene.server.base_url}", environment=given) as house:
        yield house


@pytest.fixture
def roomy(large: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=large.base_url, api_key="none", max_retries=0) as client:
        yield client


def description(scene: Scene, turn: int = -1) -> str:
    [tool] = scene.asked[turn].json["tools"]
    return cast(str, tool["function"]["description"])


def auto(**more: Any) -> list[dict[str, Any]]:
    return [{"type": "code_interpreter", "container": {"type": "auto", **more}}]


# -- the container, before the first call -----------------------------------------------------------------------------

By = Literal["previous_response_id", "conversation", "input"]


def follow_up(client: OpenAI, first: Response, by: By, **more: Any) -> Response:
    """The same conversation goes on, kept by the gateway or by the caller."""
    match by:
        case "previous_response_id":
            return ask(client, "and now", previous_response_id=first.id, **more)
        case "conversation":
            assert first.conversation is not None
            return ask(client, "and now", conversation=first.conversation.id, **more)
        case "input":
            items: Any = [*(one.model_dump() for one in first.output), {"role": "user", "content": "and now"}]
            return ask(client, items, store=False, **more)


@pytest.mark.parametrize("by", ["previous_response_id", "conversation", "input"])
def test_a_follow_up_tells_what_is_there_before_the_model_calls(roomy: OpenAI, scene: Scene, by: By) -> None:
    scene.play([call("code_interpreter", code=MAKE, requirements=["handy"])], "made", "Nothing to run.")
    more = {"conversation": roomy.conversations.create().id} if by == "conversation" else {}
    first = ask(roomy, **more)
    follow_up(roomy, first, by)
    note = "[/mnt/data holds now:\n- /mnt/data/made.csv (4 bytes)\nInstalled by earlier calls: handy.]"
    assert messages(scene)[-1] == {"role": "user", "content": f"and now\n{note}"}
    assert description(scene) == description(scene, 0)


def test_memory_is_told_as_it_will_be(roomy: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], "ok", "more", "less")
    first = ask(roomy)
    assert "; 4 GiB of memory" in description(scene, 0)
    ask(roomy, previous_response_id=first.id, tools=auto(memory_limit="16g"))
    assert "; 16 GiB of memory" in description(scene)
    ask(roomy, previous_response_id=first.id, tools=auto(memory_limit="1g"))
    assert "; 4 GiB of memory" in description(scene)
    held = roomy.containers.retrieve(cell(first).container_id)
    assert held.memory_limit == "4g", "only told of: no code was run that would need more"


def test_an_earlier_file_is_cited_by_an_answer_that_runs_nothing(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=MAKE)], "made", "Here: [made.csv](sandbox:/mnt/data/made.csv).")
    first = ask(client)
    again = ask(client, "the link again, please", previous_response_id=first.id)
    [citation] = said(again).annotations
    assert citation.type == "container_file_citation"
    assert citation.container_id == cell(first).container_id
    assert client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id).read()


def test_a_container_that_was_deleted_is_not_told_of(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=MAKE)], "made", "[made.csv](sandbox:/mnt/data/made.csv)")
    first = ask(client)
    client.containers.delete(cell(first).container_id)
    gone = ask(client, previous_response_id=first.id)
    assert "holds now" not in str(messages(scene))
    assert said(gone).annotations == []


def test_of_what_was_deleted_while_the_model_wrote_nothing_is_cited(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=MAKE)], "made")
    first = ask(client)
    gate = threading.Event()
    scene.play(Reply(steps=[gate, call("code_interpreter", code="1")]), "[made.csv](sandbox:/mnt/data/made.csv)")
    tools: Any = auto()
    with client.responses.stream(model="sim", tools=tools, input="go", previous_response_id=first.id) as stream:
        next(iter(stream))
        client.containers.delete(cell(first).container_id)
        gate.set()
        response = stream.get_final_response()
    assert "made.csv (4 bytes)]" in messages(scene, 0)[-1]["content"]
    assert "not the container of the earlier calls" in messages(scene)[-1]["content"]
    assert cell(response).container_id != cell(first).container_id
    assert said(response).annotations == []


# -- calls without code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [{"code": ""}, {"code": None}, {}, {"code": " \n\t"}, {"code": "```python\n```"}, {"requirements": ["handy"]}],
    ids=str,
)
def test_a_call_without_code_is_told_as_that(roomy: OpenAI, scene: Scene, given: dict[str, Any]) -> None:
    scene.play([call("code_interpreter", **given)], [call("code_interpreter", code=HANDY)], "It is not.")
    response = ask(roomy)
    assert [cell(response, number).status for number in range(2)] == ["failed", "completed"]
    for text in (logs(response), messages(scene, 1)[-1]["content"]):
        assert text.startswith("The code was not run. The call had none: `code` was empty, null or left out.")
    assert logs(response, 1) == "None\n", "nothing was installed"


# -- too many turns ---------------------------------------------------------------------------------------------------

AGAIN: list[ReplyStep] = [call("code_interpreter", code="open('made.csv', 'w').write('a');")]


def test_turns_that_end_without_an_answer_are_incomplete(roomy: OpenAI, scene: Scene) -> None:
    scene.play(AGAIN, AGAIN, AGAIN)
    response = ask(roomy)
    assert len(scene.asked) == 3
    assert "tools" not in scene.asked[-1].json
    assert (response.status, response.completed_at) == ("incomplete", None)
    assert cast(Any, response.incomplete_details).reason == "max_messages"
    assert [one.filename for one in cast(Any, said(response).annotations)] == ["made.csv"], "what was made can be had"
    scene.play("Here I am again.")
    assert ask(roomy, previous_response_id=response.id).output_text == "Here I am again."


@pytest.mark.parametrize("words", ["", "I will try once more."])
def test_calls_of_what_is_not_there_do_not_make_an_answer(roomy: OpenAI, scene: Scene, words: str) -> None:
    again: list[ReplyStep] = [words, call("browse", url="x")]
    scene.play(again, again, again)
    assert ask(roomy).status == "incomplete"


def test_silence_in_the_last_turn_is_incomplete_too(roomy: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], [call("code_interpreter", code="2")], "")
    response = ask(roomy)
    assert response.status == "incomplete"
    assert [item.type for item in response.output] == ["code_interpreter_call"] * 2


def test_an_answer_in_the_last_turn_is_an_answer(roomy: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], [call("code_interpreter", code="2")], "three")
    response = ask(roomy)
    assert (response.status, response.incomplete_details, response.output_text) == ("completed", None, "three")


def test_calls_beyond_the_most_do_not_make_an_answer(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1")], [call("code_interpreter", code="2")])
    response = ask(client, max_tool_calls=1)
    assert response.status == "incomplete"
    assert cast(Any, response.incomplete_details).reason == "max_messages"
    assert logs(response) == "1"
    scene.play([call("code_interpreter", code="1")], ["Enough.", call("code_interpreter", code="2")])
    assert ask(client, max_tool_calls=1).status == "completed"


def test_a_stream_ends_with_incomplete_and_chat_completions_with_length(roomy: OpenAI, scene: Scene) -> None:
    scene.play(AGAIN, AGAIN, AGAIN)
    with roomy.responses.stream(model="sim", tools=cast(Any, auto()), input="go") as stream:
        kinds = [event.type for event in stream]
    assert kinds[-1] == "response.incomplete"
    assert "response.completed" not in kinds
    scene.play(AGAIN, AGAIN, AGAIN)
    answer = roomy.chat.completions.create(
        model="sim", messages=[{"role": "user", "content": "go"}], tools=cast(Any, auto())
    )
    assert answer.choices[0].finish_reason == "length"


# -- what is told is kept, and shown to nobody ------------------------------------------------------------------------


def test_notes_are_the_models_alone(client: OpenAI, scene: Scene) -> None:
    conversation = client.conversations.create()
    scene.play([call("code_interpreter", code=MAKE)], "made", "So it is.", "As told.")
    ask(client, "make", conversation=conversation.id)
    second = ask(client, "and", conversation=conversation.id)
    ask(client, "and?", conversation=conversation.id)
    assert str(messages(scene)).count("holds now") == 1, "told again only when it has changed"
    scene.play("The summary.")
    shown = [
        client.conversations.items.list(conversation.id, include=cast(Any, OUTPUTS)).model_dump_json(),
        client.responses.input_items.list(second.id).model_dump_json(),
        client.responses.retrieve(second.id).model_dump_json(),
        client.responses.with_raw_response.compact(model="sim", previous_response_id=second.id).text,
    ]
    for text in shown:
        assert "holds now" not in text
        assert '"told"' not in text
