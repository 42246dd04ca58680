"""`file_data`: what a caller calls a file's type is kept, and told in headers, only where it is a MIME type."""

from __future__ import annotations

import pytest

from belljar.errors import InvalidRequest
from belljar.gateway.engine.readable_files import read_data_url
from belljar.http_server.downloads import is_media_type


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("data:text/csv;base64,YQ==", "text/csv"),
        ("data:image/svg+xml;charset=utf-8;base64,YQ==", "image/svg+xml"),
        ("data:application/vnd.openxmlformats-officedocument.wordprocessingml.document;base64,YQ==", None),
        ("data:;base64,YQ==", "text/plain"),
        ("YQ==", "application/octet-stream"),
    ],
)
def test_types_are_kept(url: str, kind: str | None) -> None:
    assert read_data_url(url, "file_data") == (kind or url[5:].partition(";")[0], b"a")


@pytest.mark.parametrize(
    "kind",
    [
        "text",
        "text/",
        "/csv",
        "text/csv/x",
        "text/csv\r\nset-cookie: a=b",
        "text/c\u0161v",
        "text/c v",
        "a/" + "b" * 200,
        "\u2028/a",
    ],
)
def test_what_is_no_type_is_refused(kind: str) -> None:
    assert not is_media_type(kind)
    with pytest.raises(InvalidRequest, match="Invalid file data") as refused:
        read_data_url(f"data:{kind};base64,YQ==", "input[0].content[0].file_data")
    assert refused.value.param == "input[0].content[0].file_data"
