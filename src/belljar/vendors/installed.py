"""Find the vendors that other packages bring: each declares the row of its vendor as an entry point."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points

from belljar.vendors.vendor import Vendor

GROUP = "belljar.vendors"
"""Where a package declares them, by a name and `module:ROW`."""
_log = logging.getLogger("belljar")


def load_vendors(own: Iterable[Vendor]) -> Iterator[Vendor]:
    """The rows beside our own. One that cannot be used is told of, and does not keep the others from working."""
    names = {row.name for row in own}
    wires = {row.wire.name: row.wire for row in own}
    for point in entry_points(group=GROUP):
        try:
            row = point.load()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a package of somebody else
            _log.warning("the vendor %s cannot be loaded from %s: %r; mend its package", point.name, point.value, error)
            continue
        fault = ""
        if not isinstance(row, Vendor):
            fault = f"it is a {type(row).__name__}, not a Vendor"
        elif row.name in names:
            fault = f"there is a vendor {row.name} already"
        elif wires.setdefault(row.wire.name, row.wire) != row.wire:
            fault = f"there is another wire {row.wire.name} already"
        if fault:
            _log.warning("the vendor %s of %s cannot be used: %s; mend its package", point.name, point.value, fault)
            continue
        names.add(row.name)
        yield row
