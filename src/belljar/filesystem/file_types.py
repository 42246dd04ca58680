"""Which files a workspace has a use for: all but programs that no Python in it could read or run."""

from __future__ import annotations

from typing import Final

UNSUPPORTED: Final = frozenset([".apk", ".deb", ".dll", ".dmg", ".dylib", ".exe", ".iso", ".msi", ".rpm", ".scr"])
"""Programs, installers and images of disks. Code, documents, pictures, archives and data of any kind are welcome."""


def unsupported_type(name: str) -> str | None:
    """The ending of a file's name, where files of its kind are not supported."""
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    return ending if ending in UNSUPPORTED else None
