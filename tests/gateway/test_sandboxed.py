"""Code that the API runs: kept apart, stopped with a reason, cut off from everything, given what it asks for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from openai import OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, House, Scene
from tests.gateway.test_first_minute import cell, logs
from tests.gateway.test_loop import ask, messages
from tests.unit.test_packages import wheel

from belljar.testing import Call, call

SECONDS = 3
"""Of one cell, in the house whose cells have little time."""
NAP = f"86397.{os.getpid()}"
"""Seconds that nobody else on this machine sleeps: other processes run these tests too."""


@pytest.fixture(scope="module")
def strict(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Cells have little time, and packages come from a directory alone."""
    home = tmp_path_factory.mktemp("strict")
    links = home / "links"
    links.mkdir()
    wheel(links, "tiny", requires=["helper"], files={"tiny.py": "import helper\nword = 'tiny and ' + helper.version\n"})
    wheel(links, "helper", "2.5")
    with House(
        home / "state",
        *("--upstream", f"loop={_scene.server.base_url}", "--timeout", str(SECONDS)),
        environment={
            "BELLJAR_FIND_LINKS": str(links),
            "BELLJAR_OFFLINE": "true",
            "BELLJAR_CACHE_DIR": str(home / "cache"),
            "OPENAI_API_KEY": "of the parent",
        },
    ) as house:
        yield house


@pytest.fixture
def hasty(strict: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=strict.base_url, api_key="none", max_retries=0) as client:
        yield client


def python(code: str, *requirements: str) -> Call:
    return call("code_interpreter", code=code, **({"requirements": list(requirements)} if requirements else {}))


def told(scene: Scene, back: int = 1) -> str:
    """What the model heard of a cell: the newest, or some before."""
    return cast(str, messages(scene)[-back]["content"])


def end(response: Response, number: int = 0) -> dict[str, Any]:
    return cast(dict[str, Any], cast(Any, cell(response, number)).belljar)


# -- apart ------------------------------------------------------------------------------------------------------------

LOOK = """
import os, pathlib
def read(path):
    try: return path.read_bytes()
    except OSError: return b''
commands = b' '.join(read(path / 'cmdline') for path in pathlib.Path('/proc').glob('[0-9]*'))
found = [folder for folder in ('/mnt/data', '/tmp', '/dev/shm') for name in os.listdir(folder) if 'theirs' in name]
(found, b'86399' in commands, 'secret' in globals())
"""


def test_two_containers_see_nothing_of_each_other(client: OpenAI, scene: Scene) -> None:
    leave = (
        "import subprocess\nsecret = 7\nfor folder in ('/mnt/data', '/tmp', '/dev/shm'):\n"
        "    open(f'{folder}/theirs', 'w').write('x')\n"
        "process = subprocess.Popen(['sleep', '86399'])"
    )
    scene.play([python(leave)], "left", [python(LOOK)], "nothing", [python(LOOK)], "all of it")
    first = ask(client)
    assert end(first)["exit"] == "ok", logs(first)
    other = ask(client)
    assert cell(other).container_id != cell(first).container_id
    assert logs(other) == "([], False, False)"
    assert logs(ask(client, previous_response_id=first.id)) == "(['/mnt/data', '/tmp', '/dev/shm'], True, True)"
    assert not list(client.containers.files.list(cell(other).container_id))


def test_calls_queue_in_their_container(client: OpenAI, scene: Scene) -> None:
    """Two responses at once: the second's cell comes while the first's still runs."""
    container = client.containers.create(name="queue")
    tools = [{"type": "code_interpreter", "container": container.id}]
    lasting = "import os, time\nprint('on', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\ndone = True"
    scene.play([python(lasting)], [python("done")], "ok", "ok")
    answers: list[Response] = []
    second = threading.Thread(target=lambda: answers.append(ask(client, tools=tools)))
    with cast(Any, ask(client, tools=tools, stream=True)) as stream:
        assert any(event.type == "belljar:code_interpreter_call.output.delta" for event in stream)
        second.start()
        while len(scene.asked) < 2:
            time.sleep(0.01)
        client.containers.files.create(container.id, file=("go", b""))
        assert list(stream)[-1].type == "response.completed"
    second.join()
    assert logs(answers[0]) == "True"


