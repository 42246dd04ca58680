"""`belljar gc`: tell what is older than it is to be kept and which bytes nothing names, or remove them."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.errors import OperatorError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.config import Settings

_EXAMPLES = """\
examples:
  belljar gc                                                  # what there is to remove by the settings; nothing goes
  belljar gc --keep-responses 30d --keep-containers 7d        # what there would be to remove then
  belljar gc --keep-responses 30d --keep-containers 7d --delete
  belljar gc --json --database postgresql://belljar@db.example.org/belljar --blobs s3://belljar/production

exit codes: 0 told, or removed; 2 for a wrong option; 3 where the store cannot be used, or a gateway is at it
"""
_KINDS = ("responses", "events", "containers", "files")
_ORDERS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "gc",
        help="tell what is too old to be kept, or remove it",
        description="Tell what is older than the settings keep_responses, keep_events, keep_containers and keep_files "
        "say, and which bytes no file has any more; with --delete, remove it. A gateway does the same every hour.",
        examples=_EXAMPLES,
    )
    settings_flags.add_config(parser)
    settings_flags.add_state(parser)
    settings_flags.add_blobs(parser)
    for kind in _KINDS:
        parser.add_argument(f"--keep-{kind}", metavar="AGE", help=f"how long {kind} are kept: 12h, 30d, 8w, or none")
    parser.add_argument("--delete", action="store_true", help="remove it; without, it is only told")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(main=_main)


def _main(args: argparse.Namespace) -> int:
    import asyncio

    names = ("state_dir", "database", "blobs", *(f"keep_{kind}" for kind in _KINDS))
    settings = settings_flags.load_settings({name: getattr(args, name) for name in names}, file=args.config)
    told = asyncio.run(_collect(settings, delete=args.delete, shown=not args.json and sys.stderr.isatty()))
    print(json.dumps(told) if args.json else _describe(told, settings))
    return 0


async def _collect(settings: Settings, *, delete: bool, shown: bool) -> dict[str, Any]:
    import secrets

    from belljar.gateway.store import retention
    from belljar.gateway.store.configured_store import find_database, open_blobs, open_records
    from belljar.gateway.store.local_store import find_local_records

    if find_database(settings) is None:
        find_local_records(settings.state_dir)  # a misspelt directory is not one with nothing to remove
    records = await open_records(settings)
    try:
        blobs = await open_blobs(settings, records)
        try:
            limits = retention.find_limits(settings, await records.now())
            old = await retention.count_old(records, limits)
            unused = await blobs.count_unused(records)
            told: dict[str, Any] = {
                "deleted": delete,
                **{kind: {"count": one.count, "bytes": one.size} for kind, one in old.items()},
                "unused": {"count": unused.count, "bytes": unused.size},
            }
            if not delete:
                return told

            def progress(kind: str, count: int) -> None:
                if shown:
                    print(f"\r{kind}: {count} of {told[kind]['count']}", end="", file=sys.stderr, flush=True)

            who = f"gc_{secrets.token_hex(8)}"
            gone = await retention.remove_old(records, limits, who, batches=sys.maxsize, progress=progress)
            if shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            if gone is None:
                raise OperatorError("a gateway, or another belljar gc, is removing old things at the moment; try again")
            for kind, count in gone.items():
                told[kind]["count"] = count
            told["unused"]["count"] = await blobs.sweep(records)
            return told
        finally:
            await blobs.close()
    finally:
        await records.close()


def _describe(told: dict[str, Any], settings: Settings) -> str:
    lines = []
    for kind in (*_KINDS, "unused"):
        name = f"keep_{kind}"
        if kind not in told:
            lines.append(f"{kind:<12}kept for ever, as {name} is not set")
            continue
        count, size = told[kind]["count"], _size(told[kind]["bytes"])
        if kind == "unused":
            lines.append(f"{'bytes':<12}{count} that no file has any more, {size}")
        else:
            lines.append(f"{kind:<12}{count} older than {_age(getattr(settings, name))}, {size}")
    end = "All this was removed." if told["deleted"] else "Nothing was removed; to do so: belljar gc --delete"
    return "\n".join([*lines, end])


def _size(count: int) -> str:
    for order, unit in _ORDERS:
        if count >= order:
            return f"{count / order:.1f} {unit}"
    return f"{count} bytes"


def _age(seconds: int) -> str:
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            count = seconds // unit
            return f"{count} {name}{'s' if count != 1 else ''}"
    raise AssertionError("seconds are whole")
