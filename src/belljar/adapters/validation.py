"""What callers hand to an adapter, checked before anything is sent; what cannot be used is named with its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import Repr
from typing import Any

from belljar.errors import InvalidRequest
from belljar.prompt.prompt import Prompt
from belljar.prompt.template import PromptTemplate
from belljar.runtime import Budget, BudgetTracker, Deadline
from belljar.tools import ResourceRegistry

_short = Repr()
_short.maxstring = _short.maxother = 80
_SESSION = ("session_id", "dispatcher", "accept", "undoable")
"""Enough of a SessionProtocol to know it by."""


def fault(where: str, given: object, remedy: str) -> InvalidRequest:
    """`where` is the class or function and the parameter, such as `OpenAIAdapter.model`."""
    return InvalidRequest(f"{where}: {_short.repr(given)} cannot be used; {remedy}", param=where.rpartition(".")[2])


def check_kind(where: str, given: object, kind: type[Any]) -> None:
    """None is as good: it is what callers leave out."""
    if not isinstance(given, kind | None):
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        raise fault(where, given, f"use {article} {kind.__name__} or None")


def check_choice(where: str, given: object, known: Sequence[str]) -> None:
    if given is not None and given not in known:
        raise fault(where, given, f"use {', '.join(known)} or None")


def check_whole(where: str, given: object, *, least: int = 1) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise fault(where, given, f"use a whole number of {least} or more")


def check_text(where: str, given: object, *, longest: int | None = None) -> None:
    """Something, and not blank."""
    if not isinstance(given, str) or not given.strip():
        raise fault(where, given, "use a text that is not empty")
    if longest is not None and len(given) > longest:
        raise fault(where, given, f"it has {len(given)} characters, and {longest} is the most; use a hash of it")


def check_evaluation(
    prompt: object,
    session: object,
    deadline: object,
    budget: object,
    budget_tracker: object,
    resources: object,
    on_text: object,
) -> None:
    """The arguments of `evaluate`."""
    if isinstance(prompt, PromptTemplate):
        raise fault("evaluate.prompt", prompt.key, "it is a template; pass Prompt(template)")
    if not isinstance(prompt, Prompt):
        raise fault(
            "evaluate.prompt",
            prompt,
            "pass Prompt(PromptTemplate(ns=…, key=…, sections=[MarkdownSection(title=…, key=…, template=…)]))",
        )
    if not all(hasattr(session, name) for name in _SESSION):
        raise fault("evaluate.session", session, "pass a Session()")
    check_kind("evaluate.deadline", deadline, Deadline)
    check_kind("evaluate.budget", budget, Budget)
    check_kind("evaluate.budget_tracker", budget_tracker, BudgetTracker)
    if not isinstance(resources, ResourceRegistry | None):
        raise fault("evaluate.resources", resources, "pass ResourceRegistry.build({Type: instance})")
    if on_text is not None and not callable(on_text):
        raise fault("evaluate.on_text", on_text, "pass a function that takes a text")
