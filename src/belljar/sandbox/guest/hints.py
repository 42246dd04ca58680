"""Add hints to errors that only the sandbox explains, such as a missing module or empty standard input."""

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Sequence

from . import private_builtins
from .streams import OutputStream

private_builtins.protect(globals())


NO_INPUT = "There is no one to type here: standard input is empty. Put the value in the code, or read it from a file."
_INSTALL = re.compile(r"\b(?:install|add|download)\b")
_MOST = 60
"""Package names listed."""


class Hints:
    """Hints that know this sandbox's packages. What to do about a limit is told outside, where it is known to whom."""

    def __init__(self) -> None:
        self.know((), workdir=os.curdir)

    def know(self, packages: Sequence[str], *, workdir: str, missed: Sequence[str] = ()) -> None:
        """Learn where we are. `missed` are names, in small letters, that most would expect here."""
        self._packages = packages
        self._missed = missed
        self._workdir = workdir
        self._wanted = ""

    def after_traceback(self, error: BaseException) -> str:
        """A line to put under the traceback; empty if there is nothing to say."""
        if missing := self._find_missing(error):
            return f"Hint: {missing!r} is not installed in this sandbox. {self.packages()}\n"
        if isinstance(error, EOFError) and not error.args:  # getpass, for one
            return f"Hint: {NO_INPUT}\n"
        return ""

    def limit(self, error: BaseException | None) -> str:
        """Which limit the cell met, of those that are known in here; empty if none. Asked once, at a cell's end."""
        wanted, self._wanted = self._wanted, ""
        if isinstance(error, MemoryError):
            return "memory"
        missing = self._find_missing(error)
        return self._lack(missing) if missing else wanted

    def packages(self) -> str:
        """What is there."""
        names = sorted(self._packages, key=str.lower)
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        return f"Installed: {', '.join(names[:_MOST])}{more}." if names else "Only the standard library is there."

    def no_install(self, command: str) -> str:
        """The answer to `pip install`."""
        known = {_plain(name) for name in self._packages}
        words = [word for word in _INSTALL.split(command, maxsplit=1)[-1].split() if not word.startswith("-")]
        asked = [word for word in words if _plain(word) in known]
        already = f" Already installed: {', '.join(asked)}." if asked else ""
        if len(asked) < len(words):
            self._wanted = next((lack for lack in map(self._lack, words) if lack == "stack"), "packages")
        return (
            "Packages cannot be installed from inside the sandbox: it has no network access."
            f"{already} {self.packages()}"
        )

    def _lack(self, name: str) -> str:
        return "stack" if _plain(name) in self._missed else "packages"

    def _find_missing(self, error: BaseException | None) -> str:
        missing = _missing_module(error)
        return "" if missing and self._is_in_workdir(missing) else missing

    def _is_in_workdir(self, module: str) -> bool:
        folders = {self._workdir, os.curdir}
        names = (module, f"{module}.py")
        return any(os.path.exists(os.path.join(folder, name)) for folder in folders for name in names)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")


def _missing_module(error: BaseException | None) -> str:
    """The top-level module that was not found, also where a library wrapped the error in its own ImportError."""
    for _ in range(8):
        if not isinstance(error, ImportError):
            break
        name = error.name if isinstance(error, ModuleNotFoundError) else None
        if isinstance(name, str) and name and "." not in name:
            return "" if name in sys.stdlib_module_names or sys.modules.get(name) is not None else name
        error = error.__cause__ or error.__context__
    return ""


def wrap_input(original: Callable[[object], str]) -> Callable[[object], str]:
    """`input`, with an error that says what to do instead."""

    def input(prompt: object = "", /) -> str:
        try:
            return original(prompt)
        except EOFError:
            raise EOFError(NO_INPUT) from None

    return input


def wrap_print(original: Callable[..., None]) -> Callable[..., None]:
    """`print`, a whole line at a time: piece by piece, several processes' lines would mix, and each piece costs."""

    def print(
        *values: object, sep: str | None = " ", end: str | None = "\n", file: object = None, flush: object = False
    ) -> None:
        stream = sys.stdout if file is None else file
        if type(stream) is not OutputStream:
            return original(*values, sep=sep, end=end, file=file, flush=flush)
        try:
            text = (" " if sep is None else sep).join([str(value) for value in values]) + ("\n" if end is None else end)
        except Exception:  # noqa: BLE001 - whatever it is, the original says it as people know it
            return original(*values, sep=sep, end=end, file=file, flush=flush)
        stream.write(text)
        if flush:
            stream.flush()
        return None

    return print


class Leave:
    """`exit` and `quit`: end the cell."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"{self._name}() ends the cell; variables are kept."

    def __call__(self, code: object = None) -> None:
        raise SystemExit(code)


def install() -> None:
    """Put the builtins in place that behave differently here."""
    if not isinstance(builtins.__dict__.get("exit"), Leave):
        builtins.__dict__.update(
            print=wrap_print(builtins.print), input=wrap_input(builtins.input), exit=Leave("exit"), quit=Leave("quit")
        )
