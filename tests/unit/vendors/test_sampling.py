"""What a caller wishes for in sampling, on each wire: in its own words, or not at all and known not to be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from belljar.vendors.dialect import Dialect
from belljar.vendors.registry import KINDS, WIRES
from belljar.vendors.request import ModelRequest
from belljar.wire.items import Message
from belljar.wire.requests import Sampling

ALL = Sampling(
    stop=("END", "\n"),
    seed=7,
    presence_penalty=0.5,
    frequency_penalty=-0.5,
    logit_bias={"5": -100},
    top_k=40,
    min_p=0.1,
    repetition_penalty=1.1,
    chat_template_kwargs={"enable_thinking": False},
)
THEIRS = {
    *("stop", "seed", "presence_penalty", "frequency_penalty", "logit_bias", "top_k", "min_p", "repetition_penalty"),
    *("chat_template_kwargs", "repeat_penalty", "random_seed", "stop_sequences", "stopSequences", "topK"),
    *("presencePenalty", "frequencyPenalty"),
}


def bound(dialect: str, server: str) -> Dialect:
    return KINDS[server].dialect("acme", WIRES[dialect])


def sent(dialect: str, server: str, model: str = "m", asked: Sampling = ALL) -> dict[str, Any]:
    request = ModelRequest(model=model, items=(Message(role="user", content="hi"),), sampling=asked)
    body = json.loads(bound(dialect, server).encode(request))
    return {name: value for name, value in {**body, **body.get("generationConfig", {})}.items() if name in THEIRS}


OPENAI = {
    "stop": ["END"],
    "seed": 7,
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "logit_bias": {"5": -100},
}
OPEN = {**OPENAI, "top_k": 40, "min_p": 0.1}
KWARGS = {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("dialect", "server", "members"),
    [
        ("chat", "generic", {**OPEN, **KWARGS, "repetition_penalty": 1.1}),
        ("chat", "vllm", {**OPEN, **KWARGS, "repetition_penalty": 1.1}),
        ("chat", "llama_cpp", {**OPEN, **KWARGS, "repeat_penalty": 1.1}),
        ("chat", "openai", OPENAI),
        ("chat", "groq", {"stop": ["END"], "seed": 7}),
        (
            "chat",
            "mistral",
            {"stop": ["END"], "random_seed": 7, "presence_penalty": 0.5, "frequency_penalty": -0.5},
        ),
        ("openai", "openai", {}),
        ("xai", "generic", {}),
        (
            "gemini",
            "generic",
            {"stopSequences": ["END"], "seed": 7, "presencePenalty": 0.5, "frequencyPenalty": -0.5, "topK": 40},
        ),
        ("anthropic", "anthropic", {"stop_sequences": ["END"]}),
        ("anthropic", "anthropic-2023-06-01", {"stop_sequences": ["END"], "top_k": 40}),
    ],
)
def test_what_is_sent(dialect: str, server: str, members: dict[str, Any]) -> None:
    assert sent(dialect, server) == members
    assert sent(dialect, server, asked=Sampling()) == {}


@pytest.mark.parametrize(
    ("dialect", "server"),
    [("chat", name) for name in KINDS]
    + [("openai", "openai"), ("xai", "generic"), ("gemini", "generic")]
    + [("anthropic", "anthropic"), ("anthropic", "anthropic-2023-06-01")],
)
def test_what_is_said_to_be_carried_is_sent_and_nothing_else(dialect: str, server: str) -> None:
    for name, value in ALL.given_members().items():
        carried = name in bound(dialect, server).sampling_names("m")
        assert bool(sent(dialect, server, asked=Sampling(**{name: value}))) is carried, name


def test_no_more_stops_than_a_server_takes() -> None:
    stops = tuple("abcdefg")
    assert len(sent("gemini", "generic", asked=Sampling(stop=stops))["stopSequences"]) == 5
    assert len(sent("chat", "openai", asked=Sampling(stop=stops))["stop"]) == 4


def test_values_that_ask_for_nothing_are_sent_and_are_no_wishes() -> None:
    neutral = Sampling(
        stop=(), presence_penalty=0, frequency_penalty=0, logit_bias={}, top_k=-1, min_p=0, repetition_penalty=1
    )
    assert neutral.wishes() == frozenset()
    assert Sampling(seed=0).wishes() == {"seed"}
    assert sent("chat", "vllm", asked=Sampling(repetition_penalty=1)) == {"repetition_penalty": 1}


def test_logprobs_are_asked_for_without_others_beside_them() -> None:
    asked = ModelRequest(model="m", items=(Message(role="user", content="hi"),), logprobs=True)
    body = json.loads(bound("chat", "vllm").encode(asked))
    assert (body["logprobs"], "top_logprobs" in body) == (True, False)
    assert json.loads(bound("openai", "openai").encode(asked))["include"] == ["message.output_text.logprobs"]
    assert json.loads(bound("xai", "xai").encode(asked))["logprobs"] is True
