"""The command line, `belljar`: parse arguments, load the command that is named, print errors. Decides nothing else."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from belljar import __version__
from belljar.errors import BelljarError, CallerError, WorkspaceError
from belljar.visible import visible_lines

_EXAMPLES = """\
examples:
  belljar serve
  belljar run -c "import pandas as pd; pd.DataFrame({'x': [1, 2, 3]}).describe()"
  belljar run analysis.py --file data.csv --out results/ --timeout 120 --memory 4g
  belljar chat "Which month was best?" --file sales.csv
  belljar doctor

`belljar COMMAND --help` says more about each.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may hold what the terminal cannot show
    as_json = False
    try:
        parser = _parser()
        args = parser.parse_args(argv)
        if args.command is None:
            parser.print_help()
            return 0
        as_json = args.json
        code: int = args.main(args)
        sys.stdout.flush()
        return code
    except BelljarError as error:
        return _explain(error, as_json=as_json)
    except KeyboardInterrupt:
        print("belljar: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        # Standard output is gone: its reader left, as `head` does, or its disk is full. Python would complain again
        # when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 141
        where = f"{error.filename}: " if error.filename else ""
        print(f"belljar: error: {visible_lines(f'{where}{error.strerror or error}')}", file=sys.stderr)
        return 3


class _Parser(argparse.ArgumentParser):
    """Names what it was given, which a shell may have taken from the names of files."""

    def error(self, message: str) -> NoReturn:
        super().error(visible_lines(message))


def _parser() -> argparse.ArgumentParser:
    # Loading them takes its time, in which somebody may press Ctrl-C: `main` hears of it by then.
    from belljar.cli import chat, config, doctor, gc, keys, models, move, packages, run, sandbox, serve

    parser = _Parser(
        prog="belljar",
        description="A code interpreter for any model, under its owner's control: Python in a kernel's jail.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"belljar {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in (serve, sandbox, run, chat, models, keys, gc, move, config, doctor, packages):
        command.configure(commands)
    return parser


def _explain(error: BelljarError, *, as_json: bool) -> int:
    """One clear message, never a traceback; 2 where the command was at fault, 3 where the host is."""
    print(f"belljar: error: {visible_lines(str(error))}", file=sys.stderr)
    if as_json:
        print(json.dumps({"output": "error", "code": error.code, "message": str(error)}))
    return 2 if isinstance(error, CallerError | WorkspaceError) else 3
