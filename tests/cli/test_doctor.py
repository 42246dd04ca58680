"""`belljar doctor`: the report, the proof, and the attacks as they are told."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import as_user
from tests.cli.conftest import ELSEWHERE, Command

from belljar.sandbox import owned_directories

STUB = """
import sys, types
from collections import namedtuple
module = types.ModuleType("belljar.sandbox.local.attacks")
Attack, Verdict = namedtuple("Attack", "name goal code"), namedtuple("Verdict", "attack held detail")

def run_attacks(source):
    yield Verdict(Attack("passwords", "read /etc/shadow", ""), True, "no such file")
    yield Verdict(Attack("network", "reach a host", ""), {held}, "it answered")

module.run_attacks = run_attacks
sys.modules[module.__name__] = module
from belljar.cli import main
sys.exit(main())
"""


def test_the_report(belljar: Command) -> None:
    ran = belljar("doctor")
    assert (ran.returncode, ran.stderr) == (0, "")
    for part in ("ok       platform", "fresh /proc", "limits are kept by", "tmpfs of fixed size", "1 + 1 = 2 in "):
        assert part in ran.stdout
    assert "The data stack loads and draws: " in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("The wall is the Linux kernel")


def test_the_report_as_data(belljar: Command) -> None:
    ran = belljar("doctor", "--json")
    told = json.loads(ran.stdout)
    assert ran.returncode == 0
    assert told.keys() == {"level", "checks", "rungs", "proof", "boundary"}
    assert (told["level"], told["proof"]["ok"]) == ("full", True)
    assert told["checks"][0].keys() == {"name", "ok", "detail", "remedy", "needed"}
    assert told["rungs"][0].keys() == {"limit", "keeper", "hard"}
    assert told["proof"].keys() == {"ok", "start_ms", "cell_ms", "end_ms", "data_ms", "packages"}


@pytest.mark.parametrize(("platform", "remedy"), [("darwin", "limactl start"), ("win32", "wsl --install")])
def test_elsewhere(belljar: Command, platform: str, remedy: str) -> None:
    start = ELSEWHERE.format(platform=platform) + "from belljar.cli import main\nsys.exit(main())"
    ran = belljar.python(start, "doctor")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert remedy in ran.stdout
    assert "There is no weaker mode" in ran.stdout
    ran = belljar.python(start, "doctor", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["level"]) == (1, "refused")
    ran = belljar.python(start, "doctor", "--attack")
    assert ran.returncode == 3
    assert remedy in ran.stderr


def test_a_host_that_lacks_something(belljar: Command) -> None:
    code = """
import sys
from belljar.sandbox.local import probe
from belljar.sandbox.local.diagnosis import Facts
probe.gather = lambda: Facts(tries={"user namespace": "Operation not permitted"}, container="docker")
from belljar.cli import main
sys.exit(main())
"""
    ran = belljar.python(code, "doctor")
    assert ran.returncode == 1
    assert "MISSING  namespaces" in ran.stdout
    assert "docker run --security-opt seccomp=unconfined" in ran.stdout
    assert "Refused: this host cannot confine code. Missing: namespaces. " in ran.stdout


@pytest.mark.parametrize("packages", ["none", "data"])
def test_a_sandbox_that_cannot_be_started(belljar: Command, packages: str) -> None:
    """Nothing of the host is missing, and still no user gets a cell run."""
    code = f"""
import sys
from belljar.errors import Refused
from belljar.sandbox.local.jail import Jail
add = Jail.add

def broken(self, environment):
    if environment.name == {packages!r}:
        raise Refused("environment could not be loaded: it is a directory")
    return add(self, environment)

