"""What ends an evaluation: errors of our tree that also tell which prompt failed, and in which phase."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import cast

from belljar.errors import (
    BelljarError,
    BudgetExceededError,
    DeadlineExceededError,
    Filtered,
    OutputFiltered,
    Phase,
    PromptEvaluationError,
    TurnLimitExceededError,
)


def evaluation_error(
    error: BelljarError, prompt_name: str, phase: Phase, payload: object = None, attempts: int = 1
) -> PromptEvaluationError:
    """The error again, as one that is also a PromptEvaluationError; its cause is the error itself."""
    held = error
    if isinstance(error, Filtered):
        held = OutputFiltered(*error.args)
        held.reason = error.reason
    kind = _also(type(held))  # type: ignore[arg-type]  # a class is hashable
    made = kind.__new__(kind, *held.args)
    made.__dict__.update(held.__dict__)
    made.prompt_name, made.phase, made.attempts = prompt_name, phase, attempts
    made.provider_payload = payload or getattr(getattr(error, "original_error", None), "body", None)
    made.__cause__ = error
    return made


@contextmanager
def phase(name: Phase, prompt_name: str, payload: object = None) -> Iterator[None]:
    """Around a part of an evaluation."""
    try:
        yield
    except PromptEvaluationError:  # of an evaluation inside a tool, or of a phase inside this one
        raise
    except (DeadlineExceededError, BudgetExceededError, TurnLimitExceededError) as error:
        raise evaluation_error(error, prompt_name, "budget", payload) from error
    except BelljarError as error:
        raise evaluation_error(error, prompt_name, name, payload) from error


@cache
def _also(kind: type[BelljarError]) -> type[PromptEvaluationError]:
    members = {"__module__": __name__, "__doc__": kind.__doc__, "__reduce__": _reduce_error}
    return cast(type[PromptEvaluationError], type(kind.__name__, (kind, PromptEvaluationError), members))


def _reduce_error(error: PromptEvaluationError) -> tuple[object, ...]:
    return evaluation_error, (error.__cause__, error.prompt_name, error.phase, error.provider_payload, error.attempts)
