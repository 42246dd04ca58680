"""File names on the wire: read from a form part as any client writes them, written as RFC 6266 and RFC 8187 say."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from belljar.errors import InvalidRequest

LONGEST = 255
"""Bytes of a name that Linux file systems take."""

_PARAMETER = re.compile(rb';\s*([!#$%&\'+.^_`|~0-9A-Za-z-]+\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))')
_ESCAPED = re.compile(r"\\([\"\\])")
_PERCENT = re.compile(r"%(22|0[0-9A-F]|1[0-9A-F])")
"""What HTML forms, and clients that do as they do, write for a quote or a control character; % itself they leave."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE = re.compile(r"[^ !#-$&-\[\]-~]")
"""Not printable ASCII, or apt to be read in two ways between quotes: " \\ and %."""


def parameters(value: bytes) -> dict[str, str]:
    """The parameters of a Content-Disposition or Content-Type; `name*` wins over `name`, as RFC 6266 wants it."""
    plain: dict[str, str] = {}
    extended: dict[str, str] = {}
    for name, quoted, token in _PARAMETER.findall(value):
        key = name.decode().lower()
        if key.endswith("*"):
            extended[key[:-1]] = _read_extended(token or quoted)
        elif quoted:
            plain[key] = _PERCENT.sub(_character, _ESCAPED.sub(r"\1", _decode(quoted)))
        else:
            plain[key] = _decode(token)
    return plain | extended


def filename(given: str, *, param: str = "file") -> str:
    """The last component of a name that a client gave, checked: exact, or refused."""
    name = re.split(r"[/\\]", given)[-1]
    if name in ("", ".", ".."):
        raise InvalidRequest(
            f"Invalid filename for '{param}': {given!r} does not name a file. Send a filename with the content.",
            param=param,
            fault="invalid_value",
        )
    if _CONTROL.search(name):
        raise InvalidRequest(
            f"Invalid filename for '{param}': {name!r} holds control characters. Rename the file.",
            param=param,
            fault="invalid_value",
        )
    if len(name.encode(errors="replace")) > LONGEST:
        raise InvalidRequest(
            f"Invalid filename for '{param}': longer than {LONGEST} bytes in UTF-8. Use a shorter name.",
            param=param,
            fault="invalid_value",
        )
    return name


def attachment(name: str) -> bytes:
    """A Content-Disposition that every client saves under this very name; old ones under one that is near."""
    near = _UNSAFE.sub("_", name)
    return f"attachment; filename=\"{near}\"; filename*=UTF-8''{quote(name, safe='')}".encode("ascii")


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _character(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))


def _read_extended(value: bytes) -> str:
    charset, _, rest = value.partition(b"'")
    _, _, encoded = rest.partition(b"'")
    data = unquote_to_bytes(encoded)
    return data.decode("latin-1") if charset.lower() == b"iso-8859-1" else _decode(data)
