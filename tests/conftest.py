"""What every test shares: no settings or keys from outside, a directory of its own, no silent skips."""

import compileall
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings
from tests.helpers import proofs, vendor_coverage

# How long an example takes says how busy the machine is; a time limit on it fails where it should not.
settings.register_profile("default", deadline=None)
settings.load_profile(settings.get_current_profile_name())

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


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray file lands in the test's own directory, never in the checkout."""
    monkeypatch.chdir(tmp_path)


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


def skipped(config: pytest.Config) -> Counter[str]:
    """How many tests did not run, by the reason they gave."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = reporter.stats.get("skipped", []) if isinstance(reporter, pytest.TerminalReporter) else []
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
