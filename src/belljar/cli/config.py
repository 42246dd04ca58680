"""`belljar config`: print the settings in effect and where each comes from; `--check` only validates them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from belljar.cli import settings_flags
from belljar.cli.command_parser import add_command
from belljar.config import Settings, Shown, config_file
from belljar.errors import BadSettings
from belljar.visible import visible, visible_lines

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_EXAMPLES = """\
examples:
  belljar config
  belljar config --check --config /etc/belljar.yaml
  belljar config --json | jq '.settings.port'

exit codes: 0 the settings are sound, 3 they are not.
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "config",
        help="show the settings in effect and where they came from",
        description="Show every setting, its value in effect and where that came from. Secrets are never shown.",
        examples=_EXAMPLES,
    )
    settings_flags.add_config(parser)
    parser.add_argument("--check", action="store_true", help="only say whether a gateway could start with them")
    parser.add_argument("--json", action="store_true", help="the same as one JSON object")
    parser.set_defaults(main=main)


def main(args: argparse.Namespace) -> int:
    path = config_file(named=args.config)
    settings = Settings.load(file=args.config)
    if args.check:
        settings.check_gateway()
        print(json.dumps({"ok": True, "file": path and str(path)}) if args.json else f"sound: {path or 'no file'}")
        return 0
    problem = _problem(settings)
    if args.json:
        values = {one.name: one.value for one in settings.shown()}
        origins = {one.name: one.origin for one in settings.shown()}
        told = {"file": path and str(path), "settings": values, "origins": origins, "problem": problem}
        print(json.dumps(told, indent=2))
    else:
        _print_table(settings)
    if problem:
        print(f"belljar: error: {visible_lines(problem)}", file=sys.stderr)
    return 3 if problem else 0


def _problem(settings: Settings) -> str | None:
    """Why no gateway could start with them."""
    try:
        settings.check_gateway()
    except BadSettings as error:
        return str(error)
    return None


def _print_table(settings: Settings) -> None:
    rows = [row for one in settings.shown() for row in _rows(one)]
    names, values = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows if len(row[1]) <= 40)
    for name, value, origin in rows:
        print(visible(f"{name:<{names}}  {value:<{values}}  {origin}"))


def _rows(one: Shown) -> Iterator[tuple[str, str, str]]:
    if one.name == "upstreams" and isinstance(one.value, list) and one.value:
        for upstream in one.value:
            yield f"upstreams.{upstream['name']}", _upstream(upstream), one.origin
    else:
        yield one.name, _format_value(one.value), one.origin


def _upstream(told: dict[str, Any]) -> str:
    key = "with a key" if told["api_key"] else "without a key"
    models = f", {_format_value(told['models'])}" if told["models"] else ""
    return f"{told['base_url']} ({told['dialect']}, {key}{models})"


def _format_value(value: object) -> str:
    """As it would stand in a file."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case int() if value and value % (1 << 20) == 0:
            return f"{value >> 20}m"
        case float():
            return f"{value:g}"
        case list():
            return " ".join(map(str, value)) or "none"
    return str(value)
