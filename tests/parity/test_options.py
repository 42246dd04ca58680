"""What is asked for beside the words changes the request alike from every face, and files are put in one place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.faces import Faces
from tests.parity.options import ATTACHMENTS, OPTIONS, Attachment, Option, attached, told

pytestmark = pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning")


@pytest.mark.parametrize("row", OPTIONS, ids=str)
def test_an_option_changes_the_same_from_every_face(faces: Faces, row: Option) -> None:
    assert told(faces, row) == {}


@pytest.mark.parametrize("row", ATTACHMENTS, ids=str)
def test_a_file_is_put_in_the_same_place_by_every_face(faces: Faces, row: Attachment, tmp_path: Path) -> None:
    assert attached(faces, row, tmp_path) == dict.fromkeys(row.faces, row.wanted)
