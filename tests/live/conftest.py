"""Real providers: a test for one is run where its key is in the environment, and skipped where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from belljar.config import ApiSettings
from belljar.models import get_models_by_provider
from belljar.providers import BaseClient, create_client
from belljar.providers.vendor_settings import VENDORS, key_for

VENDORS_WITH_KEYS = ("openai", "anthropic", "gemini", "xai")
"""All that are asked over the network and run code themselves."""


def small_model(provider: str) -> str:
    """The newest cheap one, so that a run costs little."""
    models = [model for model in get_models_by_provider(provider) if not model.legacy]
    order = ("low", "medium", "high")
    return min(models, key=lambda model: order.index(model.cost)).id


@pytest.fixture(params=VENDORS_WITH_KEYS)
def vendor(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if key_for(name, ApiSettings.load()) is None:
        pytest.skip(f"set {' or '.join(VENDORS[name].keys)} to ask {name} itself")
    return name


@pytest.fixture
def make(vendor: str) -> Iterator[Callable[..., BaseClient]]:
    """A client of this vendor's; its connections end with the test."""
    with ExitStack() as stack:

        def made(**more: Any) -> BaseClient:
            client = create_client(vendor, model=small_model(vendor), **more)
            close = getattr(getattr(client, "client", None), "close", None)
            if close is not None:
                stack.callback(close)
            return client

        yield made
