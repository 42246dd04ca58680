"""Budgets: how many tokens and how much time an evaluation may use, and has used."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from belljar.errors import BudgetExceededError, DeadlineExceededError
from belljar.runtime.deadline import Deadline
from belljar.runtime.events import TokenUsage


@dataclass(frozen=True, slots=True)
class Budget:
    """At least one limit; token limits are positive."""

    deadline: Deadline | None = None
    max_total_tokens: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None

    def __post_init__(self) -> None:
        limits = {
            "max_total_tokens": self.max_total_tokens,
            "max_input_tokens": self.max_input_tokens,
            "max_output_tokens": self.max_output_tokens,
        }
        if self.deadline is None and all(limit is None for limit in limits.values()):
            raise ValueError(f"Budget: limits nothing; set deadline or one of {', '.join(limits)}")
        for name, limit in limits.items():
            if limit is not None and limit <= 0:
                raise ValueError(f"Budget.{name}: {limit} is not above 0; for example 100000, or leave it out")


class BudgetTracker:
    """What has been spent against a budget: over all turns of all evaluations that share it."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._lock = Lock()
        self._spent: dict[str, TokenUsage] = {}

    def record_cumulative(self, evaluation_id: str, usage: TokenUsage) -> None:
        """Add one turn's usage to its evaluation's."""
        with self._lock:
            self._spent[evaluation_id] = self._spent.get(evaluation_id, TokenUsage()) + usage

    @property
    def consumed(self) -> TokenUsage:
        with self._lock:
            return sum(self._spent.values(), TokenUsage())

    def check(self) -> None:
        """Raise BudgetExceededError where a limit is passed; reaching it is allowed."""
        budget, consumed = self.budget, self.consumed
        if budget.deadline is not None:
            try:
                budget.deadline.check()
            except DeadlineExceededError as error:
                raise BudgetExceededError(
                    str(error), budget=budget, consumed=consumed, exceeded_dimension="deadline"
                ) from None
        for dimension, spent, limit in (
            ("total_tokens", consumed.total_tokens, budget.max_total_tokens),
            ("input_tokens", consumed.input_tokens, budget.max_input_tokens),
            ("output_tokens", consumed.output_tokens, budget.max_output_tokens),
        ):
            if limit is not None and (spent or 0) > limit:
                raise BudgetExceededError(
                    f"{spent} {dimension} are spent and max_{dimension}={limit} is the limit",
                    budget=budget,
                    consumed=consumed,
                    exceeded_dimension=dimension,
                )
