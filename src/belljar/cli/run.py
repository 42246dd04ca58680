"""`belljar run`: run a script or a line of code in a fresh sandbox, with files in and out."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

from belljar.cli.command_parser import add_command
from belljar.cli.outdir import make_directory
from belljar.cli.settings_flags import WHERE, add_packages, add_sandbox_url, add_warm_pool, load_settings
from belljar.errors import BelljarError, InvalidRequest, NotFound

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from belljar.cli.run_output import Reporter
    from belljar.sandbox.blocking import Sandbox
    from belljar.sandbox.outputs import Exit

_OUTPUT = 64 << 20
"""Text shown of a run before the rest goes to a log file: more than a notebook keeps, since a terminal scrolls."""

_FLAGS = {"requirements": "--require", "memory": "--memory", "disk": "--disk", "cpus": "--cpus"}
_FIELD = re.compile(rf"\A({'|'.join(_FLAGS)})(\[\d+\])?(?=:)")

_EXAMPLES = """\
examples:
  belljar run -c "import pandas as pd; pd.DataFrame({'x': [1, 2, 3]}).describe()"
  belljar run analysis.py --file data.csv --out results/ --timeout 120 --memory 4g
  belljar run report.py --file 2025.csv=input.csv --require humanize
  echo 'print(1 + 1)' | belljar run -
  belljar run analysis.py --sandbox-url http://127.0.0.1:8080    # runs where `belljar sandbox` does
  belljar run plot.py --json > outputs.jsonl

Files given by --file are in the working directory, /mnt/data. Files that the code makes there are copied to --out,
and figures are saved there as figure-1.png and so on. What is in --out already stays as it is, unless --overwrite is
given; what tools run by themselves, such as .git, is never copied. There is no network inside.

