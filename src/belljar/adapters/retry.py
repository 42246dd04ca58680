"""What is asked of a provider, tried until it is answered: throttling, repairs, and the deadline over all of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import random
from typing import Any

from belljar.adapters.failures import evaluation_error
from belljar.adapters.steps import Ask, Do, Heard, OnText, Pause, Step, Steps
from belljar.adapters.turns import ProviderConversation
from belljar.errors import BelljarError, CompactionError, DeadlineExceededError, ProviderError
from belljar.runtime import Deadline, ThrottlePolicy
from belljar.vendors.retry import choose_pause, is_passing


def ask_turn(
    conversation: ProviderConversation,
    prompt_name: str,
    policy: ThrottlePolicy,
    deadline: Deadline | None = None,
    on_text: OnText | None = None,
    chance: Callable[[], float] = random,
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
        lambda: Ask(conversation.request(), conversation.decoder(), deadline, on_text and hear),
        prompt_name,
        policy,
        deadline,
        chance=chance,
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
    chance: Callable[[], float] = random,
    mend: Callable[[ProviderError], Steps[bool]] | None = None,
    final: Callable[[], bool] = lambda: False,
) -> Steps[Any]:
    """What the step gives, which is made anew for each try. `final`: no other try, whatever the error."""
    attempts, waited = 0, 0.0
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
            pause = choose_pause(_find_provider_error(error), attempts, waited, policy.limits, chance=chance())
            if pause is None or final():
                raise evaluation_error(error, prompt_name, "request", attempts=attempts) from error
            if deadline is not None:
                _check(deadline, timedelta(seconds=pause), error)
        yield Pause(pause)
        waited += pause


def _check(deadline: Deadline, wait: timedelta, error: BelljarError) -> None:
    """Whether it is still ahead after the wait."""
    left = deadline.remaining()
    if wait >= left:
        raise DeadlineExceededError(
            f"the deadline {deadline.expires_at.isoformat()} has passed, or will before the next try: {error}"
        ) from error


def worth_another(error: ProviderError) -> bool:
    """Whether the same request may succeed later."""
    return is_passing(_find_provider_error(error))


def _find_provider_error(error: ProviderError) -> ProviderError:
    """What the provider said to it."""
    cause = error.__cause__
    return cause if isinstance(error, CompactionError) and isinstance(cause, ProviderError) else error
