"""Pages of strangers may not call; programs, our own page and those that are named may."""

from __future__ import annotations

from socket import gethostname

import pytest

from belljar.errors import Forbidden
from belljar.gateway.server.origin import Origins, answer_preflight

NAMED = Origins(frozenset({"https://App.example.org/", "http://10.0.0.5:3000"}))


def headers(host: str, origin: str | None = None) -> dict[bytes, bytes]:
    told = {b"host": host.encode()}
    return told if origin is None else told | {b"origin": origin.encode()}


@pytest.mark.parametrize("keyless", [True, False])
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8787", None),
        ("localhost:8787", None),
        ("[::1]:8787", None),
        ("192.168.1.7", None),
        (f"{gethostname()}:8787", None),
        (gethostname().upper(), None),
        ("app.localhost:1", None),
        ("", None),
        ("127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("localhost:8787", "http://localhost:8787"),
        ("LocalHost:8787", "http://localhost:8787"),
    ],
)
def test_our_own(host: str, origin: str | None, keyless: bool) -> None:
    assert NAMED.check(headers(host, origin), keyless=keyless) == ()


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8787", "https://evil.example"),
        ("127.0.0.1:8787", "http://127.0.0.1:8000"),
        ("127.0.0.1:8787", "null"),
        ("127.0.0.1:8787", ""),
        ("evil.example:8787", "http://evil.example:8787"),
        ("evil.example:8787", None),
        ("127.0.0.1.evil.example", None),
        ("attacker.local", None),
        ("attacker", None),
        ("attacker:8787", "http://attacker:8787"),
        ("metadata.internal", None),
        (f"{gethostname()}.evil.example", None),
        ("[", None),
    ],
)
def test_strangers_where_there_are_no_keys(host: str, origin: str | None) -> None:
    with pytest.raises(Forbidden):
        NAMED.check(headers(host, origin), keyless=True)


def test_a_stranger_stays_one_after_a_friend() -> None:
    origins = Origins(frozenset())
    origins.check(headers("localhost"), keyless=True)
    with pytest.raises(Forbidden):
        origins.check(headers("evil.example"), keyless=True)


def test_with_keys_any_host_will_do() -> None:
    assert NAMED.check(headers("api.example.com"), keyless=False) == ()
    assert NAMED.check(headers("api.example.com", "https://api.example.com"), keyless=False) == ()
    with pytest.raises(Forbidden):
        NAMED.check(headers("api.example.com", "https://evil.example"), keyless=False)


@pytest.mark.parametrize("origin", ["https://app.example.org", "http://10.0.0.5:3000"])
def test_pages_that_are_named_may_read_the_answer(origin: str) -> None:
    told = dict(NAMED.check(headers("127.0.0.1:8787", origin), keyless=True))
    assert told[b"access-control-allow-origin"] == origin.encode()
    assert told[b"vary"] == b"origin"
    assert NAMED.check(headers("app.example.org"), keyless=True) == ()


def test_preflight() -> None:
    assert answer_preflight({}) == ()
    asked = {b"access-control-request-method": b"POST", b"access-control-request-headers": b"authorization,x-a"}
    told = dict(answer_preflight(asked))
    assert told[b"access-control-allow-headers"] == b"authorization,x-a"
    assert b"DELETE" in told[b"access-control-allow-methods"]
