"""Upstreams that lead back to the gateway that asks them."""

from __future__ import annotations

import socket

import pytest

from belljar.config import Upstream
from belljar.gateway.upstream.endpoint import Endpoint
from belljar.gateway.upstream.loop_guard import HEADER, add_hops, add_mark, leads_back, read_hops
from belljar.net import is_loopback
from belljar.vendors.registry import VENDORS


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


@pytest.mark.parametrize(
    ("base_url", "host", "port"),
    [
        ("http://127.0.0.1:8787/v1", "127.0.0.1", 8787),
        ("http://127.0.0.1:8787", "127.0.0.1", 8787),
        ("http://localhost:8787/v1/", "127.0.0.1", 8787),
        ("http://LocalHost:8787/v1", "localhost", 8787),
        ("http://[::1]:8787/v1", "::1", 8787),
        ("http://localhost:8787/v1", "0.0.0.0", 8787),
        ("http://[::1]:8787/v1", "::", 8787),
        ("http://0.0.0.0:8787/v1", "0.0.0.0", 8787),
        (f"http://{socket.gethostname()}:8787/v1", "0.0.0.0", 8787),
        ("http://192.168.0.2:8787/v1", "192.168.0.2", 8787),
        ("http://Gpu.example:80/v1", "gpu.example", 80),
        ("http://gpu.example/v1", "gpu.example", 80),
        ("https://gpu.example/v1", "gpu.example", 443),
    ],
)
def test_its_own_address(base_url: str, host: str, port: int) -> None:
    assert leads_back(base_url, host, port)


@pytest.mark.parametrize(
    ("base_url", "host", "port"),
    [
        ("https://api.openai.com/v1", "127.0.0.1", 8787),
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8787),
        ("http://127.0.0.1:8787/v1", "192.168.0.2", 8787),
        ("http://192.168.0.2:8787/v1", "127.0.0.1", 8787),
        ("http://192.168.0.3:8787/v1", "0.0.0.0", 8787),
        ("http://127.0.0.1:8787/v1", "127.0.0.1", 0),
        ("https://gpu.example/v1", "gpu.example", 80),
    ],
)
def test_the_address_of_somebody_else(base_url: str, host: str, port: int) -> None:
    assert not leads_back(base_url, host, port)


def test_a_mark_goes_with_every_request_beside_the_headers_there_are() -> None:
    upstream = Upstream(name="gpu", base_url="http://gpu.example/v1", headers={"x-team": "a"}, api_key="sk-12345678")
    headers = Endpoint(add_mark(upstream, "me")).headers
    assert (headers[HEADER], headers["x-team"]) == ("me", "a")
    assert upstream.headers == {"x-team": "a"}
    assert add_hops(headers, ()) is headers
    assert add_hops(headers, ("a", "b")) == {**headers, HEADER: "a,b,me"}


@pytest.mark.parametrize(
    ("base_url", "is_told"),
    [
        ("https://API.OpenAI.com/v1", False),
        ("https://mine.openai.azure.com/openai/v1", False),
        ("https://europe-west4-aiplatform.googleapis.com/v1", False),
        *[(row.base_url, False) for row in VENDORS.values() if row.keys and not row.local],
        ("https://notopenai.com/v1", True),
        ("https://openai.com.example/v1", True),
        ("http://127.0.0.1:8787/v1", True),
    ],
)
def test_vendors_do_not_learn_of_it(base_url: str, is_told: bool) -> None:
    headers = add_mark(Upstream(name="up", base_url=base_url), "me").headers
    assert (HEADER in headers) is is_told
    assert HEADER not in add_hops({"accept": "*/*"}, ("a",))


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (b"a", ("a",)),
        (b"a,b , c", ("a", "b", "c")),
        (b"", ()),
        (b",,", ()),
        (b"a b,c;d,\xff,\r\n," + b"x" * 65, ()),
    ],
)
def test_only_names_are_read(header: bytes, names: tuple[str, ...]) -> None:
    assert read_hops(header) == names
