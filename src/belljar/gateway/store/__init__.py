"""What outlives a request: records and blobs."""

from __future__ import annotations

from belljar.gateway.store.local_store import open_store

__all__ = ["open_store"]