@pytest.fixture
def forgetful(scene: Scene, tmp_path: Path) -> Iterator[OpenAI]:
    upstream = f"loop={scene.server.base_url}"
    with (
        House(tmp_path / "state", "--upstream", upstream, "--isolation", "per_call", "--warm", "0") as house,
        OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client,
    ):
        yield client


def test_with_isolation_per_call_the_calls_of_a_turn_run_at_once(forgetful: OpenAI, scene: Scene) -> None:
    span = "import time; began = time.time(); time.sleep(4); open('{0}', 'w').write('{0}'); print(began, time.time())"
    scene.play([call("code_interpreter", code=span.format(name)) for name in "abc"], "Done.")
    with forgetful.responses.stream(
        model="sim",
        input="three at once",
        tools=CODE,  # type: ignore[arg-type]
        include=["code_interpreter_call.outputs"],
    ) as stream:
        events = list(stream)
        response = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done = [event.output_index for event in events if event.type == "response.output_item.done"]
    assert done == sorted(done), "each item is told to its end before the next"
    spans = [tuple(map(float, logs(response, number).split())) for number in range(3)]
    assert max(began for began, _ in spans) < min(ended for _, ended in spans)
    files = forgetful.containers.files.list(cell(response).container_id)
    assert sorted(one.path for one in files) == ["/mnt/data/a", "/mnt/data/b", "/mnt/data/c"]


def test_with_isolation_per_call_each_has_a_sandbox_of_its_own(forgetful: OpenAI, scene: Scene) -> None:
    make = "x = 1\nopen('/tmp/trace', 'w').close()\n_ = open('kept.txt', 'w').write('kept')"
    look = "import os\n('x' in globals(), os.path.exists('/tmp/trace'), open('kept.txt').read())"
    scene.play([python(make)], [python(look), python(look)], "apart", [python(look)], "still")
    response = ask(forgetful)
    assert [cell(response, number).status for number in range(3)] == ["completed"] * 3
    assert logs(response, 1) == logs(response, 2) == "(False, False, 'kept')"
    assert len({cell(response, number).container_id for number in range(3)}) == 1
    again = ask(forgetful, previous_response_id=response.id)
    assert logs(again) == "(False, False, 'kept')"
    assert not end(again).get("healed")
    assert "fresh interpreter" in scene.asked[0].json["tools"][0]["function"]["description"]


# -- stopped ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["itself", "a child", "deaf"])
def test_a_cell_that_takes_too_long_is_stopped_with_its_children(
    strict: House, hasty: OpenAI, scene: Scene, how: str
) -> None:
    lasting = {
        "itself": "import time; time.sleep(600)",
        "a child": f"import subprocess; subprocess.run(['sh', '-c', 'sleep {NAP} & sleep {NAP}'])",
        "deaf": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    }[how]
    scene.play([python("kept = 'kept'")], "ok")
    before = ask(hasty)
    after = "globals().get('kept', 'lost')"
    scene.play([python(f"print('so far', flush=True)\n{lasting}")], [python(after)], "It took too long.")
    response = ask(hasty, previous_response_id=before.id)
    assert (cell(response).status, end(response)["exit"]) == ("failed", "timed_out")
    assert logs(response).startswith("so far\n")
    assert "so far" in told(scene, 3)
    assert f" {SECONDS} s" in told(scene, 3)
    assert cell(response, 1).container_id == cell(before).container_id
    assert (cell(response, 1).status, logs(response, 1)) == ("completed", "'lost'" if how == "deaf" else "'kept'")
    assert response.output_text == "It took too long."
    assert not running(NAP)


