"""What sets Google's and xAI's doors apart: addresses, keys and lists of models."""

from __future__ import annotations

import asyncio
import json

import pytest

from belljar.config import Upstream
from belljar.gateway.upstream import model_lists
from belljar.gateway.upstream.discovery import find_by_key
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.model_lists import Listed
from belljar.gateway.upstream.models import Models
from belljar.gateway.upstream.origins import origin_of
from belljar.gateway.upstream.upstream_model import DialectModel
from belljar.testing import LoopbackUpstream

from .conftest import KEY, answer, asking, transport, upstream

VERTEX = "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/publishers/google"


@pytest.mark.parametrize(
    ("environment", "name", "dialect", "base_url"),
    [
        ({"GEMINI_API_KEY": KEY}, "gemini", "gemini", "https://generativelanguage.googleapis.com/v1"),
        ({"GOOGLE_API_KEY": KEY}, "gemini", "gemini", "https://generativelanguage.googleapis.com/v1"),
        ({"XAI_API_KEY": KEY}, "xai", "xai", "https://api.x.ai/v1"),
    ],
)
def test_a_key_is_enough(environment: dict[str, str], name: str, dialect: str, base_url: str) -> None:
    assert find_by_key(environment) == [Upstream(name=name, base_url=base_url, dialect=dialect, api_key=KEY)]


def test_ai_studio_has_keys_and_vertex_has_tokens() -> None:
    studio = Endpoint(upstream("https://generativelanguage.googleapis.com/v1", dialect="gemini"))
    assert studio.headers["x-goog-api-key"] == KEY
    assert "authorization" not in studio.headers
    vertex = Endpoint(upstream(VERTEX, dialect="gemini"))
    assert vertex.headers["authorization"] == f"Bearer {KEY}"
    assert "x-goog-api-key" not in vertex.headers


def test_the_model_is_in_the_path() -> None:
    async def run() -> None:
        async with transport() as sender:
            await answer(DialectModel(upstream(server.base_url, dialect="gemini"), sender), asking(model="tuned/a b?c"))

    with LoopbackUpstream(["hi"]) as server:
        asyncio.run(run())
    (received,) = server.requests
    assert received.path == "/v1/models/tuned%2Fa%20b%3Fc:streamGenerateContent?alt=sse"


def test_googles_list() -> None:
    models = [
        {"name": "models/gemini-3-flash-preview", "supportedGenerationMethods": ["generateContent", "countTokens"]},
        {"name": "models/gemma-3-1b-it", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/text-embedding", "supportedGenerationMethods": ["embedContent"]},
        {"name": "models/odd"},
        {"name": "", "supportedGenerationMethods": ["generateContent"]},
    ]
    assert model_lists.read_list(json.dumps({"models": models}).encode()) == {
        "gemini-3-flash-preview": Listed(0, True),
        "gemma-3-1b-it": Listed(0, False),
    }
    assert model_lists.read_list(b'{"models": 1}') is None
    assert model_lists.read_list(b"{}") is None


def test_the_table_of_models_tells_who_sees() -> None:
    assert model_lists.sees("gpt-4o")
    assert not model_lists.sees("o3-mini")
    assert not model_lists.sees("grok-code-fast-1")
    assert model_lists.sees("grok-99-vision")


@pytest.mark.parametrize(("dialect", "runs"), [("gemini", True), ("xai", True), ("chat", False), ("openai", False)])
def test_whose_code_the_vendor_could_run(dialect: str, runs: bool) -> None:
    async def run() -> bool:
        async with transport() as sender:
            models = Models([upstream(server.base_url, dialect=dialect)], sender)
            try:
                route = await models.resolve("sim")
            finally:
                await models.close()
            assert route.traits.dialect == dialect
            return route.traits.runs

    with LoopbackUpstream() as server:
        assert asyncio.run(run()) is runs


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:1/v1/models/a:b?alt=sse", "http://127.0.0.1:1"),
        ("https://x.example/v1", "https://x.example"),
        ("http://x.example", "http://x.example"),
        ("http://[::1]:8/a", "http://[::1]:8"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin
