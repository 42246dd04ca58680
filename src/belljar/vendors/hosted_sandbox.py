"""What a vendor's own sandbox is like from outside: how files get in and out, and whether it lives on. Data."""

from __future__ import annotations

from msgspec import Struct

DAY = 24 * 60 * 60


class HostedSandbox(Struct, frozen=True, kw_only=True):
    """One vendor's. In paths, `{id}` stands for a file's id and `{container}` for its container's."""

    upload: str | None = None
    """Where a file is uploaded, as a form with `fields` beside it, or where `resumable` in two steps as Google does."""
    resumable: bool = False
    fields: tuple[tuple[str, str], ...] = ()
    life: int | None = None
    """Seconds that an upload is kept; without, until somebody deletes it."""
    largest: int
    """Bytes of one file that is uploaded."""
    inline: int = 0
    """Bytes of all files together that go along in the request; what is more is uploaded, where that can be done."""
    file: str | None = None
    """Where a file is kept that the code made, and beneath at /content its bytes."""
    placing: str | None = None
    """Where an upload is put into a container that there is already."""
    keeps: bool = False
    """Its containers can be gone on with: variables and files are still there in the next request."""
    where: str = "attached"
    """What the model is told of a file; `{name}` and `{id}` stand for its own."""
