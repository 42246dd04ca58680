"""Payloads come out whole whatever the split, the line ends and the comments between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.vendors.conftest import cuts_of

from belljar.vendors.sse import Lines


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    lines = Lines()
    found: list[bytes] = []
    at = 0
    for end in sorted({*cuts, len(data)}):
        found += lines.feed(data[at:end])
        at = end
    return found + lines.close()


@pytest.mark.parametrize(
    ("body", "payloads"),
    [
        (b"", []),
        (b"\n\n\n", []),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:\n\ndata: \n\ndata: a\n\n", [b"a"]),
        (b": OPENROUTER PROCESSING\n\n: ping\n\ndata: a\n\n", [b"a"]),
        (b": ping\ndata: a\n\n", [b"a"]),
        (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data: a\nevent: x\n\n", [b"a"]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data: a", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a\r", [b"a"]),
        (b"data: a\n\ndata: b", [b"a", b"b"]),
        (b'error: {"code":400}\n\ndata: [DONE]\n\n', [b'{"error": {"code":400}}', b"[DONE]"]),
        (b'{"a":\n\n1}', [b'{"a":\n\n1}']),
        (b' \r\n {"data: a\n\n":1}', [b'{"data: a\n\n":1}']),
        (b'[{"a":1}]\n', [b'[{"a":1}]\n']),
        (b"<html>\n\n</html>", []),
    ],
)
def test_payloads(body: bytes, payloads: list[bytes]) -> None:
    assert cut(body, []) == payloads
    assert cut(body, [*range(len(body))]) == payloads


@given(st.data())
def test_any_split_gives_the_same(data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n", b"\r", b"\r\n"]))
    payload = st.binary(min_size=1).map(lambda raw: raw.translate(None, b"\r\n")).filter(bool)
    payloads = data.draw(st.lists(payload, max_size=6))
    comment = data.draw(st.sampled_from([b"", b": ping" + end, b"event: e" + end]))
    body = b"".join(comment + b"data: " + one + end + end for one in payloads)
    assert cut(body, data.draw(cuts_of(len(body)))) == payloads


def test_a_payload_is_not_held_back() -> None:
    lines = Lines()
    assert lines.feed(b"data: a\n\nda") == [b"a"]
    assert lines.feed(b"ta: b\n") == []
    assert lines.feed(b"\n") == [b"b"]
    assert lines.close() == []


def test_an_empty_read_changes_nothing() -> None:
    lines = Lines()
    assert lines.feed(b"data: a\r") == []
    assert lines.feed(b"") == []
    assert lines.feed(b"\n\r\ndata: b\n\n") == [b"a", b"b"]
