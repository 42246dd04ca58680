"""Where code cannot be confined, what would serve sandboxes does not start, and says what to do."""

import pytest
from tests.cli.conftest import ELSEWHERE, Command

START = "from belljar.cli import main\nsys.exit(main())\n"
NO_NAMESPACES = """
import sys
from belljar.sandbox.local import probe
from belljar.sandbox.local.diagnosis import Facts
probe.gather = lambda: Facts(tries={"user namespace": "Operation not permitted"}, container="docker")
"""
CHANGED = """
import sys
from belljar.errors import CannotConfine
from belljar.sandbox.local.source import LocalSource

def prepare(self, spec):
    raise CannotConfine("this host cannot confine code (it changed its mind)")

LocalSource.prepare = prepare
"""

pytestmark = pytest.mark.parametrize("command", ["serve", "sandbox"])


def test_a_host_without_namespaces(belljar: Command, command: str) -> None:
    ran = belljar.python(NO_NAMESPACES + START, command, "--port", "0")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("belljar: error: this host cannot confine code (namespaces: user namespace: ")
    assert "docker run --security-opt seccomp=unconfined" in ran.stderr


def test_a_jail_that_does_not_start_after_all(belljar: Command, command: str) -> None:
    belljar.environment["BELLJAR_DISCOVER"] = "false"
    ran = belljar.python(CHANGED + START, command, "--port", "0")
    assert ran.returncode == 3
    assert ran.stderr.endswith("belljar: error: this host cannot confine code (it changed its mind)\n")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(("platform", "remedy"), [("darwin", "limactl start"), ("win32", "wsl --install")])
def test_elsewhere(belljar: Command, command: str, platform: str, remedy: str) -> None:
    ran = belljar.python(ELSEWHERE.format(platform=platform) + START, command, "--port", "0")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith("belljar: error: this host cannot confine code (")
    assert remedy in ran.stderr
