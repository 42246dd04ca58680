"""What this machine's AWS settings say: credentials from wherever AWS's own tools take them, kept fresh; a region."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from belljar.errors import BadSettings, StoreUnavailable
from belljar.gateway.store.s3.signing import Credentials

EXTRA = "pip install 'belljar[s3]'"


class _Frozen(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class Account:
    """The environment, a profile, a role by web identity, a container's or a machine's own role: botocore finds it."""

    def __init__(self) -> None:
        try:
            import botocore.session
        except ImportError:
            raise BadSettings(f"blobs: a bucket needs a library that is not installed; run: {EXTRA}") from None
        from botocore.exceptions import BotoCoreError

        self._failures = BotoCoreError
        self._session = botocore.session.Session()
        try:
            self._found = self._session.get_credentials()
        except BotoCoreError as error:  # such as a profile that there is not
            raise BadSettings(f"blobs: no AWS credentials can be had: {error}") from None
        if self._found is None:
            raise BadSettings(
                "blobs: there are no AWS credentials for the bucket; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "or AWS_PROFILE, or give this machine or service account a role"
            )

    @property
    def region(self) -> str | None:
        return cast("str | None", self._session.get_config_variable("region"))

    @property
    def authorities(self) -> str | None:
        """A file with certificates to trust, by AWS_CA_BUNDLE or the profile."""
        return cast("str | None", self._session.get_config_variable("ca_bundle"))

    async def credentials(self) -> Credentials:
        """Those that count now. Raises `StoreUnavailable` where they have to be fetched and cannot be."""
        found = self._found
        try:
            # Asking a server takes its time; what is at hand does not.
            if hasattr(found, "refresh_needed") and found.refresh_needed():
                frozen = cast(_Frozen, await asyncio.to_thread(found.get_frozen_credentials))
            else:
                frozen = cast(_Frozen, found.get_frozen_credentials())
        except self._failures as error:
            raise StoreUnavailable(f"the AWS credentials for the bucket cannot be renewed: {error}") from None
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)
