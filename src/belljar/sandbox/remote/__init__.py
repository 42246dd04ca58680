"""Sandboxes of a sandbox server, `belljar sandbox`, over HTTP: the interfaces of `base.py`.

Knows nothing of the jail, so it works on every platform. What the two say to each other is in `sandbox.codec`.
"""

from belljar.sandbox.remote.servers import ServersSource
from belljar.sandbox.remote.source import RemoteSource

__all__ = ["RemoteSource", "ServersSource"]
