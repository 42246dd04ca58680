"""A gateway and a sandbox server, two processes: code runs over there as it does here, and either may die."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, cast

import pytest
from openai import OpenAI
from tests import traces
from tests.gateway.houses import House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import ask
from tests.gateway.test_sandboxed import end, python, told
from tests.helpers import execute_server, forked
from tests.helpers.forked import Forked
from tests.helpers.processes import OwnProcess
from tests.unit.test_packages import wheel

from belljar.gateway.interpreter.prompts import RESTARTED

TOKEN = "a-token-for-both"
SECONDS = 12
"""Of one cell: a machine that is busy takes some for the data stack."""
LIVE = "belljar:code_interpreter_call.output.delta"
WAIT = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n"


class Server(OwnProcess):
    """`belljar sandbox` as a process of its own; leaving it stops it. May be entered again."""

    def __init__(self, home: Path, *flags: str, environment: dict[str, str] | None = None) -> None:
        self._home = home
        self._flags = flags or ("--socket", str(home / "sandbox.sock"))
        self._environment = environment or {}
        self.url = "" if flags else f"unix://{home}/sandbox.sock"

    def __enter__(self) -> Self:
        self._home.mkdir(parents=True, exist_ok=True)
        command = ["sandbox", "--json", "--warm", "0", *self._flags]
        variables = {**os.environ, "BELLJAR_CACHE_DIR": str(self._home / "cache"), **self._environment}
        with (self._home / "server.log").open("ab") as log:
            self.process = Forked(*command, env=variables, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        self.told = json.loads(self.process.stdout.readline())
        self.url = self.told["url"]
        return self

    @property
    def health(self) -> dict[str, Any]:
        """What it says of itself, to whoever asks."""
        asked = _Unix(self.url.removeprefix("unix://")) if self.url.startswith("unix://") else None
        connection = asked or http.client.HTTPConnection(self.url.removeprefix("http://"))
        try:
            connection.request("GET", "/health")
            return cast(dict[str, Any], json.load(connection.getresponse()))
        finally:
            connection.close()


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("sandbox")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def until(holds: Callable[[], bool]) -> None:
    """Poll as a user would; pytest's own time limit ends a wait that is in vain."""
    while not holds():
        time.sleep(0.02)


def ready(house: House) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"{house.url}/readyz") as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as answer:
        return answer.code, json.load(answer)


def opened(house: House) -> OpenAI:
    return OpenAI(base_url=house.base_url, api_key="none", max_retries=0, timeout=60)


def behind(scene: Scene) -> tuple[str, str]:
    return "--upstream", f"loop={scene.server.base_url}"


# -- as at home -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """At an address, with a token and a directory of wheels."""
    home = tmp_path_factory.mktemp("server")
    (links := home / "links").mkdir()
    wheel(links, "tiny", files={"tiny.py": "word = 'tiny'\n"})
    variables = {"BELLJAR_SANDBOX_TOKEN": TOKEN, "BELLJAR_FIND_LINKS": str(links), "BELLJAR_OFFLINE": "true"}
    with Server(home, "--port", "0", environment=variables) as server:
        until(lambda: server.health["status"] == "healthy")
        yield server


