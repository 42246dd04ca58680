"""A multipart form as it comes in: bytes in, parts out, without I/O; any split of the bytes gives the same parts."""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, MultipartState

from belljar.errors import InvalidRequest
from belljar.http_server import filenames

MULTIPART = b"multipart/form-data"
_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class PartBegun(Struct, frozen=True):
    """A part begins; `filename` is None for a plain field."""

    name: str
    filename: str | None
    type: str


class Piece(Struct, frozen=True):
    """The next bytes of the part."""

    data: bytes


class PartEnded(Struct, frozen=True):
    """The part is complete."""


Event: TypeAlias = PartBegun | Piece | PartEnded


class FormReader:
    """Feed it the body; it raises `InvalidRequest` where that is not a form."""

    def __init__(self, content_type: bytes) -> None:
        boundary = filenames.parameters(content_type).get("boundary", "")
        if not boundary:
            raise InvalidRequest(
                "The content type 'multipart/form-data' has no boundary. Let your HTTP client write the header."
            )
        self._events: list[Event] = []
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_end,
                },
            )
        except FormParserError as error:
            raise _bad(error) from None

    def feed(self, data: bytes) -> list[Event]:
        """The parts and pieces that these bytes bring."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _bad(error) from None
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """The body is over."""
        if self._parser.state != MultipartState.END:
            raise InvalidRequest("The multipart form ends before its last boundary. Send the whole body.")

    def _begin(self) -> None:
        self._headers = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _headers_end(self) -> None:
        given = filenames.parameters(self._headers.get(b"content-disposition", b""))
        if "name" not in given:
            raise InvalidRequest("A part of the multipart form has no name in its Content-Disposition.")
        kind = self._headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
        known = kind if _TYPE.fullmatch(kind) else "application/octet-stream"
        self._events.append(PartBegun(given["name"], given.get("filename"), known))

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(Piece(data[start:end]))

    def _end(self) -> None:
        self._events.append(PartEnded())


def _bad(error: FormParserError) -> InvalidRequest:
    return InvalidRequest(f"The body is not a multipart form: {error}.")
