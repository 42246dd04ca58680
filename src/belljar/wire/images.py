"""Check that a `data:` URL in a request holds a picture, before a provider is asked."""

from __future__ import annotations

import binascii
import re

from belljar.errors import InvalidRequest

_BASE64 = re.compile(r"data:[^,]*;base64,", re.IGNORECASE)
_BEGINNINGS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*", b"<svg", b"<?xml")
_ENOUGH = 64
"""Bytes that tell what a picture is."""


def check_picture(url: str, path: str) -> None:
    """Whatever is not in the URL itself is the provider's to fetch and to judge."""
    head = _BASE64.match(url[:1000])
    if head is None:
        return
    try:
        data = binascii.a2b_base64("".join(url[head.end() :].split()), strict_mode=True)
    except ValueError:
        raise InvalidRequest(
            f"Invalid '{path}': what follows 'base64,' is not valid base64. Encode the picture's bytes.",
            param=path,
            fault="invalid_base64_image",
        ) from None
    if not _is_picture(data[:_ENOUGH]):
        raise InvalidRequest(
            f"Invalid '{path}': the bytes in it are no picture. Send a PNG, JPEG, GIF or WebP; other files belong into"
            " an 'input_file'.",
            param=path,
            fault="invalid_image_format",
        )


def _is_picture(data: bytes) -> bool:
    return (
        data.lstrip().startswith(_BEGINNINGS)
        or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
        or data[4:8] == b"ftyp"  # HEIC and AVIF
    )
