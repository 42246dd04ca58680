"""Versions of a container compared: what became of its files, its packages and its cells. Pure."""

from __future__ import annotations

from msgspec import Struct

from belljar.gateway.containers import names
from belljar.gateway.store.base import Version


class Differences(Struct, frozen=True, kw_only=True):
    """From one version to a later one; paths in their order, without pictures that were only shown."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    """With other content than before."""
    removed: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    cells: int = 0
    """Run in between."""

    def __bool__(self) -> bool:
        return self != Differences()


def compare(before: Version, now: Version) -> Differences:
    """What a reader of the one does not know of the other."""
    old, new = _contents(before), _contents(now)
    return Differences(
        added=tuple(sorted(new.keys() - old.keys())),
        changed=tuple(sorted(path for path in new.keys() & old.keys() if new[path] != old[path])),
        removed=tuple(sorted(old.keys() - new.keys())),
        installed=tuple(one for one in now.requirements if one not in before.requirements),
        cells=now.cells - before.cells,
    )


def _contents(version: Version) -> dict[str, str]:
    return {path: file.blob for path, file in version.files.items() if not names.names_figure(path, file.id)}
