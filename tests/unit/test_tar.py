"""Archives of strangers: they say what they say to `tarfile`, and what they say about a file has a bound."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.sandbox.base import MIB
from belljar.sandbox.tar_reader import LARGEST, Archive, Broken

HUGE = 48 * MIB
"""What a header has that is too large: taken whole, it would show."""
FORMS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


class Body:
    """Bytes that are made while they are read, a few at a time."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""
        self.taken = 0

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = next(self._pieces, b"")
        data, self._rest = self._rest[:size], self._rest[size:]
        self.taken += len(data)
        return data


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def extended(kind: bytes, data: bytes) -> bytes:
    """A header that says something about the next file, or about all."""
    return header(kind, len(data)) + data + bytes(-len(data) % 512)


def said(**records: str) -> bytes:
    """Such a header's content."""
    found = b""
    for name, value in records.items():
        rest = f" {name.replace('__', '.')}={value}\n".encode()
        length = len(rest) + 1
        while len(str(length)) + len(rest) != length:
            length += 1
        found += str(length).encode() + rest
    return found


def tar(
    files: Iterable[tuple[str, bytes]], form: int = tarfile.PAX_FORMAT, said: dict[str, str] | None = None
) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form, pax_headers=said) as archive:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def read(archive: Archive) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for member in archive:
        found[member.name] = b"".join(iter(lambda: archive.read(1000), b""))
        assert len(found[member.name]) == member.size
    return found


NAMES = ["a", "b/c", "é", "d" * 99, "d" * 100, "e" * 90 + "/" + "f" * 60, "g/" * 120 + "h", "f/" + "\udcff"]


@pytest.mark.parametrize("form", FORMS)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=1100)), min_size=1, unique_by=lambda one: one[0]),
    st.sampled_from([1, 7, 512, 4096]),
)
def test_an_archive_says_what_it_says_to_tarfile(form: int, files: list[tuple[str, bytes]], piece: int) -> None:
    """As a stream, however it comes, and as a file that is sought in; read, and passed over."""
    packed = tar(files, form, {"comment": "to all"})
    with tarfile.open(fileobj=io.BytesIO(packed)) as known:
        expected = [(info.name, info.size, info.offset_data) for info in known]
    pieces = [packed[at : at + piece] for at in range(0, len(packed), piece)]
    assert read(Archive(Body(pieces))) == dict(files)
    assert read(Archive(io.BytesIO(packed), len(packed))) == dict(files)
    for passed in (Archive(Body(pieces)), Archive(io.BytesIO(packed), len(packed))):
        assert [(one.name, one.size, one.start) for one in passed] == expected


def old_holes() -> bytes:
    """A file with holes as GNU tar wrote it of old."""
    info = tarfile.TarInfo("holes")
    info.type, info.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"00000000000\0" + b"00000000004\0"
    block[410:434] = b"00000010000\0" + b"00000000004\0"
    block[483:495] = b"00000010004\0"
    return summed(block) + b"wordlast".ljust(512, b"\0") + bytes(1024)


def summed(block: bytearray) -> bytes:
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


HOLES = {
    "old": old_holes(),
    "0.1": extended(tarfile.XHDTYPE, said(GNU__sparse__map="0,4,4096,4", GNU__sparse__size="4100"))
    + header(tarfile.REGTYPE, 8, "holes")
    + b"wordlast".ljust(512, b"\0")
    + bytes(1024),
    "1.0": extended(tarfile.XHDTYPE, said(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize="4100"))
    + header(tarfile.REGTYPE, 520, "holes")
    + b"2\n0\n4\n4096\n4\n".ljust(512, b"\0")
    + b"wordlast".ljust(512, b"\0")
    + bytes(1024),
}


@pytest.mark.parametrize("kind", HOLES)
def test_a_file_with_holes_is_told_and_read(kind: str) -> None:
    for archive in (Archive(Body([HOLES[kind]])), Archive(io.BytesIO(HOLES[kind]), len(HOLES[kind]))):
        members = iter(archive)
        holes = next(members)
        assert (holes.name, holes.size, holes.is_sparse) == ("holes", 4100, True)
        assert archive.read(5000) == b"word" + bytes(4092) + b"last"
        assert list(members) == []


# -- what wants too much ----------------------------------------------------------------------------------------------


