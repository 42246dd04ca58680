"""An adapter on a model server that plays what a test wrote down, and a session to evaluate in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeAlias

import httpx2
import pytest
from openai import OpenAI
from tests.gateway.houses import Scene

from belljar.adapters.openai import OpenAIAdapter
from belljar.runtime import Session, ThrottlePolicy

MakeAdapter: TypeAlias = Callable[..., OpenAIAdapter]

AT_ONCE = ThrottlePolicy(base_delay=timedelta(0), max_delay=timedelta(0))


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture
def client(scene: Scene, http: httpx2.Client) -> OpenAI:
    """As users have it: the SDK's own retries are on."""
    return OpenAI(base_url=scene.server.base_url, api_key="k", http_client=http)


@pytest.fixture
def make(client: OpenAI) -> MakeAdapter:
    def made(**given: Any) -> OpenAIAdapter:
        return OpenAIAdapter(**{"model": "sim", "client": client, "throttle": AT_ONCE, **given})

    return made


@pytest.fixture
def session() -> Session:
    return Session()
