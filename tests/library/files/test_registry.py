"""Which service has a Files API here, and why another has none."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from belljar.config import ApiSettings
from belljar.files import (
    FilesApiRegistry,
    GatewayFiles,
    OpenAIFiles,
    files_api_of,
    get_files_api_provider,
    register_files_api_provider,
    why_no_files_api,
)
from belljar.files.registry import FACTORIES
from belljar.providers import create_client


@pytest.mark.parametrize("service", [None, "nobody", "vertex-ai", "lm_studio", "openai", "anthropic", "gemini", "xai"])
def test_none_is_no_exception(service: str | None) -> None:
    """Without keys, as here, only the gateway can be reached."""
    assert get_files_api_provider(service) is None


@pytest.mark.parametrize(
    ("service", "word"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("claude", "ANTHROPIC_API_KEY"),
        ("ai-studio", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("grok", "XAI_API_KEY"),
        ("vertex-ai", "gs://"),
        ("nobody", "register_files_api_provider"),
    ],
)
def test_it_says_why(service: str, word: str, caplog: pytest.LogCaptureFixture) -> None:
    assert word in (why_no_files_api(service) or "")
    with caplog.at_level(logging.INFO):
        get_files_api_provider(service)
    assert word in caplog.text


def test_the_gateway_needs_nothing() -> None:
    files = get_files_api_provider("belljar")
    assert isinstance(files, GatewayFiles)
    assert str(files.client.base_url) == "http://127.0.0.1:8787/v1/"
    assert why_no_files_api("belljar") is None
    files.close()


@pytest.mark.parametrize(("service", "module"), [("openai", "openai"), ("gemini", "google.genai")])
def test_a_missing_sdk_is_named(monkeypatch: pytest.MonkeyPatch, service: str, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert f"pip install 'belljar[{service}]'" in (why_no_files_api(service) or "")
    assert get_files_api_provider(service) is None


def test_a_key_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GEMINI", "XAI"):
        monkeypatch.setenv(f"{name}_API_KEY", "k")
    for service in FACTORIES:
        assert why_no_files_api(service) is None


def test_a_service_of_ones_own() -> None:
    registry = FilesApiRegistry()
    mine = OpenAIFiles(api_key="k", settings=ApiSettings())
    registry.register("plugin:mine", lambda: mine)
    assert registry.get("plugin:mine") is mine
    registry.register("grok", lambda: mine)
    assert registry.get("xai") is mine
    assert get_files_api_provider("plugin:mine") is None
    mine.close()


def test_the_shared_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belljar.files.registry._shared", FilesApiRegistry())
    mine = OpenAIFiles(api_key="k", settings=ApiSettings())
    register_files_api_provider("anthropic", lambda: mine)
    assert get_files_api_provider("anthropic") is mine
    client = create_client("anthropic", api_key="k", settings=ApiSettings())
    assert files_api_of(client) is mine
    mine.close()


def test_of_a_client_by_its_own_connection() -> None:
    client = create_client("belljar", base_url="http://127.0.0.1:1/v1", settings=ApiSettings())
    files = files_api_of(client)
    assert isinstance(files, GatewayFiles)
    assert str(files.client.base_url) == "http://127.0.0.1:1/v1/"
    local = create_client("lm_studio", model="x", settings=ApiSettings())
    assert files_api_of(local) is None


def test_no_sdk_is_imported_before_it_is_used(tmp_path: Path) -> None:
    import subprocess

    code = "import sys, belljar.files; sys.exit(bool({'openai', 'anthropic', 'google.genai'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=60).returncode == 0
