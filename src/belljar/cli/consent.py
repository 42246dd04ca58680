"""Asking a person at the terminal what may be saved: the list, the differences, one question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from belljar.cli.terminal import plain
from belljar.errors import InvalidRequest
from belljar.files.approval import (
    QUESTION,
    Approval,
    Ask,
    Proposal,
    listing,
    read_answer,
    read_rename,
    renamed,
)
from belljar.files.project import Project

_LINES = 40
"""Of a difference that are shown."""


def asking(project: Project, answers: TextIO, paper: TextIO) -> Ask:
    """Asks until there is an answer. The end of the input means no."""

    def ask(proposals: Sequence[Proposal]) -> Approval:
        _show(proposals, paper)
        while True:
            line = _question(f"{QUESTION} ", answers, paper)
            if line is None:
                return Approval.no()
            if line.strip().lower() == "select":
                line = f"select {_question('Which numbers? ', answers, paper) or ''}"
            try:
                if rename := read_rename(line):
                    proposals = renamed(proposals, *rename, project)
                    _show(proposals, paper)
                else:
                    return read_answer(line, proposals)
            except InvalidRequest as error:
                _say(str(error), paper)

    return ask


def _show(proposals: Sequence[Proposal], paper: TextIO) -> None:
    _say(plain(listing(proposals)), paper)
    for one in proposals:
        if one.diff:
            _say(plain(_short(one.diff)), paper)


def _question(text: str, answers: TextIO, paper: TextIO) -> str | None:
    paper.write(text)
    paper.flush()
    return answers.readline() or None


def _short(diff: str) -> str:
    lines = diff.splitlines()
    more = len(lines) - _LINES
    return "\n".join([*lines[:_LINES], *([f"… and {more} lines more"] if more > 0 else [])])


def _say(text: str, paper: TextIO) -> None:
    paper.write(text + "\n")
