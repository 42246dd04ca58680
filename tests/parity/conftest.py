"""Every face on one server, for the whole of the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.parity.efforts import EFFORT_ROWS
from tests.parity.faces import Faces
from tests.parity.server import Vendors


@pytest.fixture(scope="session")
def faces() -> Iterator[Faces]:
    with Vendors() as vendors, Faces(vendors) as faces:
        for row in EFFORT_ROWS:
            vendors.listed[row.vendor].append(row.id)
        yield faces
