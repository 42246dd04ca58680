"""Which web pages may call: our own, and those the operator names. Programs send no Origin and are not concerned.

Without keys the gateway trusts whoever reaches this machine's loopback, and a browser reaches it from any page:
with a form or a fetch that needs no leave (it tells its Origin), or under a name of the page's own that resolves to
127.0.0.1 (then Host tells).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from belljar.errors import Forbidden
from belljar.http_server.asgi import Headers

_METHODS = b"GET, POST, DELETE, OPTIONS"
_SHOWN = 80
_EXPOSED = b"x-request-id, openai-processing-ms, content-disposition, retry-after"


class Origins:
    """The pages that may call."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = frozenset(origin.lower().rstrip("/") for origin in allowed)
        named = (urlsplit(origin).hostname for origin in self._allowed)
        self._names = frozenset(["", "localhost", socket.gethostname().lower(), *named])
        """Those that lead here; a program of old names none at all."""
        self._last = ""
        """The host that was last found to be ours: nearly always the next one too."""

    def check(self, headers: Mapping[bytes, bytes], *, keyless: bool) -> Headers:
        """Headers that let the page read the answer; `Forbidden` for a page that may not call."""
        host = headers.get(b"host", b"").decode("latin-1")
        if keyless and host != self._last:
            if not self._is_ours(host):
                raise Forbidden(
                    f"This gateway has no keys: it answers to localhost, IP addresses, this machine's own name and "
                    f"those of allowed_origins, not to '{host[:_SHOWN]}'. Call it by one of these, or set up a key."
                )
            self._last = host
        given = headers.get(b"origin")
        if given is None:
            return ()
        origin = given.decode("latin-1").lower()
        if origin in self._allowed:
            return (
                (b"access-control-allow-origin", given),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"origin"),
            )
        if origin.partition("://")[2] != host.lower():
            raise Forbidden(
                f"Pages of '{origin}' may not call this gateway. Its operator can allow them by naming that origin."
            )
        return ()

    def _is_ours(self, host: str) -> bool:
        """Whether no stranger can have this name resolve to us: whoever answers DNS or mDNS in this network can for
        any other, with one label or under .local too."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def answer_preflight(headers: Mapping[bytes, bytes]) -> Headers:
    """What a page that may call is told when it asks beforehand."""
    if b"access-control-request-method" not in headers:
        return ()
    wanted = headers.get(b"access-control-request-headers", b"authorization, content-type")
    return (
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", wanted),
        (b"access-control-max-age", b"600"),
    )
