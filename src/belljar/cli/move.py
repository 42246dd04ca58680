"""`belljar move`: from the SQLite and the directory of one machine to a PostgreSQL and a bucket that gateways share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.errors import InvalidRequest

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.config import Settings
    from belljar.database_address import DatabaseAddress

_EXAMPLES = """\
examples:
  belljar move --to-database postgresql://belljar@db.example.org/belljar --to-blobs s3://belljar/production
  PGPASSWORD=... belljar move --state-dir /var/lib/belljar --to-database postgresql://belljar@db.example.org/belljar
  belljar move --to-database-file /run/secrets/database --to-blobs s3://belljar/production --json

Stop the gateway first. What broke off goes on when it is run again. Nothing is taken away here.

exit codes: 0 moved and compared; 2 for a wrong option, a gateway that runs, or a target that is not empty; 3 where a
store cannot be used; 130 interrupted
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "move",
        help="move the store of this machine to PostgreSQL and a bucket",
        description="Move records to a PostgreSQL that is empty, and the bytes of files to a bucket, from the "
        "directory of a gateway on this machine.",
        examples=_EXAMPLES,
    )
    settings_flags.add_config(parser)
    parser.add_argument("--state-dir", metavar="DIR", help="what to move (~/.local/state/belljar)")
    parser.add_argument("--to-database", metavar="URL", help="an empty PostgreSQL: postgresql://USER@HOST/NAME")
    parser.add_argument("--to-database-file", type=Path, metavar="FILE", help="a file that holds its address")
    parser.add_argument(
        "--to-blobs", metavar="s3://BUCKET/PREFIX", help="a bucket; without, the bytes stay in --state-dir"
    )
    parser.add_argument("--json", action="store_true", help="what was moved as JSON")
    parser.set_defaults(main=_main)


def _main(args: argparse.Namespace) -> int:
    import asyncio
    import os

    address = _read_address(args.to_database, args.to_database_file)
    state = None if args.state_dir is None else os.path.abspath(args.state_dir)
    settings = settings_flags.load_settings({"state_dir": state, "blobs": args.to_blobs}, file=args.config)
    told = asyncio.run(_move(settings, address, to_bucket=args.to_blobs is not None, shown=not args.json))
    if args.json:
        print(json.dumps(told))
        return 0
    print(f"All was moved to {address} and compared: {sum(told['records'].values())} rows.")
    if args.to_blobs is not None:
        print(f"{told['blobs']} files with their bytes are in {args.to_blobs}.")
    for name in told["missing"]:
        print(f"belljar: {name}: its bytes were not here any more", file=sys.stderr)
    options = f"--database ... --blobs {args.to_blobs}" if args.to_blobs else "--database ..."
    print(f"Start gateways over it: belljar serve {options}. {settings.state_dir} is as it was.")
    return 0


def _read_address(given: str | None, file: Path | None) -> DatabaseAddress:
    from belljar.database_address import DatabaseAddress

    if (given is None) == (file is None):
        raise InvalidRequest("to_database: say where to: --to-database URL, or --to-database-file FILE")
    try:
        told = file.read_text(encoding="utf-8").strip() if file is not None else given or ""
        address = DatabaseAddress(told)
    except (OSError, UnicodeDecodeError):
        raise InvalidRequest(f"to_database_file: {file} cannot be read; name a file that holds an address") from None
    except ValueError as error:
        raise InvalidRequest(f"to_database: the value is not {error}") from None
    if given is not None and address.has_password:
        raise InvalidRequest(
            "to_database: the value has a password in it, and anybody on this machine can read it in the list of "
            "processes; set PGPASSWORD, or name a file that holds it: --to-database-file FILE"
        )
    return address


async def _move(settings: Settings, address: DatabaseAddress, *, to_bucket: bool, shown: bool) -> dict[str, Any]:
    import asyncio
    from dataclasses import replace

    from belljar.gateway.store.configured_store import open_blobs
    from belljar.gateway.store.local_store import find_local_records
    from belljar.gateway.store.postgres import move

    path = find_local_records(settings.state_dir)
    progress = _Progress(shown)
    with _hold_directory(settings.state_dir):
        if to_bucket and await asyncio.to_thread(move.has_bucket, path):
            raise InvalidRequest("to_blobs: the bytes of these files are in a bucket already; leave --to-blobs out")
        target, counts = await move.move_records(path, address, progress.tell)
        try:
            moved, missing = 0, list[str]()
            if to_bucket or "blobs" not in counts:
                there = replace(settings, database=address.dsn, database_file=None)
                blobs = await open_blobs(there if to_bucket else replace(there, blobs=None), target)
                try:
                    if to_bucket:
                        moved, missing = await move.move_blobs(path, settings.state_dir, target, blobs, progress.tell)
                finally:
                    await blobs.close()
            await move.finish(target)
        finally:
            await target.close()
            progress.end()
    return {"records": counts, "blobs": moved, "missing": missing}


@contextmanager
def _hold_directory(directory: Path) -> Iterator[None]:
    from belljar.gateway.store import lock

    with ExitStack() as stack:
        try:
            stack.enter_context(lock.held(directory))
        except InvalidRequest as error:
            who = str(error).partition(",")[0]
            raise InvalidRequest(f"{who}; stop it first, as what it writes from now on would not be moved") from None
        yield


class _Progress:
    """A line that is overwritten where somebody looks, and one for each kind where not."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._alive = shown and sys.stderr.isatty()

    def tell(self, what: str, done: int, total: int) -> None:
        if self._alive:
            print(f"\r\x1b[K{what}: {done} of {total}", end="", file=sys.stderr, flush=True)
        elif self._shown and done >= total > 0:
            print(f"{what}: {done} of {total}", file=sys.stderr)

    def end(self) -> None:
        if self._alive:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
