"""What all containers of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.policy import Policy
from belljar.gateway.containers.released_blobs import ReleasedBlobs
from belljar.gateway.membership import Membership
from belljar.gateway.store.base import Blobs, Records


@dataclass(frozen=True, slots=True)
class Services:
    """Handed to each of them."""

    records: Records
    blobs: Blobs
    capacity: Capacity
    policy: Policy
    membership: Membership
    clock: Callable[[], float]
    released: ReleasedBlobs
    stateless: Callable[[], bool]
    """Whether the source's sandboxes keep nothing but their files from cell to cell."""

    @property
    def per_call(self) -> bool:
        """Whether every call has a sandbox of its own: where none keeps variables, nothing else would be true."""
        return self.policy.isolation == "per_call" or self.stateless()

    async def count_left(self, owner: str) -> int | None:
        """Bytes that an owner may store yet; None for any number."""
        most = self.policy.bytes_per_owner
        return None if most is None else most - await self.records.bytes_of(owner)
