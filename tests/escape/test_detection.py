"""An attack that cannot fail proves nothing: outside the jail, those that do no harm must report success."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache

import pytest
from tests import as_user
from tests.escape.conftest import Worker

from belljar.sandbox.local.attacks import ATTACKS, Attack
from belljar.sandbox.local.attacks.ground import parse_report

_KERNELS_OWN = ("call ", "new ", "socket family ")
"""Which of these a kernel refuses by itself depends on how it is built and who asks."""
_BY_RIGHT_OF_ROOT = {"capabilities", "attach to a process of the host", "inherited memory"}
PROVABLE = [attack for attack in ATTACKS if attack.provable]
SURE = [attack for attack in PROVABLE if not attack.name.startswith(_KERNELS_OWN)]


@pytest.fixture(scope="session")
def outside() -> Callable[[str], dict[str, tuple[list[str], list[str]]]]:
    """What each attack said, by name, when this user ran it unconfined."""

    @cache
    def outside(user: str) -> dict[str, tuple[list[str], list[str]]]:
        worker = Worker(user, "tests.escape.unconfined")
        assert worker.process.stdout
        answers = [json.loads(line) for line in worker.process.stdout]
        worker.close()
        return {answer["name"]: parse_report(answer["said"]) for answer in answers}

    return outside


@pytest.mark.parametrize("attack", SURE, ids=lambda attack: attack.name.replace(" ", "-"))
def test_it_succeeds_outside(
    attack: Attack, user: str, outside: Callable[[str], dict[str, tuple[list[str], list[str]]]]
) -> None:
    held, broken = outside(user)[attack.name]
    if user == "ordinary" and attack.name in _BY_RIGHT_OF_ROOT:
        assert held or broken
    else:
        assert broken, held


if os.geteuid() == 0:  # nobody else can make such a file

    @pytest.mark.parametrize(("group", "held"), [(as_user.GROUPS[0], False), (9999, True)], ids=["theirs", "another's"])
    def test_a_file_for_a_group_alone_is_found(group: int, held: bool) -> None:
        """The one thing that a group which cannot be given up opens inside: it is told, and only then."""
        worker = Worker("ordinary", secret_of=group)
        told = worker.attempt("what groups open")
        worker.close()
        assert (told.held, str(as_user.SECRET) in told.detail) == (held, not held), told.detail


def test_most_calls_reach_the_kernel_outside(
    user: str, outside: Callable[[str], dict[str, tuple[list[str], list[str]]]]
) -> None:
    """Root reaches nearly all; an ordinary user is refused by the kernel itself where a capability is needed."""
    calls = {name: broken for name, (_, broken) in outside(user).items() if name.startswith(_KERNELS_OWN)}
    reached = [name for name, broken in calls.items() if broken]
    assert len(reached) > len(calls) * (0.75 if user == "root" else 0.3), sorted(set(calls) - set(reached))


def test_enough_attacks_can_be_proven() -> None:
    assert len(SURE) >= 20
    assert len(PROVABLE) >= 80
