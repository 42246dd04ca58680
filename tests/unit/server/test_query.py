"""Queries are read strictly, and every refusal names its parameter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.gateway.server.request import Query
from belljar.gateway.store.base import Page


@pytest.mark.parametrize(
    ("query", "page"),
    [
        (b"", Page()),
        (b"limit=1&order=asc", Page(limit=1, order="asc")),
        (b"limit=100&after=a&before=b", Page(limit=100, after="a", before="b")),
        (b"after=", Page()),
        (b"limit=5&limit=6", Page(limit=6)),
        (b"after=%E5%A0%B1", Page(after="報")),
    ],
)
def test_pages(query: bytes, page: Page) -> None:
    assert Query(query).read_page() == page


def test_files_have_longer_pages() -> None:
    assert Query(b"").read_page(default=10_000, most=10_000).limit == 10_000
    assert Query(b"limit=10000").read_page(default=10_000, most=10_000).limit == 10_000


@pytest.mark.parametrize(
    "query",
    [
        b"include[]=code_interpreter_call.outputs&include[]=reasoning.encrypted_content",
        b"include=code_interpreter_call.outputs&include=reasoning.encrypted_content",
        b"include%5B%5D=code_interpreter_call.outputs&include=reasoning.encrypted_content",
    ],
)
def test_includes_are_written_in_several_ways(query: bytes) -> None:
    assert Query(query).read_include() == ("code_interpreter_call.outputs", "reasoning.encrypted_content")


@pytest.mark.parametrize(("text", "value"), [(b"", False), (b"stream=true", True), (b"stream=False", False)])
def test_flags(text: bytes, value: bool) -> None:
    assert Query(text).flag("stream") is value


@pytest.mark.parametrize(
    ("query", "read", "param", "fault"),
    [
        (b"limit=0", Query.read_page, "limit", "integer_below_min_value"),
        (b"limit=101", Query.read_page, "limit", "integer_above_max_value"),
        (b"limit=-3", Query.read_page, "limit", "integer_below_min_value"),
        (b"limit=ten", Query.read_page, "limit", "invalid_type"),
        (b"limit=", Query.read_page, "limit", "invalid_type"),
        (b"limit=1.5", Query.read_page, "limit", "invalid_type"),
        (b"limit=%D9%A3", Query.read_page, "limit", "invalid_type"),
        (b"limit=9999999999999999999999", Query.read_page, "limit", "invalid_type"),
        (b"order=up", Query.read_page, "order", "invalid_value"),
        (b"include=everything", Query.read_include, "include[0]", "invalid_value"),
        (b"stream=yes", lambda query: query.flag("stream"), "stream", "invalid_value"),
        (b"after=%00", Query.read_page, "after", "invalid_value"),
        (b"after=%FF", Query.read_page, None, None),
        (b"\xff", Query.read_page, None, None),
        (b"&".join([b"a=1"] * 101), Query.read_page, None, None),
    ],
)
def test_refusals(query: bytes, read: Callable[[Query], object], param: str | None, fault: str | None) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(Query(query))
    assert (caught.value.param, caught.value.fault) == (param, fault)


@given(st.binary(max_size=100))
def test_no_query_breaks_the_reader(query: bytes) -> None:
    try:
        Query(query).read_page()
    except InvalidRequest:
        pass
