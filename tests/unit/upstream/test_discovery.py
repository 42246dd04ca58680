"""Upstreams that need no configuration: which keys and which local addresses are worth asking."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from belljar.config import Upstream
from belljar.gateway.upstream.discovery import find_by_key, find_local
from belljar.vendors.registry import VENDORS, WIRES

from .conftest import KEY, upstream


@pytest.mark.parametrize(
    ("variable", "name", "base_url", "dialect"),
    [
        ("OPENAI_API_KEY", "openai", "https://api.openai.com/v1", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com/v1", "anthropic"),
        ("GROQ_API_KEY", "groq", "https://api.groq.com/openai/v1", "chat"),
        ("DEEPSEEK_API_KEY", "deepseek", "https://api.deepseek.com/v1", "chat"),
        ("OPENROUTER_API_KEY", "openrouter", "https://openrouter.ai/api/v1", "chat"),
        ("MISTRAL_API_KEY", "mistral", "https://api.mistral.ai/v1", "chat"),
    ],
)
def test_a_key_finds_its_vendor(variable: str, name: str, base_url: str, dialect: str) -> None:
    assert find_by_key({variable: f" {KEY}\n"}) == [
        Upstream(name=name, base_url=base_url, dialect=dialect, api_key=KEY),
    ]
    assert find_by_key({variable: " "}) == []


def test_openai_may_be_elsewhere() -> None:
    (one,) = find_by_key({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://proxy.example/v1"})
    assert one.base_url == "https://proxy.example/v1"
    assert find_by_key({"OPENAI_BASE_URL": "https://proxy.example/v1"}) == []


@pytest.mark.parametrize("address", ["https://proxy.example", "https://proxy.example/", "https://proxy.example/v1"])
def test_anthropic_may_be_elsewhere_as_its_own_clients_say_it(address: str) -> None:
    (one,) = find_by_key({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})
    assert one.base_url == "https://proxy.example/v1"


def test_every_vendor_is_found_by_its_key_and_spoken_to_in_a_dialect_of_ours() -> None:
    environment = {variable: KEY for row in VENDORS.values() for variable in row.keys}
    found = find_by_key(environment)
    assert [one.name for one in found] == [name for name, row in VENDORS.items() if row.keys and not row.local]
    assert all(one.dialect in WIRES for one in found)


def test_what_is_configured_is_not_found_again() -> None:
    environment = {"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}
    same_name = upstream("https://elsewhere.example/v1", name="openai")
    assert [one.name for one in find_by_key(environment, (same_name,))] == ["groq"]
    same_place = upstream("https://API.groq.com/openai/v1/", name="fast")
    assert [one.name for one in find_by_key(environment, (same_place,))] == ["openai"]


def test_the_usual_places() -> None:
    assert {one.name: one.base_url.split(":")[2] for one in find_local({})} == {
        "lm_studio": "1234/v1",
        "ollama": "11434/v1",
        "vllm": "8000/v1",
        "llama_cpp": "8080/v1",
    }
    assert all(one.base_url.startswith("http://127.0.0.1:") for one in find_local({}))


def test_places_that_are_configured_are_not_looked_at() -> None:
    there = upstream("http://localhost:11434/v1/", name="mine"), upstream("http://gpu:8000/v1", name="vllm")
    assert [one.name for one in find_local({}, there)] == ["lm_studio", "llama_cpp"]


@pytest.mark.parametrize(
    ("environment", "address", "key"),
    [
        ({"OLLAMA_BASE_URL": "http://127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1", None),
        ({"OLLAMA_BASE_URL": " http://localhost:9 "}, "http://localhost:9/v1", None),
        ({"OLLAMA_BASE_URL": "http://localhost:9/", "OLLAMA_API_KEY": KEY}, "http://localhost:9/v1", KEY),
        ({"OLLAMA_BASE_URL": "http://127.0.0.1:9/api/"}, "http://127.0.0.1:9/api", None),
    ],
)
def test_another_place_on_this_machine(environment: Mapping[str, str], address: str, key: str | None) -> None:
    assert Upstream(name="ollama", base_url=address, api_key=key) in find_local(environment)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nonsense",
        "127.0.0.1:9",
        "http://gpu:11434/v1",
        "https://127.0.0.1:9",
        "http://169.254.169.254/v1",
        "http://[",
        "http://127.0.0.1:x",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://me@127.0.0.1:9",
    ],
)
def test_nowhere_else_is_looked_and_nobody_there_is_shown_a_key(address: str) -> None:
    usual = find_local({"OLLAMA_BASE_URL": address, "OLLAMA_API_KEY": KEY})
    assert usual == [Upstream(name=name, base_url=one.base_url) for name, one in VENDORS.items() if one.local]


def test_a_server_that_is_configured_is_known_by_its_name_in_each_spelling() -> None:
    given = upstream("http://gpu.example/v1", name="lmstudio"), upstream("http://gpu.example:1/v1", name="llama_cpp")
    assert [one.name for one in find_local({}, given)] == ["ollama", "vllm"]


def test_one_address_is_looked_at_once() -> None:
    both = {"OLLAMA_BASE_URL": "http://127.0.0.1:9/v1", "VLLM_BASE_URL": "http://localhost:9"}
    assert [one.name for one in find_local(both)] == ["lm_studio", "ollama", "llama_cpp"]
