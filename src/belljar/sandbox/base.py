"""Interfaces of sandboxes: where they come from, what they do, and the specification of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from belljar.sandbox.outputs import Output

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TIERS = {"1g": GIB, "4g": 4 * GIB, "16g": 16 * GIB, "64g": 64 * GIB}


@runtime_checkable
class Readable(Protocol):
    """An open binary file, or anything that reads like one."""

    def read(self, size: int, /) -> bytes: ...


Content: TypeAlias = bytes | str | Readable | Iterable[bytes]
"""What can be written to a file: bytes, text (as UTF-8), an open binary file, or chunks."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use. Bytes and seconds; `None` means not limited."""

    memory: int = GIB
    """All processes together, and what they write under /mnt/data, /tmp and /dev/shm."""
    cpus: float | None = None
    """How many processors at once."""
    cpu_time: float | None = None
    """Processor seconds of one cell, all its processes together."""
    idle_cpu_time: float | None = 60.0
    """Processor seconds that what cells left running may use between cells. They fill up within ten minutes."""
    timeout: float | None = 60.0
    """Wall seconds of one cell, unless the cell says otherwise."""
    processes: int = 256
    open_files: int = 1024
    file_size: int | None = None
    """One file; the whole workspace by default."""
    disk: int = 512 * MIB
    """The workspace, /mnt/data."""
    scratch: int = 256 * MIB
    """/tmp, and /dev/shm, each."""
    output: int = MIB
    """Text kept of one cell; more goes to a log file in the workspace."""
    output_total: int = GIB
    """Text and displays after which a cell is stopped."""
    display: int = 64 * MIB
    """Displays of one cell: figures, tables, results."""
    grace: float = 2.0
    """Seconds between the first interrupt and the kill."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is asked of a source."""

    limits: Limits = field(default_factory=Limits)
    packages: str = "auto"
    """The base environment: `data` (preloaded), `none` (the standard library), or what the source has (`auto`)."""
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of code."""

    code: str
    timeout: float | None = None
    """Wall seconds; the sandbox's own limit when None."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A regular file of the workspace."""

    name: str
    size: int
    modified: float
    type: str


class Workspace(Protocol):
    """The files of a sandbox, /mnt/data inside. Names are relative, exact in every byte."""

    async def write(self, name: str, content: Content) -> FileInfo:
        """Put a file in place, whole or not at all."""
        ...

    async def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]:
        """Put many files in place in their order, each as `write` does; at far less than a `write` for each.

        The iterable and the contents are consumed off the event loop, each content to its end before the next file is
        asked for. The first failure is raised as `write` would: it names the file, those before it stay, and nothing
        after it is written.
        """
        ...

    async def read(self, name: str, *, limit: int | None = None) -> bytes: ...
    def stream(self, name: str, *, chunk: int = MIB) -> AsyncIterator[bytes]: ...
    async def list(self) -> list[FileInfo]: ...
    async def delete(self, name: str) -> None: ...


class Sandbox(Protocol):
    """One isolated, stateful interpreter. Cells run one at a time, in the order they came."""

    @property
    def id(self) -> str: ...
    @property
    def files(self) -> Workspace: ...
    @property
    def alive(self) -> bool:
        """Whether it lives, as far as can be told without waiting. Ask between cells."""
        ...

    def run(self, cell: Cell) -> AsyncGenerator[Output, None]:
        """Outputs as they come; the last is an `Exit`. Raises only when the sandbox itself is at fault."""
        ...

    def interrupt(self) -> None:
        """Stop the running cell and keep the variables; safe from any thread."""
        ...

    async def restart(self) -> None:
        """A new interpreter with the same files; variables and stray processes are gone."""
        ...

    async def install(self, requirements: Sequence[str]) -> None:
        """Make these packages importable from the next cell on, without losing variables.

        Takes its turn like a cell. Raises `InvalidRequest`, `TooLarge` or `Refused` with the reason; nothing changes
        then.
        """
        ...

    @property
    def handle(self) -> SandboxHandle | None:
        """By what it can be attached to from elsewhere; None where it ends with its context in any case."""
        ...

    async def detach(self) -> SandboxHandle:
        """Let go of it and leave it living: its context ends without it, and `attach` finds it for some time.

        `Refused` where it has no handle; then nothing changes.
        """
        ...


@dataclass(frozen=True, slots=True)
class SandboxHandle:
    """Names a sandbox beyond the process that made it. A value: it can be written down."""

    url: str
    """Of its server, or by whatever else its source finds it."""
    id: str


@dataclass(frozen=True, slots=True)
class Attached:
    """A sandbox that was made by another, and how it was found."""

    sandbox: Sandbox
    cells: int
    """That were begun in it."""
    interpreter: int
    """The number of the one that its next cell will find, from 1 on: a later one has no variables of those before."""
    files: tuple[FileInfo, ...]


class SandboxSource(Protocol):
    """Where sandboxes come from."""

    def acquire(
        self, spec: Spec, *, epoch: int | None = None, wait: float = 0.0, container: str | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox, gone when the context ends. `NoneFree` at capacity, `Refused` with the reason.

        `container` is the id of what it is for: some sources name what they make by that.

        At capacity it is waited for up to `wait` seconds; whoever has waited longest is next.

        With an epoch it has a handle, if the source knows such, and outlives a holder that is killed: whoever attaches
        with a higher one has it from then on, and every call of the holder before raises `Fenced`.
        """
        ...

    def attach(self, handle: SandboxHandle, epoch: int) -> AbstractAsyncContextManager[Attached]:
        """The sandbox of a handle, gone when the context ends unless it is detached. A cell that runs is stopped first.

        `Fenced` where it was attached to with this epoch or a higher one, `Lost` where it is gone.
        """
        ...

    async def close(self) -> None:
        """Let everything go; nothing survives."""
        ...


# -- the same without await -------------------------------------------------------------------------------------------


class BlockingFiles(Protocol):
    """`Workspace` for threads."""

    def write(self, name: str, content: Content) -> FileInfo: ...
    def write_many(self, files: Iterable[tuple[str, Content]]) -> list[FileInfo]: ...
    def read(self, name: str, *, limit: int | None = None) -> bytes: ...
    def stream(self, name: str, *, chunk: int = MIB) -> Generator[bytes, None, None]: ...
    def delete(self, name: str) -> None: ...
    def list(self) -> list[FileInfo]: ...


class BlockingBox(Protocol):
    """`Sandbox` for threads. One cell at a time: whoever has several threads gives them turns."""

    @property
    def id(self) -> str: ...
    @property
    def files(self) -> BlockingFiles: ...
    def run(self, cell: Cell) -> Generator[Output, None, None]:
        """Outputs as they come, the last is an `Exit`; closing the generator stops the cell."""
        ...

    def interrupt(self) -> None: ...
    def restart(self) -> None: ...
    def install(self, requirements: Sequence[str]) -> None: ...


class BlockingSource(Protocol):
    """`SandboxSource` for threads."""

    def hold(self, spec: Spec) -> AbstractContextManager[BlockingBox]:
        """As `acquire`: a fresh sandbox, gone when the context ends."""
        ...

    def shut(self) -> None:
        """As `close`."""
        ...
