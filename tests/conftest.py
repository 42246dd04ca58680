"""What every test shares: no settings or keys from outside, a directory of its own, no silent skips."""

from __future__ import annotations

import compileall
import contextlib
import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.helpers import proofs, vendor_coverage
from tests.helpers.programs import has_control_plane

# How long an example takes says how busy the machine is; a time limit on it fails where it should not.
settings.register_profile("default", deadline=None)
settings.load_profile(settings.get_current_profile_name())

if TYPE_CHECKING:
    from tests.helpers.postgres import Postgres

ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    told = f"fail unless {vendor_coverage.TESTS} runs every branch of belljar.vendors"
    parser.addoption("--vendor-coverage", action="store_true", help=told)


def pytest_configure(config: pytest.Config) -> None:
    compile_once(config)
    live = config.getoption("markexpr") == "live"
    for name in list(os.environ):
        if name.startswith("BELLJAR_") or (name.endswith("_API_KEY") and not live):
            del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell starts what runs in the background; the programs under test would not hear Ctrl-C either.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    proofs.register(config, ROOT / "docs/features.md")
    vendor_coverage.register(config)


def compile_once(config: pytest.Config) -> None:
    """Bytecode for all that tests start, and of the tests: else each of a thousand processes compiles it anew.

    Many images forbid Python to write any. Sandboxes see the source read-only and never could.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(ROOT / "src", quiet=2)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays to the end: looking for garbage in it again and again takes two fifths of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def empty_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same one again and again, until somebody leaves something in it."""

    def make() -> Iterator[Path]:
        while True:
            made = tmp_path_factory.mktemp("empty")
            while made.is_dir() and not os.listdir(made):
                yield made

    return make()


@pytest.fixture(autouse=True)
def own_directory(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stray file lands in a directory of the test's, never in the checkout: in `tmp_path`, where it asks for that.

    To make one for each of ten thousand tests that want none takes longer than most of them.
    """
    if "tmp_path" in request.fixturenames:
        where: Path = request.getfixturevalue("tmp_path")
    else:
        where = next(request.getfixturevalue("empty_directories"))
    with contextlib.chdir(where):
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server of this worker's, started when first asked for; each test makes a database of its own."""
    from tests.helpers.postgres import running

    with running() as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a test that did not run has failed: what it speaks of is unproven."""
    if os.environ.get("CI") and skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """One line for all that was skipped, with the reasons."""
    if reasons := skipped(config):
        told = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        judged = ", which is a failure in CI" if os.environ.get("CI") else ""
        terminalreporter.write_line(f"skipped {reasons.total()} tests{judged}: {told}", yellow=True)
    if claims_over_stand_in(config):
        terminalreporter.write_line("claims were tested over our own API server only; a real one: make kubernetes")


def claims_over_stand_in(config: pytest.Config) -> bool:
    """Tests of claims ran, and none over a real API server."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    passed = reporter.stats.get("passed", []) if isinstance(reporter, pytest.TerminalReporter) else []
    return not has_control_plane() and any(report.nodeid.startswith("tests/kubernetes/") for report in passed)


def skipped(config: pytest.Config) -> Counter[str]:
    """How many tests did not run, by the reason they gave."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if isinstance(reporter, pytest.TerminalReporter) else []
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
