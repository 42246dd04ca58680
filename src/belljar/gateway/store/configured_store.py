"""The store that the settings name: a directory of this machine, or a database and a bucket that gateways share."""

from __future__ import annotations

from pathlib import Path

from belljar.config import Settings
from belljar.database_address import DatabaseAddress
from belljar.errors import BadSettings
from belljar.gateway.store.base import Blobs, Records
from belljar.gateway.store.local_store import open_local_blobs, open_local_records, prepare

_BUCKET = b"bucket"
_DIRECTORY = b"directory"


def find_database(settings: Settings) -> DatabaseAddress | None:
    """Where the database is; None where the records are in a file of `state_dir`."""
    told, where = settings.database, settings.origins.get("database", "set in code")
    if settings.database_file is not None:
        told, where = _read(settings.database_file), str(settings.database_file)
    try:
        return None if told is None else DatabaseAddress(told)
    except ValueError as error:
        raise BadSettings(f"database: the value is not {error} ({where}); change it or leave it out") from None


async def open_records(settings: Settings) -> Records:
    """Open them, or make them where there are none; several processes may have them open."""
    address = find_database(settings)
    if address is None:
        return open_local_records(settings.state_dir)
    from belljar.gateway.store.postgres.records import PostgresRecords  # `BadSettings` without its extra

    return await PostgresRecords.open(address)


async def open_blobs(settings: Settings, records: Records) -> Blobs:
    """Where the records say that theirs are; `BadSettings` for another place, which has none of them."""
    if settings.blobs is not None:
        from belljar.gateway.store.s3.opening import open_s3  # an HTTP client, and a library that finds credentials

        return await open_s3(settings, records, lambda: _check_kind(records, _BUCKET))
    prepare(settings.state_dir)
    blobs = open_local_blobs(settings.state_dir)
    if find_database(settings) is None:  # then both are in one directory, and go where that goes
        await _check_kind(records, _DIRECTORY)
    else:
        await _check_kind(records, _DIRECTORY + b" " + (await blobs.find_id()).encode())
    return blobs


async def _check_kind(records: Records, kind: bytes) -> None:
    """What kind of place has the blobs is settled by whoever opens them first."""
    agreed = await records.agree("blobs", kind)
    if agreed == kind:
        return
    if agreed == _BUCKET:
        raise BadSettings("blobs: the files that these records name are in a bucket; say in which: --blobs s3://BUCKET")
    if kind == _BUCKET:
        raise BadSettings(
            "blobs: the files that these records name are in a directory, and a bucket has none of them; leave --blobs "
            "out, or start with new records"
        )
    raise BadSettings(
        "blobs: the files that this database names are in a directory of another machine, or in another `state_dir` of "
        "this one; gateways that share a database keep files in a bucket: start with a new database and --blobs "
        "s3://BUCKET/PREFIX, or stay with the one directory"
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadSettings(
            f"database_file: {path} cannot be read ({why}); name a file that holds the database's address"
        ) from None
