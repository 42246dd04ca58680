"""Clients of every vendor, through the official SDKs, on a server that plays what a test wrote down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from google import genai
from google.genai.types import HttpOptions
from google.oauth2.credentials import Credentials
from openai import OpenAI
from tests.library.providers.replay import Replay

from belljar.config import ApiSettings
from belljar.providers import BaseClient, create_client

TOOLS = [
    {
        "name": "run_command",
        "description": "Execute a shell command",
        "input_schema": {
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "requires_confirmation": {"type": "boolean", "default": False},
            },
            "required": ["command"],
        },
    }
]


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay() as replay:
        yield replay


@pytest.fixture
def openai_sdk(server: Replay, http: httpx2.Client) -> OpenAI:
    return OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0, http_client=http)


@pytest.fixture
def anthropic_sdk(server: Replay, http: httpx2.Client) -> Anthropic:
    return Anthropic(base_url=server.url, api_key="k", max_retries=0, http_client=http)


@pytest.fixture
def gemini_sdk(server: Replay, http: httpx2.Client) -> genai.Client:
    return genai.Client(api_key="k", http_options=HttpOptions(base_url=server.url, httpx_client=http))


@pytest.fixture
def vertex_sdk(server: Replay, http: httpx2.Client) -> genai.Client:
    options = HttpOptions(base_url=server.url, httpx_client=http, api_version="v1")
    token = Credentials(token="t")  # type: ignore[no-untyped-call]
    return genai.Client(vertexai=True, project="p", location="l", credentials=token, http_options=options)


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A client by its provider's name; settings as keywords beside `model`, `tools` and `system`."""

    def made(
        provider: str = "openai", model: str | None = None, tools: Any = (), system: str = "", **settings: Any
    ) -> BaseClient:
        sdk = request.getfixturevalue(
            {"anthropic": "anthropic_sdk", "gemini": "gemini_sdk"}.get(provider, "openai_sdk")
        )
        return create_client(
            provider, model=model, tools=tools, system=system, client=sdk, settings=ApiSettings(**settings)
        )

    return made
