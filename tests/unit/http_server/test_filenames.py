"""File names survive the wire: read from every way clients write them, written so that every client reads them."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import InvalidRequest
from belljar.http_server import filenames

NAMES = (
    st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\"), min_size=1, max_size=60)
    .filter(lambda name: name not in (".", ".."))
    .filter(lambda name: len(name.encode()) <= filenames.LONGEST)
)


@given(NAMES)
def test_a_name_that_is_written_is_read_again(name: str) -> None:
    assert filenames.parameters(filenames.attachment(name))["filename"] == name


@given(NAMES)
def test_the_exact_name_is_written_as_rfc_8187_wants_it(name: str) -> None:
    exact = filenames.attachment(name).decode("ascii").partition("; filename*=UTF-8''")[2]
    assert re.fullmatch(r"(?:[!#$&+.^_`|~0-9A-Za-z-]|%[0-9A-F]{2})+", exact)
    assert unquote(exact, errors="strict") == name


@given(NAMES)
def test_the_fallback_is_plain_ascii_of_the_same_length(name: str) -> None:
    header = filenames.attachment(name).decode("ascii")
    near = header.removeprefix('attachment; filename="').partition('"; filename*=')[0]
    assert len(near) == len(name)
    assert not set(near) & set('"\\%')
    assert near.isprintable()


@given(NAMES.filter(lambda name: "%" not in name))
def test_raw_utf8_between_quotes(name: str) -> None:
    escaped = name.replace('"', "%22")
    assert filenames.parameters(f'form-data; name="file"; filename="{escaped}"'.encode())["filename"] == name


@given(NAMES)
def test_quoted_pairs(name: str) -> None:
    escaped = name.replace("%", "%25").replace('"', '\\"')
    read = filenames.parameters(f'form-data; name="file"; filename="{escaped}"'.encode())["filename"]
    assert read == name.replace("%", "%25")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b'form-data; name="file"; filename="a.csv"', "a.csv"),
        (b"form-data; name=file; filename=a.csv", "a.csv"),
        (b'form-data; name="file"; filename="a;b=c.csv"', "a;b=c.csv"),
        ('form-data; name="file"; filename="報告 1.xlsx"'.encode(), "報告 1.xlsx"),
        (b'form-data; name="file"; filename="caf\xe9.txt"', "café.txt"),
        (b'form-data; name="file"; filename="x"; filename*=UTF-8\'\'%E5%A0%B1.csv', "報.csv"),
        (b'form-data; name="file"; filename*=UTF-8\'\'%E5%A0%B1.csv; filename="x"', "報.csv"),
        (b"form-data; name=\"file\"; filename*=iso-8859-1'en'%A3.txt", "£.txt"),
        (b'form-data; name="file"; filename="say %22hi%22.txt"', 'say "hi".txt'),
        (b'form-data; name="file"; filename="100%.txt"', "100%.txt"),
        (b'form-data; name="file"; filename="50%25.txt"', "50%25.txt"),
        (b'form-data; NAME="file"; FileName="A.csv"', "A.csv"),
        (b'form-data; name="file"; filename=""', ""),
    ],
)
def test_ways_to_write_a_name(header: bytes, expected: str) -> None:
    read = filenames.parameters(header)
    assert read["name"] == "file"
    assert read["filename"] == expected


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("a.csv", "a.csv"),
        ("/etc/passwd", "passwd"),
        ("../../up.txt", "up.txt"),
        ("C:\\Users\\me\\data.csv", "data.csv"),
        ("folder/報告.csv", "報告.csv"),
        (" spaced .txt ", " spaced .txt "),
        ("-", "-"),
    ],
)
def test_only_the_last_component_counts(given_name: str, expected: str) -> None:
    assert filenames.filename(given_name) == expected


@pytest.mark.parametrize("bad", ["", ".", "..", "folder/", "a\\", "new\nline", "nul\0", "tab\t", "x" * 256, "報" * 86])
def test_what_is_no_name_is_refused(bad: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        filenames.filename(bad)
    assert caught.value.param == "file"


@given(st.binary(max_size=200))
def test_no_header_breaks_the_reader(header: bytes) -> None:
    assert isinstance(filenames.parameters(header), dict)
