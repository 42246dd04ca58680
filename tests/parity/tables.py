"""All rows of the suite, by their kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.parity.efforts import EFFORT_ROWS
from tests.parity.errors import FAULTS
from tests.parity.options import ATTACHMENTS, OPTIONS
from tests.parity.rows import Row
from tests.parity.variables import VARIABLES

ROWS: Mapping[str, Sequence[Row]] = {
    "error": FAULTS,
    "effort": EFFORT_ROWS,
    "option": OPTIONS,
    "attachment": ATTACHMENTS,
    "variable": VARIABLES,
}


def count(kind: str, vendor: str) -> tuple[int, int]:
    """How many rows contradict, of how many."""
    rows = [row for row in ROWS[kind] if row.vendor == vendor]
    return sum(bool(row.today) for row in rows), len(rows)
