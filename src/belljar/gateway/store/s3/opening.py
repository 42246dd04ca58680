"""Open the bucket that the settings name, and see that it is this store's."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import Awaitable, Callable

from belljar import config
from belljar.config import Settings
from belljar.errors import BadSettings
from belljar.gateway.store.base import Records
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.blob_index import BlobIndex
from belljar.gateway.store.s3.account import Account
from belljar.gateway.store.s3.blobs import S3Blobs
from belljar.gateway.store.s3.bucket import Bucket, BucketAddress, ObjectMissing, RequestDeclined
from belljar.gateway.store.s3.signing import hash_body

_MARK = "store.json"
"""The object that says whose a prefix is."""


async def open_s3(settings: Settings, records: Records, check_kind: Callable[[], Awaitable[None]]) -> S3Blobs:
    """`check_kind` raises where the blobs of these records are no objects, before anything is made of the bucket."""
    account = await asyncio.to_thread(Account)
    index = records.blob_index()
    store_id = (await records.agree("store", secrets.token_bytes(16))).hex()
    bucket = Bucket(_find_address(settings, account), account.credentials, trusted=_find_trusted(settings, account))
    try:
        await mark_bucket(bucket, index, store_id, check_kind)
        cache = await asyncio.to_thread(BlobCache, settings.cache_dir / "blobs" / store_id, settings.blobs_cache)
    except BaseException:
        await bucket.close()
        raise
    return S3Blobs(bucket, index, cache)


def _find_address(settings: Settings, account: Account) -> BucketAddress:
    assert settings.blobs is not None
    name, _, prefix = settings.blobs.removeprefix("s3://").partition("/")
    named = config.variables("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    endpoint = settings.blobs_endpoint or named.get("AWS_ENDPOINT_URL_S3") or named.get("AWS_ENDPOINT_URL")
    return BucketAddress(name, prefix, settings.blobs_region or account.region or "us-east-1", endpoint)


def _find_trusted(settings: Settings, account: Account) -> ssl.SSLContext | None:
    file = settings.blobs_ca or account.authorities
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise BadSettings(f"blobs_ca: {str(file)!r} cannot be used: {error}; name a PEM file of certificates") from None


async def mark_bucket(
    bucket: Bucket, index: BlobIndex, store_id: str, check_kind: Callable[[], Awaitable[None]]
) -> None:
    """Make the prefix this store's, unless it is another's, or has none of the blobs that there should be."""
    try:
        try:
            mark = await _read_again(bucket)
        except ObjectMissing:
            if await index.list_older(-60.0, limit=1):
                raise BadSettings(
                    f"blobs: {bucket.address} has none of the files that these records name; name the bucket and the "
                    f"prefix that they are in, or, if they were copied here, copy {_MARK} as well"
                ) from None
            mark = json.dumps({"store": store_id}).encode()
            await bucket.put(_MARK, mark, hash_body(mark))
            try:
                await check_kind()  # not before we know that the bucket can be written: it is for good
            except BadSettings:
                await bucket.delete(_MARK)
                raise
            mark = await _read_again(bucket)  # another may have been faster
    except RequestDeclined as error:
        raise BadSettings(_explain(bucket.address, error)) from None
    if _read_mark(mark) != store_id:
        raise BadSettings(
            f"blobs: {bucket.address} has the files of other records than these; give each store a bucket or a prefix "
            "of its own"
        )
    await check_kind()


async def _read_again(bucket: Bucket) -> bytes:
    """Some servers show an object while it is written, and two gateways may start at once."""
    for _ in range(10):
        mark = await bucket.get(_MARK)
        if _read_mark(mark) is not None:
            break
        await asyncio.sleep(0.1)
    return mark


def _read_mark(mark: bytes) -> object:
    try:
        return json.loads(mark)["store"]
    except (ValueError, KeyError, TypeError):
        return None


def _explain(address: BucketAddress, error: RequestDeclined) -> str:
    fault = error.fault
    if fault.region and fault.region != address.region:
        return f"blobs: the bucket {address.bucket} is in another region; set blobs_region to {fault.region}"
    match error.answered:
        case 404:
            return f"blobs: there is no bucket {address.bucket} ({address}); make it, or name one that is there"
        case 401 | 403:
            remedy = (
                "check the keys, and that they may list the bucket and get, put and delete what is below the prefix"
            )
        case 301 | 307 | 400:
            remedy = "check blobs_region and blobs_endpoint"
        case _:
            remedy = "check blobs and blobs_endpoint"
    return f"blobs: {error}; {remedy}"
