"""Add a command to the parser of the command line: its help as it is written, its flags by their full names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_command(
    commands: _SubParsersAction[argparse.ArgumentParser], name: str, *, help: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """The command's own parser; `help` stands in the list of commands, `examples` below the flags."""
    return commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
