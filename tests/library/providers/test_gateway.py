"""The gateway as a real counterpart: code runs in a real sandbox, files go in and come out, the chain lives there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.houses import House, Scene
from tests.library.providers.conftest import TOOLS

from belljar.config import ApiSettings
from belljar.errors import Declined
from belljar.providers import BaseClient, GatewayError, create_client
from belljar.testing import Reply, call


@pytest.fixture(scope="module")
def stage() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def gateway(stage: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    state = tmp_path_factory.mktemp("gateway") / "state"
    with House(state, "--upstream", f"loop={stage.server.base_url}", environment={"BELLJAR_TIMEOUT": "8"}) as house:
        yield house


@pytest.fixture
def client(gateway: House) -> Iterator[BaseClient]:
    with create_client(provider="belljar", base_url=gateway.base_url, settings=ApiSettings()) as client:
        yield client


def test_how_code_ended_is_exact(client: BaseClient) -> None:
    ended = client.send_message(
        "```python\nimport sys\nprint(1)\nprint(2, file=sys.stderr)\nsys.exit(3)\n```", code_execution=True
    )
    [end] = ended.code_executions
    assert (end.stdout, end.stderr, end.exit, end.outcome) == ("1\n", "2\n", 3, "OUTCOME_FAILED")
    assert end.output.startswith("1\n2\n")


def test_code_runs_and_its_files_come_back(client: BaseClient, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("item,value\napple,30\nbanana,70\n")
    code = (
        "```python\nimport csv, glob\n[name] = glob.glob('*data.csv')\n"
        "total = sum(int(row['value']) for row in csv.DictReader(open(name)))\n"
        "open('sum.txt', 'w').write(str(total))\nprint(total)\n```"
    )
    pieces: list[str] = []
    reply = client.send_message(code, files=[path], code_execution=True, on_text=pieces.append)
    assert reply.text == "".join(pieces) != ""
    [execution] = reply.code_executions
    assert "csv.DictReader" in execution.code
    assert (execution.stdout.strip(), execution.outcome) == ("100", "OUTCOME_OK")
    [file] = reply.output_files
    assert execution.output_files == (file,)
    assert (file.filename, file.size, file.mime_type) == ("sum.txt", 3, "text/plain")
    assert file.save(tmp_path).read_text() == "100"
    again = client.send_message("```python\ntotal + 1\n```", code_execution=True)
    assert (again.code_executions[0].output.strip(), again.code_executions[0].exit) == ("101", 0)
    stats = client.get_context_stats()
    assert (stats["provider"], stats["model"], stats["message_count"], stats["has_response_chain"]) == (
        "belljar",
        "belljar",
        4,
        True,
    )


@pytest.mark.parametrize(
    ("code", "outcome", "word"),
    [
        ("print(1)", "OUTCOME_OK", "1"),
        ("1/0", "OUTCOME_FAILED", "ZeroDivisionError"),
        ("while True: pass", "OUTCOME_DEADLINE_EXCEEDED", "8"),
    ],
)
def test_outcomes(client: BaseClient, code: str, outcome: str, word: str) -> None:
    [execution] = client.send_message(f"```python\n{code}\n```", code_execution=True).code_executions
    assert execution.outcome == outcome
    assert word in execution.output


def test_a_figure_is_a_file(client: BaseClient) -> None:
    code = "```python\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\n```"
    [file] = client.send_message(code, code_execution=True).output_files
    assert file.mime_type == "image/png"
    assert file.read().startswith(b"\x89PNG")


def test_files_of_one_name_in_two_directories_are_two(gateway: House, client: BaseClient, tmp_path: Path) -> None:
    first = "import os\nos.mkdir('a'); os.mkdir('b')\nprint('x', file=open('a/r.csv', 'w'))"
    second = "print('y', file=open('b/r.csv', 'w'))\nimport matplotlib.pyplot as plt\nplt.plot([1]); plt.show()"
    reply = client.send_message(f"```python\n{first}\n```\n```python\n{second}\n```", code_execution=True)
    files = {one.path: one for one in reply.output_files}
    assert list(files) == ["a/r.csv", "b/r.csv", "figure-1.png"]
    assert [one.filename for one in files.values()][:2] == ["r.csv", "r.csv"]
    assert [one.read() for one in files.values()][:2] == [b"x\n", b"y\n"]
    one, two = reply.code_executions
    assert one.output_files == (files["a/r.csv"],)
    assert two.output_files == (files["b/r.csv"], files["figure-1.png"])
    saved = [file.save(tmp_path).relative_to(tmp_path) for file in reply.output_files]
    assert [str(path) for path in saved] == ["r.csv", "r-2.csv", "figure-1.png"]
    assert (tmp_path / "r-2.csv").read_text() == "y\n"


def test_a_file_that_later_code_deletes_is_not_cited(client: BaseClient) -> None:
    code = "```python\nprint('x', file=open('r', 'w'))\n```\n```python\nimport os\nos.unlink('r'); os.mkdir('r')\n"
    reply = client.send_message(f"{code}print('y', file=open('r/x', 'w'))\n```", code_execution=True)
    assert [(one.path, one.size) for one in reply.output_files] == [("r/x", 2)]


def test_tools_through_the_gateway(stage: Scene, client: BaseClient) -> None:
    stage.play(call("run_command", command="ls", requires_confirmation=None), "Two files.")
    client.set_model("sim")
    client.tools = TOOLS
    [made] = client.send_message("List files").tool_calls
    assert made["input"] == {"command": "ls", "requires_confirmation": False}
    assert client.send_tool_results([{"tool_use_id": made["id"], "content": "a b"}]).text == "Two files."
    told = stage.asked[1].json["messages"]
    assert [one["role"] for one in told] == ["user", "assistant", "tool"]
    assert told[-1]["content"] == "a b"


def test_a_chain_that_the_gateway_has_lost_is_begun_again(stage: Scene, client: BaseClient) -> None:
    stage.play("one", "two")
    client.set_model("sim")
    client.send_message("first")
    client._last_response_id = "resp_gone"  # type: ignore[attr-defined]
    assert client.send_message("second").text == "two"
    assert [one["content"] for one in stage.asked[1].json["messages"]] == ["first", "one", "second"]


def test_too_long_is_summarised_through_the_gateway(stage: Scene, client: BaseClient) -> None:
    too_long = Reply(status=400, body=b'{"error":{"message":"maximum context length is 4096 tokens"}}')
    client.set_model("sim")
    client.context.min_recent_messages = 2
    stage.play("a0", "a1", too_long, "They counted.", "ok")
    for n in range(2):
        client.send_message(f"q{n}")
    assert client.send_message("q2").text == "ok"
    assert [one["content"] for one in stage.asked[-1].json["messages"]] == [
        "[CONVERSATION SUMMARY]\nThey counted.\n[END SUMMARY]",
        "a1",
        "q2",
    ]


def test_an_unknown_model_is_named(client: BaseClient) -> None:
    client.set_model("no-such-model")
    with pytest.raises(GatewayError) as caught:
        client.send_message("x")
    assert caught.value.error_code == "INVALID_MODEL"
    assert isinstance(caught.value, Declined)
    assert client.context.message_count == 0
