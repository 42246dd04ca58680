"""Sign a request to an S3 server as AWS's Signature Version 4 says; pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who we are to the server. Only the first may be shown."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def hash_body(body: bytes) -> str:
    """By which the server sees that it has all of it."""
    return hashlib.sha256(body).hexdigest()


NOTHING = hash_body(b"")


def encode_path(path: str) -> str:
    """As it stands in an address and is signed: once."""
    return quote(path, safe="/-_.~")


def encode_query(query: Mapping[str, str]) -> str:
    """In the order in which it is signed."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


def sign(
    method: str,
    host: str,
    path: str,
    query: str,
    headers: Mapping[str, str],
    digest: str,
    credentials: Credentials,
    region: str,
    now: float,
) -> dict[str, str]:
    """All headers that the request is to be sent with; path and query are encoded, `digest` is the body's SHA-256."""
    time = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): value.strip() for name, value in headers.items()}
    signed |= {"host": host, "x-amz-content-sha256": digest, "x-amz-date": time}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = "\n".join((method, path, query, lines, names, digest))
    scope = f"{time[:8]}/{region}/s3/aws4_request"
    told = "\n".join((_ALGORITHM, time, scope, hashlib.sha256(request.encode()).hexdigest()))
    signature = hmac.digest(_key(credentials.secret_key, time[:8], region), told.encode(), "sha256").hex()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return signed


@lru_cache(maxsize=4)
def _key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key
