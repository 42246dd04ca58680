"""The same environment leads every face to the same vendor, at the same address, with the same key."""

from __future__ import annotations

import os

import pytest
from tests.parity.variables import VARIABLES, Variable, told


@pytest.mark.parametrize("row", VARIABLES, ids=str)
def test_an_environment_means_the_same_to_every_face(row: Variable, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith(("_API_KEY", "_BASE_URL"))]:
        monkeypatch.delenv(name)
    assert told(row, monkeypatch) == {face: row.meaning(face) for face in row.faces}
