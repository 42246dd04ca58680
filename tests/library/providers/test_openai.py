"""OpenAI: what is sent, how it is chained, summarised and mended, and what is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openai import OpenAI
from tests.library.providers import wires
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import TOO_LONG, function_call, message, refused, responded, streamed

from belljar.config import ApiSettings
from belljar.errors import ContextTooLong, InvalidRequest
from belljar.providers import FileReference, OpenAIClient, OpenAIError

Make = Callable[..., Any]
STRICT = {
    "type": "function",
    "name": "run_command",
    "description": "Execute a shell command",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "requires_confirmation": {"type": ["boolean", "null"], "default": False},
        },
        "required": ["command", "requires_confirmation"],
        "additionalProperties": False,
    },
    "strict": True,
}


def test_the_whole_request_and_the_chain(server: Replay, make: Make) -> None:
    client = make(model="gpt-5.2", tools=TOOLS, system="Be brief.")
    server.play(responded("resp_1", message("Hello!")), responded("resp_2", message("Again!")))
    first = client.send_message("Hello", "It is Monday.")
    assert (first.text, first.tool_calls, first.is_complete, first.requires_action) == ("Hello!", [], True, False)
    client.send_message("And now?")
    one, two = server.asked
    assert (one.method, one.path) == ("POST", "/v1/responses")
    assert one.meaning == {
        "model": "gpt-5.2",
        "instructions": "Be brief.\n\nIt is Monday.",
        "input": [{"role": "user", "content": "Hello"}],
        "tools": [STRICT],
        "max_output_tokens": 4096,
    }
    assert two.meaning == {
        "model": "gpt-5.2",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "And now?"}],
        "tools": [STRICT],
        "max_output_tokens": 4096,
        "previous_response_id": "resp_1",
    }


def test_clearing_breaks_the_chain(server: Replay, make: Make) -> None:
    client = make()
    server.play(responded("resp_1", message("a")), responded("resp_2", message("b")))
    client.send_message("one")
    assert client.get_context_stats()["has_response_chain"] is True
    client.clear_history()
    stats = client.get_context_stats()
    assert (stats["has_response_chain"], stats["message_count"]) == (False, 0)
    client.send_message("two")
    assert server.asked[1].meaning["input"] == [{"role": "user", "content": "two"}]
    assert "previous_response_id" not in server.asked[1].meaning


def test_streaming_hands_over_each_piece_and_returns_the_whole(server: Replay, make: Make) -> None:
    client = make()
    server.play(streamed("resp_1", "Hel", "lo", "!"), responded("resp_2", message("b")))
    pieces: list[str] = []
    reply = client.send_message("Hi", on_text=pieces.append)
    assert pieces == ["Hel", "lo", "!"]
    assert reply.text == "Hello!"
    assert server.asked[0].json["stream"] is True
    client.send_message("more")
    assert server.asked[1].meaning["previous_response_id"] == "resp_1"


def test_parallel_calls_with_defaults_for_nulls_and_their_results(server: Replay, make: Make) -> None:
    client = make(tools=TOOLS)
    server.play(
        responded(
            "resp_1",
            function_call("run_command", {"command": "ls", "requires_confirmation": None}, "call_a"),
            function_call("run_command", {"command": "pwd", "requires_confirmation": True}, "call_b"),
        ),
        responded("resp_2", message("Two files.")),
    )
    reply = client.send_message("List files")
    assert reply.tool_calls == [
        {"id": "call_a", "name": "run_command", "input": {"command": "ls", "requires_confirmation": False}},
        {"id": "call_b", "name": "run_command", "input": {"command": "pwd", "requires_confirmation": True}},
    ]
    assert (reply.is_complete, reply.requires_action) == (False, True)
    results = [
        {"tool_use_id": "call_a", "content": "a b"},
        {"tool_use_id": "call_b", "content": "no", "is_error": True},
    ]
    assert client.send_tool_results(results).text == "Two files."
    asked = server.asked[1].meaning
    assert asked["previous_response_id"] == "resp_1"
    assert asked["input"] == [
        {"type": "function_call_output", "call_id": "call_a", "output": "a b"},
        {"type": "function_call_output", "call_id": "call_b", "output": "Error: no"},
    ]


def test_arguments_that_are_no_json_are_handed_on_as_they_came(server: Replay, make: Make) -> None:
    client = make(tools=TOOLS)
    server.play(responded("resp_1", {**function_call("run_command", {}), "arguments": '{"command": '}))
    [call] = client.send_message("x").tool_calls
    assert call == {"id": "call_1", "name": "run_command", "input": {}, "invalid": '{"command": '}


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([], "call_1 is not answered"),
        ([{"tool_use_id": "call_2", "content": ""}], "call_1 is not answered, call_2 was not asked for"),
    ],
)
def test_results_must_fit_the_calls(server: Replay, make: Make, results: list[Any], said: str) -> None:
    client = make(tools=TOOLS)
    server.play(responded("resp_1", function_call("run_command", {"command": "ls"})))
    client.send_message("List files")
    with pytest.raises(InvalidRequest, match=said):
        client.send_tool_results(results)
    with pytest.raises(InvalidRequest, match="waits for the results of call_1"):
        client.send_message("never mind")
    assert len(server.asked) == 1


def test_parallel_tool_calls_can_be_off(server: Replay, make: Make) -> None:
    client = make(tools=TOOLS, parallel_tool_calls=False)
    server.play(responded("resp_1", message("a")))
    client.send_message("x")
    assert server.asked[0].meaning["parallel_tool_calls"] is False


# -- effort and verbosity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effort", ["none", "low", "medium", "high", "xhigh"])
def test_effort_and_verbosity_go_out_together(server: Replay, make: Make, effort: str) -> None:
    client = make(model="gpt-5.2")
    server.play(responded("resp_1", message("a")))
    client.set_reasoning_effort(effort)
    client.set_verbosity("low")
    client.send_message("x")
    assert server.asked[0].meaning["reasoning"] == {"effort": effort}
    assert server.asked[0].meaning["text"] == {"verbosity": "low"}
    stats = client.get_context_stats()
    assert (stats["reasoning_effort"], stats["verbosity"], stats["is_gpt5_model"]) == (effort, "low", True)


@pytest.mark.parametrize("model", ["gpt-5.2", "gpt-4o"])
def test_nothing_is_sent_of_what_was_not_set(server: Replay, make: Make, model: str) -> None:
    client = make(model=model)
    server.play(responded("resp_1", message("a")))
    client.send_message("x")
    assert not {"reasoning", "text", "tools", "instructions", "previous_response_id"} & set(server.asked[0].meaning)


def test_a_model_that_takes_neither_gets_neither(server: Replay, make: Make, caplog: pytest.LogCaptureFixture) -> None:
    client = make(model="gpt-5.2")
    client.set_reasoning_effort("high")
    client.set_verbosity("low")
    assert caplog.messages == []
    client.set_model("gpt-4o")
    client.set_verbosity("high")
    assert caplog.messages[-1] == "gpt-4o takes no verbosity: it is left out"
    server.play(responded("resp_1", message("a")))
    client.send_message("x")
    assert server.asked[0].meaning["model"] == "gpt-4o"
    assert not {"reasoning", "text"} & set(server.asked[0].meaning)
    stats = client.get_context_stats()
    assert stats.get("reasoning_effort", "N/A") == stats.get("verbosity", "N/A") == "N/A"


def test_a_model_gets_the_effort_that_it_has(server: Replay, make: Make) -> None:
    client = make(model="gpt-5-mini")
    client.set_reasoning_effort("xhigh")
    server.play(responded("resp_1", message("a")))
    client.send_message("x")
    assert server.asked[0].meaning["reasoning"] == {"effort": "high"}


def test_values_that_there_are_not_are_refused(make: Make) -> None:
    client = make()
    with pytest.raises(InvalidRequest, match="effort: 'hard' is not one of none, minimal, low"):
        client.set_reasoning_effort("hard")
    with pytest.raises(InvalidRequest, match="verbosity: 'loud' is not one of low, medium, high"):
        client.set_verbosity("loud")
    assert client.get_context_stats()["verbosity"] == "medium"


# -- the context ------------------------------------------------------------------------------------------------------


def filled(server: Replay, make: Make, turns: int, **settings: Any) -> OpenAIClient:
    """After that many turns."""
    client: OpenAIClient = make(model="gpt-5.2", system="Be brief.", **settings)
    for n in range(turns):
        server.play(responded(f"resp_{n}", message(f"answer {n}")))
        client.send_message(f"question {n}")
    server.asked.clear()
    return client


@pytest.mark.parametrize("streaming", [False, True])
def test_a_full_context_is_summarised_and_a_new_chain_begins_with_the_recent_messages(
    server: Replay, make: Make, streaming: bool
) -> None:
    client = filled(server, make, 4, min_recent_messages=3)
    client.context.context_budget = 130
    answer = streamed("resp_b", "So ", "it is.") if streaming else responded("resp_b", message("So it is."))
    server.play(responded("resp_s", message("They counted.")), answer, responded("resp_c", message("z")))
    pieces: list[str] = []
    reply = client.send_message("question 4", on_text=pieces.append if streaming else None)
    assert reply.text == "So it is."
    assert "".join(pieces) == ("So it is." if streaming else "")
    summarised, asked = (one.meaning for one in server.asked)
    assert summarised["store"] is False
    assert "previous_response_id" not in summarised
    told = summarised["input"][0]["content"]
    assert "USER: question 0" in told
    assert "ASSISTANT: answer 2" in told
    assert "question 3" not in told
    assert asked["input"] == [
        {"role": "user", "content": "question 3"},
        {"role": "assistant", "content": "answer 3"},
        {"role": "user", "content": "question 4"},
    ]
    assert asked["instructions"] == "Be brief.\n\n[CONVERSATION SUMMARY]\nThey counted.\n[END SUMMARY]"
    assert "previous_response_id" not in asked
    stats = client.get_context_stats()
    assert (stats["summarized_message_count"], stats["has_summary"], stats["message_count"]) == (6, True, 4)
    client.context.context_budget = 150_000
    client.send_message("question 5")
    assert server.asked[2].meaning["previous_response_id"] == "resp_b"
    assert server.asked[2].meaning["input"] == [{"role": "user", "content": "question 5"}]
    assert "They counted." in server.asked[2].meaning["instructions"]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_a_conversation_that_is_too_long_is_summarised_and_sent_again_once(
    server: Replay, make: Make, streaming: bool, inside: bool
) -> None:
    """The server may say so before the stream or in it."""
    client = filled(server, make, 4, min_recent_messages=2)
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    failed = wires.response("resp_x", status="failed", error=error)
    too_long = TOO_LONG
    if inside and streaming:
        too_long = Reply(events=[{"type": "response.failed", "sequence_number": 0, "response": failed}])
    elif inside:
        too_long = Reply(failed)
    answer = streamed("resp_b", "ok") if streaming else responded("resp_b", message("ok"))
    server.play(too_long, responded("resp_s", message("They counted.")), answer)
    pieces: list[str] = []
    reply = client.send_message("question 4", on_text=pieces.append if streaming else None)
    assert reply.text == "ok"
    assert pieces == (["ok"] if streaming else [])
    first, _, second = (one.meaning for one in server.asked)
    assert (first["previous_response_id"], first["input"]) == ("resp_3", [{"role": "user", "content": "question 4"}])
    assert second["input"] == [{"role": "assistant", "content": "answer 3"}, {"role": "user", "content": "question 4"}]
    assert "previous_response_id" not in second
    assert client.context.recent[-2]["content"] == "question 4"


def test_it_is_tried_again_only_once_and_the_turn_is_not_kept(server: Replay, make: Make) -> None:
    client = filled(server, make, 4, min_recent_messages=2)
    server.play(TOO_LONG, responded("resp_s", message("They counted.")), TOO_LONG)
    with pytest.raises(OpenAIError) as caught:
        client.send_message("question 4")
    assert caught.value.error_code == "CONTEXT_LENGTH_EXCEEDED"
    assert isinstance(caught.value, ContextTooLong)
    assert len(server.asked) == 3
    assert [one["content"] for one in client.context.recent] == ["answer 3"]
    server.play(responded("resp_b", message("ok")))
    client.send_message("question 4")
    assert server.asked[3].meaning["input"] == [
        {"role": "assistant", "content": "answer 3"},
        {"role": "user", "content": "question 4"},
    ]


def test_with_nothing_to_summarise_it_fails_at_once(server: Replay, make: Make) -> None:
    server.play(TOO_LONG)
    with pytest.raises(ContextTooLong):
        make().send_message("x" * 1000)
    assert len(server.asked) == 1


def test_a_summary_keeps_calls_and_their_results_together(server: Replay, make: Make) -> None:
    client = filled(server, make, 2, min_recent_messages=2)
    client.tools = TOOLS
    server.play(
        responded("resp_a", message("Let me look."), function_call("run_command", {"command": "ls"}, "call_a")),
        TOO_LONG,
        responded("resp_s", message("They counted.")),
        responded("resp_b", message("ok")),
    )
    client.send_message("List files")
    client.send_tool_results([{"tool_use_id": "call_a", "content": {"files": ["a"]}}])
    assert server.asked[-1].meaning["input"] == [
        {"role": "assistant", "content": "Let me look."},
        {"type": "function_call", "call_id": "call_a", "name": "run_command", "arguments": '{"command": "ls"}'},
        {"type": "function_call_output", "call_id": "call_a", "output": '{"files": ["a"]}'},
    ]


def test_a_failed_request_can_be_sent_again(server: Replay, make: Make) -> None:
    client = filled(server, make, 1)
    server.play(refused(500, type="server_error"), responded("resp_b", message("ok")))
    with pytest.raises(OpenAIError):
        client.send_message("question 1")
    client.send_message("question 1")
    assert server.asked[0].meaning == server.asked[1].meaning
    assert [one["content"] for one in client.context.recent] == ["question 0", "answer 0", "question 1", "ok"]


def test_a_chain_that_the_server_has_lost_is_begun_again(server: Replay, make: Make) -> None:
    client = filled(server, make, 1)
    lost = refused(400, "gone", code="previous_response_not_found", param="previous_response_id")
    server.play(lost, responded("resp_b", message("ok")))
    assert client.send_message("question 1").text == "ok"
    assert server.asked[1].meaning["input"] == [
        {"role": "user", "content": "question 0"},
        {"role": "assistant", "content": "answer 0"},
        {"role": "user", "content": "question 1"},
    ]


def test_what_the_caller_raises_is_his_own(server: Replay, make: Make) -> None:
    client = make()
    server.play(streamed("resp_1", "a", "b"))

    def on_text(piece: str) -> None:
        raise ZeroDivisionError(piece)

    with pytest.raises(ZeroDivisionError, match="a"):
        client.send_message("x", on_text=on_text)
    assert client.context.message_count == 0


def test_nothing_is_asked_twice_once_something_was_said(server: Replay, make: Make) -> None:
    client = filled(server, make, 4, min_recent_messages=2)
    events = list(streamed("resp_b", "So").events or ())[:-2]
    error = {"code": "context_length_exceeded", "message": "too long", "type": "invalid_request_error", "param": None}
    server.play(Reply(events=[*events, {"type": "error", "sequence_number": 9, "error": error}]))
    with pytest.raises(ContextTooLong):
        client.send_message("x", on_text=lambda piece: None)
    assert len(server.asked) == 1


def test_an_answer_that_was_cut_off_says_so(server: Replay, make: Make) -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    server.play(responded("resp_1", message("Once upon"), **cut))
    reply = make().send_message("Tell me")
    assert (reply.text, reply.is_complete, reply.requires_action) == ("Once upon", False, False)


def test_a_stream_that_ends_too_soon_is_an_error(server: Replay, make: Make) -> None:
    server.play(Reply(events=list(streamed("resp_1", "a").events or ())[:-1]))
    with pytest.raises(OpenAIError, match="in the middle"):
        make().send_message("x", on_text=lambda piece: None)


def test_the_models_words_for_no_are_its_text(server: Replay, make: Make) -> None:
    item = {**message(""), "content": [{"type": "refusal", "refusal": "I will not."}]}
    server.play(responded("resp_1", item))
    assert make().send_message("x").text == "I will not."


# -- code execution and files -----------------------------------------------------------------------------------------


def test_code_execution_with_files(server: Replay, make: Make, tmp_path: Any) -> None:
    path = tmp_path / "data.csv"
    path.write_text("item,value\napple,30\n")
    exchanges = recorded("openai/test_openai_code_execution_files.yaml")["interactions"]
    bodies = [one["response"]["parsed_body"] for one in exchanges if "parsed_body" in one["response"]]
    uploaded = next(one for one in bodies if one["object"] == "file")
    answered = next(one for one in bodies if one["object"] == "response")
    server.play(Reply(uploaded), Reply(answered), Reply(answered))
    client = make(model="gpt-5.2")
    reply = client.send_message("Sum the values", files=[path], code_execution=True)
    upload, asked = server.asked
    assert (upload.method, upload.path) == ("POST", "/v1/files")
    assert b'name="purpose"\r\n\r\nuser_data' in upload.body
    assert b"apple,30" in upload.body
    assert asked.meaning == {
        "model": "gpt-5.2",
        "input": [{"role": "user", "content": "Sum the values"}],
        "max_output_tokens": 4096,
        "tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": [uploaded["id"]]}}],
        "include": ["code_interpreter_call.outputs"],
    }
    [execution] = reply.code_executions
    [cell] = [item for item in answered["output"] if item["type"] == "code_interpreter_call"]
    logs = "".join(output["logs"] for output in cell["outputs"] or [])
    assert (execution.code, execution.stdout, execution.outcome) == (cell["code"], logs, "OUTCOME_OK")
    client.send_message("And now?", code_execution=True)
    assert server.asked[2].meaning["tools"] == [{"type": "code_interpreter", "container": {"type": "auto"}}]


def cited(id: str, filename: str) -> dict[str, Any]:
    return {
        "type": "container_file_citation", "container_id": "cntr_1", "file_id": id, "filename": filename,
        "start_index": 0, "end_index": 0,
    }  # fmt: skip


def cell(**fields: Any) -> dict[str, Any]:
    return {
        "id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "1", "container_id": "cntr_1",
        "outputs": [], **fields,
    }  # fmt: skip


def test_cited_files_can_be_read_and_saved_under_their_own_name_only(server: Replay, make: Make, tmp_path: Any) -> None:
    answer = message("Done")
    answer["content"][0]["annotations"] = [cited("cfile_1", "../../sums.csv"), cited("cfile_1", "../../sums.csv")]
    described = {
        "id": "cfile_1", "object": "container.file", "container_id": "cntr_1", "created_at": 1, "bytes": None,
        "path": "/mnt/data/sums.csv", "source": "assistant",
    }  # fmt: skip
    server.play(
        responded("resp_1", cell(), answer),
        Reply(data=b"a,b\n"),
        Reply(described),
        Reply(data=b"a,b\n"),
        Reply(data=b"a,b\n"),
    )
    reply = make().send_message("x", code_execution=True)
    [file] = reply.output_files
    assert reply.code_executions[0].output_files == (file,)
    assert (file.file_id, file.container_id, file.filename, file.mime_type) == (
        "cfile_1",
        "cntr_1",
        "../../sums.csv",
        "text/csv",
    )
    assert len(server.asked) == 1
    assert file.read() == b"a,b\n"
    assert server.asked[1].path == "/v1/containers/cntr_1/files/cfile_1/content"
    assert (file.size, file.size) == (4, 4)
    assert [one.path for one in server.asked[2:]] == [
        "/v1/containers/cntr_1/files/cfile_1",
        "/v1/containers/cntr_1/files/cfile_1/content",
    ]
    inner = tmp_path / "inner"
    inner.mkdir()
    assert file.save(inner) == inner / "sums.csv"
    assert (inner / "sums.csv").read_bytes() == b"a,b\n"


def test_two_ids_with_one_name_are_two_files(server: Replay, make: Make, tmp_path: Any) -> None:
    """Citations tell names; where the files are is asked for when it matters."""
    answer = message("Done")
    ids = ["cfile_1", "cfile_2", "cfile_3", "cfile_4"]
    names = ["r.csv", "r.csv", "r.csv", "cfile_4.png"]
    answer["content"][0]["annotations"] = [cited(*one) for one in zip(ids, names, strict=True)]
    where = ["/mnt/data/a/r.csv", "/mnt/data/../../b/r.csv", "/tmp/r.csv"]
    described = [
        {"id": id, "object": "container.file", "container_id": "cntr_1", "created_at": 1, "bytes": 1, "path": path,
         "source": "assistant"}
        for id, path in zip(ids, where, strict=False)
    ]  # fmt: skip
    server.play(responded("resp_1", cell(), answer), *map(Reply, described), *(Reply(data=b"x") for _ in ids))
    reply = make().send_message("x", code_execution=True)
    assert [one.filename for one in reply.output_files] == names
    assert len(server.asked) == 1
    assert [one.path for one in reply.output_files] == ["a/r.csv", "b/r.csv", "r.csv", "figure-1.png"]
    assert [one.save(tmp_path).name for one in reply.output_files] == ["r.csv", "r-2.csv", "r-3.csv", "figure-1.png"]
    assert len(server.asked) == 8


def test_a_picture_that_is_not_cited_is_a_file_too(server: Replay, make: Make) -> None:
    picture = {"type": "image", "url": "data:image/png;base64,iVBORw=="}
    server.play(responded("resp_1", cell(outputs=[picture]), message("Done")))
    [file] = make().send_message("x", code_execution=True).output_files
    assert (file.filename, file.size, file.mime_type, file.read()) == ("image-1.png", 4, "image/png", b"\x89PNG")


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, "OUTCOME_OK"),
        ({"status": "failed"}, "OUTCOME_FAILED"),
        ({"status": "incomplete"}, "OUTCOME_FAILED"),
        ({"belljar": {"exit": "raised"}}, "OUTCOME_FAILED"),
        ({"belljar": {"exit": "killed"}, "status": "failed"}, "OUTCOME_FAILED"),
        ({"belljar": {"exit": "timed_out"}, "status": "failed"}, "OUTCOME_DEADLINE_EXCEEDED"),
    ],
)
def test_outcomes(server: Replay, make: Make, fields: dict[str, Any], outcome: str) -> None:
    server.play(responded("resp_1", cell(**fields), message("Done")))
    [execution] = make().send_message("x", code_execution=True).code_executions
    assert execution.outcome == outcome


def test_the_tool_goes_on_with_the_results_of_other_tools(server: Replay, make: Make) -> None:
    client = make(tools=TOOLS)
    server.play(
        responded("resp_1", function_call("run_command", {"command": "ls"})), responded("resp_2", message("ok"))
    )
    client.send_message("x", code_execution=True)
    client.send_tool_results([{"tool_use_id": "call_1", "content": ""}])
    assert server.asked[1].meaning["tools"][-1] == {"type": "code_interpreter", "container": {"type": "auto"}}


def test_files_without_code_are_for_the_model(server: Replay, make: Make, tmp_path: Any) -> None:
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF")
    uploaded = {
        "id": "file-1", "object": "file", "bytes": 4, "created_at": 1, "filename": "report.pdf",
        "purpose": "user_data", "status": "processed",
    }  # fmt: skip
    server.play(Reply(uploaded), responded("resp_1", message("ok")))
    make().send_message("Read this", files=[str(path)])
    assert server.asked[1].meaning["input"] == [
        {
            "role": "user",
            "content": [{"type": "input_file", "file_id": "file-1"}, {"type": "input_text", "text": "Read this"}],
        }
    ]


def test_a_file_that_is_not_there_is_named(make: Make) -> None:
    with pytest.raises(InvalidRequest, match=r"there is no file 'nothing\.csv'"):
        make().send_message("x", files=["nothing.csv"])


def test_files_can_be_uploaded_by_another(server: Replay, openai_sdk: OpenAI, tmp_path: Any) -> None:
    from pathlib import Path

    from belljar.providers import FileReference

    class Elsewhere:
        def upload(self, path: Path) -> FileReference:
            return FileReference(id=f"file-{path.name}", filename=path.name, mime_type="text/csv")

    (tmp_path / "a.csv").write_text("a")
    given = FileReference(id="file-b", filename="b.csv", mime_type="text/csv")
    client = OpenAIClient(client=openai_sdk, settings=ApiSettings(), uploads=Elsewhere())
    server.play(responded("resp_1", message("ok")))
    client.send_message("x", files=[tmp_path / "a.csv", given], code_execution=True)
    [tool] = server.asked[0].meaning["tools"]
    assert tool["container"]["file_ids"] == ["file-a.csv", "file-b"]


def test_a_picture_is_looked_at_and_a_document_read(server: Replay, make: Make) -> None:
    server.play(responded("resp_1", message("A bird.")))
    files = [
        FileReference(id="file-1", filename="a.png", mime_type="image/png"),
        FileReference(id="file-2", filename="a.pdf", mime_type="application/pdf"),
    ]
    make().send_message("What is it?", files=files)
    [asked] = server.asked[0].meaning["input"]
    assert [(part["type"], part.get("file_id")) for part in asked["content"]] == [
        ("input_image", "file-1"),
        ("input_file", "file-2"),
        ("input_text", None),
    ]
