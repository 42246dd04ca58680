"""Approval before saving: what would be written where, and the answer: yes, no, some of it, or under another name."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

from belljar import autorun
from belljar.errors import InvalidRequest, WorkspaceSecurityError
from belljar.files.limits import format_size
from belljar.files.project import Project, State
from belljar.files.results import CodeExecutionOutputFile, FileDownloadResult, as_json
from belljar.output_names import free_name
from belljar.visible import visible

_DIFFED = 256 << 10
"""Larger files are not compared line by line."""
_RENAME = re.compile(r"\s*rename\s+(\d+)(?:\s*=\s*|\s+)(\S.*?)\s*", re.IGNORECASE)

QUESTION = "Save to project? [yes/no/select]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One file that could be saved."""

    name: str
    size: int
    mime_type: str | None
    destination: str
    """Below the project's root."""
    state: State | None
    """Whether it is new there or overwrites; None where it may not be saved under this name."""
    refused: str | None = None
    """Why not."""
    warning: str | None = None
    """What tools may do with a file of this name, unasked."""
    diff: str | None = None
    """What would change, for text that overwrites text; controls in it are written out."""
    file: CodeExecutionOutputFile = field(repr=False, compare=False, metadata={"hidden": True})
    content: bytes | None = field(default=None, repr=False, compare=False, metadata={"hidden": True})
    """What the diff was made of, and is saved then: not what the vendor may say later."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Which to save, by their number from 1, and where."""

    chosen: Mapping[int, str]

    @classmethod
    def yes(cls, proposals: Sequence[Proposal]) -> Self:
        """All that may be saved."""
        return cls({n: one.destination for n, one in enumerate(proposals, 1) if one.state is not None})

    @classmethod
    def unasked(cls, proposals: Sequence[Proposal], project: Project) -> Self:
        """All that may be saved and takes nothing's place; what is there with the same content may be written again."""
        chosen = cls.yes(proposals).chosen
        return cls({n: to for n, to in chosen.items() if _takes_no_place(proposals[n - 1], project)})

    @classmethod
    def no(cls) -> Self:
        return cls({})

    @classmethod
    def select(cls, proposals: Sequence[Proposal], numbers: Iterable[int]) -> Self:
        return cls({n: _find_proposal(proposals, n).destination for n in numbers})

    def rename(self, number: int, destination: str) -> Approval:
        """The same, and this one under another name."""
        return Approval({**self.chosen, number: destination})


Ask: TypeAlias = Callable[[Sequence[Proposal]], Approval]
"""Whoever decides: a prompt, a page, a program."""


@dataclass(frozen=True, slots=True)
class Saved:
    name: str
    path: Path
    overwrote: bool


def propose(files: Iterable[CodeExecutionOutputFile], project: Project) -> list[Proposal]:
    """What could be saved. Two files of one name get two."""
    proposals: list[Proposal] = []
    taken: set[str] = set()
    for file in files:
        destination = free_name(file.filename, taken)
        taken.add(destination)
        proposals.append(_proposal(file, destination, project))
    return proposals


def rename_proposal(proposals: Sequence[Proposal], number: int, destination: str, project: Project) -> list[Proposal]:
    """The same, and this one for another place: what would happen there. `InvalidRequest` where another one goes."""
    other = next((n for n, one in enumerate(proposals, 1) if one.destination == destination and n != number), None)
    if other is not None:
        raise InvalidRequest(f"{destination!r} is chosen for file {other}; choose a name for each")
    changed = _proposal(_find_proposal(proposals, number).file, destination, project)
    return [changed if n == number else one for n, one in enumerate(proposals, 1)]


def save(proposals: Sequence[Proposal], approval: Approval, project: Project) -> list[Saved]:
    """Write what was approved and nothing else. All places are looked at before the first is written."""
    check(proposals, approval, project)
    return [save_one(_find_proposal(proposals, n), place, project) for n, place in sorted(approval.chosen.items())]


def check(proposals: Sequence[Proposal], approval: Approval, project: Project) -> None:
    """Raise where an approval cannot be followed: no such file, a place outside the project, one place for two."""
    places = list(approval.chosen.values())
    twice = {place for place in places if places.count(place) > 1}
    if twice:
        raise InvalidRequest(f"{min(twice)!r} is chosen for more than one file; choose a name for each")
    for number, place in approval.chosen.items():
        _find_proposal(proposals, number)
        project.state(place)
        if any(other.startswith(f"{place}/") for other in places):
            raise InvalidRequest(f"{place!r} would be a file and a directory at once; choose another name")


def save_one(proposal: Proposal, destination: str, project: Project) -> Saved:
    """Write this one there; whoever calls it has asked."""
    overwrites = project.state(destination) == "overwrites"
    if proposal.content is not None:
        path = project.write(destination, [proposal.content])
    else:
        with proposal.file.download() as fetched:
            path = project.write(destination, fetched.chunks())
    return Saved(proposal.name, path, overwrote=overwrites)


def save_output_files(files: Iterable[CodeExecutionOutputFile], root: str | Path, ask: Ask) -> list[Saved]:
    """Propose, ask, save what was approved."""
    project = Project(root)
    proposals = propose(files, project)
    return save(proposals, ask(proposals), project) if proposals else []


# -- for people -------------------------------------------------------------------------------------------------------


