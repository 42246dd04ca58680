"""Validate what callers ask of a sandbox before anything is made; an error names the field and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from belljar.config import PACKAGES, Wrong, size
from belljar.errors import InvalidRequest, TooLarge
from belljar.sandbox.base import MIB, TIERS, Cell, Limits, Spec

LEAST_MEMORY = 64 * MIB
"""Below this the interpreter itself has no room to breathe."""
LARGEST_CODE = 8 * MIB


class SandboxOptions(TypedDict, total=False):
    """The keywords of `Sandbox` and `AsyncSandbox`; what is left out has its default in `make_spec`."""

    memory: int | str
    packages: str
    requirements: Sequence[str]
    timeout: float | None
    cpus: float | None
    cpu_time: float | None
    disk: int | str | None
    processes: int
    output: int | str


def make_spec(
    *,
    memory: int | str = "1g",
    packages: str = "auto",
    requirements: Sequence[str] = (),
    timeout: float | None = 60.0,
    cpus: float | None = None,
    cpu_time: float | None = None,
    disk: int | str | None = None,
    processes: int = 256,
    output: int | str = MIB,
) -> Spec:
    """What a source is asked for."""
    memory_bytes = parse_size(memory, name="memory")
    if memory_bytes < LEAST_MEMORY:
        raise InvalidRequest(
            f"memory: {memory!r} is below the minimum of 64m; for example 512m, {', '.join(TIERS)}", param="memory"
        )
    for name, value in (("timeout", timeout), ("cpus", cpus), ("cpu_time", cpu_time)):
        _check_positive(value, name=name)
    if not _is_number(processes) or processes < 4:
        raise InvalidRequest(
            f"processes: {processes!r} is not a number of 4 or more; for example 64", param="processes"
        )
    limits = Limits(
        memory=memory_bytes,
        cpus=cpus,
        cpu_time=cpu_time,
        timeout=timeout,
        processes=processes,
        disk=memory_bytes // 2 if disk is None else parse_size(disk, name="disk"),
        output=parse_size(output, name="output"),
    )
    return Spec(limits=limits, packages=make_packages(packages), requirements=make_requirements(requirements))


def make_packages(packages: object) -> str:
    """The name of an environment; whether it can be had here is found by whoever makes the sandbox."""
    if not isinstance(packages, str) or packages not in PACKAGES:
        known = ", ".join(PACKAGES)
        shown = repr(packages)[:80]
        raise InvalidRequest(f"packages: {shown} is not an environment; use one of {known}", param="packages")
    return packages


def make_requirements(requirements: Sequence[str]) -> tuple[str, ...]:
    """What is to be installed; what is wrong with one of them is found by whoever fetches it."""
    if isinstance(requirements, str):
        raise InvalidRequest(
            f"requirements: {requirements!r} is not a list; write [{requirements!r}]", param="requirements"
        )
    return tuple(requirements)


def make_cell(code: str, timeout: float | None) -> Cell:
    """What a sandbox is asked to run."""
    if not isinstance(code, str):
        raise InvalidRequest(f"code: {type(code).__name__} is not text; give Python source as str", param="code")
    if len(code) > LARGEST_CODE:
        raise TooLarge(
            f"code: {len(code)} characters are more than the {LARGEST_CODE} allowed; put data in a file instead"
        )
    _check_positive(timeout, name="timeout")
    return Cell(code, timeout)


def parse_size(value: int | str, *, name: str) -> int:
    """Bytes, from a number or text such as "512m" or "4g"."""
    try:
        return size(value)
    except Wrong as error:
        raise InvalidRequest(f"{name}: {value!r} is not {error}", param=name) from None


def _check_positive(value: float | None, *, name: str) -> None:
    if value is not None and not (_is_number(value) and 0 < value < 1e9):
        raise InvalidRequest(
            f"{name}: {value!r} is not a number above 0; for example 30, or leave it out for the default", param=name
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
