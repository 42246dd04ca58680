"""Outputs of a cell: text, displays, the result, changed files, and how it ended. Frozen values, no I/O.

Python allows half of a surrogate pair in a text, and nothing that texts are written to does: wherever one comes from
inside, it is said as `\\ud800`, here and only here. Names of files are bytes, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, TypeAlias, cast

Reason: TypeAlias = Literal[
    "memory", "cpu", "processes", "disk", "output", "interrupted", "exited", "crashed", "disconnected", "lost"
]
"""Why a cell was ended from outside, or ended its own interpreter.

`exited`: the code ended its process (`os._exit`); `crashed`: a signal such as a segmentation fault ended it;
`disconnected`: the code closed the interpreter's own connection; `lost`: the whole sandbox is gone.
"""

Limit: TypeAlias = Literal[
    "time", "cpu", "memory", "output", "disk", "file_size", "open_files", "processes", "network", "packages", "stack",
    "lost",
]  # fmt: skip
"""What was met that has a remedy: a limit, or something that is not there.

`packages`: one that is not installed; `stack`: one of the data stack, which Belljar can be installed with.
"""

Bundle: TypeAlias = Mapping[str, str | bytes]
"""The same thing in several MIME types; text types as str, the rest as bytes."""


def encodable(text: str) -> str:
    """The text, such that it can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text


class _Encodable:
    """A value whose texts can be written; its fields that are something else stay as they are."""

    __slots__ = ()
    _texts: ClassVar[tuple[str, ...]] = ("text",)

    def __post_init__(self) -> None:
        for name in self._texts:
            text: str = getattr(self, name)
            if not text.isascii():
                object.__setattr__(self, name, encodable(text))


@dataclass(frozen=True, slots=True)
class Stdout(_Encodable):
    """Text from standard output; bytes that are not UTF-8 appear as `\\xNN`."""

    text: str


@dataclass(frozen=True, slots=True)
class Stderr(_Encodable):
    """Text from standard error, including warnings and logging."""

    text: str


@dataclass(frozen=True, slots=True)
class Display:
    """A figure, or anything handed to `display()`."""

    data: Bundle

    def __post_init__(self) -> None:
        data = {encodable(mime): encodable(one) if isinstance(one, str) else one for mime, one in self.data.items()}
        object.__setattr__(self, "data", data)

    @property
    def png(self) -> bytes | None:
        """The PNG bytes, if this can be shown as one."""
        png = self.data.get("image/png")
        return png if isinstance(png, bytes) else None

    @property
    def text(self) -> str:
        """The plain-text form."""
        return str(self.data.get("text/plain", ""))

    @property
    def html(self) -> str | None:
        """The HTML form, where the object has one."""
        html = self.data.get("text/html")
        return html if isinstance(html, str) else None


@dataclass(frozen=True, slots=True)
class Result(Display):
    """The value of the cell's last expression."""


class Image(Protocol):
    """A display or a result that has a PNG form."""

    @property
    def data(self) -> Bundle: ...

    @property
    def png(self) -> bytes: ...

    @property
    def text(self) -> str: ...

    @property
    def html(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class FileChanged:
    """A regular file under the working directory that the cell made or changed."""

    name: str
    """Path relative to the working directory, exactly as on disk."""
    size: int
    modified: float
    """Seconds since the epoch."""
    type: str
    """MIME type, guessed from the name."""
    change: Literal["created", "modified"] = "created"


@dataclass(frozen=True, slots=True)
class Error(_Encodable):
    """A Python exception that left the cell."""

    _texts: ClassVar[tuple[str, ...]] = ("type", "message", "traceback")

    type: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class Exit(_Encodable):
    """How the cell ended. Always the last output."""

    _texts: ClassVar[tuple[str, ...]] = ("text", "hint", "remedy")

    status: Literal["ok", "raised", "timed_out", "killed"]
    text: str = ""
    """For people and models: what happened, which limit, and the remedy. Empty when all went well."""
    hint: str = ""
    """Of `text`, what goes beyond the exception itself: for callers who show the traceback anyway."""
    reason: Reason | None = None
    """Set when killed."""
    error: Error | None = None
    """Set when raised (and when an interrupt surfaced as KeyboardInterrupt)."""
    code: int | None = None
    """The exit code, where the code asked for one (`sys.exit`, `os._exit`)."""
    kept: bool = True
    """Whether the variables survived."""
    seconds: float = 0.0
    limit: Limit | None = None
    """Which limit was behind it, where there was one; also set when a command to install packages did nothing."""
    remedy: str = ""
    """Of `text`, the end: what its reader can do. A source does not know who reads; `sandbox.remedies` has them."""

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def exit_code(self) -> int:
        """As a process of its own would have ended; -1 where it was ended from outside."""
        if self.status == "ok":
            return 0
        if self.status == "raised" or self.reason == "exited":
            return 1 if self.code is None else self.code & 0xFF
        return -1


Output: TypeAlias = Stdout | Stderr | Display | Result | FileChanged | Exit


@dataclass(frozen=True, slots=True)
class Run:
    """A finished cell: its outputs, folded."""

    outputs: tuple[Output, ...]
    stdout: str
    stderr: str
    result: Result | None
    displays: tuple[Display, ...]
    files: tuple[FileChanged, ...]
    exit: Exit = field(default_factory=lambda: Exit("ok"))

    @property
    def ok(self) -> bool:
        return self.exit.ok

    @property
    def text(self) -> str:
        """The last expression's value as plain text; empty if the cell has none."""
        return self.result.text if self.result else ""

    @property
    def html(self) -> str:
        """The same as HTML; empty if it has no such form."""
        return (self.result.html or "") if self.result else ""

    @property
    def images(self) -> tuple[Image, ...]:
        """Everything shown that has a PNG form, in order."""
        shown = [*self.displays, *([self.result] if self.result else [])]
        return tuple(cast(Image, item) for item in shown if item.png is not None)

    @property
    def error(self) -> Error | None:
        """The exception that left the cell; None where none did."""
        return self.exit.error


def fold(outputs: Iterable[Output]) -> Run:
    """Drain a stream of outputs into one value: the blocking answer is the stream, folded."""
    kept = tuple(outputs)
    stdout, stderr, displays, files = [], [], [], []
    result = end = None
    for output in kept:
        if isinstance(output, Stdout):
            stdout.append(output.text)
        elif isinstance(output, Stderr):
            stderr.append(output.text)
        elif isinstance(output, Result):
            result = output
        elif isinstance(output, Display):
            displays.append(output)
        elif isinstance(output, FileChanged):
            files.append(output)
        else:
            end = output
    return Run(kept, "".join(stdout), "".join(stderr), result, tuple(displays), tuple(files), end or Exit("ok"))
