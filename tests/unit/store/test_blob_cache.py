"""Copies of blobs on this disk: what stays, what goes, and what a killed process leaves."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.store.conftest import Children

from belljar.errors import OperatorError
from belljar.gateway.store import blob_cache
from belljar.gateway.store.blob_cache import BlobCache
from belljar.gateway.store.blob_files import digest_file
from belljar.gateway.store.blob_verification import Trust

KIB = 1024


def name_of(data: bytes) -> str:
    return sha256(data).hexdigest()


def content(number: int, size: int = KIB) -> bytes:
    return bytes([number]) * size


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(root: Path) -> Iterator[BlobCache]:
    made = BlobCache(root, 10 * KIB)
    yield made
    made.close()


def add(cache: BlobCache, *numbers: int) -> list[str]:
    names = []
    for number in numbers:
        data = content(number)
        cache.add_bytes(data, name_of(data))
        names.append(name_of(data))
    return names


def use_later(root: Path, name: str, seconds: int) -> None:
    """As if it had been used so much later."""
    place = root / name[:2] / name[2:]
    at = place.stat().st_mtime_ns + seconds * 10**9
    os.utime(place, ns=(at, at))


def test_a_copy_is_read_and_is_its_owners_alone(cache: BlobCache, root: Path) -> None:
    [name] = add(cache, 1)
    file = cache.open(name)
    assert file is not None
    assert (file.size, file.read(10, 3)) == (KIB, content(1)[3:13])
    assert cache.open("0" * 64) is None
    assert cache.open("../../etc/passwd") is None
    assert cache.names() == [name]
    for path in (root, *root.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_those_used_last_stay(cache: BlobCache, root: Path) -> None:
    names = add(cache, *range(10))
    for age, name in enumerate(names):
        use_later(root, name, age - 100)
    use_later(root, names[0], 100)
    [new] = add(cache, 50)
    left = set(cache.names())
    assert {names[0], names[9], new} <= left
    assert names[1] not in left
    assert len(left) == 9, "a tenth is freed at once"


def test_reading_is_a_use(cache: BlobCache, root: Path) -> None:
    names = add(cache, *range(10))
    for age, name in enumerate(names):
        use_later(root, name, age - 1000)
    assert cache.open(names[0]) is not None
    add(cache, 50)
    assert names[0] in cache.names()


def test_what_is_pinned_stays_and_what_goes_stays_readable(cache: BlobCache, root: Path) -> None:
    names = add(cache, *range(5))
    pins = cache.pins()
    places = [pins.pin(name) for name in names]
    assert pins.pin(names[0]) == places[0]
    assert pins.pin("0" * 64) is None
    for name in names:
        use_later(root, name, -1000)
    add(cache, *range(20, 40))
    assert set(names) <= set(cache.names())
    cache.drop(names[:1])
    for number, place in enumerate(places):
        assert place is not None
        assert place.read_bytes() == content(number)
    pins.close()
    assert not any(place is not None and place.exists() for place in places)
    assert pins.pin(names[1]) is None
    add(cache, 41)
    assert sum(path.stat().st_size for path in root.glob("??/*")) <= 10 * KIB


def test_more_may_be_pinned_than_fits(cache: BlobCache, root: Path) -> None:
    pins = cache.pins()
    for number in range(20):
        name = name_of(content(number))
        cache.want(name)
        add(cache, number)
        assert pins.pin(name) is not None
        cache.unwant(name)
    assert len(cache.names()) == 20
    pins.close()
    assert len(cache.names()) <= 10


def test_what_is_wanted_is_not_removed_before_it_is_pinned(cache: BlobCache, root: Path) -> None:
    [name] = add(cache, 1)
    use_later(root, name, -1000)
    cache.want(name)
    cache.want(name)
    add(cache, *range(2, 20))
    cache.unwant(name)
    assert name in cache.names()
    cache.unwant(name)
    add(cache, *range(20, 40))
    assert name not in cache.names()


def test_a_restart_keeps_the_copies_and_counts_them(cache: BlobCache, root: Path) -> None:
    names = add(cache, *range(10))
    for name in names[:5]:
        use_later(root, name, -1000)
    again = BlobCache(root, 10 * KIB)
    assert again.open(names[9]) is not None
    add(again, 50)
    assert len(again.names()) == 9
    again.close()
    again.close()
    smaller = BlobCache(root, 3 * KIB)
    smaller.make_room()
    assert len(smaller.names()) == 2
    smaller.close()


@pytest.mark.parametrize("harm", [b"", b"x", content(2), content(1) + b"x"])
def test_other_bytes_are_no_copy(cache: BlobCache, root: Path, harm: bytes) -> None:
    [name] = add(cache, 1)
    place = root / name[:2] / name[2:]
    place.write_bytes(harm)
    assert cache.pins().pin(name) is None
    assert not place.exists()
    add(cache, 1)
    assert cache.open(name) is not None


def test_after_a_power_cut_bytes_are_compared_once(
    cache: BlobCache, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = add(cache, 1, 2)
    read: list[int] = []

    def digest(file: int) -> str:
        read.append(file)
        return digest_file(file)

    monkeypatch.setattr(blob_cache, "digest_file", digest)
    assert cache.open(names[0]) is not None
    assert read == [], "since the machine started, the kernel answers for them"
    (root / names[1][:2] / names[1][2:]).write_bytes(content(3))
    rebooted = BlobCache(root, 10 * KIB, Trust("another boot"))
    assert rebooted.open(names[0]) is not None
    assert rebooted.open(names[0]) is not None
    assert len(read) == 1
    assert rebooted.open(names[1]) is None
    rebooted.close()


PIN_AND_DIE = """
import os, sys
from pathlib import Path
from belljar.gateway.store.blob_cache import BlobCache

cache = BlobCache(Path(sys.argv[1]), 1 << 20)
pins = cache.pins()
print(pins.pin(sys.argv[2]), flush=True)
cache.new_file().write_bytes(b"half")
print("written", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_process_left_is_cleared(cache: BlobCache, root: Path, start: Children) -> None:
    [name] = add(cache, 1)
    child = start(PIN_AND_DIE, root, name)
    assert child.stdout is not None
    pinned = Path(child.stdout.readline().strip())
    assert child.stdout.readline() == "written\n"
    BlobCache(root, KIB).close()
    assert pinned.exists(), "its process lives"
    child.kill()
    child.wait()
    [half] = (root / "incoming").iterdir()
    BlobCache(root, KIB).close()
    assert not pinned.exists()
    assert half.exists(), "another process may be writing it"
    long_ago = time.time() - 7 * 3600
    os.utime(half, (long_ago, long_ago))
    BlobCache(root, KIB).close()
    assert not half.exists()


def test_a_disk_that_is_full_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(OperatorError, match="cache cannot be used"):
        BlobCache(tmp_path / "cache", KIB)
