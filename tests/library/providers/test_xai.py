"""xAI over the OpenAI SDK: its own words for the system prompt, code and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import message, refused, responded

from belljar.providers import XAIError

Make = Callable[..., Any]


def test_the_system_prompt_is_a_message_said_when_it_changes(server: Replay, make: Make) -> None:
    client = make("xai", model="grok-4.6", system="Be brief.")
    server.play(*(responded(f"r{n}", message("a")) for n in range(2)), refused(500), responded("r3", message("a")))
    client.send_message("one")
    client.send_message("two")
    with pytest.raises(XAIError):
        client.send_message("three", "It is Monday.")
    client.send_message("three", "It is Monday.")
    system = {"role": "system", "content": "Be brief."}
    changed = {"role": "system", "content": "Be brief.\n\nIt is Monday."}
    assert [one.meaning["input"] for one in server.asked] == [
        [system, {"role": "user", "content": "one"}],
        [{"role": "user", "content": "two"}],
        [changed, {"role": "user", "content": "three"}],
        [changed, {"role": "user", "content": "three"}],
    ]
    assert [one.meaning.get("previous_response_id") for one in server.asked] == [None, "r0", "r1", "r1"]
    assert all("instructions" not in one.meaning for one in server.asked)


def test_recorded_code_execution(server: Replay, make: Make) -> None:
    body = recorded("xai/xai-code-execution-tool.1.json")
    server.play(Reply(body))
    reply = make("xai", model="grok-4.6").send_message("Fibonacci", code_execution=True)
    assert server.asked[0].meaning == {
        "model": "grok-4.6",
        "input": [{"role": "user", "content": "Fibonacci"}],
        "max_output_tokens": 4096,
        "tools": [{"type": "code_interpreter"}],
        "include": ["code_interpreter_call.outputs"],
    }
    [execution] = reply.code_executions
    assert execution.code.startswith("def fibonacci(n):")
    assert (execution.outcome, reply.text) == ("OUTCOME_OK", "55")


def test_recorded_streams(server: Replay, make: Make) -> None:
    for name in ("xai-text.chunks.txt", "xai-text-with-reasoning-streaming.1.chunks.txt"):
        events = recorded(f"xai/{name}")
        if events[0].get("type") != "response.created":
            continue  # chat completions, which xAI speaks too
        server.play(Reply(events=events))
        pieces: list[str] = []
        reply = make("xai").send_message("x", on_text=pieces.append)
        assert reply.text == "".join(pieces) != ""


def test_files_are_attached(server: Replay, make: Make, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b\n")
    uploaded = {
        "id": "file-1", "object": "file", "bytes": 4, "created_at": 1, "filename": "data.csv",
        "purpose": "assistants", "status": "processed",
    }  # fmt: skip
    server.play(Reply(uploaded), responded("r1", message("ok")))
    make("xai", tools=TOOLS).send_message("Sum", files=[path], code_execution=True)
    assert b'name="purpose"\r\n\r\nassistants' in server.asked[0].body
    asked = server.asked[1].meaning
    assert asked["input"] == [
        {
            "role": "user",
            "content": [{"type": "input_file", "file_id": "file-1"}, {"type": "input_text", "text": "Sum"}],
        }
    ]
    assert [tool["type"] for tool in asked["tools"]] == ["function", "code_interpreter"]


def test_a_picture_to_look_at_goes_along_and_is_not_remembered(server: Replay, make: Make, tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(b"\x89PNG")
    client = make("xai", system="Be brief.")
    server.play(responded("r1", message("Hi")), refused(500), *(responded(f"r{n}", message("a")) for n in (2, 3, 4)))
    client.send_message("Hello")
    with pytest.raises(XAIError):
        client.send_message("What is it?", files=[path])
    client.send_message("Well?")
    client.send_message("What is it?", files=[path])
    client.send_message("And now?")
    _, failed, plain, seen, later = (one.json for one in server.asked)
    picture = failed["input"][-1]["content"][0]
    assert (picture["type"], picture["image_url"]) == ("input_image", "data:image/png;base64,iVBORw==")
    assert seen["input"][-1]["content"][0] == picture
    assert (plain["store"], plain["previous_response_id"], len(plain["input"])) == (True, "r1", 1)
    for body, said in ((seen, 6), (later, 8)):
        assert (body["store"], body.get("previous_response_id"), len(body["input"])) == (False, None, said)
    assert picture in later["input"][5]["content"]
    assert not client.get_context_stats()["has_response_chain"]


@pytest.mark.parametrize(("name", "code"), [("plot.png", True), ("drawing.svg", False)])
def test_other_pictures_are_files(server: Replay, make: Make, tmp_path: Path, name: str, code: bool) -> None:
    (tmp_path / name).write_bytes(b"x")
    about = {"id": "file-1", "object": "file", "bytes": 1, "created_at": 1, "purpose": "assistants"}
    server.play(Reply({**about, "filename": name, "status": "processed"}), responded("r1", message("ok")))
    make("xai").send_message("Look", files=[tmp_path / name], code_execution=code)
    assert server.asked[1].meaning["input"][0]["content"][0] == {"type": "input_file", "file_id": "file-1"}


def test_effort_goes_to_models_that_take_it(server: Replay, make: Make) -> None:
    for model, sent in {"grok-4.6": {"effort": "high"}, "grok-4.20": None}.items():
        client = make("xai", model=model)
        client.set_reasoning_effort("xhigh")
        server.play(responded("r1", message("a")))
        client.send_message("x")
        assert server.asked[-1].meaning.get("reasoning") == sent


@pytest.mark.parametrize("told", [{"out.csv": "file-9"}, [{"file_id": "file-9", "name": "out.csv"}]])
def test_files_that_its_code_refers_to(server: Replay, make: Make, told: Any) -> None:
    record = {"stdout": "1\n", "stderr": "", "output_files": told, "error": "", "ret": ""}
    ran = {
        "type": "code_interpreter_call", "id": "fc_1", "name": "code_execution", "status": "completed",
        "arguments": '{"code": "1"}', "output": json.dumps(record),
    }  # fmt: skip
    about = {
        "id": "file-9", "object": "file", "bytes": 4, "created_at": 1, "filename": "out.csv",
        "purpose": "assistants", "status": "processed",
    }  # fmt: skip
    server.play(responded("r1", ran, message("ok")), Reply(about), Reply(data=b"a,b\n"))
    reply = make("xai").send_message("x", code_execution=True)
    [file] = reply.output_files
    assert reply.code_executions[0].output_files == (file,)
    assert (file.filename, file.size, file.mime_type) == ("out.csv", 4, "text/csv")
    assert file.read() == b"a,b\n"
    assert [one.path for one in server.asked[1:]] == ["/v1/files/file-9", "/v1/files/file-9/content"]
