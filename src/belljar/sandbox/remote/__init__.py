"""Sandboxes of a sandbox server, `belljar sandbox`, which may run elsewhere: the ports of `base.py` over HTTP.

Knows nothing of the jail, so it works on every platform. What the two say to each other is in `sandbox.codec`.
"""

from belljar.sandbox.remote.source import RemoteSource

__all__ = ["RemoteSource"]
