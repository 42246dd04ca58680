"""Steps and those who do them: what is done is sent back, what fails is raised where it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from belljar.adapters.steps import Ask, Do, Heard, Pause, Steps, run, run_async

UNREAD: Any = None
"""Nobody reads an answer here."""


def blocking(steps: Steps[Any], ask: Callable[[Ask], Heard]) -> Any:
    return run(steps, ask)


def awaiting(steps: Steps[Any], ask: Callable[[Ask], Heard]) -> Any:
    async def asked(one: Ask) -> Heard:
        return ask(one)

    return asyncio.run(run_async(steps, asked))


@pytest.fixture(params=[blocking, awaiting], ids=["blocking", "asyncio"])
def drive(request: pytest.FixtureRequest) -> Callable[[Steps[Any], Callable[[Ask], Heard]], Any]:
    driver: Callable[[Steps[Any], Callable[[Ask], Heard]], Any] = request.param
    return driver


def echo(ask: Ask) -> Heard:
    return Heard({}, ask.body.decode())


def test_every_step_is_done_and_sent_back(drive: Any) -> None:
    def steps() -> Steps[list[object]]:
        came = [(yield Ask(b"1", UNREAD)), (yield Do(lambda: "done")), (yield Pause(0.0)), (yield Do(lambda: None))]
        return came

    assert drive(steps(), echo) == [Heard({}, "1"), "done", None, None]


def test_what_fails_is_raised_where_it_was_asked_for(drive: Any) -> None:
    def refuse(ask: Ask) -> Heard:
        raise KeyError(ask.body)

    def steps() -> Steps[list[str]]:
        caught = []
        for step in (Ask(b"1", UNREAD), Do(lambda: 1 / 0)):
            try:
                yield step
            except (KeyError, ZeroDivisionError) as error:
                caught.append(type(error).__name__)
        caught.append((yield Do(lambda: "goes on")))
        return caught

    assert drive(steps(), refuse) == ["KeyError", "ZeroDivisionError", "goes on"]


def test_what_nobody_catches_comes_out(drive: Any) -> None:
    closed = []

    def steps() -> Steps[None]:
        try:
            yield Do(lambda: 1 / 0)
        finally:
            closed.append(True)

    with pytest.raises(ZeroDivisionError):
        drive(steps(), echo)
    assert closed == [True]


def test_an_interruption_closes_the_steps(drive: Any) -> None:
    closed = []

    def interrupt(ask: Ask) -> Heard:
        raise KeyboardInterrupt

    def steps() -> Steps[None]:
        try:
            yield Ask(b"", UNREAD)
        except Exception:  # noqa: BLE001 - an interruption is none
            closed.append("caught")
        finally:
            closed.append("closed")

    with pytest.raises(KeyboardInterrupt):
        drive(steps(), interrupt)
    assert closed == ["closed"]
