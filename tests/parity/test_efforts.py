"""An effort goes out alike from every face: rounded down to what the model takes."""

from __future__ import annotations

import pytest
from tests.parity.efforts import EFFORT_ROWS, Efforts, told
from tests.parity.faces import Faces

pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")


@pytest.mark.parametrize("row", EFFORT_ROWS, ids=str)
def test_an_effort_is_the_same_from_every_face(faces: Faces, row: Efforts) -> None:
    assert told(faces, row) == {}
