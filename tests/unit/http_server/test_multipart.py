"""Forms: any content in any split of the bytes comes out as it went in."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.http_server.multipart import Event, FormReader, PartBegun, PartEnded, Piece

BOUNDARY = b"XyZ"
TYPE = b"multipart/form-data; boundary=XyZ"
PIECES = [b"\r\n--XyZ", b"\r\n--XyZ-", b"\r\n--XyZ\r", b"\r\n--Xy", b"\r\n", b"\r", b"\n", b"--", b"XyZ", b"\0", b"a"]


def safe(content: bytes) -> bool:
    """Holds no delimiter, alone or with the beginning of the one that follows it."""
    return not re.search(rb"\r\n--XyZ(\r\n|--)", content + b"\r\n--XyZ")


CONTENT = st.one_of(st.binary(max_size=80), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)).filter(safe)


def body(*parts: tuple[bytes, bytes]) -> bytes:
    written = b"".join(b"--XyZ\r\n%b\r\n\r\n%b\r\n" % part for part in parts)
    return written + b"--XyZ--\r\n"


def fed(data: bytes, cuts: list[int]) -> list[Event]:
    """The events of the body, fed in pieces; neighbouring pieces of a part joined."""
    reader = FormReader(TYPE)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    events: list[Event] = []
    for start, stop in pairwise(edges):
        for event in reader.feed(data[start:stop]):
            if isinstance(event, Piece) and events and isinstance(events[-1], Piece):
                events[-1] = Piece(events[-1].data + event.data)
            else:
                events.append(event)
    reader.close()
    return events


def expected(name: str, filename: str | None, kind: str, content: bytes) -> list[Event]:
    return [PartBegun(name, filename, kind), *([Piece(content)] if content else []), PartEnded()]


@given(CONTENT, CONTENT, st.lists(st.integers(min_value=0), max_size=12))
def test_any_content_in_any_split(first: bytes, second: bytes, cuts: list[int]) -> None:
    data = body(
        (b'Content-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: text/csv', first),
        (b'Content-Disposition: form-data; name="purpose"', second),
    )
    assert fed(data, cuts) == [
        *expected("file", "a.bin", "text/csv", first),
        *expected("purpose", None, "application/octet-stream", second),
    ]


@given(CONTENT)
def test_byte_by_byte(content: bytes) -> None:
    data = body((b'Content-Disposition: form-data; name="file"; filename="a"', content))
    assert fed(data, list(range(len(data)))) == expected("file", "a", "application/octet-stream", content)


@pytest.mark.parametrize("kind", [b"nonsense", b"a/b/c", b"text/\xff", b"", b"text/ht\x0bml"])
def test_a_type_that_is_none_is_bytes(kind: bytes) -> None:
    head = b'Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Type: %b' % kind
    assert fed(body((head, b"x")), [])[0] == PartBegun("file", "a", "application/octet-stream")


@pytest.mark.parametrize("content_type", [b"multipart/form-data", b"multipart/form-data; boundary=", b"", b"boundary"])
def test_a_form_needs_a_boundary(content_type: bytes) -> None:
    with pytest.raises(InvalidRequest, match="boundary"):
        FormReader(content_type)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"--XyZ",
        b"--XyZ\r\n",
        b'--XyZ\r\nContent-Disposition: form-data; name="a"\r\n\r\nabc',
        b'--XyZ\r\nContent-Disposition: form-data; name="a"\r\n\r\nabc\r\n--XyZ\r\n',
        b"hello",
        b"--other\r\n\r\n",
        b"--XyZ\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--XyZ--",
        b"--XyZ\r\n\r\nabc\r\n--XyZ--",
        b"--XyZ\r\nBad Header\r\n\r\nabc\r\n--XyZ--",
        b"--XyZ\r\n" + b"X: y\r\n" * 1000 + b"\r\nabc\r\n--XyZ--",
        b"--XyZ\r\nX: " + b"y" * 100_000 + b"\r\n\r\nabc\r\n--XyZ--",
    ],
)
def test_what_is_no_form_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        fed(data, [])


def test_a_boundary_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        FormReader(b"multipart/form-data; boundary=" + b"x" * 5000)


def test_what_follows_the_last_boundary_means_nothing() -> None:
    data = body((b'Content-Disposition: form-data; name="a"', b"1")) + b"the end --XyZ\r\n"
    assert fed(data, []) == expected("a", None, "application/octet-stream", b"1")
