"""What the operator allows of containers: their life, their limits, how calls are kept apart. Frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from belljar.errors import InvalidRequest
from belljar.gateway.store.base import ContainerRecord
from belljar.sandbox.base import TIERS, Spec
from belljar.sandbox.validation import make_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How containers live, and what a cell in one may use and leave behind."""

    minutes: int = 20
    """Idle minutes after which a container expires, where its maker says nothing."""
    timeout: float | None = 60.0
    """Seconds of one cell."""
    memory: str = "1g"
    """Where nothing is asked for."""
    tiers: tuple[str, ...] = tuple(TIERS)
    """What may be asked for."""
    packages: str = "auto"
    """The base environment; `auto` is what the source of sandboxes is set to."""
    isolation: Literal["per_container", "per_call"] = "per_container"
    """`per_call`: every call has a sandbox of its own with the files in place, and no variables outlive it."""
    heal_named: bool = False
    """An expired container that is named by its id comes back like one that `auto` finds, rather than being refused."""
    sandboxes_per_owner: int | None = None
    bytes_per_owner: int | None = None
    """Of all files, uploaded ones and those of containers, whoever made them."""
    claim_timeout: float = 0.0
    """Seconds that a call waits for a sandbox where all are busy."""
    lasting: bool = False
    """A sandbox that can outlive this gateway is left to the one that comes after it over the same store. Where there
    are several gateways it is, whatever this says."""
    spare: float = 30.0
    """Seconds that a sandbox must have been idle before somebody else's need may end it."""
    largest_file: int | None = None
    """Bytes of one file; the whole workspace by default."""
    max_files: int = 1000
    """Files taken from one cell."""
    archive_files: int = 50_000
    """Files taken from one archive: a large repository has so many."""
    max_bytes: int | None = None
    """Bytes taken from one cell; the whole workspace by default."""
    collect_timeout: float = 60.0
    """Seconds that taking the files of one cell may last."""
    told: int = 20_000
    """Characters of a cell's text that the model is told."""
    images: int = 16
    """Images of a cell that the model is shown; people get all of them."""

    @property
    def whole_archives(self) -> bool:
        """A plain tar is kept as it came, and its files are parts of it: quick, but one small file that is left of it
        keeps all of it on the disk. Not where owners have a quota of bytes."""
        return self.bytes_per_owner is None

    def spec(self, container: ContainerRecord) -> Spec:
        """What the source is asked for."""
        return make_spec(
            memory=container.memory, packages=self.packages, requirements=container.requirements, timeout=self.timeout
        )

    def tier(self, memory: str) -> str:
        """A tier that may be asked for; `InvalidRequest` in the wire's own words otherwise."""
        if memory not in self.tiers:
            *others, last = (f"'{tier}'" for tier in self.tiers)
            values = f"Supported values are: {', '.join(others)}, and {last}." if others else f"It can be {last} only."
            raise InvalidRequest(f"Invalid value: '{memory}'. {values}", param="memory_limit", fault="invalid_value")
        return memory
