"""`OpenAI.local()`: the whole gateway inside the program."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import openai
import pytest

from belljar.errors import BadSettings
from belljar.openai import OpenAI
from belljar.openai.embedded_gateway import Inside
from belljar.testing import LoopbackUpstream, ScriptedModel, call

CODE: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]
ROOT = Path(__file__).parents[3]


def local(**settings: Any) -> OpenAI:
    """Without a jail, which takes seconds."""
    return OpenAI.local(**{"discover": False, "code_interpreter": False, **settings})


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories are made; empty again at the end."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    yield made
    assert [*made.iterdir()] == []


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def listening() -> set[str]:
    """Sockets of this process that wait for connections."""
    table = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/self/net/{kind}").read_text().splitlines()
    ]
    waiting = {f"socket:[{row[9]}]" for row in table if row[3] == "0A"}
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return waiting & {os.readlink(link) for link in links if os.path.islink(link)}


def children() -> set[str]:
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended meanwhile
            found.update((task / "children").read_text().split())
    return found


def test_code_runs_in_the_jail_and_its_file_comes_back(temporary: Path) -> None:
    before, ports, others = threads(), listening(), children()
    script = [call("code_interpreter", code="open('made.txt', 'w').write('by code')\n6 * 7")]
    with OpenAI.local(discover=False, model=ScriptedModel([script, ["See sandbox:/mnt/data/made.txt"]])) as client:
        response = client.responses.create(
            model="belljar", input="go", tools=CODE, include=["code_interpreter_call.outputs"]
        )
        cell: Any = response.output[0]
        assert cell.outputs[0].logs == "42"
        [citation] = response.output[1].get("annotations")  # type: ignore[union-attr]
        made = client.container_files.content(container_id=citation["container_id"], file_id=citation["file_id"])
        assert made == b"by code"
        assert listening() == ports
        assert children() > others
    assert (threads(), children()) == (before, others)


def test_events_arrive_as_they_are_made(temporary: Path) -> None:
    gate = threading.Event()
    with LoopbackUpstream([["one", gate, " two"]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        said: list[str] = []
        for event in client.responses.create(model="sim", input="count", stream=True):
            if event.type == "response.output_text.delta":
                said.append(event.delta)
                gate.set()
        assert said == ["one", " two"]


def test_a_closed_stream_cancels_the_run(temporary: Path) -> None:
    never = threading.Event()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        with client.responses.create(model="sim", input="count", stream=True) as stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    break
        assert upstream.abandoned.wait(30)
        never.set()


def test_a_client_that_waits_no_longer_cancels_the_run(temporary: Path) -> None:
    never = threading.Event()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.2, max_retries=0).responses.create(model="sim", input="count")
        assert upstream.abandoned.wait(30)
        never.set()


def test_closing_ends_what_still_runs(temporary: Path) -> None:
    never = threading.Event()
    with LoopbackUpstream([["one", never]]) as upstream:
        client = local(upstreams=[upstream.base_url])
        stream = iter(client.with_options(max_retries=0).responses.create(model="sim", input="count", stream=True))
        next(event for event in stream if event.type == "response.output_text.delta")
        client.close()
        with pytest.raises(openai.APIConnectionError):
            list(stream)
        assert upstream.abandoned.wait(30)
        never.set()
        with pytest.raises(RuntimeError, match="closed"):
            client.models.list()


def test_an_interrupt_cancels_the_run(temporary: Path) -> None:
    never, main = threading.Event(), threading.get_ident()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:

        def interrupt() -> None:
            while not any(one.method == "POST" for one in upstream.requests):
                time.sleep(0.01)
            signal.pthread_kill(main, signal.SIGINT)

        helper = threading.Thread(target=interrupt)
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            client.responses.create(model="sim", input="count")
        helper.join()
        assert upstream.abandoned.wait(30)
        never.set()


@contextmanager
def standing_still(client: OpenAI) -> Iterator[Inside]:
    """The gateway inside does nothing meanwhile, so a request waits to be begun; then all of them come to an end."""
    inside: Inside = client._client._transport._inside  # type: ignore[attr-defined]
    reached, released = threading.Event(), threading.Event()

    def stand() -> None:
        reached.set()
        assert released.wait(30)

    inside._loop.call_soon_threadsafe(stand)
    assert reached.wait(30)
    try:
        yield inside
    finally:
        released.set()
    deadline = time.monotonic() + 30
    while inside._exchanges or inside._pending:
        assert time.monotonic() < deadline, "a request goes on that nobody waits for"
        time.sleep(0.01)


def test_an_interrupt_before_a_request_has_begun_cancels_it(temporary: Path) -> None:
    never, main = threading.Event(), threading.get_ident()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        with standing_still(client) as inside:

            def interrupt() -> None:
                while not inside._pending:
                    time.sleep(0.01)
                signal.pthread_kill(main, signal.SIGINT)

            helper = threading.Thread(target=interrupt)
            helper.start()
            with pytest.raises(KeyboardInterrupt):
                client.responses.create(model="sim", input="count")
            helper.join()
        never.set()


def test_a_client_that_waits_no_longer_for_a_request_to_begin_cancels_it(temporary: Path) -> None:
    never = threading.Event()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        with standing_still(client), pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=0.2, max_retries=0).responses.create(model="sim", input="count")
        never.set()


def test_an_answer_that_is_dropped_cancels_the_run(temporary: Path) -> None:
    never = threading.Event()
    with LoopbackUpstream([["one", never]]) as upstream, local(upstreams=[upstream.base_url]) as client:
        asked = {"model": "sim", "input": "count", "stream": True}
        raw = client._client
        answer = raw.send(raw.build_request("POST", f"{client.base_url}responses", json=asked), stream=True)
        assert answer.status_code == 200
        del answer
        gc.collect()
        assert upstream.abandoned.wait(30)
        never.set()


def test_closing_amid_requests_leaves_nobody_waiting(temporary: Path) -> None:
    client = local()
    started = threading.Barrier(9)
    ended: list[str] = []

    def ask() -> None:
        asking = client.with_options(max_retries=0)
        started.wait()
        try:
            while True:
                asking.models.list()
        except (openai.APIConnectionError, RuntimeError) as error:
            ended.append(type(error).__name__)

    asking = [threading.Thread(target=ask) for _ in range(8)]
    for thread in asking:
        thread.start()
    started.wait()
    client.models.list()
    client.close()
    for thread in asking:
        thread.join(60)
    assert len(ended) == 8


def test_several_have_nothing_in_common(temporary: Path) -> None:
    with local(model=ScriptedModel([["first"]])) as one, local(model=ScriptedModel([["second"]])) as two:
        said = one.responses.create(model="belljar", input="x")
        assert (said.output_text, two.responses.create(model="belljar", input="x").output_text) == ("first", "second")
        with pytest.raises(openai.NotFoundError):
            two.responses.retrieve(said.id)
        one.close()
        assert two.models.list().data[0].id == "belljar"


def test_a_state_directory_is_kept_and_asks_for_no_key(temporary: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    subprocess.run(
        [sys.executable, "-m", "belljar.cli", "keys", "add", "somebody", "--state-dir", str(state)],
        check=True,
        capture_output=True,
    )
    with local(state_dir=state, model=ScriptedModel([["kept"]])) as client:
        said = client.responses.create(model="belljar", input="x")
    with local(state_dir=state) as client:
        assert client.responses.retrieve(said.id).output_text == "kept"


def test_a_file_goes_in_and_out_whole(temporary: Path) -> None:
    content = os.urandom(5 << 20)
    with local() as client:
        uploaded = client.files.create(file=("large.bin", content), purpose="user_data")
        assert client.files.content(uploaded.id).read() == content


def test_a_refused_upload_says_why(temporary: Path) -> None:
    with local(largest_upload="1m") as client, pytest.raises(openai.APIStatusError) as caught:
        client.files.create(file=("large.bin", bytes(5 << 20)), purpose="user_data")
    assert caught.value.status_code == 413


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [({"upstream": "x"}, "did you mean upstreams"), ({"timeout": -1}, "seconds above 0"), ({"upstreams": ["x"]}, "x")],
)
def test_wrong_settings_leave_nothing_behind(temporary: Path, settings: dict[str, Any], complaint: str) -> None:
    before = threads()
    with pytest.raises(BadSettings, match=complaint):
        local(**settings)
    assert threads() == before


def test_threads_share_a_client(temporary: Path) -> None:
    with local(model=ScriptedModel([[str(n)] for n in range(16)])) as client:
        said: list[str] = []
        asking = [
            threading.Thread(
                target=lambda: said.append(client.responses.create(model="belljar", input="x").output_text)
            )
            for _ in range(16)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert sorted(map(int, said)) == [*range(16)]


def test_a_client_that_nobody_has_any_more_ends_its_gateway(temporary: Path) -> None:
    others = {*threading.enumerate()}
    client = local()
    [thread] = [one for one in {*threading.enumerate()} - others if one.name == "belljar-gateway"]
    shared = client.with_options(timeout=5)
    del client
    gc.collect()
    assert shared.models.list().data
    del shared
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def program(code: str, tmp_path: Path, **variables: str) -> str:
    """What it prints, run as a program of its own where every warning is an error; it leaves no files."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env={**os.environ, "TMPDIR": str(temporary), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [*temporary.iterdir()] == []
    return done.stdout


