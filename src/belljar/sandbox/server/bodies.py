"""What the sandbox server takes and gives, as types: the description at /openapi.json is made of them.

Most of it is read and written by `sandbox.codec` and `execute`, since names may hold what is not Unicode; tests hold
the two against each other.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from belljar.sandbox.base import FileInfo, Limits
from belljar.sandbox.codec import USUAL_KEEP
from belljar.sandbox.outputs import Limit, Reason
from belljar.sandbox.server.execute import LONGEST_TIMEOUT, USUAL_MEMORY, USUAL_TIMEOUT
from belljar.wire.tools import Tier

# -- errors -----------------------------------------------------------------------------------------------------------


class FailureSaid(Struct, frozen=True):
    code: str
    message: str
    param: str | None


class Failure(Struct, frozen=True):
    """The one shape of an error under /v1."""

    error: FailureSaid


class PlainFailure(Struct, frozen=True):
    """The one of /execute, whose interface is not ours."""

    error: str


# -- /execute ---------------------------------------------------------------------------------------------------------


class ExecutionBody(Struct, frozen=True, kw_only=True):
    """Of POST /execute."""

    code: Annotated[str, Meta(min_length=1)]
    timeout_seconds: Annotated[int, Meta(le=LONGEST_TIMEOUT, description=f"0 or less stands for {USUAL_TIMEOUT}.")] = (
        USUAL_TIMEOUT
    )
    memory: Tier = USUAL_MEMORY
    requirements: list[str] = []
    files: Annotated[dict[str, bytes], Meta(description="Base64 by name; directories of a name do not count.")] = {}


class Executed(Struct, frozen=True, kw_only=True):
    """How it went."""

    status: Literal["success", "error"]
    stdout: str
    stderr: str
    exit_code: Annotated[int, Meta(description="-1 where it was stopped or never ran.")]
    execution_time_ms: int
    files_produced: Annotated[
        dict[str, bytes], Meta(description="Made or changed; pictures that were shown are figure-1.png and so on.")
    ] = {}
    result: Annotated[str, Meta(description="The last expression's value.")] | UnsetType = UNSET


# -- the server -------------------------------------------------------------------------------------------------------


class Package(Struct, frozen=True):
    name: str
    version: str


class PackageList(Struct, frozen=True):
    packages: list[Package]


# -- sandboxes --------------------------------------------------------------------------------------------------------


Epoch: TypeAlias = Annotated[
    int, Meta(ge=1, le=1 << 53, description="Whoever attaches with a higher one takes the sandbox over.")
]
Keep: TypeAlias = Annotated[
    float, Meta(ge=0, le=86_400, description=f"Seconds that it lives without a connection, usually {USUAL_KEEP:g}.")
]


class SpecBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of POST /v1/sandboxes; what is left out has its default."""

    limits: Limits | UnsetType = UNSET
    packages: Literal["auto", "data", "none"] = "auto"
    requirements: list[str] = []
    epoch: Epoch | UnsetType = UNSET
    keep: Keep | UnsetType = UNSET
    wait: Annotated[
        float, Meta(ge=0, le=3600, description="Seconds to wait for one where none is free; in the order of coming.")
    ] = 0


class AttachmentBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of POST /v1/sandboxes/{id}/attach."""

    epoch: Epoch
    keep: Keep | UnsetType = UNSET


class LeaseLine(Struct, frozen=True, kw_only=True):
    """The id on the first line, then empty ones; why it ended, if it did, on the last."""

    id: str | UnsetType = UNSET
    ended: str | UnsetType = UNSET
    code: Annotated[Literal["fenced"], Meta(description="Another has it now, under a higher epoch.")] | UnsetType = (
        UNSET
    )


class AttachedLine(LeaseLine, frozen=True, kw_only=True):
    """The first line has all but why it ended."""

    cells: Annotated[int, Meta(description="That were begun in it.")] | UnsetType = UNSET
    interpreter: (
        Annotated[
            int, Meta(description="The number of the one that the next cell will find: a later one has no variables.")
        ]
        | UnsetType
    ) = UNSET
    limits: Limits | UnsetType = UNSET
    files: list[FileInfo] | UnsetType = UNSET


class SandboxListed(Struct, frozen=True):
    """One of all."""

    id: str
    epoch: int | None
    idle_seconds: Annotated[float, Meta(description="Since anything was done in it.")]
    held: Annotated[bool, Meta(description="Somebody's answer is open for it.")]


class SandboxList(Struct, frozen=True):
    sandboxes: list[SandboxListed]


class SandboxState(Struct, frozen=True):
    id: str
    alive: bool


class CellBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of POST /v1/sandboxes/{id}/cells."""

    code: str
    timeout: Annotated[float, Meta(gt=0)] | None = None


class RequirementsBody(Struct, frozen=True, forbid_unknown_fields=True):
    requirements: list[str]


class FileList(Struct, frozen=True):
    files: list[FileInfo]


# -- lines of a cell --------------------------------------------------------------------------------------------------


class Base64(Struct, frozen=True):
    base64: bytes


Told: TypeAlias = Annotated[dict[str, str | Base64], Meta(description="The same thing by MIME type.")]


class StdoutLine(Struct, frozen=True, tag="stdout"):
    text: str


class StderrLine(Struct, frozen=True, tag="stderr"):
    text: str


class DisplayLine(Struct, frozen=True, tag="display"):
    data: Told


class ResultLine(Struct, frozen=True, tag="result"):
    data: Told


class FileChangedLine(Struct, frozen=True, tag="file_changed"):
    name: str
    size: int
    modified: float
    mime: str
    change: Literal["created", "modified"]


class Raised(Struct, frozen=True):
    """The exception that ended a cell."""

    type: str
    message: str
    traceback: str


class ExitLine(Struct, frozen=True, tag="exit"):
    """The last one."""

    status: Literal["ok", "raised", "timed_out", "killed"]
    text: str
    hint: str
    reason: Reason | None
    error: Raised | None
    code: int | None
    kept: bool
    seconds: float
    limit: Limit | None


class ErrorLine(Struct, frozen=True, tag="error"):
    """The last one where the sandbox itself is at fault."""

    error: FailureSaid


class AwakeLine(Struct, frozen=True, forbid_unknown_fields=True):
    """Breaks a silence."""


OutputLine: TypeAlias = (
    StdoutLine | StderrLine | DisplayLine | ResultLine | FileChangedLine | ExitLine | ErrorLine | AwakeLine
)
