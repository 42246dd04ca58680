"""The rows of vendors: no two claim the same thing, and all that a row names is there."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module

import pytest

from belljar import config
from belljar.errors import InvalidRequest
from belljar.models import get_models_by_provider
from belljar.vendors.registry import DIALECTS, PROFILES, VENDORS, dialect_of, find_vendor, vendor_of_host

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
    assert dialect_of(row.dialect).PATH
    assert bool(row.files) == (row.file_limits is not None)
    assert not row.models or get_models_by_provider(row.models)


@ROWS
def test_a_vendor_is_known_by_its_own_address(name: str) -> None:
    row = VENDORS[name]
    if row.hosts and not row.local and row.base_url:
        assert vendor_of_host(row.base_url) is row
    assert all(vendor_of_host(f"https://eu.{host}/v1") is row for host in row.hosts)
    assert not any(vendor_of_host(f"https://not{host}/v1") is row for host in row.hosts)


def test_every_profile_is_a_vendors() -> None:
    assert {name.partition("-")[0] for name in PROFILES} - set(VENDORS) == {"generic"}


def test_the_settings_take_every_dialect() -> None:
    assert set(config.DIALECTS) == set(DIALECTS)
    with pytest.raises(KeyError):
        dialect_of("os")


@pytest.mark.parametrize("name", ["groq", "alibaba", "nobody", ""])
def test_only_who_has_a_client_is_a_provider(name: str) -> None:
    with pytest.raises(InvalidRequest, match="openai, anthropic, gemini, vertex, xai, lm_studio"):
        find_vendor(name)


def test_looking_at_the_rows_loads_no_decoder() -> None:
    code = "import sys, belljar.vendors.registry; print([n for n in sys.modules if n.endswith(('stream', 'dialect'))])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "['belljar.vendors.dialect']"
