"""The rooms below are what the server takes them for: types are compared by the checker, names by the test."""

from __future__ import annotations

import inspect

import pytest

from belljar.gateway.containers import Containers
from belljar.gateway.engine.conversations import Conversations
from belljar.gateway.engine.service import Engine
from belljar.gateway.server import interfaces
from belljar.gateway.store.keys import Keyring
from belljar.gateway.upstream.models import Models


def fit(
    engine: Engine, conversations: Conversations, containers: Containers, models: Models, keys: Keyring
) -> tuple[interfaces.Engine, interfaces.Conversations, interfaces.Containers, interfaces.Models, interfaces.Keyring]:
    """Nobody calls this: that it type-checks is the point."""
    return engine, conversations, containers, models, keys


@pytest.mark.parametrize(
    ("port", "room"),
    [
        (interfaces.Engine, Engine),
        (interfaces.Conversations, Conversations),
        (interfaces.Containers, Containers),
        (interfaces.Models, Models),
        (interfaces.Keyring, Keyring),
    ],
)
def test_a_room_has_what_its_port_says(port: type, room: type) -> None:
    wanted = {name: member for name, member in vars(port).items() if inspect.isfunction(member) and name[0] != "_"}
    assert wanted
    for name, member in wanted.items():
        there = inspect.signature(getattr(room, name)).parameters
        assert set(inspect.signature(member).parameters) <= set(there), name
