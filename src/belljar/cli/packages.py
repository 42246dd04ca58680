"""`belljar packages`: the exact list of what a sandbox starts with."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from belljar.config import Settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EXAMPLES = """\
examples:
  belljar packages
  belljar packages --json | jq -r '.[].name'
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "packages",
        help="list the packages a sandbox starts with",
        description="List the packages that a sandbox starts with: name and version, one a line.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="one JSON array of {name, version}")
    parser.set_defaults(main=main)


def main(args: argparse.Namespace) -> int:
    from belljar.sandbox.default import local_source

    source = local_source(Settings.load(), warm=0, preload=False)
    found = source.packages
    if not found or source.stack.flaw:
        print(f"belljar: a sandbox starts with {source.summary}", file=sys.stderr)
    if args.json:
        print(json.dumps([{"name": one.name, "version": one.version} for one in found]))
        return 0
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        print(f"{one.name:<{width}}  {one.version}")
    return 0
