"""`belljar serve` and `belljar keys` over PostgreSQL: gateways that share it, and a password that nobody sees."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from tests.cli.conftest import Command, Served
from tests.helpers.postgres import Postgres
from tests.helpers.postgres_proxy import in_a_thread

PASSWORD = "s3cr/et:p@ss?#%"


@pytest.fixture
def address(postgres: Postgres) -> str:
    """Of an empty database that wants a password, without it."""
    return asyncio.run(postgres.make_guarded(PASSWORD))


def with_password(address: str, password: str = PASSWORD) -> str:
    return address.replace("@", f":{quote(password, safe='')}@", 1)


def asking(code: str, **further: object) -> bytes:
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    return json.dumps({"model": "belljar", "input": code, "tools": tools, **further}).encode()


def said(answer: dict[str, object]) -> str:
    output = answer["output"]
    assert isinstance(output, list)
    text: str = output[-1]["content"][0]["text"]
    return text


def test_gateways_over_one_database_are_one(belljar: Command, address: str) -> None:
    belljar.environment["BELLJAR_DATABASE"] = with_password(address)
    made = json.loads(belljar("keys", "add", "ann", "--json").stdout)
    with belljar.serve() as one, belljar.serve() as other:
        assert (one.told["keys"], other.told["keys"]) == (1, 1)
        headers = {"Authorization": f"Bearer {made['key']}"}
        previous = None
        for number in range(4):
            asked = asking("```python\nx = globals().get('x', 0) + 1; print(x)\n```", previous_response_id=previous)
            gateway = (one, other)[number % 2]
            status, answer = gateway.ask("/v1/responses", asked, **headers)
            assert status == 200, answer
            assert said(answer) == f"The code ran:\n\n```\n{number + 1}\n```", "variables live on, wherever it is asked"
            previous = answer["id"]
        assert other.ask(f"/v1/responses/{previous}", None, **headers)[0] == 200
        belljar("keys", "revoke", made["id"])
        ends = [gateway.end(signal.SIGTERM) for gateway in (one, other)]
    assert [code for code, _, _ in ends] == [0, 0]


def test_the_password_is_seen_nowhere(belljar: Command, address: str, tmp_path: Path) -> None:
    file = tmp_path / "address"
    file.write_text(with_password(address) + "\n")
    belljar.environment["BELLJAR_DATABASE_FILE"] = str(file)
    belljar.environment["BELLJAR_LOG_LEVEL"] = "debug"
    with belljar.serve() as served:
        assert served.ask("/v1/responses", asking("hello"))[0] == 200
        assert served.told["database"] == address.partition("host=")[2].partition("&")[0] + _database(address)
        told = [json.dumps(served.told), _seen_by_others(served), *served.end(signal.SIGTERM)[1:]]
    wrong = with_password(address, "another")
    for variables in ({"BELLJAR_DATABASE": wrong}, {"BELLJAR_DATABASE": wrong.replace("postgresql", "mysql")}):
        belljar.environment.pop("BELLJAR_DATABASE_FILE", None)
        belljar.environment |= variables
        for command in (["serve"], ["keys", "list"], ["config"]):
            ran = belljar(*command)
            told += [ran.stdout, ran.stderr]
            if command != ["config"]:
                assert ran.returncode == 3
                assert ran.stderr.startswith("belljar: error: database: ")
    for text in told:
        for secret in (PASSWORD, quote(PASSWORD, safe=""), "another"):
            assert secret not in text
    assert any("password authentication failed" in text for text in told)


def _database(address: str) -> str:
    return "/" + address.partition("?")[0].rpartition("/")[2]


def _seen_by_others(served: Served) -> str:
    """The process's arguments, which everybody on the machine can read."""
    return Path(f"/proc/{served.process.pid}/cmdline").read_text()


