"""What is sent to a server that has `/execute` alone: one cell as a notebook runs it, its files before and after.

The text of this module goes there with a call of `run_cell` at its end, so it imports nothing of ours and works with
any Python from 3.8 on. Files travel flat, since such servers know no directories: under names with a prefix that
nothing else has, and with an index of what they are called. What a stopped cell leaves comes as the server finds it.
"""

from __future__ import annotations

import ast
import base64
import builtins
import gc
import io
import json
import linecache
import os
import shutil
import stat
import sys
import threading
import time
import traceback
import types
import warnings
from typing import Any

CELL = "<cell 1>"
_COROUTINE = 0x80
"""The flag of code that awaits, as `inspect` has it, which takes long to load."""


def run_cell(prefix: str, code: str, files: dict[str, str], programs: list[str]) -> None:
    """`files` are the given ones by the names under which they came, `programs` those that may be run."""
    came = os.getcwd()
    home = os.path.abspath(os.environ.get("OUTPUT_DIR") or came)
    os.makedirs(home, exist_ok=True)
    for given, name in files.items():
        place = os.path.join(home, name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        shutil.move(os.path.join(came, given), place)
        if given in programs:
            os.chmod(place, 0o755)
    os.chdir(home)
    before = find_files(home)
    process = os.getpid()
    outcome = run_code(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed by the cell
    if os.getpid() != process:  # a child that the cell forked, and that came back to its end
        os._exit(0)
    os.chdir(came)
    leave_files(home, prefix, before, outcome)
    if threading.active_count() > 1:  # threads that the cell left end with it
        os._exit(outcome["code"])
    sys.exit(outcome["code"])


def run_code(code: str) -> dict[str, Any]:
    """What became of it, as JSON can say it."""
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.filterwarnings("ignore", message=".*is non-interactive, and thus cannot be shown")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path[0] = ""
    linecache.cache[CELL] = (len(code), None, code.splitlines(True), CELL)
    outcome: dict[str, Any] = {"code": 0, "shown": []}
    names = module.__dict__
    names["__builtins__"] = builtins
    names["display"] = lambda *values: outcome["shown"].extend(map(bundle, values))
    begun = time.monotonic()
    try:
        value = evaluate(code, names)
        if value is not None:
            outcome["result"] = bundle(value)
    except SystemExit as end:
        said = end.code
        outcome["code"] = 0 if said is None else said & 255 if isinstance(said, int) else 1
        outcome["exit"] = "" if said is None else str(said)
        if said is not None and not isinstance(said, int):
            sys.stderr.write(f"{said}\n")
    except BaseException as error:  # noqa: BLE001 - all that a cell can raise is its own
        outcome["code"] = 1
        outcome["error"] = describe_error(error)
    outcome["seconds"] = time.monotonic() - begun
    outcome["shown"] += [bundle(figure) for figure in open_figures()]
    names.clear()  # what was written to files that are still open
    gc.collect()
    return outcome


def evaluate(code: str, names: dict[str, Any]) -> object:
    """The value of its last expression, if that is to be shown."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    tree = compile(code, CELL, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = tree.body[-1] if tree.body else None
    shown = None
    if isinstance(last, ast.Expr):
        line = code.encode("utf-8", "surrogatepass").splitlines()[(last.end_lineno or 1) - 1]
        if not line[last.end_col_offset :].lstrip().startswith(b";"):
            tree.body.pop()
            shown = ast.Expression(last.value)
    parts = [compile(tree, CELL, "exec", flags, dont_inherit=True)]
    if shown is not None:
        parts.append(compile(shown, CELL, "eval", flags, dont_inherit=True))

    async def run_in_loop() -> object:
        value = None
        for part in parts:
            value = eval(part, names)
            if part.co_flags & _COROUTINE:
                value = await value
        return value

    if any(part.co_flags & _COROUTINE for part in parts):
        import asyncio

        return asyncio.run(run_in_loop())
    value = None
    for part in parts:
        value = eval(part, names)
    return value


# -- what is shown -----------------------------------------------------------------------------------------------------


def bundle(value: Any) -> dict[str, str]:
    """A value in the MIME types that it has a form for; bytes as base64."""
    figure = sys.modules.get("matplotlib.figure")
    forms = {"text/plain": repr(value)}
    if figure is not None and isinstance(value, figure.Figure):
        data = io.BytesIO()
        value.savefig(data, format="png", bbox_inches="tight")
        forms["image/png"] = encode(data.getvalue())
        value._belljar_shown = True
        return forms
    for name, mime in (("_repr_html_", "text/html"), ("_repr_png_", "image/png")):
        try:
            told = getattr(value, name)() if not isinstance(value, type) and hasattr(type(value), name) else None
        except Exception:  # noqa: BLE001 - one form less
            continue
        if isinstance(told, (str, bytes)):
            forms[mime] = encode(told) if isinstance(told, bytes) else told
    return forms


def open_figures() -> list[Any]:
    """Figures that were drawn and not shown yet."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return []
    managers = sorted(helpers.Gcf.get_all_fig_managers(), key=lambda one: one.num)
    figures = [one.canvas.figure for one in managers]
    return [one for one in figures if one.axes and not getattr(one, "_belljar_shown", False)]


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def describe_error(error: BaseException) -> dict[str, str]:
    """The exception, with a traceback that begins where the cell does."""
    kind = type(error)
    plain = kind.__module__ in ("builtins", "__main__")
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the exception is the cell's own
        message = "<exception str() failed>"
    summary = traceback.TracebackException(kind, error, error.__traceback__)
    pending: list[Any] = [summary]
    seen = set()
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        frames = list(one.stack)
        first = next((place for place, frame in enumerate(frames) if frame.filename == CELL), len(frames))
        one.stack = traceback.StackSummary.from_list(frames[first:])
        pending += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ())]
    text = "".join(summary.format())
    if not summary.stack:
        text = text.replace("Traceback (most recent call last):\n", "", 1)
    name = kind.__qualname__ if plain else kind.__module__ + "." + kind.__qualname__
    return {"type": name, "message": message, "traceback": text}


