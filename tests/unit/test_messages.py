"""What the jail's processes tell each other: a rehearsal of it leaves nothing behind and stops nobody."""

from __future__ import annotations

import socket

import pytest
from tests.helpers.descriptors import none_left

from belljar.sandbox.local import messages


@pytest.mark.parametrize("count", [0, 1, 24])
def test_a_rehearsal_goes_all_the_way_and_leaves_nothing(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[object, int]] = []
    receive = messages.receive

    def hear(sock: socket.socket) -> tuple[dict[str, object] | None, list[int]]:
        message, fds = receive(sock)
        heard.append((message, len(fds)))
        return message, fds

    monkeypatch.setattr(messages, "receive", hear)
    with none_left():
        messages.rehearse({"id": "sbx_1"}, count)
    assert heard == [({"id": "sbx_1"}, count)]


def test_a_rehearsal_that_finds_no_room_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> tuple[socket.socket, socket.socket]:
        raise OSError("too many open files")

    monkeypatch.setattr(messages, "pair", full)
    messages.rehearse({}, 3)
