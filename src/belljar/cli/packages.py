"""`belljar packages`: list the packages that a sandbox starts with."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from belljar.cli.command_parser import add_command
from belljar.cli.settings_flags import WHERE, add_sandbox_url, add_warm_pool, load_settings
from belljar.config import Settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.sandbox.packages import Installed
    from belljar.sandbox.remote import RemoteSource

_EXAMPLES = """\
examples:
  belljar packages
  belljar packages --json | jq -r '.[].name'
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "packages",
        help="list the packages a sandbox starts with",
        description="List the packages that a sandbox starts with: name and version, one a line.",
        examples=_EXAMPLES,
    )
    add_sandbox_url(parser)
    add_warm_pool(parser)
    parser.add_argument("--json", action="store_true", help="one JSON array of {name, version}")
    parser.set_defaults(main=main)


def main(args: argparse.Namespace) -> int:
    settings = load_settings({name: getattr(args, name) for name in WHERE})
    found, less = _list_remote(settings) if settings.runs_elsewhere else _list_local(settings)
    if less:
        print(f"belljar: a sandbox starts with {less}", file=sys.stderr)
    if args.json:
        print(json.dumps([{"name": one.name, "version": one.version} for one in found]))
        return 0
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{one.name:<{width}}  {one.version}")
    return 0


def _list_local(settings: Settings) -> tuple[Sequence[Installed], str]:
    """What there is, and in words where that is less than there could be."""
    from belljar.sandbox.default import local_source

    source = local_source(settings, warm=0, preload=False)
    return source.packages, source.summary if not source.packages or source.stack.flaw else ""


def _list_remote(settings: Settings) -> tuple[Sequence[Installed], str]:
    """The same of the sandbox server, or the pods."""
    from belljar.sandbox.default import settled_source
    from belljar.sandbox.packages.stack import judge_stack

    source = cast("RemoteSource", settled_source(settings))
    source.learn()
    if settings.packages == "none":
        return (), "the standard library"
    stack = judge_stack(source.packages)
    return source.packages, f"{stack.summary} (there)" if stack.flaw else ""
