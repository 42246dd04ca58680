"""One thing that a vendor's faces must agree on: a row of the tables of this suite."""

from __future__ import annotations

from dataclasses import dataclass

from tests.library.providers.replay import Reply
from tests.parity.faces import FACES, Face

from belljar import errors

TELLING: tuple[Face, ...] = ("client", "adapter", "files")
"""Faces whose errors have one of the library's codes."""


@dataclass(frozen=True, kw_only=True)
class Row:
    id: str
    vendor: str

    def __str__(self) -> str:
        return f"{self.vendor}-{self.id}"


@dataclass(frozen=True, kw_only=True)
class Fault(Row):
    """What the vendor answers, and what it means."""

    reply: Reply
    kind: str
    """The class in our tree of errors."""
    reason: str
    """One of the codes of the library's clients."""
    after: int | None = None
    streamed: bool = False
    """It comes inside of a stream that began well."""
    apart: tuple[Face, ...] = ()
    """Faces that the fault cannot come to, or where it means something else by right."""

    @property
    def faces(self) -> list[Face]:
        apart = (*self.apart, *(("files",) if self.streamed else ()))
        return [face for face in FACES[self.vendor] if face not in apart]

    def meaning(self, face: str) -> str:
        """What this face ought to say. A gateway's wire has no reasons."""
        reason = self.reason if face in TELLING else None
        final = getattr(errors, self.kind).retryable is False
        return said(self.kind, reason, final, self.after)


def said(kind: str, reason: str | None, final: bool, after: int | None) -> str:
    """An error in a few words."""
    parts = [kind, reason or "", "final" if final else "", f"after {after}" if after is not None else ""]
    return " ".join(filter(None, parts))