Jail.add = broken
from belljar.cli import main
sys.exit(main())
"""
    ran = belljar.python(code, "doctor")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert (
        "The jail does not run here, though nothing seems to be missing: environment could not be loaded" in ran.stdout
    )
    ran = belljar.python(code, "doctor", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["level"]) == (1, "refused")


def test_nowhere_to_keep_things(belljar: Command) -> None:
    belljar.environment["BELLJAR_CACHE_DIR"] = "/dev/null/cache"
    ran = belljar("doctor")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "absent   cache" in ran.stdout
    assert "the package store /dev/null/cache/packages cannot be used: " in ran.stdout
    assert "BELLJAR_CACHE_DIR" in ran.stdout
    assert "1 + 1 = 2 in " in ran.stdout
    assert "The data stack loads and draws: " in ran.stdout, "with a list of fonts of its own"


def test_no_home(belljar: Command) -> None:
    del belljar.environment["BELLJAR_CACHE_DIR"]
    code = "import os, sys\nos.environ.pop('HOME')\nos.path.expanduser = lambda path: path\n"
    ran = belljar.python(code + "from belljar.cli import main\nsys.exit(main())", "doctor")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "this user has no home directory; set BELLJAR_CACHE_DIR to a directory of yours" in ran.stdout


def test_attacks_that_are_held_off(belljar: Command) -> None:
    ran = belljar.python(STUB.format(held=True), "doctor", "--attack")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "held    passwords: read /etc/shadow; no such file\n" in ran.stdout
    assert "2 attacks: 2 held off, 0 got through." in ran.stdout


@pytest.fixture
def place() -> Iterator[Path]:
    """For temporary files, by a name that leaves room for that of a socket."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def test_what_killed_attacks_left_is_swept_by_the_next(belljar: Command, place: Path) -> None:
    belljar.environment["TMPDIR"] = str(place)
    mine = place / "belljar-tripwire-mine"
    mine.mkdir()
    (place / "belljar-tripwire-0123456789abcdef").symlink_to(mine)

    def attack() -> set[str]:
        """Killed after its first try; what there is when it is."""
        with belljar.start("doctor", "--attack", "--json") as process:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["held"]
            there = {path.name for path in place.iterdir()}
            process.kill()
        assert {path.name for path in place.iterdir()} == there
        return there - {mine.name, "belljar-tripwire-0123456789abcdef"}

    [first] = attack()
    [second] = attack()
    assert first != second
    alive = place / f"belljar-tripwire-{'0' * 16}"
    alive.mkdir()
    _, hold = owned_directories.claim(lambda: alive)
    [third] = attack() - {alive.name}
    assert third not in (first, second)
    os.close(hold)
    [fourth] = attack()
    assert fourth != third


@contextlib.contextmanager
def login(*args: str) -> Iterator[subprocess.Popen[str]]:
    """The command as somebody runs it who has logged in: an ordinary user with the groups of one."""
    with tempfile.TemporaryDirectory() as home:
        if os.geteuid() == 0:
            os.chown(home, as_user.ORDINARY, as_user.ORDINARY)
        variables = {"HOME": home, "TMPDIR": home, "XDG_CACHE_HOME": f"{home}/.cache"}
        with as_user.start("ordinary", "belljar.cli", "doctor", *args, variables=variables) as process:
            yield process


def test_a_login_is_told_of_its_groups() -> None:
    with login("--json") as process:
        told = json.loads(process.communicate()[0])
    assert (process.returncode, told["level"]) == (0, "full")
    [user] = [check for check in told["checks"] if check["name"] == "user"]
    assert user["detail"].startswith("sandboxes run as you, in user namespaces")
    if os.geteuid() == 0:
        listed = user["detail"].partition("your groups (")[2].partition(")")[0].split(", ")
        assert len(listed) == len(as_user.GROUPS) - 1


@pytest.mark.timeout(900)
def test_attacks_of_a_login_are_held_off() -> None:
    """All of them, to the end: groups that cannot be given up are no way out."""
    with login("--attack", "--json") as process:
        *tries, summary = [json.loads(line) for line in process.communicate()[0].splitlines()]
    assert [told for told in tries if not told["held"]] == []
    assert (process.returncode, summary) == (0, {"held": len(tries), "broken": 0})


def test_an_attack_that_gets_through(belljar: Command) -> None:
    ran = belljar.python(STUB.format(held=False), "doctor", "--attack")
    assert ran.returncode == 1
    assert "BROKEN  network: reach a host; it answered\n" in ran.stdout
    ran = belljar.python(STUB.format(held=False), "doctor", "--attack", "--json")
    *tries, summary = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.returncode, summary) == (1, {"held": 1, "broken": 1})
    assert tries[1] == {"attack": "network", "goal": "reach a host", "held": False, "detail": "it answered"}
