"""The composition root: which addresses only this machine can reach."""

import pytest

from belljar.gateway.app import is_loopback


@pytest.mark.parametrize(
    ("host", "is_so"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.2", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_loopback(host: str, is_so: bool) -> None:
    assert is_loopback(host) is is_so