def zeros(size: int) -> Iterator[bytes]:
    for _ in range(size // MIB):
        yield bytes(MIB)


def long(kind: bytes) -> Iterator[bytes]:
    yield header(kind, HUGE)
    yield from zeros(HUGE)


def chain(kind: bytes, data: bytes) -> Iterator[bytes]:
    """One header after another, each within the bounds."""
    one = extended(kind, data)
    for _ in range(HUGE // len(one)):
        yield one


def old_map() -> Iterator[bytes]:
    """A map of holes that goes on and on."""
    block = bytearray(header(tarfile.GNUTYPE_SPARSE, 512))
    block[482] = 1
    yield summed(block)
    more = b"00000000001\0" * 42 + b"\1" + bytes(7)
    for _ in range(HUGE // len(more)):
        yield more


def new_map(line: bytes) -> Iterator[bytes]:
    yield extended(tarfile.XHDTYPE, said(GNU__sparse__major="1", GNU__sparse__minor="0"))
    yield header(tarfile.REGTYPE, HUGE)
    yield f"{HUGE}\n".encode() + line * (MIB // len(line))
    for _ in range(HUGE // MIB):
        yield line * (MIB // len(line))


def told_to_all() -> Iterator[bytes]:
    """Each says a little about all files, and there are many."""
    for number in range(HUGE // (64 << 10)):
        yield extended(tarfile.XGLTYPE, said(**{f"key{number}": "x" * (63 << 10)}))
        yield header(tarfile.REGTYPE, 0, f"{number}")


def little_told_to_all() -> Iterator[bytes]:
    for number in range(2000):
        yield extended(tarfile.XGLTYPE, said(**{f"key{number}": ""}))
        yield header(tarfile.REGTYPE, 0, f"{number}")


GREEDY: dict[str, tuple[Callable[[], Iterator[bytes]], str]] = {
    "pax": (lambda: long(tarfile.XHDTYPE), "too large"),
    "pax of Sun": (lambda: long(tarfile.SOLARIS_XHDTYPE), "too large"),
    "pax for all": (lambda: long(tarfile.XGLTYPE), "too large"),
    "long name": (lambda: long(tarfile.GNUTYPE_LONGNAME), "too large"),
    "long link": (lambda: long(tarfile.GNUTYPE_LONGLINK), "too large"),
    "chain of long names": (lambda: chain(tarfile.GNUTYPE_LONGNAME, bytes(LARGEST // 4)), "too large"),
    "chain of pax": (lambda: chain(tarfile.XHDTYPE, said(path="x" * (LARGEST // 4))), "too large"),
    "chain of empty headers": (lambda: chain(tarfile.XHDTYPE, b""), "broken|too large"),
    "old map of holes": (old_map, "too large"),
    "new map of holes": (lambda: new_map(b"7777\n"), "too large"),
    "new map of one number": (lambda: new_map(b"7" * 512), "broken|too large"),
    "much told to all": (told_to_all, "too much about all its files"),
    "a little told to all, often": (little_told_to_all, "too much about all its files"),
    "negative": (lambda: iter([header(tarfile.XHDTYPE, -512), bytes(10240)]), "negative|broken"),
    "negative file": (lambda: iter([header(tarfile.REGTYPE, -512), bytes(10240)]), "negative|broken"),
    "eight gibibytes": (lambda: iter([header(tarfile.GNUTYPE_LONGNAME, 8 << 30), bytes(10240)]), "too large"),
}  # fmt: skip


@pytest.mark.parametrize("kind", GREEDY)
def test_what_wants_too_much_is_refused_before_it_has_it(kind: str) -> None:
    make, why = GREEDY[kind]
    body = Body(make())
    tracemalloc.start()
    try:
        with pytest.raises(Broken, match=why):
            for _ in Archive(body):
                pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < HUGE / 3
    assert body.taken < HUGE / 3


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_what_is_said_of_a_file_may_be_long(kind: bytes) -> None:
    text = "x" * (LARGEST // 2)
    data = text.encode() + b"\0" if kind == tarfile.GNUTYPE_LONGNAME else said(comment=text)
    [member] = Archive(io.BytesIO(extended(kind, data) + header(tarfile.REGTYPE, 0, "a") + bytes(1024)))
    assert member.name == (text if kind == tarfile.GNUTYPE_LONGNAME else "a")


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (b"", "empty"),
        (b"junk" * 1000, "broken"),
        (tar([("a", b"1")])[:100], "broken"),
        (tar([("a", b"1")])[:600], "too soon"),
        (tar([("a", b"1")])[:1024] + b"junk" * 128, "broken"),
        (tar([("a", b"1")])[:1024] + tar([("b", b"1")])[:99], "broken"),
        (extended(tarfile.XHDTYPE, said(path="a")), "broken"),
        (
            extended(tarfile.XHDTYPE, said(size="-5")) + header(tarfile.REGTYPE, 0) + bytes(1024),
            "negative|overlap|broken",
        ),
    ],
)
def test_what_is_not_whole_is_refused(archive: bytes, why: str) -> None:
    for one in (Archive(Body([archive])), Archive(io.BytesIO(archive), len(archive))):
        with pytest.raises(Broken, match=why):
            read(one)


def test_an_archive_may_end_without_a_mark() -> None:
    assert read(Archive(io.BytesIO(tar([("a", b"1")])[:1024]))) == {"a": b"1"}


@given(st.lists(st.tuples(st.integers(0, 3071), st.integers(0, 255)), max_size=6))
def test_damage_is_broken_or_passes(places: list[tuple[int, int]]) -> None:
    packed = bytearray(tar([("a", b"1"), ("é" * 60, b"2" * 600)])[:3072])
    for at, byte in places:
        packed[at] = byte
    try:
        read(Archive(Body([bytes(packed)])))
    except Broken:
        pass
