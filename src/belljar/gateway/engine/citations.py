"""Files that code made, and `sandbox:` links to them, as citations of a message."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import islice
from os.path import commonprefix
from urllib.parse import quote

from belljar.gateway.store.base import ContainerFileRecord
from belljar.wire.items import Annotation, ContainerFileCitation

_LINK = "sandbox:/mnt/data/"
_PLAIN = re.compile(r"[\w.\-~/]*", re.ASCII)
"""Paths that every link spells the same way."""
_MOST = 10_000
"""Files that links may name: spelling out more would keep others waiting. Beyond, those that were made last."""


class Citations:
    """What can be cited in one response, and what has been."""

    def __init__(self) -> None:
        self._known: dict[str, ContainerFileRecord] = {}
        self._owed: dict[str, ContainerFileRecord] = {}
        self._relayed: list[ContainerFileCitation] = []

    def add_known(self, files: Iterable[ContainerFileRecord]) -> None:
        """Files that were there before: cited where a link names them."""
        for file in files:
            self._known.setdefault(file.path, file)

    def add_made(self, files: Iterable[ContainerFileRecord]) -> None:
        """Files of this response: cited even if no message mentions them."""
        for file in files:
            self._known[file.path] = file
            self._owed[file.path] = file

    def remove(self, files: Iterable[ContainerFileRecord]) -> None:
        """Files that are no more: nobody could fetch what a citation of them names."""
        for file in files:
            self._known.pop(file.path, None)
            self._owed.pop(file.path, None)

    def add_relayed(self, file: ContainerFileRecord, start: int, end: int) -> None:
        """The next text cites a file here, as its provider says."""
        self._relayed.append(_build_citation(file, start, end))
        self._owed.pop(file.path, None)

    @property
    def files(self) -> tuple[ContainerFileRecord, ...]:
        """All that there are, for the tool's description."""
        return tuple(self._known.values())

    @property
    def has_owed(self) -> bool:
        return bool(self._owed)

    def cite(self, text: str, last: bool) -> tuple[Annotation, ...]:
        """The links in a text, then for the last message all that is still unmentioned, at 0 and 0."""
        found: list[Annotation] = [*self._relayed]
        told = {citation.start_index for citation in self._relayed}
        self._relayed = []
        at = text.find(_LINK)
        if at >= 0:
            spelled = _Spellings(self._list_latest())
            while at >= 0:
                name = spelled.find(text, at + len(_LINK))
                if name is not None and at not in told:
                    file = spelled.files[name]
                    self._owed.pop(file.path, None)
                    found.append(_build_citation(file, at, at + len(_LINK) + len(name)))
                at = text.find(_LINK, at + len(_LINK))
        if last:
            found.extend(_build_citation(file, 0, 0) for file in self._owed.values())
            self._owed.clear()
        return tuple(found)

    def _list_latest(self) -> Mapping[str, ContainerFileRecord]:
        if len(self._known) <= _MOST:
            return self._known
        return dict(islice(reversed(self._known.items()), _MOST)) | self._owed


class _Spellings:
    """Every way a link may spell a path, in order: so one is found without a look at all the others."""

    def __init__(self, known: Mapping[str, ContainerFileRecord]) -> None:
        self.files = {
            quote(path, safe=safe): file
            for path, file in known.items()
            if not _PLAIN.fullmatch(path)
            for safe in ("/", "/()!*'~,;:@&=+$")
        }
        self.files.update(known)
        self._sorted = sorted(self.files)
        self._longest = max(map(len, self._sorted), default=0)

    def find(self, text: str, at: int) -> str | None:
        """The longest that stands in the text here: `a.csv.gz` is not a link to `a.csv`.

        It is the nearest before what stands here, in the order of spellings, or no longer than what both begin with.
        """
        here = text[at : at + self._longest]
        while here:
            place = bisect_right(self._sorted, here)
            if place == 0:
                return None
            nearest = self._sorted[place - 1]
            if here.startswith(nearest):
                return nearest
            here = commonprefix((here, nearest))  # noqa: RUF071 - character by character is what is meant
        return None


def _build_citation(file: ContainerFileRecord, start: int, end: int) -> ContainerFileCitation:
    return ContainerFileCitation(
        container_id=file.container_id,
        file_id=file.id,
        filename=file.path.rsplit("/", 1)[-1],
        start_index=start,
        end_index=end,
    )
