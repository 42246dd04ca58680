"""Anthropic: requests asserted whole, answers as they were recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from anthropic import Anthropic
from tests.helpers.wire_meaning import meaning
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import claude, claude_refused, claude_streamed, said

from belljar.config import ApiSettings
from belljar.providers import AnthropicClient

Make = Callable[..., Any]
CODE = {"type": "code_execution_20260120", "name": "code_execution"}
NEWEST = {"type": "code_execution_20260521", "name": "code_execution"}


def test_the_whole_conversation_each_time(server: Replay, make: Make) -> None:
    client = make("anthropic", model="claude-sonnet-4-6", tools=TOOLS, system="Be brief.", max_tokens=100)
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "run_command", "input": {"command": "ls"}}
    server.play(
        Reply(claude(thought, said("Let me look."), call, stop_reason="tool_use")), Reply(claude(said("Two files.")))
    )
    reply = client.send_message("List files", "It is Monday.")
    assert (reply.text, reply.is_complete, reply.requires_action) == ("Let me look.", False, True)
    assert reply.tool_calls == [{"id": "toolu_1", "name": "run_command", "input": {"command": "ls"}}]
    reply = client.send_tool_results([{"tool_use_id": "toolu_1", "content": "no", "is_error": True}])
    assert (reply.text, reply.is_complete) == ("Two files.", True)
    first, second = server.asked
    assert (first.method, first.path) == ("POST", "/v1/messages")
    shared = {
        "model": "claude-sonnet-4-6",
        "max_tokens": 100,
        "system": "Be brief.\n\nIt is Monday.",
        "tools": TOOLS,
    }
    asked = {"role": "user", "content": "List files"}
    assert first.json["stream"] is True
    assert meaning(first.json) == {**shared, "messages": [asked]}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no", "is_error": True}
    assert meaning(second.json) == {
        **shared,
        "messages": [
            asked,
            {"role": "assistant", "content": [thought, said("Let me look."), call]},
            {"role": "user", "content": [result]},
        ],
    }


def test_streaming(server: Replay, make: Make) -> None:
    client = make("anthropic")
    server.play(claude_streamed("Hel", "lo"), Reply(claude(said("b"))))
    pieces: list[str] = []
    assert client.send_message("Hi", on_text=pieces.append).text == "Hello"
    assert pieces == ["Hel", "lo"]
    assert server.asked[0].json["stream"] is True
    client.send_message("more")
    assert server.asked[1].json["messages"][1] == {"role": "assistant", "content": [said("Hello")]}


def test_a_recorded_stream_gives_what_its_pieces_say(server: Replay, make: Make) -> None:
    server.play(Reply(events=recorded("anthropic/anthropic-text.chunks.txt")))
    pieces: list[str] = []
    reply = make("anthropic").send_message("Hi", on_text=pieces.append)
    assert reply.text == "".join(pieces) != ""
    assert reply.is_complete


def test_effort(server: Replay, make: Make) -> None:
    client = make("anthropic", model="claude-opus-4-8")
    server.play(*(Reply(claude(said("a"))) for _ in range(3)))
    client.send_message("x")
    client.set_reasoning_effort("minimal")
    client.send_message("x")
    client.set_reasoning_effort("none")
    client.send_message("x")
    bodies = [one.json for one in server.asked]
    assert [body.get("output_config") for body in bodies] == [None, {"effort": "low"}, None]
    assert [body.get("thinking") for body in bodies] == [None, {"type": "adaptive"}, {"type": "disabled"}]


def test_verbosity_is_not_applicable(server: Replay, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = make("anthropic", model="claude-opus-4-8")
    client.set_verbosity("low")
    assert caplog.messages == ["claude-opus-4-8 takes no verbosity: it is left out"]
    server.play(Reply(claude(said("a"))))
    client.send_message("x")
    assert set(server.asked[0].json) == {"model", "max_tokens", "messages", "stream"}
    assert client.get_context_stats().get("verbosity", "N/A") == "N/A"


def test_one_call_at_a_time(server: Replay, make: Make) -> None:
    server.play(Reply(claude(said("a"))))
    make("anthropic", tools=TOOLS, parallel_tool_calls=False).send_message("x")
    assert server.asked[0].json["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize("streaming", [False, True])
def test_too_long_is_summarised_into_the_history_and_sent_again(server: Replay, make: Make, streaming: bool) -> None:
    client = make("anthropic", min_recent_messages=2)
    assert client.context.context_budget == 150_000
    for n in range(3):
        server.play(Reply(claude(said(f"answer {n}"))))
        client.send_message(f"question {n}")
    server.asked.clear()
    server.play(
        claude_refused(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        Reply(claude(said("They counted."))),
        claude_streamed("o", "k") if streaming else Reply(claude(said("ok"))),
    )
    pieces: list[str] = []
    assert client.send_message("question 3", on_text=pieces.append if streaming else None).text == "ok"
    assert pieces == (["o", "k"] if streaming else [])
    assert meaning(server.asked[2].json["messages"]) == [
        {"role": "user", "content": "[CONVERSATION SUMMARY]\nThey counted.\n[END SUMMARY]"},
        {"role": "assistant", "content": "answer 2"},
        {"role": "user", "content": "question 3"},
    ]
    assert "system" not in server.asked[2].json


# -- code execution ---------------------------------------------------------------------------------------------------


def test_code_execution_with_a_file_as_recorded(server: Replay, make: Make, tmp_path: Path) -> None:
    exchanges = recorded("anthropic/test_anthropic_code_execution_files.yaml")["interactions"]
    uploaded, answered = (one["response"]["parsed_body"] for one in exchanges[:2])
    path = tmp_path / "data.csv"
    path.write_text("item,value\napple,30\nbanana,70\n")
    server.play(Reply(uploaded), Reply(answered))
    client = make("anthropic", model="claude-sonnet-4-6")
    prompt = exchanges[1]["request"]["parsed_body"]["messages"][0]["content"][0]["text"]
    reply = client.send_message(prompt, files=[path], code_execution=True)
    upload, asked = server.asked
    assert (upload.method, upload.path) == ("POST", "/v1/files")
    assert b"banana,70" in upload.body
    assert meaning(asked.json) == {
        "model": "claude-sonnet-4-6",
        "max_tokens": 4096,
        "tools": [CODE],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "container_upload", "file_id": uploaded["id"]},
                    {"type": "text", "text": prompt},
                ],
            }
        ],
    }
    [execution] = reply.code_executions
    assert execution.code == answered["content"][0]["input"]["command"]
    assert (execution.stdout, execution.stderr, execution.exit, execution.outcome) == (
        "Sum of value column: 100.0\n",
        "",
        0,
        "OUTCOME_OK",
    )
    assert reply.text.startswith("The sum of the `value` column")


@pytest.mark.parametrize("streaming", [False, True])
def test_the_recorded_editor_and_shell(server: Replay, make: Make, streaming: bool) -> None:
    name = "anthropic/anthropic-code-execution-20250825.1"
    server.play(Reply(events=recorded(f"{name}.chunks.txt")) if streaming else Reply(recorded(f"{name}.json")))
    reply = make("anthropic").send_message("x", code_execution=True, on_text=print if streaming else None)
    assert {one.outcome for one in reply.code_executions} == {"OUTCOME_OK"}
    assert any(one.code.startswith("create /tmp/") for one in reply.code_executions)
    assert any(one.stdout and one.exit == 0 for one in reply.code_executions)


def ran(content: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    asked = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "bash_code_execution",
        "input": {"command": "python3 x.py"},
    }
    return asked, {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": content}


def result(**fields: Any) -> dict[str, Any]:
    return {
        "type": "bash_code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": [], **fields
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "outcome", "exit", "stderr"),
    [
        (result(), "OUTCOME_OK", 0, ""),
        (result(return_code=1, stderr="Traceback"), "OUTCOME_FAILED", 1, "Traceback"),
        (
            {"type": "bash_code_execution_tool_result_error", "error_code": "execution_time_exceeded"},
            "OUTCOME_DEADLINE_EXCEEDED",
            None,
            "execution_time_exceeded",
        ),
        (
            {"type": "bash_code_execution_tool_result_error", "error_code": "unavailable"},
            "OUTCOME_FAILED",
            None,
            "unavailable",
        ),
    ],
)
def test_outcomes(
    server: Replay, make: Make, content: dict[str, Any], outcome: str, exit: int | None, stderr: str
) -> None:
    server.play(Reply(claude(*ran(content))))
    [execution] = make("anthropic").send_message("x", code_execution=True).code_executions
    assert (execution.outcome, execution.exit, execution.stderr) == (outcome, exit, stderr)
    assert execution.code == "python3 x.py"


def test_files_that_the_code_made(server: Replay, make: Make, tmp_path: Path) -> None:
    made = result(content=[{"type": "bash_code_execution_output", "file_id": "file_1"}])
    described = {
        "id": "file_1", "type": "file", "filename": "sums.csv", "mime_type": "text/csv", "size_bytes": 4,
        "created_at": "2026-01-01T00:00:00Z", "downloadable": True,
    }  # fmt: skip
    server.play(Reply(claude(*ran(made))), Reply(described), Reply(data=b"a,b\n"))
    reply = make("anthropic").send_message("x", code_execution=True)
    [file] = reply.output_files
    assert reply.code_executions[0].output_files == (file,)
    assert (file.filename, file.size, file.mime_type) == ("sums.csv", 4, "text/csv")
    assert file.save(tmp_path).read_bytes() == b"a,b\n"
    assert [one.path for one in server.asked[1:]] == ["/v1/files/file_1", "/v1/files/file_1/content"]


def test_two_ids_with_one_name_are_two_files(server: Replay, make: Make, tmp_path: Path) -> None:
    """Anthropic tells no directories."""
    outputs = [{"type": "bash_code_execution_output", "file_id": id} for id in ("file_1", "file_2", "file_1")]
    described = {
        "type": "file", "filename": "r.csv", "mime_type": "text/csv", "size_bytes": 1,
        "created_at": "2026-01-01T00:00:00Z", "downloadable": True,
    }  # fmt: skip
    replies = [Reply({**described, "id": "file_1"}), Reply({**described, "id": "file_2"})]
    server.play(Reply(claude(*ran(result(content=outputs)))), *replies, Reply(data=b"1"), Reply(data=b"2"))
    one, two = make("anthropic").send_message("x", code_execution=True).output_files
    assert (two.path, one.path, two.filename) == ("r-2.csv", "r.csv", "r.csv")
    assert [(file.save(tmp_path).name, file.file_id) for file in (one, two)] == [
        ("r.csv", "file_1"),
        ("r-2.csv", "file_2"),
    ]
    assert (tmp_path / "r-2.csv").read_bytes() == b"2"


def test_the_container_is_used_again_while_it_lives(server: Replay, make: Make) -> None:
    alive = {"id": "container_1", "expires_at": "2999-01-01T00:00:00Z"}
    dead = {"id": "container_2", "expires_at": "2001-01-01T00:00:00Z"}
    server.play(
        Reply(claude(said("a"), container=alive)),
        Reply(claude(said("b"), container=dead)),
        Reply(claude(said("c"))),
        Reply(claude(said("d"))),
    )
    client = make("anthropic")
    for flag in (True, True, True, False):
        client.send_message("x", code_execution=flag)
    assert [one.json.get("container") for one in server.asked] == [None, "container_1", None, None]
    assert server.asked[3].json["tools"] == [NEWEST]  # the history speaks of it


def test_a_turn_that_paused_is_taken_up_again(server: Replay, make: Make) -> None:
    first = ran(result(stdout="1\n"))
    alive = {"id": "container_1", "expires_at": "2999-01-01T00:00:00Z"}
    server.play(
        Reply(claude(*first, stop_reason="pause_turn", container=alive)),
        Reply(claude(said("One."))),
        Reply(claude(said("b"))),
    )
    client = make("anthropic")
    reply = client.send_message("x", code_execution=True)
    assert (reply.text, len(reply.code_executions), reply.is_complete) == ("One.", 1, True)
    paused = {"role": "assistant", "content": list(first)}
    assert meaning(server.asked[1].json["messages"]) == [{"role": "user", "content": "x"}, paused]
    assert server.asked[1].json["container"] == "container_1"
    client.send_message("y")
    assert server.asked[2].json["messages"][1] == {"role": "assistant", "content": [*first, said("One.")]}


def test_files_for_the_model(server: Replay, make: Make, tmp_path: Path) -> None:
    uploaded = {
        "id": "file_1", "type": "file", "filename": "a.pdf", "mime_type": "application/pdf", "size_bytes": 4,
        "created_at": "2026-01-01T00:00:00Z", "downloadable": False,
    }  # fmt: skip
    (tmp_path / "a.pdf").write_bytes(b"%PDF")
    (tmp_path / "b.png").write_bytes(b"\x89PNG")
    server.play(Reply(uploaded), Reply({**uploaded, "id": "file_2", "filename": "b.png"}), Reply(claude(said("ok"))))
    make("anthropic").send_message("Read", files=[tmp_path / "a.pdf", tmp_path / "b.png"])
    assert server.asked[2].json["messages"][0]["content"] == [
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_2"}},
        {"type": "text", "text": "Read"},
    ]


def test_a_long_answer_needs_no_one_who_listens(server: Replay, make: Make) -> None:
    """The SDK sends nothing without a stream where an answer may take longer than ten minutes."""
    server.play(claude_streamed("It ", "is."))
    assert make("anthropic", max_tokens=100_000).send_message("x").text == "It is."
    assert (server.asked[0].json["max_tokens"], server.asked[0].json["stream"]) == (100_000, True)


def test_pauses_have_an_end(server: Replay, make: Make) -> None:
    paused = Reply(claude(said("."), stop_reason="pause_turn"))
    server.play(*[paused] * 22)
    reply = make("anthropic").send_message("x", code_execution=True)
    assert (reply.finish_reason, reply.is_complete, len(server.asked)) == ("length", False, 21)
    assert reply.usage is not None
    assert reply.usage.output_tokens == 21


class Cloud:
    """A client of a cloud's: what is on its wire, only its own SDK can read."""

    def __init__(self, sdk: Anthropic) -> None:
        self.messages = self
        self._sdk = sdk

    def create(self, **given: Any) -> Any:
        assert given["stream"] is True
        return self._sdk.messages.create(**given)


