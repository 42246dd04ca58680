"""Archives: what is plain comes out exact, and every trick refuses the whole."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.errors import BelljarError, InvalidRequest, TooLarge
from belljar.gateway.containers import extract
from belljar.gateway.containers.extract import Bounds
from belljar.sandbox.base import MIB

BOUNDS = Bounds(files=100, bytes=64 * MIB)
FILES = {"a.txt": b"alpha", "in/報告 1.xlsx": bytes(range(256)) * 5000, "in/empty": b"", "z/y/x": b"deep"}


def unpacked(archive: bytes, bounds: Bounds = BOUNDS) -> dict[str, bytes]:
    """Read in both ways, which agree where both can."""
    try:
        parts = extract.parts(io.BytesIO(archive), "given.bin", bounds)
    except BelljarError as refused:
        with pytest.raises(type(refused)):
            streamed(archive, bounds)
        raise
    found = streamed(archive, bounds)
    if parts is not None:
        assert {path: archive[start : start + size] for path, start, size in parts} == found
    return found


def streamed(archive: bytes, bounds: Bounds) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    path = ""
    for step in extract.unpack(io.BytesIO(archive), "given.bin", bounds):
        if isinstance(step, str):
            path = step
            assert path not in found
            found[path] = b""
        else:
            found[path] += step
    return found


def plain(name: str, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    return info, data


def odd(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.PAX_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(files: Iterable[tuple[zipfile.ZipInfo | str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for info, data in files:
            archive.writestr(info, data, compress_type=method)
    return made.getvalue()


PACKED: dict[str, Callable[[], bytes]] = {
    "tar": lambda: tar(plain(*one) for one in FILES.items()),
    "tar, old": lambda: tar((plain(*one) for one in FILES.items()), tarfile.GNU_FORMAT),
    "tar.gz": lambda: gzip.compress(tar(plain(*one) for one in FILES.items())),
    "tar.bz2": lambda: bz2.compress(tar(plain(*one) for one in FILES.items())),
    "tar.xz": lambda: lzma.compress(tar(plain(*one) for one in FILES.items())),
    "tar.xz, in two streams": lambda: (lambda t: lzma.compress(t[:700]) + bytes(8) + lzma.compress(t[700:]))(
        tar(plain(*one) for one in FILES.items())
    ),
    "zip": lambda: zipped(FILES.items()),
    "zip, stored": lambda: zipped(FILES.items(), zipfile.ZIP_STORED),
}


@pytest.mark.parametrize("kind", PACKED)
def test_plain_files_come_out_exact(kind: str) -> None:
    assert unpacked(PACKED[kind]()) == FILES


@pytest.mark.parametrize("kind", PACKED)
def test_only_a_plain_tar_has_its_files_in_it_as_they_are(kind: str) -> None:
    parts = extract.parts(io.BytesIO(PACKED[kind]()), "x", BOUNDS)
    assert (parts is not None) == (kind in ("tar", "tar, old"))


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b/c", "é", "d" * 99, "d" * 100, "e" * 90 + "/" + "f" * 60, "g/" * 120 + "h"]),
            st.binary(max_size=1100),
        ),
        unique_by=lambda file: file[0],
    )
)
def test_headers_say_what_they_say_to_tarfile(form: int, files: list[tuple[str, bytes]]) -> None:
    archive = tar([plain(name, data) for name, data in files], form)
    with tarfile.open(fileobj=io.BytesIO(archive)) as known:
        expected = [(info.name, info.offset_data, info.size) for info in known]
    parts = extract.parts(io.BytesIO(archive), "x.tar", Bounds(100, MIB))
    assert parts is None or [tuple(part) for part in parts] == expected
    assert streamed(archive, Bounds(100, MIB)) == dict(files)


@pytest.mark.parametrize("at", [0, 99, 125, 130, 150, 156, 344, 346, 511])
def test_a_header_with_one_wrong_byte_is_refused(at: int) -> None:
    archive = bytearray(tar([plain("a", b"data")], tarfile.USTAR_FORMAT))
    archive[at] ^= 1
    with pytest.raises(InvalidRequest):
        unpacked(bytes(archive))


def sparse() -> bytes:
    """A file of a megabyte of which the archive holds a word."""
    info = tarfile.TarInfo("holes")
    info.size = 512
    info.pax_headers = {"GNU.sparse.map": f"0,4,{MIB},0", "GNU.sparse.size": str(MIB), "GNU.sparse.name": "holes"}
    return tar([(info, b"word".ljust(512, b"\0"))])


def test_a_file_with_holes_is_unpacked() -> None:
    assert extract.parts(io.BytesIO(sparse()), "x", BOUNDS) is None


def test_an_archive_that_is_mostly_something_else_is_unpacked() -> None:
    archive = tar([plain("a", b"1")])
    assert extract.parts(io.BytesIO(archive), "x", BOUNDS) == [("a", 512, 1)]
    assert extract.parts(io.BytesIO(archive + bytes(MIB)), "x", BOUNDS) is None
    assert unpacked(archive + bytes(MIB)) == {"a": b"1"}


def test_a_negative_size_is_refused() -> None:
    info = tarfile.TarInfo("a")
    info.size = -1
    with pytest.raises(InvalidRequest, match="cannot be read"):
        unpacked(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))


def test_names_are_made_plain_and_directories_need_no_entry() -> None:
    folder = odd("./d/", tarfile.DIRTYPE)
    assert unpacked(tar([folder, plain("./d//x", b"1"), plain("d/e/y", b"2")])) == {"d/x": b"1", "d/e/y": b"2"}
    assert unpacked(zipped([("d/", b""), ("./d/x", b"1")])) == {"d/x": b"1"}


@pytest.mark.parametrize("empty", [tar([]), zipped([])])
def test_an_empty_archive_has_no_files(empty: bytes) -> None:
    assert unpacked(empty) == {}


def test_it_is_read_in_pieces() -> None:
    pieces = [
        step
        for step in extract.unpack(io.BytesIO(tar([plain("big", bytes(5 * MIB))])), "x", BOUNDS)
        if isinstance(step, bytes)
    ]
    assert max(map(len, pieces)) <= MIB
    assert sum(map(len, pieces)) == 5 * MIB


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


def encrypted() -> bytes:
    data = bytearray(zipped([("secret", b"x")], zipfile.ZIP_STORED))
    data[6] |= 1  # the flag of the entry, and that of the directory
    data[data.index(b"PK\1\2") + 8] |= 1
    return bytes(data)


def many_headers() -> bytes:
    """A chain of headers that each say something about the next."""
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, 11
    block = head.tobuf(tarfile.USTAR_FORMAT) + b"11 path=ab\n".ljust(512, b"\0")
    return block * 5000


def huge_header() -> bytes:
    head = tarfile.TarInfo("pax")
    head.type, head.size = tarfile.XHDTYPE, 1 << 30
    return gzip.compress(head.tobuf(tarfile.USTAR_FORMAT) + bytes(8 * MIB))


def huge_directory() -> bytes:
    data = bytearray(zipped([("x", b"")]))
    end, size = data.index(b"PK\5\6"), 5 * MIB
    data[end + 12 : end + 16] = (size + 47).to_bytes(4, "little")
    data[end:end] = bytes(size)
    return bytes(data)


def greedy_xz() -> bytes:
    """One whose header wants four gigabytes of memory."""
    data = bytearray(lzma.compress(tar([plain("x", b"1")])))
    size = 4 * (data[12] + 1)
    header = data[12 : 12 + size - 4]
    assert header[2:4] == b"\x21\x01"  # LZMA2, and one byte that says how much
    header[4] = 40
    data[12 : 12 + size] = header + zlib.crc32(header).to_bytes(4, "little")
    return bytes(data)


SMALL = Bounds(files=3, bytes=MIB)
REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "absolute path": (lambda: tar([plain("/etc/passwd", b"")]), "absolute path"),
    "absolute path into the workspace": (lambda: zipped([("/mnt/data/x", b"")]), "absolute path"),
    "parent": (lambda: tar([plain("a/../../x", b"")]), "leads out of /mnt/data"),
    "parent in a zip": (lambda: zipped([("../x", b"")]), "leads out of /mnt/data"),
    "symbolic link": (lambda: tar([odd("link", tarfile.SYMTYPE, "/etc/passwd")]), "a link or a device"),
    "hard link": (lambda: tar([plain("a", b"1"), odd("b", tarfile.LNKTYPE, "a")]), "a link or a device"),
    "device": (lambda: tar([odd("null", tarfile.CHRTYPE)]), "a link or a device"),
    "block device": (lambda: tar([odd("disk", tarfile.BLKTYPE)]), "a link or a device"),
    "pipe": (lambda: tar([odd("pipe", tarfile.FIFOTYPE)]), "a link or a device"),
    "link in a zip": (lambda: zipped([(unix("link", stat.S_IFLNK | 0o777), b"/etc")]), "a link or a device"),
    "same name twice": (lambda: tar([plain("a", b"1"), plain("./a", b"2")]), "twice"),
    "too many files": (lambda: tar(plain(f"{n}", b"") for n in range(4)), "more than 3 files"),
    "too many files in a zip": (lambda: zipped((f"{n}", b"") for n in range(4)), "more than 3 files"),
    "too many directories": (lambda: tar(odd(f"{n}", tarfile.DIRTYPE) for n in range(4)), "more than 3 directories"),
    "name too long": (lambda: tar([plain("x" * 256, b"")]), "too long"),
    "name that is no text": (lambda: tar([plain("\udcff", b"")], tarfile.GNU_FORMAT), "UTF-8"),
    "encrypted": (encrypted, "encrypted"),
    "compression without bounds": (lambda: zipped([("x", b"1")], zipfile.ZIP_BZIP2), "unusual compression"),
    "chain of headers": (many_headers, "cannot be read"),
    "header of a gigabyte": (huge_header, "headers is too large"),
    "directory of megabytes": (huge_directory, "too large"),
    "dictionary of gigabytes": (greedy_xz, "Memory usage limit"),
    "not an archive": (lambda: b"hello, I am a CSV\n" * 1000, "cannot be read as a tar or zip"),
    "a packed file that is no archive": (lambda: gzip.compress(b"a,b\n" * 1000), "cannot be read"),
    "nothing at all": (lambda: b"", "cannot be read"),
    "junk between files": (lambda: tar([plain("a", b"1")])[:1024] + b"junk" * 128 + tar([plain("b", b"2")]), "broken"),
    "cut off": (lambda: tar([plain("a", bytes(100_000))])[:50_000], "cannot be read"),
    "cut off and packed": (lambda: lzma.compress(tar([plain("a", b"1" * 9000)]))[:100], "cannot be read"),
    "damaged": (lambda: zipped([("a", b"good")], zipfile.ZIP_STORED).replace(b"good", b"evil"), "cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("trick", REFUSED)
def test_a_trick_refuses_the_whole(trick: str) -> None:
    make, why = REFUSED[trick]
    with pytest.raises(InvalidRequest, match=why):
        unpacked(make(), SMALL)


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("kind", PACKERS)
def test_a_bomb_is_refused_by_its_ratio(kind: str) -> None:
    bomb = PACKERS[kind](tar([plain("zeros", bytes(extract.FREE + MIB))]))
    with pytest.raises(InvalidRequest, match="more than 200 times its size"):
        unpacked(bomb)


def test_a_zip_bomb_is_refused_by_its_ratio() -> None:
    with pytest.raises(InvalidRequest, match="more than 200 times its size"):
        unpacked(zipped([("zeros", bytes(extract.FREE + MIB))]))


def test_a_zip_that_lies_about_its_size_gives_no_more_than_it_says() -> None:
    data = zipped([("x", bytes(3 * MIB))])
    lying = data.replace((3 * MIB).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lying != data
    with pytest.raises(InvalidRequest, match="cannot be read"):
        unpacked(lying, SMALL)


def test_more_than_the_workspace_holds_is_too_large() -> None:
    with pytest.raises(TooLarge, match="more than the 1 MiB that the workspace holds"):
        unpacked(tar([plain("a", bytes(MIB // 2)), plain("b", bytes(MIB // 2 + 1))]), SMALL)


def test_a_size_that_is_too_large_is_refused_before_it_is_read() -> None:
    info = tarfile.TarInfo("huge")
    info.size = 1 << 40
    with pytest.raises(TooLarge):
        unpacked(info.tobuf(tarfile.GNU_FORMAT), SMALL)


@settings(max_examples=100)
@given(st.sampled_from(["tar", "gz", "bz2", "xz", "zip"]), st.data())
def test_damage_gives_files_or_a_refusal(kind: str, data: st.DataObject) -> None:
    small = {"a.txt": b"alpha", "in/b": b"beta" * 50}
    archive = zipped(small.items()) if "zip" in kind else tar(plain(*one) for one in small.items())
    damaged = bytearray(PACKERS[kind](archive) if kind in PACKERS else archive)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = unpacked(bytes(damaged), SMALL)
    except BelljarError:
        return
    assert sum(map(len, found.values())) <= SMALL.bytes
