"""Branches of `belljar.vendors` that its own tests run, measured in any run that has them: `--vendor-coverage`."""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from collections.abc import Generator
from importlib.abc import SourceLoader
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import coverage
import pytest
from hypothesis import is_hypothesis_test

OPTION = "vendor_coverage"
TESTS = "tests/unit/vendors"


class Measured:
    """A plugin for a process that runs tests. Nothing is measured, nor slowed down, while others of them run."""

    def __init__(self, directory: Path) -> None:
        self._coverage = coverage.Coverage(data_file=directory / "coverage", data_suffix=True, config_file=_settings())
        with self:
            vendors = importlib.import_module("belljar.vendors")
            for module in pkgutil.walk_packages(vendors.__path__, "belljar.vendors."):
                _load(module.name)

    def __enter__(self) -> None:
        self._coverage.start()

    def __exit__(self, *error: object) -> None:
        self._coverage.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        if not collector.nodeid.startswith(TESTS):
            return (yield)
        with self:
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # Which branches a property finds is chance, and following thousands of examples takes long.
        if not item.nodeid.startswith(TESTS) or is_hypothesis_test(getattr(item, "obj", None)):
            return (yield)
        with self:
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._coverage.save()


class Judged:
    """A plugin for the process that hears of all tests: fails the run where a branch was not run."""

    def __init__(self) -> None:
        self._kept = TemporaryDirectory(prefix="belljar-coverage-")
        self.directory = Path(self._kept.name)
        self._told = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[OPTION] = str(self.directory)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        measured = coverage.Coverage(data_file=self.directory / "coverage", config_file=_settings())
        measured.combine([str(self.directory)])
        out = io.StringIO()
        total = measured.report(file=out)
        if total < float(str(measured.get_option("report:fail_under"))):
            self._told = out.getvalue()
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._kept.cleanup()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._told:
            terminalreporter.write_line(f"{TESTS} does not run every branch of belljar.vendors:", red=True)
            terminalreporter.write_line(self._told)


def _load(name: str) -> None:
    """Import it; or run what stands in it once more, where a conftest.py was first."""
    if (loaded := sys.modules.get(name)) is None:
        importlib.import_module(name)
    elif isinstance(loaded.__loader__, SourceLoader):
        code = loaded.__loader__.get_code(name)
        assert code is not None
        exec(code, {"__name__": name, "__file__": loaded.__file__, "__package__": loaded.__package__})


def _settings() -> str:
    return str(Path(__file__).parents[2] / "pyproject.toml")


def register(config: pytest.Config) -> None:
    """Here, and in the workers if there are any."""
    if not config.getoption(OPTION):
        return
    if isinstance(given := getattr(config, "workerinput", None), dict):
        config.pluginmanager.register(Measured(Path(given[OPTION])))
        return
    judged = Judged()
    config.pluginmanager.register(judged)
    if config.getoption("dist", default="no") == "no":
        config.pluginmanager.register(Measured(judged.directory))
