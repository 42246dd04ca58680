"""Explain every stop in plain words: what happened and which limit. Pure; remedies are in `remedies`."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Literal

from belljar.sandbox.base import GIB, KIB, MIB, Limits
from belljar.sandbox.outputs import Error, Exit, Limit

_LOST_STATE = "The variables are gone; the files in /mnt/data are still there, and the next cell starts afresh."


def size(count: int) -> str:
    """Bytes as people write them."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"


def add_note(exit: Exit, note: str) -> Exit:
    """The same end with something more to say of it; a remedy stays last."""
    text = exit.text.removesuffix(exit.remedy).rstrip()
    return replace(exit, text=" ".join(part for part in (text, note, exit.remedy) if part))


def ended_processes(why: str) -> str:
    """For `add_note`: what the code had started was ended, during the cell or since the one before."""
    return f"Processes that the code had started were ended: {why}."


def ended_all(why: str, *, seconds: float) -> Exit:
    """The same, with the interpreter."""
    text = f"Killed: all processes of the code were ended: {why}. {_LOST_STATE}"
    return Exit("killed", text, reason="processes", kept=False, seconds=seconds)


def timeout(limit: float, *, kept: bool, seconds: float) -> Exit:
    text = f"Stopped: the cell ran longer than its {limit:g} s. {_state(kept)}"
    return Exit("timed_out", text, kept=kept, seconds=seconds, limit="time")


def interrupt(*, kept: bool, error: Error | None, seconds: float) -> Exit:
    text = f"Interrupted on request. {_state(kept)}"
    return Exit("killed", text, reason="interrupted", error=error, kept=kept, seconds=seconds)


def excess(limit: Literal["memory", "cpu", "output"], limits: Limits, *, kept: bool, seconds: float) -> Exit:
    """Stopped by the host for using too much."""
    what = {
        "memory": f"used more than the {size(limits.memory)} of memory it may have (files under /mnt/data and /tmp "
        "count)",
        "cpu": f"used more than {limits.cpu_time or 0:g} s of processor time; what earlier cells left running counts "
        "while a cell runs, and has been ended",
        "output": f"printed more than {size(limits.output_total)} or displayed more than "
        f"{size(min(limits.display, limits.output_total))}",
    }
    text = f"Killed: the code {what[limit]}. {_state(kept)}"
    return Exit("killed", text, reason=limit, kept=kept, seconds=seconds, limit=limit)


def process_end(status: int, *, out_of_memory: bool, limits: Limits, seconds: float) -> Exit:
    """The interpreter process is gone: an exit code, or minus a signal."""
    if out_of_memory:
        return excess("memory", limits, kept=False, seconds=seconds)
    if status >= 0:
        text = f"The code ended its own interpreter with exit code {status} (os._exit or the like). {_LOST_STATE}"
        return Exit("killed", text, reason="exited", code=status, kept=False, seconds=seconds)
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    cause = {
        "SIGSEGV": "a segmentation fault: a bug in native code, or a stack overflow (too deep recursion in C)",
        "SIGBUS": "a bus error: memory behind a mapped file is gone",
        "SIGABRT": "an abort: native code gave up, as after heap corruption or a failed assertion",
        "SIGFPE": "an arithmetic fault in native code",
        "SIGILL": "an illegal instruction in native code",
        "SIGSYS": "a system call of another architecture, which is not allowed here",
        "SIGKILL": "SIGKILL, sent by the code itself or by the kernel",
        "SIGXCPU": "the limit on processor time",
        "SIGXFSZ": "the limit on the size of one file",
    }.get(name, name)
    text = f"The interpreter crashed: {cause}. {_LOST_STATE}"
    return Exit("killed", text, reason="crashed", code=status, kept=False, seconds=seconds)


def disconnect(*, seconds: float) -> Exit:
    text = f"The code closed or garbled the interpreter's own connection, so it was replaced. {_LOST_STATE}"
    return Exit("killed", text, reason="disconnected", kept=False, seconds=seconds)


def stop(*, seconds: float) -> Exit:
    """Ended from outside, and nobody told why: of what a server says is known only that it was not the time."""
    text = f"The sandbox server stopped the code, or it crashed: what it had to say is in its output. {_LOST_STATE}"
    return Exit("killed", text, reason="crashed", kept=False, seconds=seconds)


def loss(why: str, *, seconds: float) -> Exit:
    text = f"The sandbox was lost ({why}). Its variables are gone."
    return Exit("killed", text, reason="lost", kept=False, seconds=seconds, limit="lost")


def exception(
    error: Error, limits: Limits, *, code: int | None, note: str, seconds: float, limit: Limit | None = None
) -> Exit:
    """A Python exception, with the limit behind it where there is one; `limit` is what the guest knows of it."""
    what = f"{error.type}: {_first_line(error.message)}".removesuffix(": ")
    more = note
    if not more and limit == "memory":
        more = f"The memory limit of {size(limits.memory)} was reached; variables are kept."
    elif not more:
        found, more = _limit(error, limits)
        limit = limit or found
    if more:
        what += f" {more}" if what.endswith((".", "!", "?", "…")) else f". {more}"
    return Exit("raised", what, more, error=error, code=code, seconds=seconds, limit=limit)


def _state(kept: bool) -> str:
    return "The variables are kept." if kept else _LOST_STATE


def _first_line(message: str) -> str:
    line = message.strip().splitlines()[0] if message.strip() else ""
    return line if len(line) <= 300 else line[:300] + "…"


def _limit(error: Error, limits: Limits) -> tuple[Limit | None, str]:
    """The limit that an error of the operating system stands for, and how much it is."""
    known: tuple[tuple[str, Limit, str], ...] = (
        (
            r"\bErrno 28\b|No space left",
            "disk",
            f"The workspace holds {size(limits.disk)}, /tmp {size(limits.scratch)}.",
        ),
        (
            r"\bErrno 27\b|File too large",
            "file_size",
            f"One file may have {size(limits.file_size or limits.disk)}.",
        ),
        (
            r"\bErrno 24\b|Too many open files",
            "open_files",
            f"A process may have {limits.open_files} files open.",
        ),
        (
            r"\bErrno 11\b|can't start new thread|Resource temporarily unavailable",
            "processes",
            f"Processes and threads together may be {limits.processes}.",
        ),
        (
            r"Network is unreachable|Name or service not known|Temporary failure in name resolution"
            r"|No address associated|NameResolutionError|Failed to resolve",
            "network",
            "There is no network in here.",
        ),
        (
            r"\bErrno 111\b|Connection refused",
            "network",
            "There is no network in here, and nothing inside listens there.",
        ),
    )  # fmt: skip
    seen = f"{error.type}: {error.message}"
    if error.type == "PermissionError" and "Errno 1]" in seen:
        return None, "The jail does not allow this system call."
    return next(((limit, fact) for pattern, limit, fact in known if re.search(pattern, seen)), (None, ""))
