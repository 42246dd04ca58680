"""A vendor's fault is tried again by every face or by none, as often and after the same pauses."""

from __future__ import annotations

import pytest
from tests.parity.faces import Faces
from tests.parity.retries import RETRIES, Retried, pauses_of


@pytest.mark.parametrize("row", RETRIES, ids=str)
def test_a_fault_is_tried_again_alike(faces: Faces, row: Retried, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list(row.pauses)
    assert pauses_of(faces, row, monkeypatch) == {face: (len(pauses) + 1, pauses) for face in row.faces}
