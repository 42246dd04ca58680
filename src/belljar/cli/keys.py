"""`belljar keys`: add, list and revoke API keys. A key is printed once, when it is made; only its digest is stored."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.gateway.store.base import KeyRecord, Records

T = TypeVar("T")

_EXAMPLES = """\
examples:
  belljar keys add laptop
  belljar keys list
  belljar keys revoke key_0123
  export OPENAI_API_KEY=$(belljar keys add ci --json | jq -r .key)
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "keys",
        help="make, list and revoke the keys of the gateway",
        description="Make, list and revoke the gateway's keys. A gateway that listens beyond this machine needs one.",
        examples=_EXAMPLES,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    add = actions.add_parser("add", help="make a key and show it, once", allow_abbrev=False)
    add.add_argument("name", metavar="NAME", help="whose it is, or what for")
    listing = actions.add_parser("list", help="list the keys, without showing them", allow_abbrev=False)
    revoke = actions.add_parser("revoke", help="let a key count no more", allow_abbrev=False)
    revoke.add_argument("id", metavar="ID", help="as `belljar keys list` shows it")
    for action, run in ((add, _add), (listing, _list), (revoke, _revoke)):
        settings_flags.add_config(action)
        settings_flags.add_state(action)
        action.add_argument("--json", action="store_true", help="the same as JSON")
        action.set_defaults(main=run)


def _add(args: argparse.Namespace) -> int:
    from belljar.gateway.store.keys import new_key

    name = args.name.strip()
    if not name or not name.isprintable() or len(name) > 64:
        raise InvalidRequest(f"name: {args.name!r} is not a name of 1 to 64 characters; for example laptop")
    plain, record = new_key(name)
    _with_records(args, lambda records: records.put_key(record))
    if args.json:
        print(json.dumps({**_describe_key(record), "key": plain}))
        return 0
    line = "─" * (len(plain) + 2)
    print(f"┌{line}┐\n│ {plain} │\n└{line}┘")
    print(f"The key of {name} ({record.id}). It is not shown again: keep it now, where {name} finds it.")
    return 0


def _list(args: argparse.Namespace) -> int:
    keys = _with_records(args, lambda records: records.keys())
    if args.json:
        print(json.dumps([_describe_key(key) for key in keys]))
        return 0
    if not keys:
        print("There are no keys. To make one: belljar keys add NAME")
        return 0
    heads = ("ID", "NAME", "ENDS IN", "MADE", "LAST USED", "")
    rows = [
        (key.id, key.name, key.shown, _date(key.created_at), _date(key.last_used_at), "revoked" * _is_revoked(key))
        for key in keys
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _revoke(args: argparse.Namespace) -> int:
    from msgspec.structs import replace

    async def revoke(records: Records) -> KeyRecord:
        keys = await records.keys()
        found = next((key for key in keys if key.id == args.id), None)
        if found is None:
            named = ", ".join(key.id for key in keys if key.name == args.id and not _is_revoked(key))
            where = f"that is a name: give the id, {named}" if named else "belljar keys list shows those there are"
            raise NotFound(f"id: there is no key {args.id!r}; {where}")
        if not _is_revoked(found):
            found = replace(found, revoked_at=int(time.time()))
            await records.put_key(found)
        return found

    record = _with_records(args, revoke)
    print(json.dumps(_describe_key(record)) if args.json else f"The key of {record.name} ({record.id}) counts no more.")
    return 0


def _with_records(args: argparse.Namespace, act: Callable[[Records], Awaitable[T]]) -> T:
    import asyncio

    from belljar.gateway.store.configured_store import open_records

    flags = {"state_dir": args.state_dir, "database": args.database}
    settings = settings_flags.load_settings(flags, file=args.config)

    async def run() -> T:
        records = await open_records(settings)
        try:
            return await act(records)
        finally:
            await records.close()

    return asyncio.run(run())


def _is_revoked(key: KeyRecord) -> bool:
    return key.revoked_at is not None


def _describe_key(key: KeyRecord) -> dict[str, Any]:
    names = ("id", "name", "shown", "created_at", "last_used_at", "revoked_at")
    return {name: getattr(key, name) for name in names}


def _date(at: int | None) -> str:
    return "never" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
