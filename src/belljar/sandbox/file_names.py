"""Names of files in a workspace: which there can be, as it keeps them, and what their first bytes say of them. Pure."""

from __future__ import annotations

from belljar.errors import InvalidRequest, WorkspaceSecurityError

MOUNT = "/mnt/data/"
LONGEST = 4000
"""Bytes of a path that can be named; what lies deeper is not looked at."""
PROGRAMS = (b"#!", b"\x7fELF")
"""How files begin that are made to be run. They come over wires that tell of no permissions, so these may be."""


def clean_name(name: str) -> str:
    """A name as the workspace keeps it: relative, without dots. The /mnt/data/ that the code sees may lead it."""
    plain = name.removeprefix(MOUNT)
    parts = [part for part in plain.split("/") if part not in ("", ".")]
    if plain.startswith("/") or ".." in parts or not parts or "\0" in plain:
        raise WorkspaceSecurityError(
            f"name: {name!r} does not name a file under /mnt/data; use a relative path without '..'"
        )
    try:
        encoded = plain.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"name: {name!r} has a lone surrogate, which no file name can hold", param="name"
        ) from None
    if len(encoded) > 255 and (len(encoded) > LONGEST or max(map(len, encoded.split(b"/"))) > 255):
        raise InvalidRequest(
            f"name: {name[:80]!r}… is too long; 255 bytes a part and {LONGEST} in all are the most", param="name"
        )
    return "/".join(parts)
