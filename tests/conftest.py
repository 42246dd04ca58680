"""What every test shares: no settings or keys from outside, a directory of its own, no silent skips in CI."""

import os
import signal
from pathlib import Path

import pytest

NEVER_SKIPPED = ("tests/contract/", "tests/escape/", "tests/unit/")


def pytest_configure(config: pytest.Config) -> None:
    live = config.getoption("markexpr") == "live"
    for name in list(os.environ):
        if name.startswith("BELLJAR_") or (name.endswith("_API_KEY") and not live):
            del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As a shell starts what runs in the background; the programs under test would not hear Ctrl-C either.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray file lands in the test's own directory, never in the checkout."""
    monkeypatch.chdir(tmp_path)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a jail test that did not run has failed: the walls it speaks of are unproven."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not os.environ.get("CI"):
        return
    skipped = [r.nodeid for r in reporter.stats.get("skipped", []) if r.nodeid.startswith(NEVER_SKIPPED)]
    if skipped:
        reporter.write_line(f"\nskipped, which is a failure in CI: {', '.join(skipped)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
