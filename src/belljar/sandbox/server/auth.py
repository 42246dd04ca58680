"""Who may ask: the bearer of the token, never a page in a browser."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from belljar.errors import Forbidden, Unauthenticated
from belljar.net import is_loopback


class Guard:
    """Checks the headers of a request; without a token everyone who can connect may ask."""

    def __init__(self, token: str | None, *, loopback: bool) -> None:
        """`loopback` where that is all that we listen on: a name that leads there by DNS alone is somebody's trick."""
        self._token = None if token is None else token.encode()
        self._loopback = loopback

    def check_browser(self, headers: Mapping[bytes, bytes]) -> None:
        if b"origin" in headers:
            raise Forbidden("Origin: a page in a browser may not ask here; leave the header out")
        if not self._loopback:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        if host and not is_loopback(_hostname(host)):
            raise Forbidden(f"Host: {host[:80]!r} is not a name of this machine; use 127.0.0.1 or localhost")

    def check_token(self, headers: Mapping[bytes, bytes]) -> None:
        if self._token is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        known = hmac.compare_digest(given.strip(), self._token)
        if scheme.lower() != b"bearer" or not known:
            raise Unauthenticated("Authorization: no token or a wrong one; send: Bearer TOKEN (setting sandbox_token)")


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
