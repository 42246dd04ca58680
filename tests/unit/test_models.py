"""The table of models, and the questions that are asked of it."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
import typing
from datetime import datetime
from pathlib import Path

import anthropic.resources.messages.messages
import anthropic.types
import openai.types.shared
import pytest
import xai_sdk.types.model  # type: ignore[import-untyped]

from belljar.models import (
    EFFORTS,
    MODELS,
    ending,
    find,
    get_models_by_provider,
    is_gpt5_model,
    is_reasoning_model,
    nearest_effort,
    supports_verbosity,
    supports_vision,
)
from belljar.providers.vendor_settings import VENDORS


def named(literal: object) -> set[str]:
    """Every name in an SDK's list of models."""
    found = {str(one) for one in typing.get_args(literal) if isinstance(one, str)}
    return found.union(*(named(one) for one in typing.get_args(literal) if not isinstance(one, str | type)))


@pytest.mark.parametrize(
    ("name", "gpt5", "reasons", "verbose"),
    [
        ("gpt-5.2", True, True, True),
        ("gpt-5-mini", True, True, True),
        ("gpt-5.2-2025-12-11", True, True, True),
        ("gpt-5.9-unheard-of", True, True, True),
        ("openai/gpt-5.4", True, True, True),
        ("gpt-6-sol", False, True, True),
        ("gpt-4o", False, False, False),
        ("gpt-4o-mini", False, False, False),
        ("gpt-4.1", False, False, False),
        ("gpt-50", False, True, True),
        ("o3-mini", False, True, False),
        ("o3-mini-2025-01-31", False, True, False),
        ("o9", False, True, False),
        ("omni-1", False, False, False),
        ("claude-opus-5-5", False, True, False),
        ("claude-haiku-4-5-20251001", False, False, False),
        ("gemini-3-pro-preview", False, True, False),
        ("grok-code-fast-1", False, False, False),
        ("llama3", False, False, False),
    ],
)
def test_predicates(name: str, gpt5: bool, reasons: bool, verbose: bool) -> None:
    assert is_gpt5_model(name) is gpt5
    assert is_reasoning_model(name) is reasons
    assert supports_verbosity(name) is verbose


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("gpt-5.2", "gpt-5.2"),
        ("gpt-5.2-pro-2025-12-11", "gpt-5.2-pro"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("models/gemini-3-flash-preview", "gemini-3-flash"),
        ("gemini-3.1-pro-preview-customtools", "gemini-3.1-pro"),
        ("grok-4-latest", "grok-4"),
        ("grok-4-0709", "grok-4"),
        ("grok-4.20-multi-agent-0309", "grok-4.20-multi-agent"),
        ("gpt-5-turbo", None),
        ("grok-4.7", None),
        ("gemini-3.1-pro-image", None),
        ("", None),
    ],
)
def test_a_name_with_a_date_behind_it_is_the_same_model(name: str, id: str | None) -> None:
    row = find(name)
    assert (row.id if row else None) == id


def test_the_founding_table() -> None:
    told = {row.id: (row.name, row.speed, row.cost, row.legacy) for row in get_models_by_provider("openai")}
    assert told["gpt-5.2"] == ("GPT-5.2", "medium", "high", False)
    assert told["gpt-5.2-pro"] == ("GPT-5.2 Pro", "slow", "high", False)
    assert told["gpt-5.2-codex"] == ("GPT-5.2 Codex", "medium", "high", False)
    assert told["gpt-5-mini"] == ("GPT-5 Mini", "fast", "medium", False)
    assert told["gpt-5-nano"] == ("GPT-5 Nano", "fast", "low", False)
    assert told["gpt-4o"][0] == "GPT-4o (Legacy)"
    assert told["gpt-4o-mini"][3] is True
    founding = find("gpt-5.2")
    assert founding is not None
    assert (founding.efforts, founding.effort) == (("none", "low", "medium", "high", "xhigh"), "none")


def test_every_row_is_sound() -> None:
    for row in MODELS.values():
        assert row.name, row.id
        assert row.use, row.id
        assert list(row.efforts) == sorted(row.efforts, key=EFFORTS.index), row.id
        assert row.effort is None or row.effort in row.efforts, row.id
        assert row.output is None or row.context is None or row.output < row.context, row.id
        assert find(row.id) is row


def test_every_vendor_has_current_models() -> None:
    for provider in ("openai", "anthropic", "gemini", "xai"):
        assert [row for row in get_models_by_provider(provider) if not row.legacy]
    assert get_models_by_provider("nobody") == []


