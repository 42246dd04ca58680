"""The policy: what is asked of a source follows from it and from the container."""

from __future__ import annotations

import pytest

from belljar.errors import InvalidRequest
from belljar.gateway.containers import Policy
from belljar.gateway.store.base import ContainerRecord
from belljar.sandbox.base import GIB

CONTAINER = ContainerRecord(id="cntr_1", owner="me", name="x", created_at=0, last_active_at=0)


def test_the_spec_follows_the_container_and_the_policy() -> None:
    container = ContainerRecord(
        id="cntr_1", owner="me", name="x", created_at=0, last_active_at=0, memory="4g", requirements=("humanize",)
    )
    spec = Policy(timeout=5, packages="none").spec(container)
    assert (spec.limits.memory, spec.limits.disk, spec.limits.timeout) == (4 * GIB, 2 * GIB, 5)
    assert (spec.packages, spec.requirements) == ("none", ("humanize",))


def test_a_tier_that_is_not_offered_is_refused_in_the_wires_words() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Policy().tier("8g")
    assert str(refused.value) == "Invalid value: '8g'. Supported values are: '1g', '4g', '16g', and '64g'."
    assert (refused.value.param, refused.value.fault) == ("memory_limit", "invalid_value")


def test_the_operator_may_offer_one_tier_only() -> None:
    assert Policy(tiers=("1g",)).tier("1g") == "1g"
    with pytest.raises(InvalidRequest, match=r"^Invalid value: '4g'\. It can be '1g' only\.$"):
        Policy(tiers=("1g",)).tier("4g")