def listing(proposals: Sequence[Proposal]) -> str:
    """The list above the question, a line each, and one more for a warning. Controls in names are written out."""
    lines = ["Code execution generated output files:"]
    for n, one in enumerate(proposals, 1):
        told = one.refused or f"{one.state}: {one.destination}"
        lines.append(
            visible(f"  {n}. {one.name} ({format_size(one.size)}, {one.mime_type or 'unknown type'}) - {told}")
        )
        if one.warning:
            lines.append(f"     warning: {one.warning}; read it first")
    return "\n".join(lines)


def read_rename(text: str) -> tuple[int, str] | None:
    """`rename 1 other.csv`: the number and the new name; None for any other answer."""
    found = _RENAME.fullmatch(text)
    return (int(found[1]), found[2]) if found else None


def read_answer(text: str, proposals: Sequence[Proposal]) -> Approval:
    """`yes`, `no`, `select 1 3` (or only the numbers), or `rename 1 other.csv`, which saves all and this one so.

    `InvalidRequest` for anything else.
    """
    if rename := read_rename(text):
        _find_proposal(proposals, rename[0])
        return Approval.yes(proposals).rename(*rename)
    word, _, rest = text.strip().partition(" ")
    match word.lower():
        case "yes" | "y" | "all" if not rest.strip():
            return Approval.yes(proposals)
        case "no" | "n" | "none" | "" if not rest.strip():
            return Approval.no()
        case "select":
            if numbers := _numbers(rest):
                return Approval.select(proposals, numbers)
        case _:
            if numbers := _numbers(text):
                return Approval.select(proposals, numbers)
    raise InvalidRequest("answer yes, no, select with numbers such as 1 3, or rename with a number and a new name")


# -- for a page -------------------------------------------------------------------------------------------------------


def proposals_as_json(proposals: Sequence[Proposal]) -> list[dict[str, Any]]:
    """What a page shows; `number` is what it answers with. Controls in names are written out."""
    return [
        {"number": n, **as_json(one), "name": visible(one.name), "destination": visible(one.destination)}
        for n, one in enumerate(proposals, 1)
    ]


def approval_from_json(data: object, proposals: Sequence[Proposal]) -> Approval:
    """A page's answer: `{"save": [{"number": 1, "destination": "a.csv"}]}`; without a destination the proposed one."""
    chosen: dict[int, str] = {}
    wanted = data.get("save") if isinstance(data, dict) else None
    if not isinstance(wanted, list):
        raise InvalidRequest('save: there has to be a list, such as {"save": [{"number": 1}]}', param="save")
    for at, one in enumerate(wanted):
        number = one.get("number") if isinstance(one, dict) else None
        if type(number) is not int:
            raise InvalidRequest(f"save[{at}].number: {number!r} is not a number", param=f"save[{at}].number")
        place = one.get("destination", _find_proposal(proposals, number).destination)
        if not isinstance(place, str):
            raise InvalidRequest(f"save[{at}].destination: {place!r} is not a text", param=f"save[{at}].destination")
        chosen[number] = place
    return Approval(chosen)


# -- the inside -------------------------------------------------------------------------------------------------------


def _proposal(file: CodeExecutionOutputFile, destination: str, project: Project) -> Proposal:
    state: State | None = None
    refused = diff = content = None
    try:
        state = project.state(destination)
    except WorkspaceSecurityError as error:
        refused = str(error)
    if state == "overwrites":
        diff, content = _compare_file(file, project, destination)
    return Proposal(
        name=file.filename,
        size=file.size,
        mime_type=file.mime_type,
        destination=destination,
        state=state,
        refused=refused,
        warning=None if state is None else autorun.warning(destination),
        diff=diff,
        file=file,
        content=content,
    )


def _compare_file(file: CodeExecutionOutputFile, project: Project, destination: str) -> tuple[str | None, bytes | None]:
    """The diff, and the new content; nothing where either side is large or no text."""
    old = project.read(destination, _DIFFED)
    if old is None or file.size > _DIFFED:
        return None, None
    with file.download() as fetched:
        new = _small(fetched)
    if new is None:
        return None, None
    before, after = _text(old), _text(new)
    if before is None or after is None:
        return None, new
    lines = difflib.unified_diff(before, after, f"a/{destination}", f"b/{destination}")
    return "".join(map(_diff_line, lines)), new


def _diff_line(line: str) -> str:
    ending = "\n" if line.endswith("\n") else "\n\\ No newline at end of file\n"
    return visible(line.removesuffix("\n")) + ending


def _takes_no_place(proposal: Proposal, project: Project) -> bool:
    if proposal.state == "new":
        return True
    with project.open_file(proposal.destination) as there:
        if os.fstat(there.fileno()).st_size != proposal.size:
            return False
        # Not closed here: an archive of ours is fetched once, and is to be saved after this.
        pieces = [proposal.content] if proposal.content is not None else proposal.file.download().chunks()
        return all(piece == there.read(len(piece)) for piece in pieces)


def _small(fetched: FileDownloadResult) -> bytes | None:
    return fetched.content if fetched.size <= _DIFFED else None


def _text(data: bytes) -> list[str] | None:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # Only at \n: at what else splitlines() takes for an end, a line would go on without its mark.
    return None if "\0" in text else re.findall("[^\n]*\n|[^\n]+", text)


def _find_proposal(proposals: Sequence[Proposal], number: int) -> Proposal:
    if not 1 <= number <= len(proposals):
        raise InvalidRequest(f"there is no file {number}; there are {len(proposals)}")
    return proposals[number - 1]


def _numbers(text: str) -> list[int]:
    words = text.replace(",", " ").split()
    return [int(word) for word in words] if all(word.isdecimal() for word in words) else []
