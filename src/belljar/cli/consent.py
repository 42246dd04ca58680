"""Ask at the terminal which files may be saved: show the differences and the list, then read one answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from belljar.cli.terminal import forget_typed, lay_out, shorten, width
from belljar.errors import BelljarError, InvalidRequest
from belljar.files.approval import (
    QUESTION,
    Approval,
    Ask,
    Proposal,
    check,
    listing,
    read_answer,
    read_rename,
    rename_proposal,
)
from belljar.files.project import Project

_LINES = 40
"""Of a difference that are shown."""
_INDENT = "    "


def ask_at_terminal(project: Project, answers: TextIO, paper: TextIO) -> Ask:
    """Asks until there is an answer that can be followed. The end of the input means no."""

    def ask(proposals: Sequence[Proposal]) -> Approval:
        # What was typed before cannot be an answer: what asked for it was not us.
        forget_typed(answers)
        _show(proposals, paper)
        while True:
            line = _question(f"{QUESTION} ", answers, paper)
            if line is None:
                _say(iter(("", "nothing is saved")), paper)
                return Approval.no()
            if line.strip().lower() == "select":
                line = f"select {_question('Which numbers? ', answers, paper) or ''}"
            try:
                if rename := read_rename(line):
                    proposals = _rename_file(proposals, *rename, project)
                    _show(proposals, paper)
                else:
                    return _read(line, proposals, project)
            except (BelljarError, OSError) as error:
                _say(lay_out(str(error), width(paper)), paper)

    return ask


def _rename_file(proposals: Sequence[Proposal], number: int, name: str, project: Project) -> Sequence[Proposal]:
    """Under a name that it can have: for one that it cannot, the list stays as it was."""
    changed = rename_proposal(proposals, number, name, project)
    if why := changed[number - 1].refused:
        raise InvalidRequest(why)
    check(changed, Approval.yes(changed), project)
    return changed


def _read(line: str, proposals: Sequence[Proposal], project: Project) -> Approval:
    """An answer that can be followed. An empty line is none: a stray Enter is not to lose what code has made."""
    if not line.strip():
        raise InvalidRequest("answer yes to save all of it, or no to save nothing")
    answer = read_answer(line, proposals)
    check(proposals, answer, project)
    return answer


def _show(proposals: Sequence[Proposal], paper: TextIO) -> None:
    """The list comes last, right above the question, where no difference can push it out of sight."""
    columns = width(paper)
    for number, one in enumerate(proposals, 1):
        if one.diff:
            _say(_difference(number, one, columns), paper)
    _say(lay_out(listing(proposals), columns), paper)


def _difference(number: int, one: Proposal, columns: int) -> Iterator[str]:
    """Under our own heading, each line in one of the screen, behind a margin that none of them can leave."""
    assert one.diff is not None
    lines = one.diff.removesuffix("\n").split("\n")
    yield from lay_out(f"  {number}. {one.state}: {one.destination}", columns)
    for line in lines[:_LINES]:
        yield _INDENT + shorten(line, columns - len(_INDENT))
    if len(lines) > _LINES:
        yield from lay_out(f"{_INDENT}… and {len(lines) - _LINES} lines more of {one.destination}", columns)


def _question(text: str, answers: TextIO, paper: TextIO) -> str | None:
    paper.write(text)
    paper.flush()
    try:
        return answers.readline() or None
    except UnicodeDecodeError:  # what was typed is no text, so it is no answer either
        return "\ufffd\n"


def _say(lines: Iterator[str], paper: TextIO) -> None:
    for line in lines:
        paper.write(line + "\n")
