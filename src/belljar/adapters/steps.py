"""An evaluation as steps that yield what they need done, and the two ways to do it: blocking, and in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeAlias, TypeVar

from belljar.runtime import Deadline
from belljar.tools.async_handlers import await_in
from belljar.vendors.deltas import Decoder, Delta
from belljar.vendors.request import Verbatim

T = TypeVar("T")
Body: TypeAlias = dict[str, Any]
OnText: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn: send this to the provider. Sent back: what came, as a `Heard`."""

    body: bytes
    deadline: Deadline | None = None
    on_text: OnText | None = None
    """Is given the text as it comes; None: the answer may come in one piece."""
    decoder: Decoder | None = None
    """Reads the answer to this one try: fed with half an answer, it cannot be used for another."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer as it came."""

    payload: Body
    """What is shown of it where it cannot be used."""
    request_id: str | None = None
    deltas: Sequence[Delta] = ()
    """What the decoder made of it."""
    verbatim: Verbatim | None = None
    """As the provider wants it back."""


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True)
class Do:
    """Something that may block, such as a tool's handler. Sent back: what it gives."""

    act: Callable[[], object]


Step: TypeAlias = Ask | Pause | Do
Steps: TypeAlias = Generator[Step, Any, T]
"""What a step raises is raised where it was yielded."""


def run(steps: Steps[T], ask: Callable[[Ask], Heard]) -> T:
    """In the calling thread. Handlers that are coroutines are awaited one by one, each in a loop of its own."""
    with await_in(None):
        return _run(steps, ask)


def _run(steps: Steps[T], ask: Callable[[Ask], Heard]) -> T:
    came: object = None
    failure: Exception | None = None
    try:
        while True:
            step = steps.send(came) if failure is None else steps.throw(failure)
            came = failure = None
            try:
                match step:
                    case Ask():
                        came = ask(step)
                    case Pause():
                        sleep(step.seconds)
                    case Do():
                        came = step.act()
            except Exception as error:  # noqa: BLE001 - it is raised in the steps, on the next round
                failure = error
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def run_async(steps: Steps[T], ask: Callable[[Ask], Awaitable[Heard]]) -> T:
    """In the running loop; what may block is done in a thread, where it goes on even if the caller is cancelled.

    Handlers that are coroutines are awaited in the loop, while the thread waits for them.
    """
    with await_in(asyncio.get_running_loop()):
        return await _run_async(steps, ask)


async def _run_async(steps: Steps[T], ask: Callable[[Ask], Awaitable[Heard]]) -> T:
    came: object = None
    failure: Exception | None = None
    try:
        while True:
            step = steps.send(came) if failure is None else steps.throw(failure)
            came = failure = None
            try:
                match step:
                    case Ask():
                        came = await ask(step)
                    case Pause():
                        await asyncio.sleep(step.seconds)
                    case Do():
                        came = await asyncio.to_thread(step.act)
            except Exception as error:  # noqa: BLE001
                failure = error
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()