@pytest.fixture(scope="module")
def far(server: Server, _scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    state = tmp_path_factory.mktemp("far") / "state"
    flags = ("--sandbox-url", server.url, "--timeout", str(SECONDS), *behind(_scene))
    with House(state, *flags, environment={"BELLJAR_SANDBOX_TOKEN": TOKEN}) as house:
        yield house


@pytest.fixture
def client(far: House) -> Iterator[OpenAI]:
    with opened(far) as client:
        yield client


def test_code_runs_there_and_what_it_makes_comes_back_exactly(
    server: Server, far: House, client: OpenAI, scene: Scene
) -> None:
    assert far.told["isolation"] == f"sandbox server at {server.url}: {server.told['isolation']}"
    assert ready(far) == (200, {"status": "ready"})
    code = (
        "import matplotlib.pyplot as plt, pandas as pd\nplt.plot([1, 4, 9])\n"
        "_ = open('every byte.bin', 'wb').write(bytes(range(256)) * 4096)\nprint(pd.Series([1, 2]).sum())\n6 * 7"
    )
    scene.play([python(code)], "done")
    response = ask(client)
    assert cell(response).status == "completed"
    assert logs(response) == "3\n42"
    assert "pandas" in scene.asked[0].json["tools"][0]["function"]["description"]
    files = {one.path: one for one in client.containers.files.list(cell(response).container_id)}
    made = files.pop("/mnt/data/every byte.bin")
    content = client.containers.files.content.retrieve(made.id, container_id=made.container_id)
    assert content.read() == bytes(range(256)) * 4096
    [figure] = files.values()
    shown = client.containers.files.content.retrieve(figure.id, container_id=figure.container_id).read()
    [image] = [one.url for one in cell(response).outputs or [] if one.type == "image"]
    assert base64.b64decode(image.removeprefix("data:image/png;base64,")) == shown
    assert shown.startswith(b"\x89PNG")
    assert server.health["current_load"] >= 1
    assert traces.descendants(far.process.pid) == []  # no jail of its own


def test_output_comes_while_the_code_runs(client: OpenAI, scene: Scene) -> None:
    container = client.containers.create(name="live")
    scene.play([python(f"{WAIT}print('off')")], "ok")
    tools = [{"type": "code_interpreter", "container": container.id}]
    with cast(Any, ask(client, tools=tools, stream=True)) as stream:
        first = next(event for event in stream if event.type == LIVE)
        assert first.delta == "on\n"
        client.containers.files.create(container.id, file=("go", b""))
        assert "".join(event.delta for event in stream if event.type == LIVE) == "off\n"


def test_variables_stay_from_response_to_response(client: OpenAI, scene: Scene) -> None:
    scene.play([python("kept = 7")], "ok", [python("kept * 6")], "42")
    first = ask(client)
    again = ask(client, previous_response_id=first.id)
    assert logs(again) == "42"
    assert not end(again).get("healed")


def test_packages_come_from_where_the_server_gets_them(client: OpenAI, scene: Scene) -> None:
    scene.play([python("import tiny; tiny.word", "tiny")], [python("1", "no-such-package")], "ok")
    response = ask(client)
    assert logs(response) == "'tiny'"
    assert cell(response, 1).status == "failed"
    assert told(scene).startswith("The code was not run.")
    assert "no-such-package" in told(scene)


def test_a_cell_that_takes_too_long_is_stopped_and_the_loop_goes_on(client: OpenAI, scene: Scene) -> None:
    lasting = "kept = 1\nprint('so far', flush=True)\nimport time; time.sleep(600)"
    scene.play([python(lasting)], [python("kept")], "It took too long.")
    response = ask(client)
    assert (cell(response).status, end(response)["exit"]) == ("failed", "timed_out")
    assert logs(response).startswith("so far\n")
    assert f" {SECONDS} s" in told(scene, 3)
    assert (logs(response, 1), response.output_text) == ("1", "It took too long.")


def test_the_files_of_a_container_are_the_same_on_both_sides(client: OpenAI, scene: Scene) -> None:
    container = client.containers.create(name="files")
    tools = [{"type": "code_interpreter", "container": container.id}]
    before = client.containers.files.create(container.id, file=("数据 1.csv", b"a,b\n1,2\n"))
    scene.play([python("open('数据 1.csv', 'a').write('3,4\\n');\nopen('new', 'w').write('x');")], "ok")
    ask(client, tools=tools)
    late = client.containers.files.create(container.id, file=("late.bin", bytes(3 << 20)))
    files = {one.path: one for one in client.containers.files.list(container.id)}
    assert set(files) == {"/mnt/data/数据 1.csv", "/mnt/data/new", "/mnt/data/late.bin"}
    changed = files["/mnt/data/数据 1.csv"]
    assert changed.id == before.id
    content = client.containers.files.content.retrieve(changed.id, container_id=container.id)
    assert content.read() == b"a,b\n1,2\n3,4\n"
    client.containers.files.delete(files["/mnt/data/new"].id, container_id=container.id)
    scene.play([python("import os; sorted(os.listdir()), os.path.getsize('late.bin')")], "ok")
    assert logs(ask(client, tools=tools)) == f"(['late.bin', '数据 1.csv'], {3 << 20})"
    assert late.bytes == 3 << 20


def test_a_hundred_executions_leave_nothing(server: Server, client: OpenAI, scene: Scene) -> None:
    for container in client.containers.list():
        client.containers.delete(container.id)
    until(lambda: server.health["current_load"] == 0)
    before = len(traces.descendants(server.process.pid))
    for _ in range(10):
        habits = [
            "x = 1",
            "1 / 0",
            "open('made', 'w').write('x');",
            "import os; os._exit(1)",
            "import sys; sys.exit(2)",
        ]
        scene.play([python(code) for code in habits * 2], "ok")
        response = ask(client)
        assert [item.type for item in response.output].count("code_interpreter_call") == 10
    assert server.health["current_load"] == 10
    for container in client.containers.list():
        client.containers.delete(container.id)
    until(lambda: server.health["current_load"] == 0)
    until(lambda: len(traces.descendants(server.process.pid)) == before)


# -- when one of them dies --------------------------------------------------------------------------------------------


@pytest.fixture
def near(tmp_path: Path) -> Server:
    """At a socket, and not started yet."""
    return Server(tmp_path / "near")


def test_a_server_that_dies_in_a_cell_is_told_and_the_container_heals_with_the_next(
    near: Server, scene: Scene, tmp_path: Path
) -> None:
    with House(tmp_path / "state", "--sandbox-url", near.url, *behind(scene)) as house, opened(house) as client:
        with near:
            scene.play([python("kept = 1\nopen('kept.txt', 'w').write('file');")], "ok")
            first = ask(client)
            scene.play([python(WAIT)], "It was lost.")
            with cast(Any, ask(client, previous_response_id=first.id, stream=True)) as stream:
                assert any(event.type == LIVE for event in stream)
                near.kill()
                lost = list(stream)[-1].response
        assert lost.status == "completed"
        assert (cell(lost).status, end(lost)["reason"]) == ("failed", "lost")
        assert near.url in end(lost)["text"]
        assert logs(lost).startswith("on\nThe sandbox was lost while the code ran.")
        assert "The sandbox was lost while the code ran." in told(scene)
        status, problem = ready(house)
        assert status == 503
        assert problem["problems"][0].startswith(f"the sandbox server at {near.url} does not answer: ")
        with near:
            look = "open('kept.txt').read(), 'kept' in globals()"
            scene.play([python(look)], "ok")
            healed = ask(client, previous_response_id=lost.id)
            assert cell(healed).container_id == cell(first).container_id
            assert logs(healed) == "('file', False)"
            assert end(healed)["healed"]
            assert told(scene).startswith(RESTARTED)
            until(lambda: ready(house) == (200, {"status": "ready"}))  # it looks once a second


@pytest.mark.parametrize("killed", [True, False])
def test_a_gateway_that_is_started_again_finds_its_sandboxes_with_their_variables(
    near: Server, scene: Scene, tmp_path: Path, killed: bool
) -> None:
    house = House(tmp_path / "state", "--sandbox-url", near.url, *behind(scene))
    with near:
        with house, opened(house) as client:
            until(lambda: near.health["status"] == "healthy")  # then all that stays has been started
            before = len(traces.descendants(near.process.pid))
            scene.play([python("kept = 41")], "ok")
            idle = ask(client)
            if killed:
                scene.play([python(WAIT)])
                with cast(Any, ask(client, stream=True)) as stream:
                    assert any(event.type == LIVE for event in stream)
                    house.kill()
        assert near.health["current_load"] == 1 + killed
        with house, opened(house) as client:
            scene.play([python("kept + 1")], "ok")
            again = ask(client, previous_response_id=idle.id)
            assert logs(again) == "42"
            assert "healed" not in end(again)
            assert near.health["current_load"] == 1 + killed
            for container in client.containers.list():
                scene.play([python("1")], "ok")
                tools = [{"type": "code_interpreter", "container": container.id}]
                assert logs(ask(client, tools=tools)) == "1", "what ran there was interrupted"
                client.containers.delete(container.id)
        until(lambda: near.health["current_load"] == 0)
        until(lambda: len(traces.descendants(near.process.pid)) == before)


def test_a_server_that_is_stopped_ends_its_sandboxes_and_says_so(near: Server, scene: Scene, tmp_path: Path) -> None:
    variables = {"BELLJAR_CLAIM_TIMEOUT": "0.2"}
    flags = ("--sandbox-url", near.url, *behind(scene))
    with House(tmp_path / "state", *flags, environment=variables) as house, opened(house) as client:
        with near:
            scene.play([python("x = 1")], "ok")
            first = ask(client)
        scene.play([python("x")], "It is not there.")
        response = ask(client, previous_response_id=first.id)
        assert (cell(response).status, response.output_text) == ("failed", "It is not there.")
        assert told(scene).startswith(f"The code was not run. the sandbox server at {near.url} does not answer: ")
        assert "`belljar sandbox`" in told(scene)


# -- starting ---------------------------------------------------------------------------------------------------------


def test_a_server_that_comes_later_is_waited_for(near: Server, scene: Scene, tmp_path: Path) -> None:
    with House(tmp_path / "state", "--sandbox-url", near.url, *behind(scene)) as house, opened(house) as client:
        assert house.told["isolation"] == f"sandbox server at {near.url}: no answer yet"
        status, problem = ready(house)
        assert status == 503
        assert problem["problems"][0].startswith(f"the sandbox server at {near.url} does not answer: No such file")
        assert f"the sandbox server at {near.url} does not answer" in house.log.read_text()
        with near:
            until(lambda: ready(house)[0] == 200)
            scene.play([python("6 * 7")], "ok")
            assert logs(ask(client)) == "42"


@pytest.mark.parametrize(("token", "why"), [("another", "ours"), (None, "requests without one")])
def test_a_gateway_without_the_servers_token_does_not_start(
    server: Server, tmp_path: Path, token: str | None, why: str
) -> None:
    variables = {} if token is None else {"BELLJAR_SANDBOX_TOKEN": token}
    ran = House(tmp_path / "state", "--sandbox-url", server.url, environment=variables).run()
    message = f"sandbox_token: the sandbox server at {server.url} does not take {why}; set BELLJAR_SANDBOX_TOKEN to"
    assert ran.returncode == 3
    assert f"belljar: error: {message}" in ran.stderr
    assert TOKEN not in ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["code"] == "bad_settings"


def test_a_server_of_another_kind_is_refused(scene: Scene, tmp_path: Path) -> None:
    url = scene.server.base_url.removesuffix("/v1")
    ran = House(tmp_path / "state", "--sandbox-url", url).run()
    assert ran.returncode == 3
    assert f"belljar: error: sandbox_url: what answers at {url} is no belljar sandbox (404 " in ran.stderr
    assert "start one with `belljar sandbox`" in ran.stderr


def test_a_server_and_a_template_exclude_each_other(tmp_path: Path) -> None:
    variables = {"BELLJAR_SANDBOX_TEMPLATE": "python", "BELLJAR_SANDBOX_URL": "http://127.0.0.1:1"}
    ran = House(tmp_path / "state", environment=variables).run()
    assert ran.returncode == 3
    assert "sandbox_url and sandbox_template are both set" in ran.stderr


# -- apart ------------------------------------------------------------------------------------------------------------


def test_with_isolation_per_call_each_has_a_sandbox_of_its_own(near: Server, scene: Scene, tmp_path: Path) -> None:
    make = "x = 1\nopen('/tmp/trace', 'w').close()\n_ = open('kept.txt', 'w').write('kept')"
    look = "import os\n('x' in globals(), os.path.exists('/tmp/trace'), open('kept.txt').read())"
    flags = ("--sandbox-url", near.url, "--isolation", "per_call", *behind(scene))
    with near, House(tmp_path / "state", *flags) as house, opened(house) as client:
        scene.play([python(make)], [python(look), python(look)], "apart")
        response = ask(client)
        assert [cell(response, number).status for number in range(3)] == ["completed"] * 3
        assert logs(response, 1) == logs(response, 2) == "(False, False, 'kept')"
        until(lambda: near.health["current_load"] == 0)


# -- several servers --------------------------------------------------------------------------------------------------


def test_of_several_servers_one_may_die(scene: Scene, tmp_path: Path) -> None:
    """Its containers heal at the other, each server is told of by metrics and doctor, and it comes back."""
    one, other = Server(tmp_path / "one"), Server(tmp_path / "other")
    flags = ("--sandbox-url", one.url, "--sandbox-url", other.url)
    with other, House(tmp_path / "state", *flags, "--packages", "none", *behind(scene)) as house:
        with one, opened(house) as client:
            until(lambda: servers_up(house) == {one.url: 1, other.url: 1})
            containers = []
            while not (one.health["current_load"] and other.health["current_load"]):
                scene.play([python("kept = 1")], "ok")
                containers.append(cell(ask(client)).container_id)
            told = forked.run("doctor", *flags, env=dict(os.environ)).stdout
            assert told.count("ok       sandbox server") == 2, told
            one.kill()
        for container in containers:
            scene.play([python("1")], "ok")
            with opened(house) as client:
                again = ask(client, tools=[{"type": "code_interpreter", "container": container}])
            assert logs(again) == "1"
        until(lambda: servers_up(house) == {one.url: 0, other.url: 1})
        assert ready(house)[0] == 200
        with one:
            until(lambda: servers_up(house) == {one.url: 1, other.url: 1})


def servers_up(house: House) -> dict[str, int]:
    with urllib.request.urlopen(f"{house.url}/metrics") as answer:
        text = answer.read().decode()
    found = re.findall(r'^belljar_sandbox_server_up\{server="(.*?)"\} (\d)$', text, re.MULTILINE)
    return {url: int(up) for url, up in found}


# -- a server that has /execute alone ----------------------------------------------------------------------------------


def test_a_server_that_has_execute_alone(scene: Scene, tmp_path: Path) -> None:
    """The model is told that variables do not stay; files do, and come back."""
    with (
        execute_server.running() as server,
        House(tmp_path / "state", "--sandbox-url", server.url, *behind(scene)) as house,
        opened(house) as client,
    ):
        until(lambda: ready(house) == (200, {"status": "ready"}))
        assert house.told["isolation"].startswith(f"sandbox server at {server.url}: ")
        code = "x = 1\nopen('made.txt', 'w').write('new')\nprint('ran')"
        scene.play([python(code)], [python("print('x' in globals(), open('made.txt').read())")], "done")
        answer = ask(client)
        assert (logs(answer, 0), logs(answer, 1)) == ("ran\n", "False new\n")
        assert RESTARTED not in told(scene)
        about = scene.asked[0].json["tools"][0]["function"]["description"]
        assert "variables and imports are gone, and only files stay from call to call" in about
