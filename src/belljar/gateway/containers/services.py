"""What all containers of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from belljar.gateway.containers.capacity import Capacity
from belljar.gateway.containers.policy import Policy
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
