"""The port of the table that tells which object of a bucket holds which blob, and which objects hold none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from belljar.gateway.store.base import Blob


class Stored(NamedTuple):
    """Where a blob's bytes are."""

    object: str
    size: int


class BlobIndex(Protocol):
    """Beside the records, so that a blob is removed in one transaction with the look whether one of them names it.

    An object is written once, under a name that nobody had before. It is reserved before its first byte is sent, and
    is garbage unless it is finished in time: whatever a gateway left that was killed has a row here.
    """

    async def reserve(self, objects: Sequence[str], seconds: float) -> None:
        """These are about to be written; those that are not finished after so long are garbage."""
        ...

    async def finish(self, blob: Blob, object: str) -> str | None:
        """All of the blob is in this object: the one that holds it from now on, as if it were new.

        That is another where the blob was there already; then this one is garbage. None where it is garbage since
        its time is over. Again, with the same object, is harmless.
        """
        ...

    async def find_reserved(self, objects: Sequence[str]) -> set[str]:
        """Those of them that may still be finished."""
        ...

    async def renew(self, names: Sequence[str]) -> Mapping[str, Stored]:
        """Those of them that are there, which count as finished now: nobody removes them in the next minutes."""
        ...

    async def find(self, names: Sequence[str]) -> Mapping[str, Stored]:
        """Those of them that are there."""
        ...

    async def list_older(self, seconds: float, *, after: str = "", limit: int = 1000) -> list[str]:
        """Blobs that were finished longer ago, in the order of their names, from the one after this."""
        ...

    async def remove_unused(self, names: Sequence[str], seconds: float) -> list[str]:
        """Remove those that no record names, nor a part of them, and that were finished longer ago; which these were.

        Their objects are garbage.
        """
        ...

    async def take_garbage(self, limit: int = 1000) -> list[str]:
        """Objects that may be deleted: none of them will be finished any more. They are told again until forgotten."""
        ...

    async def forget(self, objects: Sequence[str]) -> None:
        """These are gone from the bucket."""
        ...
