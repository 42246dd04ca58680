"""Processor time between cells: an allowance that fills up, and who must go when it is used up."""

from __future__ import annotations

import os

from belljar.sandbox.local import watcher
from belljar.sandbox.local.watcher import Allowance, Turns


def test_what_uses_little_goes_on_for_ever() -> None:
    allowance = Allowance(60, 60)
    assert [allowance.spend(0.04, 0.5) for _ in range(100_000)] == [None] * 100_000


def test_what_uses_a_lot_ends_and_then_the_interpreter_too() -> None:
    allowance = Allowance(60, 60)
    ends = [(at, excess) for at in range(300) if (excess := allowance.spend(1.0, 0.5))]
    assert [(at, excess.interpreter) for at, excess in ends][:2] == [(63, False), (95, True)]
    assert ends[0][1].why == "they used more than 60 s of processor time between cells"


def test_after_a_long_rest_it_is_the_first_time_again() -> None:
    allowance = Allowance(60, 60)
    assert allowance.spend(61, 0.5) is not None
    assert allowance.spend(0.0, 1000) is None
    again = allowance.spend(61, 0.5)
    assert again is not None
    assert not again.interpreter


def test_no_limit_is_no_allowance() -> None:
    assert watcher.make_allowance(None) is None


def test_turns_are_counted_without_waiting() -> None:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    try:
        turns = Turns(fd)
        assert turns.read() == 0
        os.eventfd_write(fd, 1)
        assert (turns.read(), turns.read()) == (1, 1)
        for _ in range(3):
            os.eventfd_write(fd, 1)
        assert turns.read() == 4
    finally:
        os.close(fd)
