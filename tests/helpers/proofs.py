"""Proofs by name: a run of the whole suite fails where a test that a page names as a proof did not run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

_NAMED = re.compile(r"`([\w/]+\.py::\w+)`")
_ELSEWHERE = ("tests/live/", "tests/model/", "tests/soak/")
"""Run by themselves: with a key, with a model, for minutes."""


def named(page: str) -> list[str]:
    """The ids of the tests that a page names, each once."""
    return list(dict.fromkeys(_NAMED.findall(page)))


class Proofs:
    """A plugin for the process that hears of all tests: the only one, or the one that the workers report to."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._outcomes: dict[str, set[str]] = {}
        self._unproven: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome == "skipped":
            self._outcomes.setdefault(report.nodeid.partition("[")[0], set()).add(report.outcome)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if _is_whole(session, exitstatus):
            self._unproven = [id for id in self._wanted() if not self._outcomes.get(id)]
            if self._unproven:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for id in self._unproven:
            line = f"{self._page.name} names {id} as a proof, and it did not run: name another test, or bring it back"
            terminalreporter.write_line(line, red=True)

    def _wanted(self) -> Iterable[str]:
        return (id for id in named(self._page.read_text()) if not id.startswith(_ELSEWHERE))


def _is_whole(session: pytest.Session, exitstatus: int) -> bool:
    """Every test was asked for, and none was kept from running by the end of the run."""
    config = session.config
    narrowed = config.option.keyword or config.option.collectonly or config.getoption("lf", default=False)
    narrowed = narrowed or config.getoption("deselect") or config.getoption("markexpr") != _usual_marks(config)
    ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    stopped = session.shouldstop or session.shouldfail
    return config.args == config.getini("testpaths") and not narrowed and ended and not stopped


def _usual_marks(config: pytest.Config) -> str:
    """What `-m` is where nobody gives it."""
    options: list[str] = config.getini("addopts")
    return options[options.index("-m") + 1] if "-m" in options else ""


def register(config: pytest.Config, page: Path) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Proofs(page), "proofs")
