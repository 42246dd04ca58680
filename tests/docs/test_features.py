"""The table of features names each contract once, and every proof it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (S\d-\S+) \| (.+) \| (.+?) \|$", re.M)
ROWS = ROW.findall((ROOT / "docs/features.md").read_text())


def test_ids_are_unique_and_complete() -> None:
    ids = [id for id, _, _ in ROWS]
    assert len(ids) == len(set(ids))
    for seed, last in {"S0": 51, "S1": 78, "S3": 61, "S4": 69}.items():
        assert {f"{seed}-{n}" for n in range(1, last + 1)} <= set(ids)


def test_every_proof_exists() -> None:
    named = {path for _, _, proof in ROWS for path in re.findall(r"`(tests/[^`:]+)", proof)}
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
