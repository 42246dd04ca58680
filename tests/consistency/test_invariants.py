"""The checker finds what it is for: journals of clients to whom each wrong thing was told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from tests.consistency.faults import KINDS, plan_faults
from tests.consistency.invariants import Checker
from tests.consistency.journal import Journal


def cell(log: list[str], seen: list[str] | None = None, *, healed: bool = False, container: str = "c") -> Any:
    """A response as it is told, of a cell that found this."""
    text = json.dumps({"log": log, "seen": log if seen is None else seen, "files": {}})
    item = {"type": "code_interpreter_call", "status": "completed", "container_id": container}
    return {
        "id": f"resp_{'_'.join(log)}",
        "output": [{**item, "outputs": [{"type": "logs", "logs": text}], "belljar": {"healed": healed}}],
    }


def judge(tmp_path: Path, *cells: tuple[str, Any]) -> set[str]:
    """The invariants that these cells break, one after the other; None for one whose answer was lost."""
    journal = Journal(tmp_path / "journal")
    for token, told in cells:
        entry = journal.begin(0, "cell", 0, token=token, container="c", previous=None)
        journal.end(entry, "unknown" if told is None else "told", told=told)
    journal.close()
    checker = Checker(cast(Any, None), journal, cast(Any, None))
    checker._check_cells()
    return {one[:2] for one in checker.broken}


@pytest.mark.parametrize(
    ("cells", "broken"),
    [
        ([("a", cell(["a"])), ("b", cell(["a", "b"]))], set()),
        ([("a", cell(["a"])), ("b", None), ("c", cell(["a", "b", "c"]))], set()),
        ([("a", cell(["a"])), ("b", None), ("c", cell(["a", "c"]))], set()),
        ([("a", cell(["a"])), ("b", cell(["a", "b"], ["b"], healed=True))], set()),
        # The loss was told to one that never heard of it.
        ([("a", cell(["a"])), ("b", None), ("c", cell(["a", "b", "c"], ["b", "c"]))], set()),
        ([("a", cell(["a"])), ("b", cell(["b"], ["b"], healed=True))], {"I1", "I2"}),
        ([("a", cell(["a"])), ("b", cell(["a", "b"], ["b"]))], {"I6"}),
        ([("a", cell(["a"])), ("b", cell(["a", "b"], healed=True))], {"I6"}),
        ([("a", cell(["a"])), ("b", cell(["a", "x", "b"]))], {"I3"}),
        ([("a", cell(["a"])), ("b", cell(["a", "a", "b"]))], {"I3"}),
        ([("a", cell(["a"])), ("b", cell(["a", "b"])), ("c", cell(["a", "c"]))], {"I1", "I2", "I6"}),
        ([("a", cell(["a"])), ("b", cell(["a", "b"], container="d"))], {"I2", "I3"}),
    ],
)
def test_what_cells_found(tmp_path: Path, cells: list[tuple[str, Any]], broken: set[str]) -> None:
    assert judge(tmp_path, *cells) == broken


@pytest.mark.parametrize(
    ("parts", "holds"),
    [
        ([(-1, [(0, "x", "1"), (1, "y", "2")]), (1, [(2, "response.completed", "3")])], True),
        ([(-1, [(0, "x", "1"), (1, "y", "2")]), (0, [(1, "y", "2"), (2, "z", "3")])], True),
        ([(-1, [(0, "x", "1"), (2, "y", "2")])], False),
        ([(-1, [(0, "x", "1"), (1, "y", "2")]), (0, [(1, "y", "other")])], False),
        ([(-1, [(0, "x", "1")]), (0, [(2, "y", "2")])], False),
    ],
)
def test_what_was_streamed(tmp_path: Path, parts: list[tuple[int, list[Any]]], holds: bool) -> None:
    journal = Journal(tmp_path / "journal")
    for after, events in parts:
        journal.end(journal.begin(0, "follow", 0, response="r", after=after), "told", told=events)
    journal.close()
    checker = Checker(cast(Any, None), journal, cast(Any, None))
    checker._check_events()
    assert (not checker.broken) is holds


def test_refusals_have_reasons(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.end(journal.begin(0, "cell", 0, container="c"), "refused", 404)
    journal.end(journal.begin(0, "drop", 0, container="d"), "unknown")
    journal.end(journal.begin(0, "cell", 0, container="d"), "refused", 404)
    journal.end(journal.begin(0, "read", 0, container="d"), "unknown", 500)
    journal.close()
    checker = Checker(cast(Any, None), journal, cast(Any, None))
    checker._check_refusals()
    assert [one.partition(":")[0] for one in checker.broken] == ["I2", "I0"]


def test_the_seed_fixes_the_faults() -> None:
    assert plan_faults(7, 500, KINDS) == plan_faults(7, 500, KINDS) != plan_faults(8, 500, KINDS)
    assert sorted(one.kind for one in plan_faults(7, 500, KINDS)) == sorted(KINDS)
