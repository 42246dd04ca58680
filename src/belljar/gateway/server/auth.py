"""Who calls: a key stands for an owner; where no keys are asked for, everybody is `local`."""

from __future__ import annotations

from collections.abc import Mapping

from belljar.errors import Unauthenticated
from belljar.gateway.server.interfaces import Keyring
from belljar.gateway.store.keys import LOCAL


async def find_owner(keys: Keyring | None, headers: Mapping[bytes, bytes]) -> str:
    """The owner that this request's key stands for."""
    if keys is None or not await keys.is_needed():
        return LOCAL
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not key.strip():
        raise Unauthenticated("You didn't provide an API key. Send it in the header 'Authorization: Bearer YOUR_KEY'.")
    record = await keys.check(key.strip().decode("latin-1"))
    if record is None:
        raise Unauthenticated("Incorrect API key provided. Use a key of this gateway that was not revoked.")
    return record.id
