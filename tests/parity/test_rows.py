"""No row of this suite stands in it twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.parity.efforts import EFFORT_ROWS
from tests.parity.errors import FAULTS
from tests.parity.options import ATTACHMENTS, OPTIONS
from tests.parity.rows import Row
from tests.parity.variables import VARIABLES


@pytest.mark.parametrize("rows", [FAULTS, EFFORT_ROWS, OPTIONS, ATTACHMENTS, VARIABLES])
def test_every_row_has_a_name_of_its_own(rows: Sequence[Row]) -> None:
    assert len(set(map(str, rows))) == len(rows)
