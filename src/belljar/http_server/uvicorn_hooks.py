"""Which of uvicorn's own methods we replace, and the one version of it that they were written for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import uvicorn

from belljar.errors import BadSettings

VERSION = "0.54"
"""Whose insides we know. Another is tried by changing this and the range in pyproject.toml, and running the tests."""

F = TypeVar("F", bound=Callable[..., Any])


def hook(method: F) -> F:
    """Marks a method that stands in for one of uvicorn's, and is called by uvicorn alone."""
    method.__hook__ = True  # type: ignore[attr-defined]
    return method


def hooks_of(owner: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, method in vars(owner).items():
        if getattr(method, "__hook__", False):
            yield name, method


def check_hooks(owners: Iterable[type]) -> None:
    """Refuse to start where uvicorn is another, or no longer calls what we replace: it would be served without us."""
    installed = uvicorn.__version__
    remedy = f"install the one that this server was written for: pip install 'uvicorn=={VERSION}.*'"
    if installed.split(".")[:2] != VERSION.split("."):
        raise BadSettings(f"uvicorn: {installed} is installed, and its insides may differ; {remedy}")
    for owner in owners:
        for name, method in hooks_of(owner):
            theirs = getattr(super(owner, owner), name, None)
            if theirs is None or _taken(theirs) != _taken(method):
                called = f"{owner.__name__}.{name}"
                raise BadSettings(f"uvicorn: {installed} has no method that {called} could replace; {remedy}")


def _taken(method: Callable[..., Any]) -> list[str]:
    """The names of its parameters."""
    return list(inspect.signature(method).parameters)
