"""Upstreams that are found: by keys, and by servers that run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest

from belljar.config import Upstream
from belljar.gateway.upstream.adapter import DIALECTS
from belljar.gateway.upstream.discovery import LOCAL, VENDORS, Local, by_key, discover
from belljar.testing import LoopbackUpstream

from .conftest import KEY, request_of, serving, unused_port, upstream


def found(environment: Mapping[str, str], *local: Local, configured: tuple[Upstream, ...] = ()) -> list[Upstream]:
    return asyncio.run(discover(environment, configured, local=local))


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
    assert found({variable: f" {KEY}\n"}) == [
        Upstream(name=name, base_url=base_url, dialect=dialect, api_key=KEY),
    ]
    assert found({variable: " "}) == []


def test_openai_may_be_elsewhere() -> None:
    (one,) = found({"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://proxy.example/v1"})
    assert one.base_url == "https://proxy.example/v1"
    assert found({"OPENAI_BASE_URL": "https://proxy.example/v1"}) == []


@pytest.mark.parametrize("address", ["https://proxy.example", "https://proxy.example/", "https://proxy.example/v1"])
def test_anthropic_may_be_elsewhere_as_its_own_clients_say_it(address: str) -> None:
    (one,) = found({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address})
    assert one.base_url == "https://proxy.example/v1"


def test_every_vendor_is_found_once_its_dialect_is_there() -> None:
    environment = {variable: KEY for vendor in VENDORS for variable in vendor.keys}
    assert [one.name for one in by_key(environment)] == [
        vendor.name for vendor in VENDORS if vendor.dialect in DIALECTS
    ]


def test_what_is_configured_is_not_found_again() -> None:
    environment = {"OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}
    same_name = upstream("https://elsewhere.example/v1", name="openai")
    assert [one.name for one in found(environment, configured=(same_name,))] == ["groq"]
    same_place = upstream("https://API.groq.com/openai/v1/", name="fast")
    assert [one.name for one in found(environment, configured=(same_place,))] == ["openai"]


def test_a_server_that_runs_is_found() -> None:
    with LoopbackUpstream(models=["a"]) as full, LoopbackUpstream(models=[]) as empty, unused_port() as port:
        there = Local("full", full.base_url), Local("empty", empty.base_url)
        gone = Local("gone", f"http://127.0.0.1:{port}/v1")
        assert found({}, *there, gone) == [Upstream(name=one.name, base_url=one.base_url) for one in there]
        assert found({}, *there, configured=(upstream(full.base_url.replace("127.0.0.1", "localhost")),)) == [
            Upstream(name="empty", base_url=empty.base_url)
        ]


def test_what_is_no_model_server_is_let_be() -> None:
    with LoopbackUpstream(models=None) as unlisted, LoopbackUpstream(models=["belljar", "a"]) as another_of_us:
        assert found({}, Local("x", unlisted.base_url), Local("y", another_of_us.base_url)) == []


def test_servers_that_do_not_answer_cost_one_short_wait_in_all() -> None:
    async def main() -> float:
        async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            await reader.read()

        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request_of(reader)
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not writer.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.01)

        async with serving(deaf) as one, serving(endless) as two:
            began = time.monotonic()
            local = [Local(f"deaf{number}", f"{one}/{number}") for number in range(20)]
            assert await discover({}, (), local=[*local, Local("endless", two)]) == []
            return time.monotonic() - began

    assert asyncio.run(main()) < 20 * 0.3  # one after the other would take as long as this


def test_the_usual_places() -> None:
    assert {one.name: one.base_url.split(":")[2] for one in LOCAL} == {
        "lmstudio": "1234/v1",
        "ollama": "11434/v1",
        "vllm": "8000/v1",
        "llamacpp": "8080/v1",
    }
    assert all(one.base_url.startswith("http://127.0.0.1:") for one in LOCAL)
