"""The container of a hosted code interpreter: made automatically, or an existing one by id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from belljar.errors import InvalidContainer, ToolValidationError
from belljar.filesystem import HostMount
from belljar.tools.serde import parse
from belljar.wire.tools import Tier

TIERS: tuple[str, ...] = get_args(Tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoContainerConfig:
    """A container made for the response. Host mounts are uploaded by us: they are never on OpenAI's wire."""

    type: Literal["auto"] = "auto"
    memory_limit: Tier = "1g"
    file_ids: tuple[str, ...] = ()
    host_mounts: tuple[HostMount, ...] = ()

    def __post_init__(self) -> None:
        if self.type != "auto":
            raise InvalidContainer(f"container.type: {self.type!r} is unknown; use 'auto', or name an id instead")
        _check_tier(self.memory_limit)
        for name, kind in (("file_ids", str), ("host_mounts", HostMount)):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(one, kind) and one for one in given):
                raise InvalidContainer(f"container.{name}: {given!r} is not a list of {kind.__name__}")
            object.__setattr__(self, name, tuple(given))

    def wire(self) -> dict[str, Any]:
        written: dict[str, Any] = {"type": "auto", "memory_limit": self.memory_limit}
        return {**written, "file_ids": list(self.file_ids)} if self.file_ids else written


@dataclass(frozen=True, slots=True)
class ExistingContainerRef:
    """A container that is there. Its memory was settled when it was made: `memory_limit` is checked and not sent."""

    id: str
    memory_limit: Tier | None = None

    def __post_init__(self) -> None:
        if not str(self.id or "").strip():
            raise InvalidContainer(f"container.id: {self.id!r} is not a container's id; for example cntr_…")
        if self.memory_limit is not None:
            _check_tier(self.memory_limit)

    def wire(self) -> str:
        return self.id


Container: TypeAlias = AutoContainerConfig | ExistingContainerRef


def container_of(given: Container | Mapping[str, Any] | None) -> Container:
    """Either form, from itself or from an object as on the wire; InvalidContainer names the member at fault."""
    if isinstance(given, AutoContainerConfig | ExistingContainerRef):
        return given
    if not isinstance(given, Mapping) or not ("type" in given or "id" in given):
        raise InvalidContainer(f"container: {given!r} is not a container; use {{'type': 'auto'}} or {{'id': 'cntr_…'}}")
    if "type" in given and "id" in given:
        raise InvalidContainer("container: has both a type and an id; name one of them")
    known = ("type", "memory_limit", "file_ids", "host_mounts") if "type" in given else ("id", "memory_limit")
    if unknown := [key for key in given if key not in known]:
        raise InvalidContainer(f"container.{unknown[0]}: is unknown here; there are {', '.join(known)}")
    if "id" in given:
        return ExistingContainerRef(**given)
    mounts = tuple(_mount(mount, n) for n, mount in enumerate(given.get("host_mounts", ())))
    return AutoContainerConfig(**{**given, "host_mounts": mounts})


def _mount(given: HostMount | Mapping[str, Any], n: int) -> HostMount:
    if isinstance(given, HostMount):
        return given
    where = f"container.host_mounts[{n}]"
    try:
        written = parse(_Mount, given, where=where)
    except ToolValidationError as error:
        raise InvalidContainer(str(error)) from None
    return HostMount(
        written.host_path,
        written.mount_path,
        written.include_glob,
        written.exclude_glob,
        written.max_bytes,
        written.follow_symlinks,
    )


@dataclass(frozen=True, slots=True)
class _Mount:
    """A HostMount as the founding example writes it down."""

    host_path: str
    mount_path: str | None = None
    include_glob: tuple[str, ...] = ()
    exclude_glob: tuple[str, ...] = ()
    max_bytes: int | None = None
    follow_symlinks: bool = False


def _check_tier(memory_limit: object) -> None:
    if memory_limit not in TIERS:
        raise InvalidContainer(f"container.memory_limit: {memory_limit!r} is not a tier; use one of {', '.join(TIERS)}")
