"""The files of one container on the wire: listed newest first, fetched in pieces, put in place, taken away.

OpenAI's API keeps single files with flat names. Our gateway keeps directories and unpacks an archive on request
(`extract`), which is the only difference there is. Nothing announces it: it is asked for with an empty archive, which
a server that unpacks answers with an empty list, and any other refuses or keeps as the file that it is. So this works
with whatever server speaks either wire, and costs one small request for a client's first container.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from io import SEEK_END
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from belljar.adapters.openai.archives import ArchiveMember, OutgoingArchive, Packed, packed_one
from belljar.filesystem.paths import WORKSPACE, Segments, join_segments, segments_of

if TYPE_CHECKING:
    from openai import OpenAI

ROOT = WORKSPACE
_PAGE = 100
_AT_ONCE = 8
_PIECE = 1 << 20
_EXTRACT = {"extract": "true"}
_EMPTY = b"\0" * 10240
_UNFIT = re.compile(r'[\x00-\x1f\x7f/\\%"]')
_ESCAPED = re.compile(r"%([0-9A-F]{2})")

T = TypeVar("T")
Progress = Callable[[int], object]
Reach: TypeAlias = "Callable[[], OpenAI]"
"""Gives the client for the next request, which knows how long that may take; raises where there is no time left."""


class Kept(NamedTuple):
    """A file as the server lists it; `source` is `user` for what was uploaded, `assistant` for what code wrote."""

    id: str
    segments: Segments
    size: int
    created_at: int
    source: str


def unpacks(reach: Reach, container_id: str) -> bool:
    """Whether this server unpacks archives."""
    import openai

    try:
        answer: Any = reach().containers.files.create(
            container_id, file=("empty.tar", _EMPTY, "application/x-tar"), extra_body=_EXTRACT
        )
    except (openai.BadRequestError, openai.UnprocessableEntityError):
        return False
    if answer.object == "list":
        return True
    reach().containers.files.delete(answer.id, container_id=container_id)
    return False


class ContainerFiles:
    """`unpacking`: paths are as they are on the server. Else each is one flat name, with what cannot be in it escaped:
    `src/a.py` is kept as `src%2Fa.py`.
    """

    def __init__(self, reach: Reach, container_id: str, *, unpacking: bool) -> None:
        self._reach = reach
        self._id = container_id
        self._unpacking = unpacking

    def newest_first(self) -> Iterator[Kept]:
        for file in self._reach().containers.files.list(self._id, limit=_PAGE, order="desc"):
            yield Kept(file.id, self._read(file.path), file.bytes or 0, file.created_at, file.source)

    def chunks(self, file: Kept) -> Iterator[bytes]:
        wire = self._reach().containers.files.content.with_streaming_response
        with wire.retrieve(file.id, container_id=self._id) as answer:
            yield from answer.iter_bytes(1 << 20)

    def put(self, segments: Segments, content: bytes, *, older: Iterable[Kept] = ()) -> None:
        """The newest wins; `older` are those of the same path, of which a server that unpacks keeps none."""
        if self._unpacking:
            self._unpack(packed_one(segments, content))
            return
        name = _UNFIT.sub(lambda found: f"%{ord(found[0]):02X}", join_segments(segments))
        self._reach().containers.files.create(self._id, file=(name, content, "application/octet-stream"))
        each(self.delete, older)

    def put_all(
        self, archive: OutgoingArchive, *, there: Collection[Segments] = (), progress: Progress | None = None
    ) -> None:
        """Every file of an archive but those that are `there`."""
        members = [member for member in archive.members() if member.segments not in there]
        if self._unpacking and members and not there:
            with closing(archive.pack()) as packed:
                self._unpack(_Body(packed, progress, self._reach))
            return

        def put(member: ArchiveMember) -> None:
            with member.open() as file:
                self.put(member.segments, file.read())
            if progress is not None:
                progress(member.size)

        each(put, members)

    def delete(self, file: Kept) -> None:
        self._reach().containers.files.delete(file.id, container_id=self._id)

    def _unpack(self, packed: bytes | _Body) -> None:
        """Not as a form: the server would have to look for its end in every byte."""
        headers = {"content-type": "application/x-tar", "content-length": str(len(packed))}
        self._reach().post(
            f"/containers/{self._id}/files",
            content=packed,
            options={"headers": headers, "params": _EXTRACT},
            cast_to=bytes,  # tells of each file, which nobody reads
        )

    def _read(self, path: str) -> Segments:
        inside = path.removeprefix(f"{ROOT}/")
        if not self._unpacking:
            inside = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), inside)
        return segments_of(inside)


class _Body:
    """A stream in pieces, from its beginning. Of what it can read itself, an HTTP client takes little at once."""

    def __init__(self, stream: Packed, progress: Progress | None, reach: Reach) -> None:
        self._stream = stream
        self._reach = reach
        self._progress = progress
        self._length = stream.seek(0, SEEK_END)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        self._stream.seek(0)
        while piece := self._stream.read(_PIECE):
            self._reach()  # whether there is time for it
            yield piece
            if self._progress is not None:
                self._progress(len(piece))


def each(act: Callable[[T], object], items: Iterable[T]) -> None:
    """For each, a few at a time: most of it is waiting for the server."""
    given = list(items)
    if len(given) < 2:
        for item in given:
            act(item)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(given))) as pool:
        for done in [pool.submit(act, item) for item in given]:
            done.result()