def test_a_password_on_the_command_line_is_refused(belljar: Command, address: str) -> None:
    for command in (["serve"], ["keys", "list"]):
        ran = belljar(*command, "--database", with_password(address))
        assert ran.returncode == 2
        assert "has a password in it" in ran.stderr
        assert "BELLJAR_DATABASE" in ran.stderr
        assert PASSWORD not in ran.stderr
        assert quote(PASSWORD, safe="") not in ran.stderr
    belljar.environment["PGPASSWORD"] = PASSWORD
    ran = belljar("keys", "list", "--database", address)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--project", "."], "project: it does not go with a database"),
        (["--workers", "2"], "database: it does not go with --workers"),
    ],
)
def test_what_does_not_go_with_a_database(belljar: Command, address: str, options: list[str], message: str) -> None:
    belljar.environment["BELLJAR_DATABASE"] = with_password(address)
    ran = belljar("serve", *options)
    assert ran.returncode == 3
    assert message in ran.stderr


def test_a_database_that_is_not_there(belljar: Command, postgres: Postgres) -> None:
    belljar.environment["BELLJAR_DATABASE"] = postgres.address("nothing")
    ran = belljar("keys", "list")
    assert ran.returncode == 3
    assert 'database "nothing" does not exist' in ran.stderr
    assert "createdb" in ran.stderr


def test_nobody_answers(belljar: Command, tmp_path: Path) -> None:
    belljar.environment["BELLJAR_DATABASE"] = f"postgresql://belljar@/belljar?host={tmp_path}"
    ran = belljar("keys", "list")
    assert ran.returncode == 3
    assert f"the database at {tmp_path}/belljar does not answer" in ran.stderr


def test_a_database_that_goes_and_comes_back(belljar: Command, postgres: Postgres) -> None:
    database = asyncio.run(postgres.make_database())
    with in_a_thread(postgres.place) as proxy:
        belljar.environment["BELLJAR_DATABASE"] = proxy.address(database)
        with belljar.serve() as served:
            kept = served.ask("/v1/responses", asking("hello"))[1]
            asked = asking("```python\nimport time; time.sleep(0.5); print('done')\n```", stream=True)
            with served.stream("/v1/responses", asked) as lines:
                assert any("code_interpreter_call.interpreting" in line for line in lines)
                proxy.cut()
                assert any('"response.completed"' in line for line in lines), "a cell that runs ends"
            proxy.away = True
            proxy.cut()
            for path, body in (("/v1/responses", asking("hello")), (f"/v1/responses/{kept['id']}", None)):
                with pytest.raises(HTTPError) as refused:
                    urlopen(Request(served.url + path, body, {"Content-Type": "application/json"}), timeout=60)
                with refused.value as answer:
                    assert answer.status == 503
                    assert int(answer.headers["Retry-After"]) > 0
                    assert "does not answer" in json.load(answer)["error"]["message"]
            _wait(lambda: served.ask("/readyz")[0] == 503)
            assert served.ask("/healthz")[0] == 200
            proxy.away = False
            _wait(lambda: served.ask("/readyz")[0] == 200)
            assert served.ask(f"/v1/responses/{kept['id']}")[1]["id"] == kept["id"]
            assert served.ask("/v1/responses", asking("hello"))[0] == 200
            assert served.end(signal.SIGTERM)[0] == 0


def _wait(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_file_that_holds_no_address(belljar: Command, tmp_path: Path) -> None:
    belljar.environment["BELLJAR_DATABASE_FILE"] = str(tmp_path / "address")
    assert "database_file: " in belljar("keys", "list").stderr
    (tmp_path / "address").write_text("secret-thing")
    ran = belljar("keys", "list")
    assert ran.returncode == 3
    assert "database: the value is not an address such as postgresql://" in ran.stderr
    assert "secret-thing" not in ran.stderr
    belljar.environment["BELLJAR_DATABASE"] = "postgresql://belljar@db/belljar"
    assert "database and database_file are both set" in belljar("keys", "list").stderr


def test_without_the_extra_the_remedy_is_told(belljar: Command, tmp_path: Path) -> None:
    (tmp_path / "asyncpg.py").write_text("raise ModuleNotFoundError('no', name='asyncpg')")
    belljar.environment["PYTHONPATH"] = f"{tmp_path}:{belljar.environment.get('PYTHONPATH', '')}"
    belljar.environment["BELLJAR_DATABASE"] = "postgresql://belljar@db/belljar"
    ran = belljar("keys", "list")
    assert ran.returncode == 3
    assert "pip install 'belljar[postgres]'" in ran.stderr
