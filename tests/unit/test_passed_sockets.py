"""Sockets that systemd has made and passes on: used where they are meant, and left where they are."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar.cli import listen


@pytest.fixture
def passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of one that its group may open, as a unit with SocketMode=0660 makes it; and one before it."""
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as made:
        other.bind(str(tmp_path / "other.sock"))
        made.bind(str(tmp_path / "s.sock"))
        (tmp_path / "s.sock").chmod(0o660)
        made.listen()
        first = 900
        for number, door in enumerate((other, made)):
            os.dup2(door.fileno(), first + number)
        monkeypatch.setattr(listen, "_FIRST_PASSED", first)
        monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
        monkeypatch.setenv("LISTEN_FDS", "2")
        yield tmp_path / "s.sock"
        for number in range(2):
            try:
                os.close(first + number)
            except OSError:
                pass


def test_the_one_at_the_path_is_used_and_left(passed: Path) -> None:
    with listen.listen_unix(passed) as door:
        assert door.fileno() == 901
        assert not door.get_inheritable(), "code that is started later does not have it"
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(passed))
            door.accept()[0].close()
    assert passed.stat().st_mode & 0o777 == 0o660, "its mode is the unit's to say, and systemd keeps the file"


def test_those_of_another_process_are_not(passed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Variables are inherited; who is meant is told by the number of the process."""
    monkeypatch.setenv("LISTEN_PID", "1")
    mine = tmp_path / "mine.sock"
    with listen.listen_unix(mine) as door:
        assert door.fileno() < 900
        assert mine.stat().st_mode & 0o777 == 0o600
    assert not mine.exists()


def test_a_path_that_systemd_did_not_open_is_made(passed: Path, tmp_path: Path) -> None:
    with listen.listen_unix(tmp_path / "mine.sock") as door:
        assert door.getsockname() == str(tmp_path / "mine.sock")
    os.fstat(900), os.fstat(901)  # still there for whoever wants them
