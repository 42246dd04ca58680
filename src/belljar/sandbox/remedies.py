"""Remedies for each stop, by reader: a remedy names only what that reader can change. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from belljar.config import DATA_EXTRA
from belljar.sandbox.outputs import Exit, Limit


class Reader(Enum):
    """Who reads of a stop."""

    MODEL = auto()
    """It writes code, and names `requirements`. It sets no limit."""
    PROGRAM = auto()
    """Uses `Sandbox` or `AsyncSandbox`, with their keywords."""
    COMMAND = auto()
    """Types `belljar run`, with its flags."""
    CALLER = auto()
    """Sends requests to the gateway, and may know who runs it."""
    EXECUTE = auto()
    """Sends `POST /execute` to a sandbox server."""
    PAGE = auto()
    """Sits before the page: writes messages and attaches files."""
    CHAT = auto()
    """Types `belljar chat`, with its flags: speaks to a model likewise."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps against one limit, as sentences without their ends."""

    code: str = ""
    """For everybody whose code it is: what it could do otherwise."""
    said: str = ""
    """What a person who speaks to the model says instead."""
    more: Mapping[Reader, str] = field(default_factory=lambda: MappingProxyType({}))
    """How to get more, or what is missing, where a reader can."""

    def of(self, reader: Reader) -> str:
        """For one reader; empty where there is none."""
        code = self.said if reader in (Reader.PAGE, Reader.CHAT) else self.code
        more = self.more.get(reader, "")
        told = f"{code}, or {more}" if code and more else code or more[:1].upper() + more[1:]
        return told if not told or told.endswith("…") else f"{told}."


_LONGER = {
    Reader.PROGRAM: "give it longer: timeout=…",
    Reader.COMMAND: "give it longer: --timeout S",
    Reader.CALLER: "have whoever runs the gateway give it longer: belljar serve --timeout S",
    Reader.EXECUTE: "give it longer: `timeout_seconds`",
    Reader.CHAT: "have whoever runs the gateway give it longer: belljar serve --timeout S",
}
_ROOMIER = {
    Reader.PROGRAM: "give it more: memory=…",
    Reader.COMMAND: "give it more: --memory SIZE",
    Reader.CALLER: "give it more: `container.memory_limit`",
    Reader.EXECUTE: "give it more: `memory`",
    Reader.CHAT: "give it more: --memory TIER",
}
_DISK = {**_ROOMIER, Reader.PROGRAM: "give it more: disk=…", Reader.COMMAND: "give it more: --disk SIZE"}
_PACKAGES = {
    Reader.MODEL: "name it in `requirements`, and call again",
    Reader.PROGRAM: "add it: requirements=[…], or install([…])",
    Reader.COMMAND: "add it: --require NAME",
    Reader.CALLER: "the model can name it in the `requirements` of its call",
    Reader.EXECUTE: "add it: `requirements`",
    Reader.PAGE: "tell the model to install it: it can name packages in its call",
    Reader.CHAT: "tell the model to install it: it can name packages in its call",
}
_STACK = {
    reader: f"{_PACKAGES[reader]}; or have all of the data stack: {DATA_EXTRA}"
    for reader in (Reader.PROGRAM, Reader.COMMAND)
}
_DATA = {
    Reader.MODEL: "work with what is in /mnt/data, or say which file is needed",
    Reader.PROGRAM: "bring the data along: files.write(…)",
    Reader.COMMAND: "bring the data along: --file PATH",
    Reader.CALLER: "send the data as a file: `container.file_ids`",
    Reader.EXECUTE: "bring the data along: `files`",
    Reader.PAGE: "attach the data as a file",
    Reader.CHAT: "send the data along: --file PATH",
}

REMEDIES: Mapping[Limit, Remedy] = MappingProxyType(
    {
        "time": Remedy("Do less at once", "Ask for it in smaller steps", _LONGER),
        "cpu": Remedy(
            "Do less at once", "Ask for it in smaller steps", {Reader.PROGRAM: "give it more: cpu_time=…"}
        ),
        "memory": Remedy("Work on smaller pieces", "Ask for it in smaller pieces", _ROOMIER),
        "output": Remedy("Show less, or write to files under /mnt/data", "Ask for it as a file"),
        "disk": Remedy("Delete files that are not needed", "Ask to delete files that are not needed", _DISK),
        "file_size": Remedy("Write several smaller files", "Ask for several smaller files"),
        "open_files": Remedy("Close files that are not needed"),
        "processes": Remedy(
            "Start fewer at a time, and wait for them", more={Reader.PROGRAM: "allow more: processes=…"}
        ),
        "network": Remedy(more=_DATA),
        "packages": Remedy(more=_PACKAGES),
        "stack": Remedy(more={**_PACKAGES, **_STACK}),
        "lost": Remedy(more={Reader.PROGRAM: "make a new one"}),
    }
)  # fmt: skip


def address_to(end: Exit, reader: Reader) -> Exit:
    """The same end, with the remedy of its reader in place of any other's."""
    remedy = REMEDIES[end.limit].of(reader) if end.limit is not None else ""
    if remedy == end.remedy:
        return end
    hint = _replace_remedy(end.hint, end.remedy, remedy) if end.status == "raised" else end.hint
    return replace(end, text=_replace_remedy(end.text, end.remedy, remedy), hint=hint, remedy=remedy)


def _replace_remedy(text: str, old: str, new: str) -> str:
    text = text.removesuffix(old).rstrip() if old else text
    if text and new and not text.endswith((".", "!", "?", "…")):
        text += "."
    return f"{text} {new}".strip()
