"""Hints: what a cell could do about an error that only the sandbox explains."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence

from . import originals
from .streams import Output

originals.protect(globals())


NO_INPUT = "There is no one to type here: standard input is empty. Put the value in the code, or read it from a file."
_MOST = 60
"""Package names listed."""


class Hints:
    """Hints that know this sandbox's packages and limits."""

    def __init__(self) -> None:
        self.know((), "", workdir=os.curdir, memory=0)

    def know(
        self,
        packages: Sequence[str],
        how_to_add: str,
        *,
        workdir: str,
        memory: int,
        missed: Sequence[str] = (),
        how_to_mend: str = "",
    ) -> None:
        """Learn where we are. `missed` are names, in small letters, that most would expect here, which has a remedy."""
        self._packages = packages
        self._how_to_add = how_to_add
        self._missed = missed
        self._how_to_mend = how_to_mend
        self._workdir = workdir
        self._memory = memory

    def after_traceback(self, error: BaseException) -> str:
        """A line to put under the traceback; empty if there is nothing to say."""
        missing = _missing_module(error)
        if missing and not self._is_in_workdir(missing):
            mend = f" {self._how_to_mend}" if missing.lower().replace("_", "-") in self._missed else ""
            return f"Hint: {missing!r} is not installed in this sandbox. {self.packages()}{mend}\n"
        if isinstance(error, EOFError) and not error.args:  # getpass, for one
            return f"Hint: {NO_INPUT}\n"
        return ""

    def note(self, error: BaseException) -> str:
        """A sentence for how the cell ended; empty if there is nothing to say."""
        if isinstance(error, MemoryError):
            limit = f" of {self._memory / 2**20:.0f} MiB" if self._memory else ""
            return f"The memory limit{limit} was reached; variables are kept. Work on less data at a time."
        return ""

    def packages(self) -> str:
        """What is there, and how to get more."""
        names = sorted(self._packages, key=str.lower)
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        there = f"Installed: {', '.join(names[:_MOST])}{more}." if names else "Only the standard library is there."
        return f"{there} {self._how_to_add}".rstrip()

    def no_install(self, command: str) -> str:
        """The answer to `pip install`."""
        known = {name.lower().replace("_", "-") for name in self._packages}
        asked = [word for word in command.split() if word.lower().replace("_", "-") in known]
        already = f" Already installed: {', '.join(asked)}." if asked else ""
        return (
            "Packages cannot be installed from inside the sandbox: it has no network access."
            f"{already} {self.packages()}"
        )

    def _is_in_workdir(self, module: str) -> bool:
        folders = {self._workdir, os.curdir}
        names = (module, f"{module}.py")
        return any(os.path.exists(os.path.join(folder, name)) for folder in folders for name in names)


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


def asking(original: Callable[[object], str]) -> Callable[[object], str]:
    """`input`, with an error that says what to do instead."""

    def input(prompt: object = "", /) -> str:
        try:
            return original(prompt)
        except EOFError:
            raise EOFError(NO_INPUT) from None

    return input


def printing(original: Callable[..., None]) -> Callable[..., None]:
    """`print`, a whole line at a time: piece by piece, several processes' lines would mix, and each piece costs."""

    def print(
        *values: object, sep: str | None = " ", end: str | None = "\n", file: object = None, flush: object = False
    ) -> None:
        stream = sys.stdout if file is None else file
        if type(stream) is not Output:
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
            print=printing(builtins.print), input=asking(builtins.input), exit=Leave("exit"), quit=Leave("quit")
        )
