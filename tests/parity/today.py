"""Where the faces contradict each other today: what each does instead, by vendor, row and face.

A mark is strict: a face that is mended fails its row until the mark is gone. At the end this file is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Marks: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]

ERRORS: Marks = {}

EFFORTS: Marks = {}

OPTIONS: Marks = {}

ATTACHMENTS: Marks = {
    "anthropic": {"paper.pdf to read": {"gateway": "refused"}, "notes.txt to read": {"gateway": "refused"}},
    "gemini": {"paper.pdf to read": {"gateway": "refused"}, "notes.txt to read": {"gateway": "refused"}},
    "xai": {
        "plot.png to read": {"client": "input_file"},
        "paper.pdf to read": {"gateway": "refused"},
        "notes.txt to read": {"gateway": "refused"},
    },
}

VARIABLES: Marks = {}

TODAY: Mapping[str, Marks] = {
    "error": ERRORS,
    "effort": EFFORTS,
    "option": OPTIONS,
    "attachment": ATTACHMENTS,
    "variable": VARIABLES,
}
"""By the kind of row."""
