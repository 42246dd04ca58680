"""What the SDKs of the vendors speak HTTP with in tests."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import httpx2
import pytest


@pytest.fixture(scope="session")
def plain() -> ssl.SSLContext:
    """No address here is encrypted, and reading the machine's certificates takes longer than a test."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def http(plain: ssl.SSLContext) -> Iterator[httpx2.Client]:
    with httpx2.Client(verify=plain) as http:
        yield http
