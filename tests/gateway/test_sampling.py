"""How words are to be chosen, said through both APIs: carried where the provider takes it, told where it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from tests.gateway.houses import House, Scene

from belljar.testing import Reply

ASKED: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": "hi"}]}
OWN = {"top_k": 40, "min_p": 0.1, "repetition_penalty": 1.1, "chat_template_kwargs": {"enable_thinking": False}}
COMMON: dict[str, Any] = {"stop": ["END"], "seed": 7, "presence_penalty": 0.5, "frequency_penalty": -0.5}


@pytest.fixture(scope="module")
def _groq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scene, House]]:
    """A provider that takes little, known by its name."""
    scene = Scene()
    state = tmp_path_factory.mktemp("groq") / "state"
    with scene.server, House(state, "--upstream", f"groq={scene.server.base_url}") as house:
        yield scene, house


@pytest.fixture
def groq(_groq: tuple[Scene, House]) -> Iterator[tuple[Scene, OpenAI]]:
    scene, house = _groq
    with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        yield scene, client


def frames(*deltas: dict[str, Any], **last: Any) -> Reply:
    """The stream of a model server, by the deltas of its one choice."""
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "sim"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None, **last} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    body = "".join(f"data: {json.dumps({**head, 'choices': [one]})}\n\n" for one in choices)
    return Reply(body=f"{body}data: [DONE]\n\n".encode(), headers={"content-type": "text/event-stream"})


def test_what_the_server_takes_is_carried_from_both_apis(client: OpenAI, scene: Scene) -> None:
    scene.play("Hi.", "Hi.")
    made = client.chat.completions.create(**ASKED, **COMMON, extra_body=OWN)
    answered = client.responses.create(model="sim", input="hi", extra_body=COMMON | OWN)
    for asked in scene.asked:
        assert {name: asked.json.get(name) for name in COMMON | OWN} == COMMON | OWN
    assert "belljar" not in made.to_dict()
    assert "belljar" not in answered.to_dict()
    assert answered.to_dict()["presence_penalty"] == 0.5


def test_what_it_does_not_take_is_told_and_nothing_is_refused(groq: tuple[Scene, OpenAI]) -> None:
    scene, client = groq
    scene.play("Hi.", "Hi.", "Hi.")
    lost = ["chat_template_kwargs", "frequency_penalty", "logprobs", "min_p", "presence_penalty", "repetition_penalty"]
    lost.append("top_k")
    made = client.chat.completions.create(**ASKED, **COMMON, logprobs=True, extra_body=OWN)
    ChatCompletion.model_validate(made.to_dict(), strict=True)
    told: Any = made.to_dict()["belljar"]
    assert [one["param"] for one in told["ignored"]] == lost
    assert "'sim' does not take it" in told["ignored"][0]["message"]
    *_, last = client.chat.completions.create(**ASKED, **COMMON, logprobs=True, extra_body=OWN, stream=True)
    ChatCompletionChunk.model_validate(last.to_dict(), strict=True)
    assert last.to_dict()["belljar"] == told
    answered: Any = client.responses.create(model="sim", input="hi", extra_body=COMMON | OWN).to_dict()
    assert [one["param"] for one in answered["belljar"]["ignored"]] == [one for one in lost if one != "logprobs"]
    for asked in scene.asked:
        assert not asked.json.keys() & (set(lost) | {"repeat_penalty"})
        assert (asked.json["stop"], asked.json["seed"]) == (["END"], 7)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_ends_at_a_stop_even_if_the_model_goes_on(client: OpenAI, scene: Scene, stream: bool) -> None:
    """As agents that think aloud rely on: what they are to observe must not be made up."""
    scene.play("Thought: look it up\nAction: search\nObservation: made up")
    made: Any = client.chat.completions.create(**ASKED, stop=["\nObservation:"], stream=stream)
    if stream:
        chunks = [chunk.choices[0] for chunk in made]
        text, reason = "".join(one.delta.content or "" for one in chunks), chunks[-1].finish_reason
    else:
        text, reason = made.choices[0].message.content, made.choices[0].finish_reason
    assert (text, reason) == ("Thought: look it up\nAction: search", "stop")


def test_logprobs_come_where_they_are_asked_for(client: OpenAI, scene: Scene) -> None:
    told = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    scene.play(frames({"content": "Hi"}, logprobs=told))
    made = client.chat.completions.create(**ASKED, logprobs=True)
    ChatCompletion.model_validate(made.to_dict(), strict=True)
    logprobs = made.choices[0].logprobs
    assert logprobs is not None
    assert [one.token for one in logprobs.content or []] == ["Hi"]


def test_what_the_model_thought_is_told(client: OpenAI, scene: Scene) -> None:
    thought = frames({"reasoning_content": "Let me "}, {"reasoning_content": "think."}, {"content": "Hi."})
    scene.play(thought, thought)
    made = client.chat.completions.create(**ASKED)
    message: Any = made.choices[0].message.to_dict()
    assert (message["reasoning_content"], message["content"]) == ("Let me think.", "Hi.")
    deltas: list[Any] = [
        chunk.choices[0].delta.to_dict() for chunk in client.chat.completions.create(**ASKED, stream=True)
    ]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me think."
    assert "".join(delta.get("content") or "" for delta in deltas) == "Hi."


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"stop": {}}, "stop"),
        ({"top_k": 1.5}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"seed": "seven"}, "seed"),
        ({"logit_bias": {"1": "much"}}, "logit_bias.1"),
        ({"chat_template_kwargs": "x"}, "chat_template_kwargs"),
    ],
)
def test_what_is_wrong_is_named_in_both_apis(client: OpenAI, given: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.chat.completions.create(**ASKED, extra_body=given)
    assert caught.value.param == param
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(model="sim", input="hi", extra_body=given)
    assert caught.value.param == param
