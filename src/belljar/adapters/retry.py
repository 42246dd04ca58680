"""What is asked of a provider, tried until it is answered: throttling, repairs, and the deadline over all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import uniform
from typing import Any

from belljar.adapters.failures import failed
from belljar.adapters.steps import Ask, Do, Heard, OnText, Pause, Step, Steps
from belljar.adapters.turns import Conversation
from belljar.errors import BelljarError, CompactionError, DeadlineExceededError, ProviderError
from belljar.runtime import Deadline, ThrottlePolicy


def asked(
    conversation: Conversation,
    prompt_name: str,
    policy: ThrottlePolicy,
    deadline: Deadline | None = None,
    on_text: OnText | None = None,
    jitter: Callable[[float, float], float] = uniform,
) -> Steps[Heard]:
    """A turn. What was said before it broke cannot be taken back, so nothing is tried again after it."""
    said: list[str] = []

    def hear(text: str) -> None:
        said.append(text)
        if on_text is not None:
            on_text(text)

    mended = False

    def mend(error: ProviderError) -> Steps[bool]:
        nonlocal mended
        if said or mended:
            return False
        try:
            mended = bool((yield Do(partial(conversation.mend, error))))
        except BelljarError as failure:
            if deadline is not None:
                _check(deadline, timedelta(0), failure)
            raise
        return mended

    heard: Heard = yield from patiently(
        lambda: Ask(conversation.request(), deadline, on_text and hear, conversation.decoder()),
        prompt_name,
        policy,
        deadline,
        jitter=jitter,
        mend=mend,
        final=lambda: bool(said),
    )
    return heard


def patiently(
    step: Callable[[], Step],
    prompt_name: str,
    policy: ThrottlePolicy,
    deadline: Deadline | None,
    *,
    jitter: Callable[[float, float], float] = uniform,
    mend: Callable[[ProviderError], Steps[bool]] | None = None,
    final: Callable[[], bool] = lambda: False,
) -> Steps[Any]:
    """What the step gives, which is made anew for each try. `final`: no other try, whatever the error."""
    attempts, waited = 0, timedelta(0)
    while True:
        if deadline is not None:
            deadline.check()
        attempts += 1
        try:
            return (yield step())
        except BelljarError as error:
            if deadline is not None:
                _check(deadline, timedelta(0), error)
            if not isinstance(error, ProviderError):
                raise
            if mend is not None and (yield from mend(error)):
                continue
            again = not final() and worth_another(error)
            wait = policy.delay(attempts, waited, _after(error), jitter) if again else None
            if wait is None:
                raise failed(error, prompt_name, "request", attempts=attempts) from error
            if deadline is not None:
                _check(deadline, wait, error)
        yield Pause(wait.total_seconds())
        waited += wait


def _check(deadline: Deadline, wait: timedelta, error: BelljarError) -> None:
    """Whether it is still ahead after the wait."""
    left = deadline.remaining()
    if wait >= left:
        raise DeadlineExceededError(
            f"the deadline {deadline.expires_at.isoformat()} has passed, or will before the next try: {error}"
        ) from error


def worth_another(error: ProviderError) -> bool:
    """Whether the same request may succeed later. An error inside the provider's server is taken to pass."""
    error = _meant(error)
    if error.retryable is not None:
        return error.retryable
    status = getattr(getattr(error, "original_error", None), "status_code", None)
    return status is not None and status >= 500


def _after(error: ProviderError) -> timedelta | None:
    after: float | None = getattr(_meant(error), "after", None)
    return None if after is None else timedelta(seconds=after)


def _meant(error: ProviderError) -> ProviderError:
    """What the provider said to it."""
    cause = error.__cause__
    return cause if isinstance(error, CompactionError) and isinstance(cause, ProviderError) else error