exit codes:
  0    it ran to its end            124  the time was over
  1    it raised an exception       130  it was interrupted (Ctrl-C; once more kills)
  N    it called sys.exit(N)        137  it was killed for using too much (memory, processor time, output)
  2    the command is wrong         139  it crashed (128 + the signal's number)
  3    this host cannot confine it or has no such packages, the sandbox server is away, or a file could not be saved
"""


def configure(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "run",
        help="run Python in a fresh jail",
        description="Run a script or a piece of Python in a fresh jail; show what it prints as it prints it.",
        examples=_EXAMPLES,
    )
    parser.add_argument("script", nargs="?", help="the file to run, or - for standard input")
    parser.add_argument("-c", dest="code", metavar="CODE", help="the code itself")
    parser.add_argument(
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="PATH[=NAME]",
        help="put a file into the working directory, under its own name or NAME; may be repeated",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="copy the files it makes there; made if missing")
    parser.add_argument("--overwrite", action="store_true", help="let them take the place of files that are in --out")
    parser.add_argument("--timeout", metavar="S", help="seconds it may run, or none (60)")
    parser.add_argument("--memory", metavar="SIZE", help="memory it may use, such as 512m or 4g (1g)")
    parser.add_argument("--disk", metavar="SIZE", help="room for files in the working directory (half the memory)")
    parser.add_argument("--cpus", type=float, metavar="N", help="processors it may use at once (all)")
    add_packages(parser)
    add_sandbox_url(parser)
    add_warm_pool(parser)
    parser.add_argument(
        "--require",
        dest="requirements",
        action="append",
        default=[],
        metavar="NAME",
        help='a package to add, such as humanize or "polars>=1"; may be repeated',
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line: each output, at last the exit")
    parser.set_defaults(main=main)


@dataclass(frozen=True, slots=True)
class FileArgument:
    """A file to put inside."""

    path: str
    name: str


def main(args: argparse.Namespace) -> int:
    flags = ("timeout", "memory", "packages", *WHERE)
    settings = load_settings({name: getattr(args, name) for name in flags})
    code, script = read_code(args.script, args.code)
    if args.overwrite and args.out is None:
        raise InvalidRequest("--overwrite: there is no directory to overwrite in; name it: --out DIR")
    with ExitStack() as stack:
        inputs = [(one.name, stack.enter_context(_open(one))) for one in parse_files(args.files)]
        from belljar.sandbox.default import settled_source

        source = settled_source(settings, preload=False)
        from belljar.cli.run_output import Reporter
        from belljar.sandbox.blocking import Sandbox

        if args.out is not None:
            make_directory(args.out)
        stack.enter_context(_exit_on_signal())
        stack.callback(source.shut)
        stack.enter_context(_name_flags())

        box = Sandbox(
            memory=settings.memory,
            requirements=args.requirements,
            timeout=settings.timeout,
            cpus=args.cpus,
            disk=args.disk,
            output=_OUTPUT,
            packages=settings.packages if settings.runs_elsewhere else "auto",  # the jail has been told already
            source=source,
        )
        with box:
            for name, file in inputs:
                box.files.write(name, file)
            told = Reporter(box.files, out=args.out, overwrite=args.overwrite, script=script, as_json=args.json)
            return _run(box, code, told)


def _run(box: Sandbox, code: str, reporter: Reporter) -> int:
    from belljar.sandbox.outputs import Exit
    from belljar.sandbox.remedies import Reader, address_to

    with _interrupt_on_signal(box):
        for output in box.stream(code):
            if isinstance(output, Exit):
                status = exit_code(output)
                return reporter.finish(address_to(output, Reader.COMMAND), status)
            reporter.show(output)
    raise AssertionError("a run ends with an Exit")


def exit_code(end: Exit) -> int:
    """What the shell is told."""
    match end.status, end.reason:
        case "ok", _:
            return 0
        case "timed_out", _:
            return 124
        case "raised", _:
            return end.code if end.code is not None and 1 <= end.code <= 125 else 1
        case _, "interrupted":
            return 130
        case _, "exited":
            return (end.code or 0) & 0xFF
        case _, "crashed" if end.code is not None and end.code < 0:
            return 128 - end.code
    return 137


@contextmanager
def _interrupt_on_signal(box: Sandbox) -> Iterator[None]:
    """Ctrl-C once interrupts the code, as in a notebook; twice ends us, and with us the jail."""
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        box.interrupt()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _exit_on_signal() -> Iterator[None]:
    """Clean up when asked to end, too."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]  # not on Windows
    before = {number: signal.signal(number, on_signal) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _name_flags() -> Iterator[None]:
    """What is wrong with a field is told by the flag that set it."""
    try:
        yield
    except BelljarError as error:
        told = _FIELD.sub(lambda found: _FLAGS[found[1]], str(error), count=1)
        if told != str(error):
            error.args = (told, *error.args[1:])
        raise


# -- what comes in --------------------------------------------------------------------------------------------------


def read_code(script: str | None, code: str | None) -> tuple[str, str | None]:
    """The code to run, and the name that tracebacks call it by if it has one."""
    if (script is None) == (code is None):
        both = (
            "give a script or -c CODE, not both"
            if code is not None
            else "what shall I run? Give a script, - or -c CODE"
        )
        raise InvalidRequest(f"{both}; see belljar run --help")
    if code is not None:
        return code, None
    assert script is not None
    if script == "-":
        return _decode(sys.stdin.buffer.read(), "<stdin>"), "<stdin>"
    with _open(FileArgument(script, script)) as file:
        return _decode(file.read(), script), script


def _decode(data: bytes, name: str) -> str:
    """Python source, by the encoding it says it has."""
    import io
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"script: {name} is not Python source: {error}; save it as UTF-8") from None


def parse_files(given: list[str]) -> list[FileArgument]:
    """PATH or PATH=NAME; a path that is there as it stands is never cut."""
    found: dict[str, FileArgument] = {}
    for text in given:
        path, equals, name = text.rpartition("=")
        if not equals or os.path.lexists(text):
            path, name = text, ""
        name = name or os.path.basename(os.path.normpath(path))
        if name in found:
            other = found[name].path
            raise InvalidRequest(f"--file: {path!r} and {other!r} would both be {name!r}; write --file PATH=NAME")
        found[name] = FileArgument(path, name)
    return list(found.values())


def _open(one: FileArgument) -> BinaryIO:
    try:
        return open(one.path, "rb")
    except FileNotFoundError:
        raise NotFound(f"{one.path!r}: there is no such file; check the path") from None
    except IsADirectoryError:
        raise InvalidRequest(f"{one.path!r} is a directory; name the files in it, or pack it first") from None
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{one.path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
