"""An archive's files sorted by size: each comes once, whole and in order, and never much at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.containers.extract import Sorted
from belljar.sandbox.base import MIB

SIZES = st.lists(st.sampled_from([0, 1, 1000, MIB - 1, MIB, MIB + 1, 3 * MIB]), max_size=12)


def steps(sizes: list[int]) -> list[str | bytes]:
    """As `unpack` gives them."""
    found: list[str | bytes] = []
    for n, size in enumerate(sizes):
        found.append(f"f{n}")
        found += [bytes(min(MIB, size - at)) for at in range(0, size, MIB)]
    return found


@given(SIZES)
def test_every_file_comes_once_in_order(sizes: list[int]) -> None:
    source = Sorted(iter(steps(sizes)))
    found: list[tuple[str, int]] = []
    while True:
        batch = source.batch()
        assert sum(len(content) for _, content in batch) <= 3 * MIB
        assert all(len(content) < MIB for _, content in batch)
        found += [(path, len(content)) for path, content in batch]
        if batch:
            continue
        path = source.large()
        if path is None:
            break
        size = 0
        while piece := source.piece():
            size += len(piece)
        found.append((path, size))
    assert found == [(f"f{n}", size) for n, size in enumerate(sizes)]


def test_empty_files_do_not_gather_without_end() -> None:
    source = Sorted(iter(f"f{n}" for n in range(100_000)))
    assert 1000 < len(source.batch()) < 5000
