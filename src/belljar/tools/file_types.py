"""Which files a code interpreter has a use for: all but programs that no Python in it could read or run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from belljar.errors import WorkspaceError

UNSUPPORTED: Final = frozenset([".apk", ".deb", ".dll", ".dmg", ".dylib", ".exe", ".iso", ".msi", ".rpm", ".scr"])
"""Programs, installers and images of disks. Code, documents, pictures, archives and data of any kind are welcome."""


def check_types(paths: Iterable[str]) -> None:
    """Refuse a file of a kind that is not supported, before anything is sent."""
    for path in paths:
        name = path.rsplit("/", 1)[-1]
        ending = name[name.rfind(".") :].lower() if "." in name else ""
        if ending in UNSUPPORTED:
            raise WorkspaceError(
                f"host_mounts: {path!r} is of a type that is not supported ({ending}); leave it out with "
                f"exclude_glob=('*{ending}',)"
            )
