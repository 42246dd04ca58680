"""What the faces make of each fault, in a few words."""

from __future__ import annotations

from tests.parity.anthropic_errors import ANTHROPIC
from tests.parity.faces import Asking, Faces
from tests.parity.gemini_errors import GEMINI
from tests.parity.openai_errors import CHAT, OPENAI, XAI
from tests.parity.rows import Fault, said

FAULTS: tuple[Fault, ...] = (*ANTHROPIC, *OPENAI, *GEMINI, *XAI, *CHAT)


def told(faces: Faces, row: Fault) -> dict[str, str]:
    """What each face says, by its name."""
    found: dict[str, str] = {}
    faces.vendors.fault = row.reply
    try:
        for face in row.faces:
            seen = faces.ask(face, row.vendor, Asking(streamed=row.streamed)).seen
            if seen is None:
                found[face] = "no error"
                continue
            by_itself = face == "gateway" and row.after is None  # it names a time where the vendor names none
            found[face] = said(seen.kind, seen.reason, seen.final, None if by_itself else seen.after)
    finally:
        faces.vendors.fault = None
    return found
