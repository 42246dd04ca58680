"""Containers and their files, as the API shows them."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from belljar.wire.requests import ExpiresAfter
from belljar.wire.tools import Tier


class Network(Struct, frozen=True, kw_only=True):
    """What a container may reach. Secrets were told to us, and are told to nobody."""

    type: Literal["disabled", "allowlist"] = "disabled"
    allowed_domains: tuple[str, ...] | UnsetType = UNSET


class Container(Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["container"] = "container"
    created_at: int
    name: str
    status: Literal["running", "expired"]
    last_active_at: int
    expires_after: ExpiresAfter
    memory_limit: Tier
    network_policy: Network = Network()


class ContainerFile(Struct, frozen=True, kw_only=True):
    """`path` is absolute, as the code sees it."""

    id: str
    object: Literal["container.file"] = "container.file"
    container_id: str
    created_at: int
    bytes: int
    path: str
    source: Literal["user", "assistant"]
