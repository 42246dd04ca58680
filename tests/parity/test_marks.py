"""The marks are about rows that are there, and the table of them can be printed."""

from __future__ import annotations

import pytest
from tests.parity.__main__ import main
from tests.parity.server import VENDORS
from tests.parity.tables import ROWS
from tests.parity.today import TODAY


@pytest.mark.parametrize("kind", TODAY)
def test_every_mark_has_its_row(kind: str) -> None:
    rows = {(row.vendor, row.id) for row in ROWS[kind]}
    assert len(rows) == len(ROWS[kind])
    assert {(vendor, id) for vendor, marks in TODAY[kind].items() for id in marks} <= rows


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == [*VENDORS, "all"]
