"""ToolContext: what a handler may know of the evaluation that called it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from belljar.filesystem import Filesystem
from belljar.runtime import BudgetTracker, Deadline, SessionProtocol
from belljar.tools.resources import ResourceRegistry


class PromptIdentity(Protocol):
    """What a handler may read of the prompt."""

    @property
    def ns(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def name(self) -> str | None: ...


class Evaluator(Protocol):
    """What a handler may ask of the adapter: another evaluation."""

    def evaluate(self, prompt: Any, *, session: SessionProtocol) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One per evaluation's tool call; events go to `session.dispatcher`."""

    prompt: PromptIdentity
    rendered_prompt: Any | None = None
    adapter: Evaluator
    session: SessionProtocol
    deadline: Deadline | None = None
    resources: ResourceRegistry = field(default_factory=ResourceRegistry)

    @property
    def filesystem(self) -> Filesystem | None:
        return self.resources.get(Filesystem)

    @property
    def budget_tracker(self) -> BudgetTracker | None:
        return self.resources.get(BudgetTracker)
