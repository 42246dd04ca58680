"""On a terminal, what code prints stays in its own lines, and lines of ours are read as they were written."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.glass import Glass

from belljar.cli.terminal import TerminalWriter, lay_out, shorten

COLUMNS = 80
ORDERS = st.sampled_from(
    ["\x1b[A", "\x1b[2A", "\x1b[0A", "\x1b[99A", "\x1b[1;2A", "\x1b[B", "\x1b[H", "\x1b[2J", "\x1b[J", "\x1b[1J",
     "\x1b[K", "\x1b[2K", "\x1b[3D", "\x1b[70C", "\x1b[1G", "\x1b[8m", "\x1b[31m", "\x1b[", "\x1b", "\x1bM", "\x9bA",
     "\x1b[S",
     "\x1b[T", "\n", "\r", "\b", "\t", "\v", "\f", "x" * 79, "x" * 200, "saved all of it", "31m"]
)  # fmt: skip
PRINTED = st.lists(ORDERS, max_size=30)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shown:
    """A screen, and what a person sees of it."""

    def __init__(self) -> None:
        self.paper = Tty()
        self.screen = TerminalWriter(self.paper)

    @property
    def lines(self) -> list[str]:
        glass = Glass(COLUMNS)
        glass.feed(self.paper.getvalue().replace("\n", "\r\n"))
        return glass.lines


@given(PRINTED)
def test_what_is_printed_reaches_no_line_of_ours(pieces: list[str]) -> None:
    shown = Shown()
    shown.screen.say("ours, before")
    for piece in pieces:
        shown.screen.write(piece)
    shown.screen.write("\n")
    shown.screen.say("ours, after")
    assert shown.lines[0] == "ours, before"
    assert [line for line in shown.lines if line][-1] == "ours, after"


@pytest.mark.parametrize(
    "printed",
    ["one\ntwo\nsaved\n\x1b[2A", "one\n" + "x" * 200 + "\x1b[A\n", "a\nb\x1b[A\r", "\x1b[8m\n", "\x1b[41;31m\n"],
)
def test_nothing_is_left_below_or_over_a_line_of_ours(printed: str) -> None:
    shown = Shown()
    shown.screen.write(printed)
    if shown.screen.within:
        shown.screen.write("\n")
    shown.screen.say("ours")
    assert shown.lines[-2:] == ["ours", ""]


def test_colours_and_progress_bars_pass() -> None:
    shown = Shown()
    shown.screen.write("\x1b[31mred\x1b[0m\n")
    for percent in (10, 50, 100):
        shown.screen.write(f"outer {percent}%\ninner {percent}%\x1b[A\r")
    shown.screen.write("\n\n")
    assert shown.paper.getvalue().startswith("\x1b[31mred\x1b[0m\n")
    assert shown.lines[:3] == ["red", "outer 100%", "inner 100%"]


@pytest.mark.parametrize(
    "order", ["\x1b[H", "\x1b[2J", "\x1b[9A", "\x1b[B", "\x1b[?1049h", "\x1b]0;title", "\x9b2J", "\x1bc"]
)
def test_other_orders_are_shown(order: str) -> None:
    shown = Shown()
    shown.screen.write(f"a{order}b\n")
    assert order not in shown.paper.getvalue()
    assert re.fullmatch(r"a\\x(1b|9b).*b", shown.lines[0])


def test_an_order_cut_in_two_is_one_order() -> None:
    shown = Shown()
    for piece in "\x1b[31mred\x1b[2J":
        shown.screen.write(piece)
    assert shown.paper.getvalue() == "\x1b[31mred\\x1b[2J"


def test_a_pipe_gets_every_byte_but_our_lines_are_plain_there_too() -> None:
    paper = io.StringIO()
    screen = TerminalWriter(paper)
    screen.write("\x1b[2Jprinted\n")
    screen.say("saved a\x1b[2J\u202eb.csv")
    assert paper.getvalue() == "\x1b[2Jprinted\nsaved a\\x1b[2J\\u202eb.csv\n"


@given(st.text(st.characters(codec=None, categories=None), max_size=400), st.integers(40, 120))
def test_a_long_line_of_ours_begins_no_other(text: str, columns: int) -> None:
    for row in lay_out(f"saved {text}".replace("\n", ""), columns):
        assert row.startswith(("saved ", "     | "))
        assert len(row) <= columns
    assert len(shorten(text, columns)) <= columns


def test_wide_letters_count_twice() -> None:
    assert [len(row) for row in lay_out("報" * 60, 40)] == [20, 7 + 16, 7 + 16, 7 + 8]
    assert shorten("報" * 60, 40) == "報" * 19 + "…"
