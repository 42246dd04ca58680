"""Files that code made, and `sandbox:` links to them, as citations of a message."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from belljar.gateway.store.base import ContainerFileRecord
from belljar.wire.items import Annotation, ContainerFileCitation

_LINK = "sandbox:/mnt/data/"


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
            spelled = self._list_spellings()
            while at >= 0:
                name = next((name for name, _ in spelled if text.startswith(name, at + len(_LINK))), None)
                if name is not None and at not in told:
                    file = dict(spelled)[name]
                    self._owed.pop(file.path, None)
                    found.append(_build_citation(file, at, at + len(_LINK) + len(name)))
                at = text.find(_LINK, at + len(_LINK))
        if last:
            found.extend(_build_citation(file, 0, 0) for file in self._owed.values())
            self._owed.clear()
        return tuple(found)

    def _list_spellings(self) -> list[tuple[str, ContainerFileRecord]]:
        """Every way a link may spell a path, longest first: `a.csv.gz` is not a link to `a.csv`."""
        spelled = {
            quote(path, safe=safe): file for path, file in self._known.items() for safe in ("/", "/()!*'~,;:@&=+$")
        }
        spelled.update(self._known)
        return sorted(spelled.items(), key=lambda pair: -len(pair[0]))


def _build_citation(file: ContainerFileRecord, start: int, end: int) -> ContainerFileCitation:
    return ContainerFileCitation(
        container_id=file.container_id,
        file_id=file.id,
        filename=file.path.rsplit("/", 1)[-1],
        start_index=start,
        end_index=end,
    )