# -- files -------------------------------------------------------------------------------------------------------------


def find_files(home: str) -> dict[str, tuple[int, int, int, int]]:
    """Regular files below it by their names, and what tells whether one was changed."""
    found = {}
    top = os.fsencode(home)
    for folder, folders, names in os.walk(top):
        folders[:] = [one for one in folders if not os.path.islink(os.path.join(folder, one))]
        for name in names:
            path = os.path.join(folder, name)
            try:
                told = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(told.st_mode):
                key = os.path.relpath(path, top).decode("utf-8", "surrogateescape")
                found[key] = (told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns)
    return found


def leave_files(home: str, prefix: str, before: dict[str, tuple[int, int, int, int]], outcome: dict[str, Any]) -> None:
    """Of the files, those that were made or changed, and nothing else, with the index."""
    after = find_files(home)
    outcome["gone"] = [name for name in before if name not in after]
    changed = sorted((name for name in after if after[name] != before.get(name)), key=lambda one: (after[one][2], one))
    outcome["files"] = []
    for number, name in enumerate(changed):
        place = os.path.join(home, name)
        os.chmod(os.path.dirname(place), 0o700)
        os.chmod(place, 0o600)
        os.replace(place, os.path.join(home, prefix + str(number)))
        outcome["files"].append([prefix + str(number), name, after[name][2] / 1e9, name in before])
    for name in os.listdir(home):
        if not name.startswith(prefix):
            place = os.path.join(home, name)
            if os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place, ignore_errors=True)
            else:
                os.remove(place)
    with open(os.path.join(home, prefix + "index"), "w", encoding="ascii") as file:
        json.dump(outcome, file)
