"""What a caller asks for is checked before anything is made."""

from typing import Any

import pytest

from belljar import AsyncSandbox, Sandbox
from belljar.errors import CallerError
from belljar.sandbox.base import GIB, MIB, TIERS, Cell, Limits, Spec
from belljar.sandbox.validation import LARGEST_CODE, make_cell, make_spec


def test_the_defaults_are_those_of_the_port() -> None:
    assert make_spec() == Spec(limits=Limits(memory=GIB, disk=GIB // 2), packages="auto")


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_is_its_bytes_and_half_of_them_for_files(tier: str) -> None:
    limits = make_spec(memory=tier).limits
    assert (limits.memory, limits.disk) == (TIERS[tier], TIERS[tier] // 2)


@pytest.mark.parametrize(
    ("asked", "param", "words"),
    [
        ({"memory": "12q"}, "memory", "'12q'"),
        ({"memory": "1m"}, "memory", "'1m' is below the minimum of 64m; for example 512m"),
        ({"memory": -1}, "memory", "-1"),
        ({"disk": ""}, "disk", "''"),
        ({"output": "lots"}, "output", "'lots'"),
        ({"timeout": 0}, "timeout", "0"),
        ({"timeout": "60"}, "timeout", "'60'"),
        ({"timeout": float("nan")}, "timeout", "nan"),
        ({"cpus": -2}, "cpus", "-2"),
        ({"cpu_time": True}, "cpu_time", "True"),
        ({"processes": 1}, "processes", "not a number of 4 or more"),
        ({"packages": "pandas"}, "packages", "'pandas' is not an environment; use one of auto, data, none"),
        ({"packages": None}, "packages", "None"),
        ({"packages": ["data"]}, "packages", "['data']"),
        ({"requirements": "humanize"}, "requirements", "is not a list; write ['humanize']"),
    ],
)
def test_a_bad_value_names_its_field_and_the_remedy(asked: dict[str, Any], param: str, words: str) -> None:
    for face in (Sandbox, AsyncSandbox, make_spec):
        with pytest.raises(CallerError) as caught:
            face(**asked)
        assert str(caught.value).startswith(f"{param}: ")
        assert words in str(caught.value)
        assert getattr(caught.value, "param", param) == param


def test_a_cell_is_text_of_bounded_length() -> None:
    assert make_cell("1", 2.0) == Cell("1", 2.0)
    for code, timeout in ((b"1", None), ("x" * (LARGEST_CODE + 1), None), ("1", -1.0)):
        with pytest.raises(CallerError):
            make_cell(code, timeout)  # type: ignore[arg-type]


def test_small_sizes_are_fine() -> None:
    assert make_spec(memory="64m", disk="1k", output=10).limits == Limits(memory=64 * MIB, disk=1024, output=10)
