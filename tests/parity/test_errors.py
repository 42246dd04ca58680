"""A vendor's fault is the same to everybody: class, reason, whether and when to ask again, through every face."""

from __future__ import annotations

import pytest
from tests.parity.errors import FAULTS, told
from tests.parity.faces import Faces
from tests.parity.rows import Fault


@pytest.mark.parametrize("row", FAULTS, ids=str)
def test_a_fault_means_the_same_to_every_face(faces: Faces, row: Fault) -> None:
    assert told(faces, row) == {face: row.meaning(face) for face in row.faces}
