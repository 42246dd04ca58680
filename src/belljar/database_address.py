"""Where PostgreSQL is: an address that may hold a password, and what of it may be shown."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

EXAMPLE = "postgresql://belljar@db.example.org/belljar"
_HOSTS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:,@/]*)(:\d{1,5})?(,(\[[0-9A-Fa-f:.%]+\]|[^\[\]:,@/]*)(:\d{1,5})?)*")
_OPTIONS = re.compile(
    r"host|port|user|dbname|database|password|passfile|service|servicefile|ssl(mode|cert|key|password|rootcert|crl|negotiation)"
    r"|ssl_(min|max)_protocol_version|target_session_attrs|krbsrvname|gsslib"
)
"""What the driver takes; anything else it would hand to the server as a setting of the session."""
_SECRETS = ("password", "sslpassword")
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")


class DatabaseAddress:
    """A PostgreSQL address. Only `dsn` has the secret in it; as text it is the place alone."""

    def __init__(self, dsn: str) -> None:
        """`ValueError` says what it should be, and nothing of what was given: that may be the password."""
        wanted = f"an address such as {EXAMPLE}, with / ? # @ : in a password written as %2F %3F %23 %40 %3A"
        try:
            parts = urlsplit(dsn.strip())
            options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise ValueError(wanted) from None
        login, _, hosts = parts.netloc.rpartition("@")
        if parts.scheme not in ("postgresql", "postgres") or parts.fragment or not _HOSTS.fullmatch(hosts):
            raise ValueError(wanted)
        if not all(map(_OPTIONS.fullmatch, options)) or "@" in parts.path or "@" in login or login.count(":") > 1:
            raise ValueError(f"{wanted}; its options are those of libpq, such as sslmode, sslrootcert and host")
        self.dsn = dsn.strip()
        self.has_password = ":" in login or any(name in options for name in _SECRETS)
        self.files = tuple((name, path) for name in _FILES for path in options.get(name, ()))
        """Those that its options name: the driver does not say which of them it cannot read."""
        hosts = hosts or ",".join(options.get("host", [])) or "this machine"
        named = parts.path.strip("/") or ",".join(options.get("dbname", options.get("database", [])))
        self._place = f"{hosts}/{named}" if named else hosts

    def __str__(self) -> str:
        return self._place

    def __repr__(self) -> str:
        return f"<Address {self._place}>"