def test_a_program_that_forgets_to_close_ends_cleanly(tmp_path: Path) -> None:
    """With the jail, and a container in it."""
    told = program(
        """
        from belljar.openai import OpenAI
        from belljar.testing import ScriptedModel, call
        model = ScriptedModel([[call("code_interpreter", code="1 + 1")], ["two"]])
        client = OpenAI.local(discover=False, model=model)
        tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
        print(client.responses.create(model="belljar", input="x", tools=tools).output_text)
        """,
        tmp_path,
    )
    assert told == "two\n"


def test_a_forked_child_is_told_and_the_parent_goes_on(tmp_path: Path) -> None:
    told = program(
        """
        import os, sys, warnings
        import openai
        from belljar.openai import OpenAI
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
        client = OpenAI.local(discover=False, code_interpreter=False)
        pid = os.fork()
        if not pid:
            try:
                client.models.list()
            except openai.APIConnectionError as error:
                print("child:", error, flush=True)
            client.close()
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print("parent:", client.models.list().data[0].id)
        """,
        tmp_path,
    ).splitlines()
    assert told[0].startswith("child: this client's gateway is in process")
    assert told[1:] == ["7", "parent: belljar"]


def test_the_sdk_before_this_one_has_it_too(tmp_path: Path) -> None:
    installed = ROOT / ".venv" / "clients" / "openai2"
    assert installed.is_dir(), "openai 2.x is not installed; run: sh scripts/clients"
    told = program(
        """
        import openai
        from belljar.openai import OpenAI
        from belljar.testing import ScriptedModel
        print(openai.VERSION)
        model = ScriptedModel([["one two"], ["three"]])
        with OpenAI.local(discover=False, code_interpreter=False, model=model) as client:
            print(client.responses.create(model="belljar", input="x").output[0]["content"][0]["text"])
            stream = client.responses.create(model="belljar", input="x", stream=True)
            print(*[event.delta for event in stream if hasattr(event, "delta")])
        """,
        tmp_path,
        PYTHONPATH=str(installed),
    ).splitlines()
    assert told[0].startswith("2.")
    assert told[1:] == ["one two", "three"]


def test_without_the_sdk_it_says_what_to_install(tmp_path: Path) -> None:
    told = program(
        """
        import sys
        sys.modules["openai"] = None
        try:
            import belljar.openai
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
    )
    assert told == "BadSettings the openai package is not installed; run: pip install 'belljar[openai]'\n"


def test_a_client_without_a_gateway_inside_does_not_load_one(tmp_path: Path) -> None:
    told = program(
        """
        import sys
        from belljar.openai import OpenAI
        OpenAI(api_key="none")
        print(*[name for name in sys.modules if name.startswith("belljar.gateway")])
        """,
        tmp_path,
    )
    assert told == "\n"