def test_the_sdks_know_our_rows() -> None:
    sdks = {
        "openai": named(openai.types.shared.AllModels),
        "anthropic": named(anthropic.types.Model),
        "xai": named(xai_sdk.types.model.ChatModel),
    }
    own = {"gpt-5.2-codex", "gpt-5.4-pro"}  # not in its SDK
    for provider, known in sdks.items():
        assert {row.id for row in get_models_by_provider(provider)} - known - own == set(), provider


def announced() -> dict[str, str]:
    """Every end that the SDKs of OpenAI and Anthropic tell of, by the model's name."""
    ends = {
        name: datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)", "", day), "%B %d, %Y").date().isoformat()
        for name, day in anthropic.resources.messages.messages.DEPRECATED_MODELS.items()
    }
    for module in ("shared.chat_model", "beta.response_create_params"):
        told = inspect.getsource(importlib.import_module(f"openai.types.{module}")).partition("Deprecated")[2]
        for entry in re.split(r"^\s*- ", told, flags=re.M):
            if day := re.search(r"shutdown\s+date:\s+(\S+)\.", entry):
                ends.update(dict.fromkeys(re.findall(r'"([^"]+)"', entry.partition("Announced")[0]), day[1]))
    return ends


def test_what_ends_is_what_the_sdks_announce() -> None:
    ends = announced()
    assert {"o1": "2026-10-23", "claude-sonnet-4-5": "2026-11-30", "gpt-5-pro": "2026-12-11"}.items() <= ends.items()
    told = {row.id: row.ends for row in MODELS.values() if row.ends is not None}
    assert told == {id: day for id, day in ends.items() if id in MODELS}
    for name, day in ends.items():
        if find(name) is not None:
            assert f"on {day}; use" in (ending(name) or ""), name


def test_advice_names_a_model_that_lives_on() -> None:
    for row in MODELS.values():
        assert (row.instead is None) is (row.ends is None), row.id
        if row.instead is not None:
            assert MODELS[row.instead].ends is None, row.id
            assert MODELS[row.instead].provider == row.provider, row.id
        meant = re.search(r"upgrading to (.+)", row.use)
        if meant:
            [named] = [one for one in MODELS.values() if one.name == meant[1]]
            assert (named.ends, named.legacy) == (None, False), row.id


def test_defaults_live_on() -> None:
    for vendor in VENDORS.values():
        row = find(vendor.model)
        assert row is None or (row.ends, row.legacy) == (None, False), vendor


def test_an_end_is_told() -> None:
    assert ending("gpt-5-mini-2025-08-07") == (
        "gpt-5-mini-2025-08-07 is shut down by its vendor on 2026-12-11; use gpt-5.4-mini"
    )
    assert ending("gpt-5.4-mini") is ending("llama3") is ending("") is None


def test_pages_and_examples_name_models_that_live_on() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *root.glob("docs/*.md")]
    mortal = re.compile("|".join(rf"(?<![\w.-]){re.escape(row.id)}(?![\w.-])" for row in MODELS.values() if row.ends))
    found = {
        (page.name, word)
        for page in pages
        if page.name != "features.md"  # quotes the founding documents
        for word in mortal.findall(page.read_text())
    }
    assert found == set()


@pytest.mark.parametrize(
    ("name", "effort", "nearest"),
    [
        ("gpt-5.2", "high", "high"),
        ("gpt-5.2", "minimal", "low"),
        ("gpt-5", "none", "minimal"),
        ("gpt-5", "max", "high"),
        ("gpt-5-pro", "low", "high"),
        ("gpt-4o", "low", None),
        ("llama3", "xhigh", "xhigh"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-opus-4-6", "max", "max"),
        ("claude-sonnet-4-6", "max", "high"),
        ("grok-3-mini", "medium", "low"),
        ("grok-4.3", "minimal", "low"),
        ("grok-4.3", "none", "none"),
    ],
)
def test_the_nearest_effort(name: str, effort: typing.Any, nearest: str | None) -> None:
    assert nearest_effort(name, effort) == nearest


def test_who_sees() -> None:
    assert supports_vision("gpt-4o") is True
    assert supports_vision("grok-code-fast-1") is False
    assert supports_vision("llama3") is None


def test_it_is_light() -> None:
    code = "import sys, belljar.models; print(sorted(n for n in sys.modules if n in ('openai','anthropic','asyncio')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
