"""The library against the vendors themselves: what it says, streams, calls, reads and runs. Needs keys, costs cents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from belljar.files import CodeExecutionArgs, files_api_of, run_code_execution
from belljar.providers import BaseClient

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Make = Callable[..., BaseClient]

TOOL = {
    "name": "warehouse",
    "description": "How many pieces of an article are in stock.",
    "input_schema": {
        "type": "object",
        "properties": {"article": {"type": "string"}},
        "required": ["article"],
    },
}


def test_a_message(make: Make) -> None:
    client = make(system="Answer with one word.")
    reply = client.send_message("What is the capital of France?")
    assert "paris" in reply.text.lower()
    assert reply.is_complete
    assert reply.usage is not None
    assert 0 < reply.usage.input_tokens < reply.usage.total_tokens
    again = client.send_message("And of the country that you were asked for last, the river there?")
    assert "seine" in again.text.lower()


def test_a_stream(make: Make) -> None:
    pieces: list[str] = []
    reply = make().send_message("Count from 1 to 60 in digits, with spaces.", on_text=pieces.append)
    assert len(pieces) > 1
    assert "".join(pieces) == reply.text
    assert "59 60" in reply.text


@pytest.mark.parametrize("streaming", [False, True])
def test_a_tool(make: Make, streaming: bool) -> None:
    client = make(tools=[TOOL])
    on_text = (lambda text: None) if streaming else None
    asked = client.send_message("How many lamps are in stock? Ask the warehouse.", on_text=on_text)
    assert asked.requires_action
    [call] = asked.tool_calls
    assert (call["name"], "lamp" in call["input"]["article"].lower()) == ("warehouse", True)
    told = client.send_tool_results([{"tool_use_id": call["id"], "content": "4711"}], on_text=on_text)
    assert "4711" in told.text.replace(",", "")


def test_code_execution(make: Make) -> None:
    client = make()
    reply = client.send_message("Run Python: print(2**89 - 1). Then tell me the number.", code_execution=True)
    assert reply.code_executions
    assert reply.code_executions[-1].outcome == "OUTCOME_OK"
    assert "618970019642690137449562111" in reply.text.replace(",", "")


def test_a_file_in_and_a_file_out(make: Make, tmp_path: Path) -> None:
    data = tmp_path / "sales.csv"
    data.write_text("month,sales\n" + "".join(f"m{n},{n * n}\n" for n in range(1, 40)))
    client = make()
    files = files_api_of(client)
    assert files is not None
    message = (
        "Read the attached sales.csv with Python. Print the sum of the column sales. Plot sales by month with"
        " matplotlib and save it as a PNG, so that I can download it."
    )
    got = run_code_execution(CodeExecutionArgs(message, (str(data),)), client=client, files=files)
    assert not got.failed_uploads
    assert "20540" in got.assistant.text.replace(",", "") + str(got.assistant.code_execution_result)
    assert {one.file_id for one in got.uploaded_files}.isdisjoint({one.file_id for one in files.list_files()})
    if client.provider == "xai" and not got.output_files:
        pytest.xfail("xAI's REST has not been seen to tell of files")
    picture = got.output_files[0]
    with picture.download() as fetched:
        assert fetched.size > 100
