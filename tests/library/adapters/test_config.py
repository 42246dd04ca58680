"""Configurations: their defaults, and what they refuse when they are made."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from belljar.adapters.openai.config import (
    CompactionConfig,
    ContainerConfig,
    FileSearchConfig,
    OpenAIHostedToolsConfig,
)
from belljar.errors import CallerError


@pytest.mark.parametrize(
    ("config", "members"),
    [
        (OpenAIHostedToolsConfig(), (False, None, False)),
        (ContainerConfig(), ("4g", "explicit")),
        (CompactionConfig(), (True, 100_000, False)),
        (FileSearchConfig(), ((), 20)),
    ],
)
def test_defaults(config: Any, members: tuple[object, ...]) -> None:
    assert dataclasses.astuple(config) == members
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, dataclasses.fields(config)[0].name, True)


@pytest.mark.parametrize(
    ("kind", "field", "value", "remedy"),
    [
        (ContainerConfig, "memory_limit", "8g", "use 1g, 4g, 16g, 64g"),
        (ContainerConfig, "memory_limit", None, "use 1g, 4g, 16g, 64g"),
        (ContainerConfig, "mode", "shared", "use auto, explicit"),
        (FileSearchConfig, "vector_store_ids", "vs_1", "use a tuple of ids"),
        (FileSearchConfig, "vector_store_ids", ("",), "use a tuple of ids"),
        (FileSearchConfig, "max_results", 0, "from 1 to 50"),
        (FileSearchConfig, "max_results", 51, "from 1 to 50"),
        (FileSearchConfig, "max_results", True, "from 1 to 50"),
        (OpenAIHostedToolsConfig, "code_interpreter", "yes", "use True or False"),
        (OpenAIHostedToolsConfig, "web_search", None, "use True or False"),
        (OpenAIHostedToolsConfig, "file_search", True, "use a FileSearchConfig or None"),
        (CompactionConfig, "enabled", 1, "use True or False"),
        (CompactionConfig, "zdr_mode", None, "use True or False"),
        (CompactionConfig, "threshold_tokens", 0, "above 0"),
        (CompactionConfig, "threshold_tokens", 1.5, "above 0"),
    ],
)
def test_a_refusal_names_the_field_the_value_and_the_remedy(kind: Any, field: str, value: object, remedy: str) -> None:
    with pytest.raises(CallerError) as refused:
        kind(**{field: value})
    assert str(refused.value).startswith(f"{kind.__name__}.{field}: {value!r}")
    assert remedy in str(refused.value)


def test_a_bad_tier_is_an_assertion_error_too() -> None:
    with pytest.raises(AssertionError):
        ContainerConfig(memory_limit="2g")  # type: ignore[arg-type]


def test_a_list_of_ids_is_taken() -> None:
    assert FileSearchConfig(["vs_1"]).vector_store_ids == ("vs_1",)  # type: ignore[arg-type]
