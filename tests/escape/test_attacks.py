"""Every attack, as root and as an ordinary user: the jail holds."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests import as_user
from tests.escape.conftest import Worker

from belljar.sandbox.base import Limits
from belljar.sandbox.local.attacks import ATTACKS, Attack, Ground
from belljar.sandbox.local.source import JailOptions, LocalSource


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """A ground of this process's own, to try the judge on."""
    source = LocalSource(JailOptions(cache=tmp_path_factory.mktemp("cache"), preload=False))
    with Ground(source) as ground:
        yield ground
    source.shut()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name.replace(" ", "-"))
def test_the_jail_holds(attack: Attack, user: str, jail_of: Callable[[str], Worker]) -> None:
    told = jail_of(user).attempt(attack.name)
    assert told.held, f"{attack.goal}\n{told.detail}"


def test_the_users_are_who_they_should_be(user: str, jail_of: Callable[[str], Worker]) -> None:
    expected = {"root": 0, "ordinary": as_user.ORDINARY if os.geteuid() == 0 else os.geteuid()}[user]
    hello = jail_of(user).hello
    assert hello["uid"] == expected
    if user == "ordinary" and os.geteuid() == 0:
        assert sorted(hello["groups"]) == sorted(as_user.GROUPS)


def test_every_attack_has_a_name_and_a_goal_of_its_own() -> None:
    twice = [name for name, count in Counter(attack.name for attack in ATTACKS).items() if count > 1]
    assert not twice
    assert all(attack.goal.endswith(".") and attack.code.strip() for attack in ATTACKS)
    assert all("\n" not in attack.name for attack in ATTACKS)


@pytest.mark.parametrize(
    ("code", "ends", "held"),
    [
        ("held('refused')", ("ok",), True),
        ("held('refused')\nbroken('and yet')", ("ok",), False),
        ("pass", ("ok",), False),
        ("pass", ("ok", "killed:memory"), False),
        ("held('refused')\n1 / 0", ("ok",), False),
        ("held('refused')\nthis is no Python", ("ok",), False),
        ("os._exit(1)", ("ok",), False),
        ("os._exit(1)", ("killed:exited",), True),
        ("broken('before')\nos._exit(1)", ("killed:exited",), False),
        ("refused(lambda: os.open('/nowhere', os.O_RDONLY), 'EPERM')", ("ok",), False),
        ("refused(lambda: os.open('/dev/null', os.O_RDONLY), 'EPERM')", ("ok",), False),
    ],
)
def test_what_goes_unexpectedly_is_not_held(code: str, ends: tuple[str, ...], held: bool, ground: Ground) -> None:
    attack = Attack("probe", "A test of the judge.", code, ends=ends, limits=Limits(timeout=10.0))
    assert ground.attempt(attack).held is held


def test_what_is_left_unusable_or_disturbs_a_neighbour_is_not_held(ground: Ground) -> None:
    fine = Attack("probe", "A test of the judge.", "held('refused')", limits=Limits(timeout=10.0))
    assert ground.attempt(fine).held
    for change in ({"after": "broken('unusable')"}, {"neighbour": "pass"}, {"plant": "1 / 0"}, {"twin": True}):
        assert not ground.attempt(replace(fine, **change)).held
    same = replace(fine, code="print('token: 1')\nheld('drawn')", twin=True)
    assert not ground.attempt(same).held


def test_a_tripwire_that_is_touched_is_not_held(ground: Ground) -> None:
    quiet = Attack("probe", "A test of the judge.", "held('refused')", limits=Limits(timeout=10.0))
    with socket.create_connection(("127.0.0.1", int(str(ground.tripwires.known["port"])))):
        assert not ground.attempt(quiet).held
    assert ground.attempt(quiet).held
