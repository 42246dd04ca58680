"""What a turn of the model must know of the request."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from belljar.vendors.deltas import CallBegun


class TurnRules(Struct, frozen=True, kw_only=True):
    """Whose call it is, how many there may be, and how the caller wants to be told."""

    is_ours: Callable[[str], bool] = lambda name: False
    """Whether a function of that name is the interpreter."""
    explain_missing: Callable[[str], str | None] = lambda name: None
    """What the model is to hear of a name that nobody declared; None for one that somebody did."""
    restore_name: Callable[[CallBegun], CallBegun] = lambda begun: begun
    """A call as its caller declared the tool."""
    seal: Callable[[str], str] | None = None
    """For callers who keep the conversation: how the model's reasoning is handed to them."""
    calls_left: int | None = None
    """How often the interpreter may still be called: calls beyond that are seen by nobody."""
    parallel: bool = True
    """Whether the model may make several calls at once."""
    summarise: bool = False
    """Tell reasoning that comes without a summary as one, whole."""
    container_id: str = ""
    """Where code runs, if that is known by now."""
