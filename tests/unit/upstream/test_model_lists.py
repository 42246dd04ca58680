"""Lists of models as servers write them."""

from __future__ import annotations

import json

import pytest

from belljar.gateway.upstream.model_lists import Listed, MissingList, judge, read_list, sees
from belljar.testing import server_kinds


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b"[]", b"{}", b'{"data": {}}', b'{"data": ["a"]}', b'{"models": []}', b"<html></html>", b"null"],
)
def test_what_is_no_list(body: bytes) -> None:
    assert read_list(body) is None


def test_a_list_of_nothing_is_a_list() -> None:
    assert read_list(b'{"object": "list", "data": []}') == {}
    assert read_list(b'{"object": "list", "data": null}') == {}  # Ollama


@pytest.mark.parametrize(
    ("status", "body", "why", "loading"),
    [
        (503, server_kinds.LOADING, "it is still loading its model", True),
        (
            503,
            b'{"error": "Model m is currently loading", "estimated_time": 20}',
            "it is still loading its model",
            True,
        ),
        (503, b"<h1>Service Unavailable</h1>", "it answered 503", False),
        (500, server_kinds.LOADING, "it answered 500", False),
        (401, b"{}", "it wants a key (401)", False),
        (200, b"<html>", "it answered 200 without a list", False),
    ],
)
def test_why_there_is_none(status: int, body: bytes, why: str, loading: bool) -> None:
    missing = judge(status, body)
    assert isinstance(missing, MissingList)
    assert missing.why.startswith(why)
    assert missing.loading is loading


def test_whose_they_are() -> None:
    assert read_list(b'{"data": [{"id": "a", "owned_by": "llamacpp"}, {"id": "b", "owned_by": 3}]}') == {
        "a": Listed(owner="llamacpp"),
        "b": Listed(),
    }


def test_names_and_what_is_told_of_them() -> None:
    data = [
        {"id": "a", "object": "model", "created": 5},
        {"id": "told", "architecture": {"input_modalities": ["text", "image"]}},
        {"id": "gpt-4o-blind", "architecture": {"input_modalities": ["text"]}},
        {"id": "mistral", "capabilities": {"vision": True}},
        {"id": "llama", "capabilities": ["completion", "multimodal"]},
        {"id": "vision-not", "capabilities": ["completion"]},
        {"id": "odd", "created": "yesterday", "capabilities": "many", "architecture": None},
        {"id": ""},
        {"id": None},
        {"name": "nameless"},
    ]
    assert read_list(json.dumps({"object": "list", "data": data}).encode()) == {
        "a": Listed(5, False),
        "told": Listed(0, True),
        "gpt-4o-blind": Listed(0, False),
        "mistral": Listed(0, True),
        "llama": Listed(0, True),
        "vision-not": Listed(0, False),
        "odd": Listed(0, False),
    }


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o",
        "gpt-4.1-mini",
        "gpt-5.5",
        "openai/o3",
        "anthropic/claude-opus-5",
        "gemini-3-pro",
        "x-ai/grok-4",
        "qwen/qwen3-vl-8b",
        "Qwen2.5-VL-7B-Instruct",
        "internvl3-8b",
        "llava:13b",
        "pixtral-12b",
        "minicpm-v",
        "gemma3:12b",
        "google/gemma-3n-e4b",
        "llama-4-scout",
        "llama3.2-vision:11b",
        "mistral-small-3.2",
    ],
)
def test_names_that_see(name: str) -> None:
    assert sees(name)


@pytest.mark.parametrize(
    "name",
    [
        "gpt-3.5-turbo",
        "gpt-4",
        "qwen3-8b",
        "deepseek-v3",
        "gemma3:1b",
        "gemma-2-9b",
        "llama3.1:8b",
        "phi-4",
        "mixtral",
        "o",
    ],
)
def test_names_that_do_not(name: str) -> None:
    assert not sees(name)