@pytest.mark.parametrize("name", ["anthropic-text", "anthropic-code-execution-20250825.1"])
def test_a_client_of_a_clouds_is_read_by_its_sdk(name: str, server: Replay, anthropic_sdk: Anthropic) -> None:
    replies = [Reply(events=recorded(f"anthropic/{name}.chunks.txt")), claude_streamed("b")] * 2
    server.play(*replies)
    heard, bodies = [], []
    for sdk in (anthropic_sdk, Cloud(anthropic_sdk)):
        client = AnthropicClient(client=cast(Anthropic, sdk), settings=ApiSettings())
        heard.append([client.send_message("x", code_execution=True).text, client.send_message("y").text])
        bodies.append([one.json for one in server.asked])
        server.asked.clear()
    assert heard[0] == heard[1]
    assert heard[0][0]
    assert bodies[0] == bodies[1]


def test_what_on_text_raises_comes_out_and_ends_the_answer(server: Replay, make: Make) -> None:
    client = make("anthropic")
    server.play(claude_streamed("Hel", "lo"), Reply(claude(said("ok"))))

    def refuse(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="Hel"):
        client.send_message("x", on_text=refuse)
    assert client.send_message("x").text == "ok"
    assert meaning(server.asked[1].json["messages"]) == [{"role": "user", "content": "x"}]


def test_a_history_without_the_vendors_blocks_goes_as_words(server: Replay, make: Make) -> None:
    client = make("anthropic")
    client.context.add_message("user", "a")
    client.context.add_message("assistant", "b")
    server.play(Reply(claude(said("c"))))
    client.send_message("d")
    assert [one["content"] for one in meaning(server.asked[0].json["messages"])] == ["a", "b", "d"]
