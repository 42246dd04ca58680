"""The rows of vendors: no two claim the same thing, and all that a row names is there."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

from belljar.errors import InvalidRequest
from belljar.models import get_models_by_provider
from belljar.vendors.openai import models
from belljar.vendors.registry import KINDS, VENDORS, WIRES, find_vendor, sees_pictures, vendor_of_host
from belljar.vendors.vendor import GENERIC

ROWS = pytest.mark.parametrize("name", VENDORS)


def test_no_two_rows_claim_the_same() -> None:
    for claim in ("aliases", "hosts", "owners", "keys"):
        claimed = Counter(one for row in VENDORS.values() for one in getattr(row, claim))
        assert [one for one, times in claimed.items() if times > 1] == [], claim
    assert not {alias for row in VENDORS.values() for alias in row.aliases} & set(VENDORS)
    ports = Counter(row.base_url for row in VENDORS.values() if row.base_url)
    assert max(ports.values()) == 1


@ROWS
def test_what_a_row_names_is_there(name: str) -> None:
    row = VENDORS[name]
    for path in filter(None, (row.client, row.files)):
        module, _, kind = path.partition(":")
        assert getattr(import_module(module), kind).provider == name
    assert row.dialect().path
    assert bool(row.files) == (row.file_limits is not None)
    assert not row.models or get_models_by_provider(row.models)


@ROWS
def test_a_vendor_is_known_by_its_own_address(name: str) -> None:
    row = VENDORS[name]
    if row.hosts and not row.local and row.base_url:
        assert vendor_of_host(row.base_url) is row
    assert all(vendor_of_host(f"https://eu.{host}/v1") is row for host in row.hosts)
    assert not any(vendor_of_host(f"https://not{host}/v1") is row for host in row.hosts)


def test_every_kind_is_a_vendors() -> None:
    assert {name.partition("-")[0] for name in KINDS} - set(VENDORS) == {"generic"}


@pytest.mark.parametrize(
    ("written", "name"), [("openai", "openai"), (" LM-Studio ", "lm_studio"), ("Claude", "anthropic")]
)
def test_a_provider_is_found_in_any_spelling(written: str, name: str) -> None:
    assert find_vendor(written).name == name


@pytest.mark.parametrize("name", ["groq", "alibaba", "nobody", ""])
def test_only_who_has_a_client_is_a_provider(name: str) -> None:
    with pytest.raises(InvalidRequest, match="openai, anthropic, gemini, vertex, xai, lm_studio"):
        find_vendor(name)


@pytest.mark.parametrize(
    ("variables", "key"),
    [
        ({}, None),
        ({"GEMINI_API_KEY": " \n"}, None),
        ({"GOOGLE_API_KEY": "second"}, "second"),
        ({"GEMINI_API_KEY": " first\n", "GOOGLE_API_KEY": "second"}, "first"),
        ({"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "second"}, "second"),
    ],
)
def test_the_first_key_that_is_set_counts(variables: dict[str, str], key: str | None) -> None:
    assert VENDORS["gemini"].key_in(variables) == key


@pytest.mark.parametrize(
    ("name", "said", "address"),
    [
        ("openai", "", ""),
        ("openai", " https://proxy.example/ ", "https://proxy.example"),
        ("openai", "https://proxy.example/openai/v1/", "https://proxy.example/openai/v1"),
        ("anthropic", "https://proxy.example", "https://proxy.example/v1"),
        ("anthropic", "https://proxy.example/claude", "https://proxy.example/claude/v1"),
        ("anthropic", "https://proxy.example/v1", "https://proxy.example/v1"),
        ("ollama", "http://10.0.0.7:11434", "http://10.0.0.7:11434/v1"),
        ("ollama", "http://10.0.0.7:11434/mine", "http://10.0.0.7:11434/mine"),
        ("ollama", "http://[10.0.0.7", "http://[10.0.0.7"),
    ],
)
def test_an_address_is_in_our_spelling(name: str, said: str, address: str) -> None:
    row = VENDORS[name]
    assert row.address_in({row.address: said}) == address


@pytest.mark.parametrize(
    ("model", "sees"),
    [("gpt-4o", True), ("lab/Claude-9", True), ("qwen2.5-vl", True), ("gpt-3.5-turbo", False), ("gemma3:1b", False)],
)
def test_names_tell_who_sees(model: str, sees: bool) -> None:
    assert sees_pictures(model) is sees


@pytest.mark.parametrize(
    ("name", "gpt5", "verbose", "reasons"),
    [
        ("gpt-5.2", True, True, True),
        ("gpt-50", False, True, True),
        ("gpt-6-luna", False, True, True),
        ("gpt-4.1", False, False, False),
        ("o3-mini", False, False, True),
        ("o3x", False, False, False),
    ],
)
def test_a_family_is_known_by_its_name(name: str, gpt5: bool, verbose: bool, reasons: bool) -> None:
    assert (models.is_gpt5(name), models.is_verbose(name), models.reasons(name)) == (gpt5, verbose, reasons)


def test_looking_at_the_rows_loads_no_decoder() -> None:
    code = "import sys, belljar.vendors.registry; print([n for n in sys.modules if n.endswith(('stream', 'dialect'))])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['belljar.vendors.dialect']"


@pytest.mark.parametrize("wire", ["chat", "openai", "xai"])
def test_the_key_is_shown_as_most_servers_want_it(wire: str) -> None:
    bound = GENERIC.dialect(wire=WIRES[wire])
    assert (bound.headers("k"), bound.headers(None)) == ({"authorization": "Bearer k"}, {})
