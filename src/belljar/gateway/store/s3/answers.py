"""What an S3 server says in XML: its errors, the id of an upload, the list of those that are unfinished; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape


class S3Fault(NamedTuple):
    """An error as the server words it; both empty where it says nothing."""

    code: str = ""
    message: str = ""
    region: str = ""
    """Where the bucket is, if it is not where it was asked for."""


class Unfinished(NamedTuple):
    """An upload in parts that was begun, and neither completed nor given up."""

    key: str
    id: str


class ObjectListing(NamedTuple):
    """A page of unfinished uploads, and after which of them the next one starts; None at the end."""

    uploads: list[Unfinished]
    after: tuple[str, str] | None


def read_fault(body: bytes) -> S3Fault | None:
    """None where the body is no error: a server may begin with 200 and find out then."""
    root = _parse(body)
    if root is None or _name(root) != "Error":
        return None
    return S3Fault(_text(root, "Code"), _text(root, "Message"), _text(root, "Region"))


def read_upload_id(body: bytes) -> str | None:
    root = _parse(body)
    return None if root is None else _text(root, "UploadId") or None


def read_uploads(body: bytes) -> ObjectListing:
    root = _parse(body)
    if root is None:
        return ObjectListing([], None)
    found = [Unfinished(_text(one, "Key"), _text(one, "UploadId")) for one in _children(root, "Upload")]
    more = _text(root, "IsTruncated") == "true"
    return ObjectListing(found, (_text(root, "NextKeyMarker"), _text(root, "NextUploadIdMarker")) if more else None)


def write_parts(tags: Sequence[str]) -> bytes:
    """What completes an upload: its parts, by the tags that the server gave them."""
    parts = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
        for number, tag in enumerate(tags, 1)
    )
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()


def _parse(body: bytes) -> ET.Element | None:
    try:
        return ET.fromstring(body)
    except ET.ParseError:
        return None


def _name(element: ET.Element) -> str:
    """Without its namespace, which some servers leave out."""
    return element.tag.rpartition("}")[2]


def _children(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (one for one in element if _name(one) == name)


def _text(element: ET.Element, name: str) -> str:
    return next((one.text or "" for one in _children(element, name)), "")