def running(word: str) -> list[str]:
    """The processes of this machine that have this word among their arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if word in arguments:
            found.append(" ".join(arguments))
    return found


def test_too_much_memory_is_called_so_and_the_container_lives_on(client: OpenAI, scene: Scene) -> None:
    eat = "print('so far', flush=True)\nopen('kept.txt', 'w').close()\nx = b'x' * (3 << 30)"
    scene.play([python(eat)], [python("import os; os.listdir()")], "Too much.")
    response = ask(client)
    assert logs(response).startswith("so far\n")
    if end(response)["exit"] == "raised":  # where no control group counts, the allocation fails instead
        assert "MemoryError" in logs(response)
        assert "The memory limit of 1 GiB was reached" in told(scene, 3)
    else:
        assert cell(response).status == "failed"
        assert (end(response)["exit"], end(response)["reason"]) == ("killed", "memory")
        assert "Killed: the code used more than the 1 GiB of memory it may have" in logs(response)
        assert "1 GiB of memory" in told(scene, 3)
    assert (end(response)["limit"], "`container.memory_limit`" in end(response)["text"]) == ("memory", True)
    assert "Work on smaller pieces." in told(scene, 3)
    assert "memory_limit" not in told(scene, 3)
    assert logs(response, 1) == "['kept.txt']"


def test_64_megabytes_of_prints_are_cut_and_all_of_them_kept(client: OpenAI, scene: Scene) -> None:
    scene.play([python("for _ in range(64): print('x' * ((1 << 20) - 1))")], "A lot of x.")
    response = ask(client)
    assert cell(response).status == "completed"
    assert logs(response).endswith("[output cut at 1 MiB of 64 MiB; all of it is in output-1.log]\n")
    assert len(logs(response)) < (1 << 20) + 1000
    assert len(told(scene)) < 25_000
    assert "/mnt/data/output-1.log" in told(scene)
    [file] = client.containers.files.list(cell(response).container_id)
    assert (file.path, file.bytes) == ("/mnt/data/output-1.log", 64 << 20)
    with client.containers.files.content.with_streaming_response.retrieve(
        file.id, container_id=file.container_id
    ) as content:
        assert sum(chunk.count(b"x") for chunk in content.iter_bytes()) == (64 << 20) - 64


# -- cut off ----------------------------------------------------------------------------------------------------------

NO_NETWORK = "There is no network in here"
REFUSED: dict[str, tuple[Callable[[House], str], str]] = {
    "a name": (lambda house: "import socket\nsocket.getaddrinfo('example.com', 443)", NO_NETWORK),
    "an address": (lambda house: "import socket\nsocket.create_connection(('1.1.1.1', 53), 5)", NO_NETWORK),
    "the gateway": (lambda house: f"import urllib.request\nurllib.request.urlopen('{house.url}/healthz')", NO_NETWORK),
    "metadata": (
        lambda house: "import urllib.request\nurllib.request.urlopen('http://169.254.169.254/latest/', timeout=5)",
        NO_NETWORK,
    ),
    "pip": (lambda house: "!pip install tiny", "cannot be installed from inside the sandbox"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_there_is_no_way_out_and_the_model_is_told(house: House, client: OpenAI, scene: Scene, what: str) -> None:
    code, reason = REFUSED[what][0](house), REFUSED[what][1]
    scene.play([python(code)], "It cannot be reached.")
    response = ask(client)
    assert cell(response).status == "completed"
    assert reason in logs(response)
    assert reason in told(scene)


def test_nothing_of_the_gateways_environment_is_inside(strict: House, hasty: OpenAI, scene: Scene) -> None:
    code = f"""
import os, pathlib
def read(path):
    try: return path.read_bytes()
    except OSError: return b''
seen = ' '.join([*os.environ, *os.environ.values()]).encode()
seen += b' '.join(read(path / 'environ') for path in pathlib.Path('/proc').glob('[0-9]*'))
(b'API_KEY' in seen, b'of the parent' in seen, os.path.exists({str(strict.state)!r}))"""
    scene.play([python(code)], "Nothing.")
    assert logs(ask(hasty)) == "(False, False, False)"


# -- packages ---------------------------------------------------------------------------------------------------------


def test_requirements_are_there_before_the_code_runs(hasty: OpenAI, scene: Scene) -> None:
    scene.play([python("import tiny; tiny.word", "tiny")], "here", [python("import tiny; tiny.word")], "and later")
    first = ask(hasty)
    assert logs(first) == "'tiny and 2.5'"
    assert logs(ask(hasty, previous_response_id=first.id)) == "'tiny and 2.5'"


@pytest.mark.parametrize(
    ("requirement", "word"),
    [("no-such-package", "no-such-package"), ("tiny>9", "tiny>9"), ("tiny @ file:///etc", "tiny @ file:///etc")],
)
def test_requirements_that_cannot_be_had_are_explained_and_nothing_runs(
    hasty: OpenAI, scene: Scene, requirement: str, word: str
) -> None:
    scene.play([python("open('ran', 'w').close()", requirement)], [python("import os; os.listdir()")], "Without it.")
    response = ask(hasty)
    assert cell(response).status == "failed"
    for text in (logs(response), told(scene, 3)):
        assert text.startswith("The code was not run.")
        assert word in text
    assert logs(response, 1) == "[]"
