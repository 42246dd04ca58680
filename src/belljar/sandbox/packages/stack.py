"""The data stack, `belljar[data]`: which packages are installed and which are missing."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from belljar.config import DATA_EXTRA
from belljar.sandbox.packages.requirements import MEANT, Installed, list_installed

_WHY = 200
"""Characters that are told of why a package does not load; numpy has a page to say."""


@dataclass(frozen=True, slots=True)
class Stack:
    """What there is of it."""

    present: tuple[Installed, ...] = ()
    absent: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)
    """Installed, but not to be imported: name -> why. Known once somebody has tried."""
    begun: bool = False
    """Whether there is anything of it that the core does not bring itself."""

    def tried(self, failed: Mapping[str, str]) -> Stack:
        """The same, after these modules could not be imported."""
        broken = {
            one.name: textwrap.shorten(why, _WHY)
            for module, why in failed.items()
            for one in self.present
            if module.partition(".")[0] in one.imports
        }
        kept = tuple(one for one in self.present if one.name not in broken)
        return replace(self, present=kept, broken=dict(sorted(broken.items())))

    @property
    def flaw(self) -> str:
        """What is wrong with it; empty when it is whole."""
        if not self.begun:
            return "is not installed"
        lacks = [f"lacks {', '.join(self.absent)}"] if self.absent else []
        return "; ".join(lacks + [f"has a broken {name} ({why})" for name, why in self.broken.items()])

    @property
    def remedy(self) -> str:
        """What mends that."""
        again = f"pip install --force-reinstall {' '.join(self.broken)}"
        return "; ".join([DATA_EXTRA] * bool(self.absent) + [again] * bool(self.broken))

    @property
    def summary(self) -> str:
        """In a line, with the remedy where there is one."""
        if not self.begun:
            return f"the standard library; for the data stack: {self.remedy}"
        return f"the data stack, which {self.flaw}; to mend it: {self.remedy}" if self.flaw else "the data stack"

    def refusal(self, where: str = "") -> str:
        """Why `data` cannot be had, `where` as in " on that host"; empty when it can."""
        if not self.flaw:
            return ""
        return (
            f"packages: 'data' cannot be had: the data stack{where} {self.flaw}; run: {self.remedy} (or use 'auto', "
            "for what is there, or 'none', for the standard library)"
        )

    @property
    def missed(self) -> list[str]:
        """What the absent are called by those who import them, in small letters."""
        return sorted({*self.absent, *(said for said, name in MEANT.items() if name in self.absent)})


def inspect_stack(site_packages: Sequence[str]) -> Stack:
    """What is installed there."""
    _, wanted = read_declared()
    return judge_stack(list_installed([Path(path) for path in site_packages], only=wanted or None))


def judge_stack(present: tuple[Installed, ...]) -> Stack:
    """What there is, by the names of what was found."""
    core, wanted = read_declared()
    names = {canonicalize_name(one.name) for one in present}
    return Stack(present, tuple(sorted(wanted - names)), begun=bool(names - core))


def choose_stack(found: Iterable[Installed]) -> tuple[Installed, ...]:
    """Of what is installed somewhere, what is of the data stack, by name."""
    _, wanted = read_declared()
    return tuple(
        sorted((one for one in found if canonicalize_name(one.name) in wanted), key=lambda one: one.name.lower())
    )


def read_declared() -> tuple[frozenset[str], frozenset[str]]:
    """The names that our own metadata asks for: by itself, and by `[data]`. None where we run from bare sources."""
    asked: Iterable[str] = ()
    with contextlib.suppress(PackageNotFoundError):
        asked = requires("belljar") or ()
    core: set[str] = set()
    data: set[str] = set()
    for one in map(Requirement, asked):
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            core.add(canonicalize_name(one.name))
        elif one.marker.evaluate({"extra": "data"}):
            data.add(canonicalize_name(one.name))
    return frozenset(core), frozenset(data)
