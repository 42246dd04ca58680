"""Rewrite notebook lines that are not Python, `!command`, `%magic` and `%%magic`, into calls.

Only a line that the parser refused is ever rewritten, in place, so valid Python stays as it is and line numbers hold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from types import FrameType
from typing import TextIO

from . import private_builtins
from .hints import Hints

private_builtins.protect(globals())

CALL = "__belljar__"
"""The builtin that rewritten lines call."""

_LINE = re.compile(r"(?P<before>\s*(?:[\w., ]+=\s*)?)(?P<sign>!!?|%%?)(?P<text>[^\r\n]*)")
_INSTALL = re.compile(
    r"\s*(?:sudo\s+)?(?:\S*python[\d.]*\s+-m\s+)?(?:uv\s+)?(?:pip[\d.]*|conda|mamba|apt|apt-get|uv)\s+(?:\S+\s+)*?"
    r"(?:install|add|download)\b"
)
_NAME = re.compile(r"\{(\w+)\}|\$(\w+)")
_SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
_IGNORED = frozenset({"matplotlib", "config", "load_ext", "reload_ext", "autoreload", "pylab", "precision"})
_SHELL_CELLS = frozenset({"bash", "sh", "script"})


def rewrite_line(source: str, number: int) -> str | None:
    """The source with that line made into a call; None if it is no magic line."""
    lines = source.splitlines(keepends=True)
    if not 0 < number <= len(lines):
        return None
    while number > 1 and lines[number - 2].rstrip("\r\n").endswith("\\"):
        number -= 1
    match = _LINE.match(lines[number - 1])
    if match is None or (match["sign"].startswith("%") and match["before"].strip() and not match["text"][:1].isalpha()):
        return None
    # Lines ended by a backslash belong together.
    text, last = match["text"], number
    while text.endswith("\\") and last < len(lines):
        text = text[:-1] + lines[last].rstrip("\r\n")
        last += 1
    assigned = bool(match["before"].strip())
    call = f"{match['before']}{CALL}({match['sign']!r}, {text.strip()!r}, {assigned})"
    lines[number - 1 : last] = [call + "\n" * (last - number + 1)]
    return "".join(lines)


def rewrite_cell(source: str) -> str:
    """A cell that begins with `%%`; `%%time` and `%%capture` stay Python, everything else becomes one call."""
    blank = source[: len(source) - len(source.lstrip())]
    head, _, rest = source.lstrip().partition("\n")
    name, _, arguments = head[2:].strip().partition(" ")
    if name in ("time", "capture"):
        return f"{blank}{CALL}.begin({name!r})\n{rest}"
    return f"{blank}{CALL}('%%', {name!r}, False, {arguments.strip()!r}, {rest!r})"


class Magics:
    """What rewritten lines call."""

    def __init__(self, hints: Hints, flush: Callable[[], None]) -> None:
        self._hints = hints
        self._flush = flush
        self._after: list[Callable[[], None]] = []

    def __call__(self, sign: str, text: str, assigned: bool = False, arguments: str = "", rest: str = "") -> object:
        frame = sys._getframe(1)
        if sign == "%%":
            self._cell(text, arguments, rest, frame)
            return None
        if sign.startswith("!"):
            return self._command(text, assigned or sign == "!!", frame)
        name, _, arguments = text.partition(" ")
        return self._line(name, arguments.strip(), frame)

    def begin(self, name: str) -> None:
        """`%%time` and `%%capture`: what begins here ends with the cell."""
        if name == "time":
            wall, cpu = perf_counter(), process_time()
            self._after.append(lambda: _say(_times(perf_counter() - wall, process_time() - cpu)))
        else:
            # The streams are put back after every cell.
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115

    def finish(self) -> None:
        """The cell is over."""
        while self._after:
            self._after.pop()()

    def _line(self, name: str, arguments: str, frame: FrameType) -> object:
        if name in _IGNORED:
            return None
        match name:
            case "pip" | "conda" | "mamba" | "uv":
                return self._command(f"{name} {arguments}", False, frame)
            case "time":
                return _time(arguments, frame)
            case "timeit":
                _timeit(arguments, frame)
                return None
            case "cd":
                os.chdir(os.path.expanduser(arguments.strip("\"'")) or os.path.expanduser("~"))
                _say(os.getcwd())
                return None
            case "pwd":
                return os.getcwd()
            case "ls" | "cat" | "mkdir" | "cp" | "mv" | "rm":
                return self._command(f"{name} {arguments}", False, frame)
        raise _unknown(f"%{name}")

    def _cell(self, name: str, arguments: str, rest: str, frame: FrameType) -> None:
        if name in _SHELL_CELLS:
            self._shell(rest)
        elif name == "timeit":
            _timeit(rest, frame)
        elif name == "writefile":
            append = arguments.startswith("-a ")
            path = arguments.removeprefix("-a ").strip().strip("\"'")
            with open(path, "a" if append else "w", encoding="utf-8") as file:
                file.write(rest)
            _say(f"{'Appended to' if append else 'Wrote'} {path}")
        else:
            raise _unknown(f"%%{name}")

    def _command(self, command: str, captured: bool, frame: FrameType) -> list[str] | None:
        if _INSTALL.match(command):
            _say(self._hints.no_install(command))
            return [] if captured else None
        command = _fill_variables(command, frame)
        if captured:
            done = subprocess.run(command, shell=True, executable=_SHELL, stdout=subprocess.PIPE, check=False)
            return done.stdout.decode("utf-8", "backslashreplace").splitlines()
        self._shell(command)
        return None

    def _shell(self, command: str) -> None:
        self._flush()
        done = subprocess.run(command, shell=True, executable=_SHELL, check=False)
        if done.returncode:
            _say(f"[the command ended with exit code {done.returncode}]", sys.stderr)


def _say(text: str, file: TextIO | None = None) -> None:
    print(text, file=file)


def _unknown(name: str) -> Exception:
    return NameError(
        f"{name} is not supported here. These are: !command, %cd, %pwd, %time, %timeit, %%time, %%timeit, %%bash, "
        "%%sh, %%capture, %%writefile"
    )


def _fill_variables(command: str, frame: FrameType) -> str:
    """The command with `{name}` and `$name` replaced by variables of the cell, where it has them."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        for names in (frame.f_locals, frame.f_globals):
            if name in names:
                return str(names[name])
        return match[0]

    return _NAME.sub(value, command)


def _time(code: str, frame: FrameType) -> object:
    names = frame.f_globals
    wall, cpu = perf_counter(), process_time()
    try:
        try:
            compiled = compile(code, "<%time>", "eval", dont_inherit=True)
        except SyntaxError:
            exec(compile(code, "<%time>", "exec", dont_inherit=True), names)
            return None
        return eval(compiled, names)
    finally:
        _say(_times(perf_counter() - wall, process_time() - cpu))


def _timeit(code: str, frame: FrameType) -> None:
    from timeit import Timer

    words = code.split()
    while words and words[0].startswith("-"):
        code = code.lstrip()[len(words.pop(0)) :]
    timer = Timer(code.strip(), globals=frame.f_globals)
    number, _ = timer.autorange()
    runs = timer.repeat(5, number) if number > 1 else timer.repeat(3, 1)
    best, mean = min(runs) / number, sum(runs) / len(runs) / number
    _say(f"{_seconds(mean)} per loop (mean of {len(runs)} runs, {number} loops each; best {_seconds(best)})")


def _times(wall: float, cpu: float) -> str:
    return f"CPU time: {_seconds(cpu)}, wall time: {_seconds(wall)}"


def _seconds(value: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"
