"""What Belljar adds to OpenAI's wire, under `belljar`: in a request, in a response, and on a call."""

from __future__ import annotations

from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from openai.types.responses import Response
from tests.gateway.houses import CODE, OUTPUTS, Scene
from tests.gateway.test_loop import ask

from belljar.testing import call

BOTH = "import sys; print('out'); print('err', file=sys.stderr)"


def end(response: Response) -> dict[str, Any]:
    [item] = [one for one in response.output if one.type == "code_interpreter_call"]
    found: dict[str, Any] = item.to_dict()["belljar"]  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    ("code", "exit", "exit_code"),
    [
        (BOTH, "ok", 0),
        (f"{BOTH}; raise SystemExit(3)", "raised", 3),
        (f"{BOTH}; raise SystemExit", "ok", 0),
        (f"{BOTH}; sys.stderr.flush(); sys.stdout.flush(); import os; os._exit(4)", "killed", 4),
    ],
)
def test_a_call_tells_its_exit_code_and_its_streams_apart(
    client: OpenAI, scene: Scene, code: str, exit: str, exit_code: int
) -> None:
    scene.play([call("code_interpreter", code=code)], "Done.")
    told = end(ask(client, include=OUTPUTS))
    assert (told["exit"], told["exit_code"]) == (exit, exit_code)
    assert (told["stdout"], told["stderr"]) == ("out\n", "err\n")


def test_a_traceback_is_in_the_standard_error(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=f"{BOTH}; 1 / 0")], "Done.")
    told = end(ask(client, include=OUTPUTS))
    assert told["exit_code"] == 1
    assert told["stdout"] == "out\n"
    assert told["stderr"].startswith("err\nTraceback")
    assert "ZeroDivisionError" in told["stderr"]


def test_the_streams_are_shown_to_those_who_asked_for_outputs(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=BOTH)], "Done.")
    response = ask(client, include=[])
    kept = client.responses.retrieve(response.id)
    assert "stdout" not in end(response)
    assert end(response) == end(kept)
    kept = client.responses.retrieve(response.id, include=["code_interpreter_call.outputs"])
    assert end(kept)["stderr"] == "err\n"


DIES: Any = [call("code_interpreter", code="import os; os._exit(4)")]


@pytest.mark.parametrize(("live", "told"), [("true", "failed"), ("false", "completed")])
def test_a_cell_that_failed_is_told_by_an_event_to_those_who_take_it(
    client: OpenAI, scene: Scene, live: str, told: str
) -> None:
    scene.play(DIES, "It died.")
    asked: Any = {"model": "sim", "input": "go", "tools": CODE, "extra_headers": {"belljar-live-output": live}}
    kinds: list[str] = []
    with client.responses.stream(**asked) as stream:
        kinds += [event.type for event in stream]
        final = stream.get_final_response()
    ends = [kind for kind in kinds if kind.startswith("response.code_interpreter_call.")]
    assert ends[-1] == f"response.code_interpreter_call.{told}"
    assert len(ends) == 3
    assert final.output[0].status == "failed"  # type: ignore[union-attr]
    assert end(final)["exit_code"] == 4


@pytest.mark.parametrize("code", ["", " "])
def test_a_call_that_was_not_run_has_the_exit_code_of_one_that_was_stopped(
    client: OpenAI, scene: Scene, code: str
) -> None:
    scene.play([call("code_interpreter", code=code)], "Oh.")
    assert end(ask(client))["exit_code"] == -1


MAKES = """\
import os
os.mkdir('d'); open('d/a.txt', 'w').write('small'); open('b.csv', 'w').write('1,2')
open('large.bin', 'wb').write(bytes(300_000))"""


def test_small_files_come_with_the_call_where_that_is_asked_for(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=MAKES)], "Made.", [call("code_interpreter", code=MAKES)], "Made.")
    response = ask(client, extra_body={"belljar": {"inline_files": True}}, include=[])
    told = end(response)
    inline = {one["path"]: one for one in told["inline_files"]}
    assert inline.keys() == {"d/a.txt", "b.csv"}
    assert inline["d/a.txt"]["url"] == "data:text/plain;base64,c21hbGw="
    assert inline["b.csv"]["url"] == "data:text/csv;base64,MSwy"
    ids = dict(zip(told["files"], told["file_ids"], strict=True))
    assert {path: one["file_id"] for path, one in inline.items()} == {path: ids[path] for path in inline}
    assert "large.bin" in ids
    assert end(client.responses.retrieve(response.id)) == told
    assert "inline_files" not in end(ask(client))


def test_inline_files_are_bounded_for_the_whole_response(client: OpenAI, scene: Scene) -> None:
    many = "for i in range(15): open(f'{i}{x}.txt', 'w').write('x')"
    large = "for i in range(6): open(f'{i}{x}.bin', 'wb').write(bytes(250_000))"
    for code, most in [(many, 20), (large, 4)]:
        cells: Any = [call("code_interpreter", code=f"x = {n}; {code}".replace("; for", "\nfor")) for n in (1, 2)]
        scene.play(cells, "Made.")
        response = ask(client, extra_body={"belljar": {"inline_files": True}})
        ends = [one.to_dict()["belljar"] for one in response.output if one.type == "code_interpreter_call"]
        inline = [len(one.get("inline_files", ())) for one in ends]  # type: ignore[attr-defined]
        assert sum(inline) == most
        assert inline[0] == min(most, 15)


def test_what_the_metadata_no_longer_decide_is_told(client: OpenAI, scene: Scene) -> None:
    scene.play("Hi.", "Hi.")
    response = ask(client, metadata={"executor": "provider", "mine": "1"})
    [ignored] = response.to_dict()["belljar"]["ignored"]  # type: ignore[index]
    assert ignored["param"] == "metadata.executor"
    assert '"belljar": {"executor"' in ignored["message"]
    assert response.metadata == {"executor": "provider", "mine": "1"}
    assert "belljar" not in ask(client, metadata={"executor": "me"}).to_dict()


def test_every_snapshot_of_a_stream_tells_it(client: OpenAI, scene: Scene) -> None:
    scene.play("Hi.")
    stream = client.responses.create(model="sim", input="x", stream=True, metadata={"executor": "belljar"})
    events: list[dict[str, Any]] = [event.to_dict() for event in stream]
    snapshots = [event["response"] for event in events if "response" in event]
    assert len(snapshots) == 3
    assert all(one["belljar"]["ignored"] for one in snapshots)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"executor": "me"}, "belljar.executor"),
        ({"excutor": "belljar"}, "belljar.excutor"),
        ({"inline_files": "yes"}, "belljar.inline_files"),
        ({"inline_files": 1}, "belljar.inline_files"),
        ("provider", "belljar"),
        ([], "belljar"),
    ],
)
def test_what_is_wrong_with_it_is_named(client: OpenAI, given: Any, param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        client.responses.create(model="belljar", input="x", extra_body={"belljar": given})
    assert caught.value.param == param
