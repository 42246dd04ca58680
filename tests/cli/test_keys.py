"""`belljar keys`: made, shown once, listed, revoked."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Command


@pytest.fixture
def state(belljar: Command) -> Path:
    path = belljar.directory / "state"
    belljar.environment["BELLJAR_STATE_DIR"] = str(path)
    return path


def test_a_key_is_shown_once(belljar: Command, state: Path) -> None:
    ran = belljar("keys", "add", "laptop")
    assert (ran.returncode, ran.stderr) == (0, "")
    top, middle, bottom, told = ran.stdout.splitlines()
    assert len(top) == len(middle) == len(bottom)
    key = middle.strip("│ ")
    assert re.fullmatch(r"\S{20,}", key)
    assert told.startswith("The key of laptop (key_")
    assert "not shown again" in told

    ran = belljar("keys", "list")
    assert (ran.returncode, ran.stderr) == (0, "")
    head, row = ran.stdout.splitlines()
    assert head.split()[:2] == ["ID", "NAME"]
    assert "laptop" in row
    assert row.endswith("never")
    assert key not in ran.stdout
    assert not [path for path in state.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_a_name_is_answered_with_its_ids(belljar: Command, state: Path) -> None:
    made = [json.loads(belljar("keys", "add", "alice", "--json").stdout)["id"] for _ in range(2)]
    ran = belljar("keys", "revoke", "alice")
    assert ran.returncode == 2
    assert all(id in ran.stderr for id in made)
    assert [one["revoked_at"] for one in json.loads(belljar("keys", "list", "--json").stdout)] == [None, None]


def test_no_keys(belljar: Command, state: Path) -> None:
    assert belljar("keys", "list").stdout == "There are no keys. To make one: belljar keys add NAME\n"
    assert json.loads(belljar("keys", "list", "--json").stdout) == []


def test_revoking(belljar: Command, state: Path) -> None:
    made = json.loads(belljar("keys", "add", "ci", "--json").stdout)
    assert made.keys() == {"id", "name", "shown", "created_at", "last_used_at", "revoked_at", "key"}
    assert made["key"].endswith(made["shown"].strip(".… "))
    other = json.loads(belljar("keys", "add", "ci", "--json").stdout)
    assert (other["key"] != made["key"], other["id"] != made["id"]) == (True, True)

    for _ in range(2):
        ran = belljar("keys", "revoke", made["id"])
        assert (ran.returncode, ran.stdout) == (0, f"The key of ci ({made['id']}) counts no more.\n")
    listed = {key["id"]: key for key in json.loads(belljar("keys", "list", "--json").stdout)}
    assert listed.keys() == {made["id"], other["id"]}
    assert listed[made["id"]]["revoked_at"] >= made["created_at"]
    assert listed[other["id"]]["revoked_at"] is None
    assert "key" not in listed[other["id"]]
    assert belljar("keys", "list").stdout.count("revoked") == 1
    assert json.loads(belljar("keys", "revoke", made["id"], "--json").stdout)["revoked_at"] is not None


def test_the_state_may_be_elsewhere(belljar: Command, state: Path) -> None:
    belljar("keys", "add", "laptop", "--state-dir", "other")  # from where we are
    assert json.loads(belljar("keys", "list", "--json").stdout) == []
    listed = belljar("keys", "list", "--json", "--state-dir", str(belljar.directory / "other"))
    assert [key["name"] for key in json.loads(listed.stdout)] == ["laptop"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["revoke", "key_none"], "id: there is no key 'key_none'; belljar keys list shows those there are"),
        (["add", " "], "name: ' ' is not a name of 1 to 64 characters; for example laptop"),
        (["add", "x" * 65], "is not a name of 1 to 64 characters"),
        (["add", "a\x1b[2J"], r"name: 'a\x1b[2J' is not a name"),
        ([], "the following arguments are required: ACTION"),
        (["add"], "the following arguments are required: NAME"),
    ],
)
def test_mistakes(belljar: Command, state: Path, args: list[str], message: str) -> None:
    ran = belljar("keys", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr
