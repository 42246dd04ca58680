"""An evaluation as steps that yield what they need done, and the two ways to do it: blocking, and in asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import sleep
from typing import Any, Generic, Self, TypeAlias, TypeVar

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
    decoder: Decoder
    """Reads the answer to this one try: fed with half an answer, it cannot be used for another."""
    deadline: Deadline | None = None
    on_text: OnText | None = None
    """Is given the text as it comes."""


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


class _Course(Generic[T]):
    """Steps on their way: what came of one goes into the next."""

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._failure: Exception | None = None
        self.came: object = None
        self.result: T

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._steps.close()

    def next_step(self) -> Step | None:
        """None at the end, when there is a result."""
        came, failure, self.came, self._failure = self.came, self._failure, None, None
        try:
            return self._steps.send(came) if failure is None else self._steps.throw(failure)
        except StopIteration as end:
            self.result = end.value
            return None

    @contextmanager
    def doing(self) -> Iterator[None]:
        """What is raised within is raised in the steps, on the next round."""
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._failure = error


def run(steps: Steps[T], ask: Callable[[Ask], Heard]) -> T:
    """In the calling thread. Handlers that are coroutines are awaited one by one, each in a loop of its own."""
    with await_in(None), _Course(steps) as course:
        while (step := course.next_step()) is not None:
            with course.doing():
                match step:
                    case Ask():
                        course.came = ask(step)
                    case Pause():
                        sleep(step.seconds)
                    case Do():
                        course.came = step.act()
        return course.result


async def run_async(steps: Steps[T], ask: Callable[[Ask], Awaitable[Heard]]) -> T:
    """In the running loop; what may block is done in a thread, where it goes on even if the caller is cancelled.

    Handlers that are coroutines are awaited in the loop, while the thread waits for them.
    """
    with await_in(asyncio.get_running_loop()), _Course(steps) as course:
        while (step := course.next_step()) is not None:
            with course.doing():
                match step:
                    case Ask():
                        course.came = await ask(step)
                    case Pause():
                        await asyncio.sleep(step.seconds)
                    case Do():
                        course.came = await asyncio.to_thread(step.act)
        return course.result
