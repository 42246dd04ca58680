"""What the page sends and is answered beside the API, as types: read, written and described by them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

MOST_FILES = 1000
"""Files that are proposed or saved at once."""
FileIds: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=MOST_FILES)]


class Welcome(Struct, frozen=True, kw_only=True):
    """What a program finds at /."""

    name: Literal["belljar"] = "belljar"
    api: str = "/v1"
    models: str = "/v1/models"
    health: str = "/healthz"


class PageInfo(Struct, frozen=True, kw_only=True):
    """What the page must know of its gateway."""

    isolation: str
    interpreter: bool
    packages: tuple[str, ...]
    largest_upload: int
    large_upload: int
    """Bytes above which the page asks before it sends a file."""
    project: str | None
    remedies: dict[str, str]
    """What helps against each limit."""


# -- containers -------------------------------------------------------------------------------------------------------


class ShownFile(Struct, frozen=True, kw_only=True):
    """A file of a container under a name for people."""

    id: str
    container_id: str
    name: str
    shown: str
    """The name with control characters written out."""
    refused: str | None
    """Why it is not saved: something runs it by itself."""
    warning: str | None
    """What runs or obeys it once it is used."""
    path: str
    size: int
    type: str
    source: str
    figure: bool


class ShownFiles(Struct, frozen=True, kw_only=True):
    data: tuple[ShownFile, ...]


# -- the project ------------------------------------------------------------------------------------------------------


class ProjectEntry(Struct, frozen=True, kw_only=True):
    """A file or a directory of the project."""

    name: str
    path: str
    kind: Literal["file", "directory"]
    size: int
    modified: int
    type: str | None


class ProjectListing(Struct, frozen=True, kw_only=True):
    path: str
    entries: tuple[ProjectEntry, ...]
    left_out: int
    """Entries beyond the most that are listed."""


class AttachBody(Struct, frozen=True, kw_only=True):
    path: str


class Renaming(Struct, frozen=True, kw_only=True):
    """Another place for one of the proposals."""

    number: int
    destination: str


class ProposeBody(Struct, frozen=True, kw_only=True):
    container_id: str
    file_ids: FileIds
    rename: tuple[Renaming, ...] = ()


class ShownProposal(Struct, frozen=True, kw_only=True):
    """A file that could be saved; `number` and `seen` are what is answered with."""

    number: int
    name: str
    size: int
    mime_type: str | None = field(name="mimeType")
    destination: str
    state: Literal["new", "overwrites"] | None
    refused: str | None
    warning: str | None
    diff: str | None
    seen: str | None


class ShownProposals(Struct, frozen=True, kw_only=True):
    project: str
    proposals: tuple[ShownProposal, ...]


class ApprovedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A proposal as it was shown; without a destination, the one that was proposed."""

    number: int
    destination: str | UnsetType = UNSET
    seen: str | None = None


class SaveBody(Struct, frozen=True, kw_only=True):
    container_id: str
    file_ids: FileIds
    save: tuple[ApprovedFile, ...]


class SavedFile(Struct, frozen=True, kw_only=True):
    name: str
    path: str
    overwrote: bool


class SavedFiles(Struct, frozen=True, kw_only=True):
    saved: tuple[SavedFile, ...]
