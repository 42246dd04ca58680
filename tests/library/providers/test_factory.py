"""Clients by name, and what file and environment say of them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import belljar.providers
from belljar.config import ApiSettings, Settings
from belljar.errors import BadSettings, InvalidRequest
from belljar.models import find
from belljar.providers import BaseClient, OpenAIClient, create_client, get_provider_name
from belljar.providers.vendor_settings import VENDORS, address_for, key_for, model_for

NAMES = [
    ("openai", "openai"),
    ("OpenAI", "openai"),
    ("anthropic", "anthropic"),
    ("claude", "anthropic"),
    ("gemini", "gemini"),
    ("ai-studio", "gemini"),
    ("xai", "xai"),
    ("grok", "xai"),
    ("lm_studio", "lm_studio"),
    ("LM-Studio", "lm_studio"),
    ("lmstudio", "lm_studio"),
    ("local", "lm_studio"),
    ("ollama", "ollama"),
    ("vllm", "vllm"),
    ("belljar", "belljar"),
]


@pytest.mark.parametrize(("name", "provider"), NAMES)
def test_a_client_by_its_name(name: str, provider: str) -> None:
    client = create_client(provider=name, api_key="k", settings=ApiSettings())
    assert isinstance(client, BaseClient)
    assert get_provider_name(client) == client.provider == provider
    assert client._model == VENDORS[provider].model


def test_an_unknown_name_is_told_what_there_is() -> None:
    with pytest.raises(InvalidRequest, match="provider: 'cohere' is not one of openai, anthropic, gemini"):
        create_client("cohere", settings=ApiSettings())


def test_every_provider_has_a_client_and_a_model_that_is_its_own() -> None:
    for provider, vendor in VENDORS.items():
        row = find(vendor.model) if vendor.model else None
        if provider in ("openai", "anthropic", "gemini", "xai"):
            assert row is not None
            assert row.provider == provider


def test_the_founding_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`~/.config/…/config.toml` with [api], no arguments at all."""
    folder = tmp_path / ".config/belljar"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(
        '[api]\nprovider = "openai"\nmodel = "gpt-5.2"\nmax_tokens = 4096\nopenai_api_key = "sk-file"\n'
        "parallel_tool_calls = true\ncontext_budget = 150000\nsummarize_threshold = 0.75\nmin_recent_messages = 6\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    client = OpenAIClient()
    assert client.client.api_key == "sk-file"
    assert (client.get_model(), client.max_tokens, client.parallel_tool_calls) == ("gpt-5.2", 4096, True)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("BELLJAR_MODEL", "gpt-5.2-pro")
    client = OpenAIClient()
    assert (client.client.api_key, client.get_model()) == ("sk-environment", "gpt-5.2-pro")
    monkeypatch.setenv("BELLJAR_PROVIDER", "belljar")
    monkeypatch.setenv("BELLJAR_PORT", "9999")
    made = create_client()
    assert made.provider == "belljar"
    assert str(made.client.base_url) == "http://127.0.0.1:9999/v1/"  # type: ignore[attr-defined]
    made.set_model("gpt-5.2-codex")
    assert made.get_model() == "gpt-5.2-codex"


def load(home: Path, text: str = "", **variables: str) -> ApiSettings:
    folder = home / ".config/belljar"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(text)
    return ApiSettings.load(environment={"HOME": str(home), **variables})


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == ApiSettings()
    settings = ApiSettings()
    assert (settings.max_tokens, settings.parallel_tool_calls) == (4096, True)
    assert (settings.context_budget, settings.summarize_threshold, settings.min_recent_messages) == (None, 0.75, 6)
    assert OpenAIClient(api_key="k", settings=settings).context.context_budget == 150_000


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        ('[api]\nmodle = "x"', {}, r"api\.modle: there is no such setting .*did you mean api\.model\?"),
        ("[api]\nmax_tokens = 0", {}, r"api\.max_tokens: 0 is not a whole number, 1 or more"),
        ("[api]\nsummarize_threshold = 75", {}, r"api\.summarize_threshold: 75 is not a number above 0 and at most 1"),
        ("api = 1", {}, r"api: 1 is not a table"),
        ("", {"BELLJAR_PARALLEL_TOOL_CALLS": "maybe"}, "parallel_tool_calls: 'maybe' is not true or false"),
        ("[api]\nopenai_api_key = 5", {}, r"api\.openai_api_key: the value is not a text"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, variables: dict[str, str], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        load(tmp_path, text, **variables)


def test_the_gateway_leaves_the_clients_settings_alone(tmp_path: Path) -> None:
    load(tmp_path, "[api]\nmax_tokens = 5")
    environment = {"HOME": str(tmp_path), "BELLJAR_MODEL": "x", "BELLJAR_PORT": "1"}
    assert Settings.load(environment=environment).port == 1
    with pytest.raises(BadSettings, match="modle"):
        Settings.load(environment={"HOME": str(tmp_path), "BELLJAR_MODLE": "x"})


def test_no_secret_is_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, '[api]\nopenai_api_key = "sk-secret"', XAI_API_KEY="xai-secret")
    assert "secret" not in repr(settings)
    assert key_for("xai", settings) == "xai-secret"


VARIABLES: Mapping[str, str] = MappingProxyType(
    {"GOOGLE_API_KEY": "g", "OLLAMA_BASE_URL": "http://10.0.0.1/v1/", "OPENAI_API_KEY": " "}
)


def test_keys_and_addresses() -> None:
    settings = ApiSettings(provider_variables=VARIABLES, openai_api_key="f", gateway_url="http://x/v1")
    assert key_for("gemini", settings) == "g"
    assert key_for("openai", settings) == "f"
    assert key_for("anthropic", settings) is None
    assert address_for("ollama", settings) == "http://10.0.0.1/v1"
    assert address_for("vllm", settings) == "http://127.0.0.1:8000/v1"
    assert address_for("belljar", settings) == "http://x/v1"


@pytest.mark.parametrize(
    ("provider", "settings", "model"),
    [
        ("openai", {"model": "gpt-5-mini"}, "gpt-5-mini"),
        ("openai", {"model": "my-own"}, "my-own"),
        ("anthropic", {"model": "gpt-5-mini"}, "claude-sonnet-5-5"),
        ("anthropic", {"model": "claude-opus-5"}, "claude-opus-5"),
        ("ollama", {"provider": "ollama", "model": "qwen3"}, "qwen3"),
        ("openai", {"provider": "ollama", "model": "qwen3"}, "gpt-5.2"),
        ("belljar", {}, "belljar"),
        ("vllm", {}, ""),
    ],
)
def test_the_model_fits_the_provider(provider: str, settings: dict[str, Any], model: str) -> None:
    assert model_for(provider, ApiSettings(**settings)) == model


def test_no_sdk_is_imported_before_it_is_used(tmp_path: Path) -> None:
    code = (
        "import sys, belljar.providers;"
        "print([n for n in sys.modules if n.split('.')[0] in ('openai', 'anthropic', 'google', 'xai_sdk', 'httpx2')])"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("provider", "module", "extra"),
    [
        ("openai", "openai", "openai"),
        ("anthropic", "anthropic", "anthropic"),
        ("gemini", "google.genai", "gemini"),
        ("xai", "openai", "xai"),
        ("ollama", "openai", "openai"),
    ],
)
def test_a_missing_sdk_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, provider: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        BadSettings, match=rf"the {module} package is not installed; run: pip install 'belljar\[{extra}\]'"
    ):
        create_client(provider, api_key="k", settings=ApiSettings())


def test_the_public_names() -> None:
    names = belljar.providers.__all__
    assert sorted(names) == sorted(set(names))
    assert all(hasattr(belljar.providers, name) for name in names)
    assert {
        "BaseClient", "AssistantResponse", "create_client", "get_provider_name", "AnthropicClient", "OpenAIClient",
        "OpenAIError", "LMStudioClient", "LMStudioError", "ContextManager", "ContextStats", "TokenCounter",
        "SimpleTokenCounter",
    } <= {*names}  # fmt: skip


def test_the_modules_of_the_founding_document() -> None:
    import belljar.providers.base
    import belljar.providers.factory
    import belljar.providers.openai_client
    import belljar.providers.tool_converters

    assert belljar.providers.base.AssistantResponse is belljar.providers.AssistantResponse
    assert belljar.providers.openai_client.handle_openai_error is belljar.providers.handle_openai_error
