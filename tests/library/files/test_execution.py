"""The whole way: files go up, are named by id, code runs, what it made comes back, and nothing is left behind."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.contract import vendors
from tests.contract.vendors import Reply, Vendor, sdk
from tests.gateway.houses import House

from belljar.config import ApiSettings
from belljar.errors import ProviderError
from belljar.files import (
    AssistantItem,
    CachedUploads,
    CodeExecutionArgs,
    ExecutableCode,
    ExpectedResponseType,
    FailedUpload,
    FilesApiRegistry,
    GatewayFiles,
    GenerateContentConfig,
    UploadedFile,
    as_json,
    files_api_of,
    run_code_execution,
)
from belljar.files.generation import asking
from belljar.providers import BaseClient, create_client

SERVERS: dict[str, type[Vendor]] = {
    "openai": vendors.OpenAI, "anthropic": vendors.Anthropic, "gemini": vendors.Gemini, "xai": vendors.XAI,
}  # fmt: skip
PATHS = {"openai": "/v1/responses", "xai": "/v1/responses", "anthropic": "/v1/messages", "gemini": "/v1/models/"}
MADE = b"a,b\n1,2\n"


@contextmanager
def talking(provider: str) -> Iterator[tuple[Vendor, BaseClient]]:
    with SERVERS[provider]() as server, sdk(provider, server.url) as client:
        server.processing = 0  # type: ignore[attr-defined]
        yield server, create_client(provider, client=client, settings=ApiSettings())


def answered(provider: str, server: Vendor) -> None:
    """The model runs code that makes `made.csv`, where the vendor has a way to give it back."""
    if provider == "anthropic":
        file_id, _ = server.make("made.csv", MADE)
        outputs = [{"type": "bash_code_execution_output", "file_id": file_id}]
        result = {"type": "bash_code_execution_result", "stdout": "3\n", "stderr": "", "return_code": 0}
        asked = {"type": "server_tool_use", "id": "s1", "name": "bash_code_execution", "input": {"command": "ls"}}
        block = {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "s1",
            "content": {**result, "content": outputs},
        }
        body: Any = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [asked, block, {"type": "text", "text": "ok"}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
    elif provider == "gemini":
        parts = [
            {"executableCode": {"language": "PYTHON", "code": "ls"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3\n"}},
            {"inlineData": {"mimeType": "text/csv", "data": base64.b64encode(MADE).decode()}},
            {"text": "ok"},
        ]
        body = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}]}
    else:
        call: dict[str, Any] = {"id": "ci_1", "type": "code_interpreter_call", "status": "completed"}
        text: dict[str, Any] = {"type": "output_text", "text": "ok", "logprobs": [], "annotations": []}
        if provider == "openai":
            file_id, container_id = server.make("made.csv", MADE)
            cited = {"container_id": container_id, "file_id": file_id, "filename": "made.csv"}
            text["annotations"] = [{"type": "container_file_citation", **cited, "start_index": 0, "end_index": 0}]
            call |= {"code": "ls", "container_id": container_id, "outputs": [{"type": "logs", "logs": "3\n"}]}
        else:
            file_id, _ = server.make("made.csv", MADE)
            record = {"stdout": "3\n", "stderr": "", "output_files": {"made.csv": file_id}, "error": "", "ret": ""}
            call |= {"name": "code_execution", "arguments": json.dumps({"code": "ls"}), "call_id": ""}
            call["output"] = json.dumps(record)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
        body = {
            "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": None,
            "incomplete_details": None, "output": [call, message], "usage": None,
        }  # fmt: skip
    server.answers.append(Reply(body))


def written(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    return name


def question(server: Vendor) -> Any:
    """The one request to the model."""
    [asked] = [one for one in server.asked if any(one.path.startswith(path) for path in PATHS.values())]
    return json.loads(asked.body)


def references(provider: str, body: Any) -> Any:
    """Where the vendor wants the files named, and the tool that runs code."""
    match provider:
        case "openai":
            return body["tools"][0]["container"]["file_ids"], body["tools"][0]["type"]
        case "xai":
            parts = [one for one in body["input"][-1]["content"] if one["type"] == "input_file"]
            return [one["file_id"] for one in parts], body["tools"][0]["type"]
        case "anthropic":
            blocks = [one for one in body["messages"][0]["content"] if one["type"] == "container_upload"]
            return [one["file_id"] for one in blocks], body["tools"][0]["name"]
        case _:
            parts = [one["fileData"] for one in body["contents"][0]["parts"] if "fileData" in one]
            return [one["fileUri"].partition("/v1/")[2] for one in parts], next(iter(body["tools"][0]))


TOOLS = {
    "openai": "code_interpreter", "xai": "code_interpreter", "anthropic": "code_execution", "gemini": "codeExecution",
}  # fmt: skip


@pytest.mark.parametrize("provider", SERVERS)
def test_the_whole_way_over_each_vendor(provider: str) -> None:
    told: list[tuple[str, Any]] = []
    with talking(provider) as (server, client):
        answered(provider, server)
        large = written("large.csv", b"secret\n" * 500_000)
        args = CodeExecutionArgs("sum", (large, written("two.csv", b"2")))
        got = run_code_execution(args, client=client, put_system_message=lambda text, data: told.append((text, data)))
        body = question(server)
        assert references(provider, body) == ([one.file_id for one in got.uploaded_files], TOOLS[provider])
        assert len(json.dumps(body)) < 2000
        assert "secret" not in json.dumps(body)
        assert [(one.original_path, one.filename) for one in got.uploaded_files] == [
            ("large.csv", "large.csv"),
            ("two.csv", "two.csv"),
        ]
        assert not [one for one in server.kept.values() if not one.made], "uploads are left behind"
        assert got.assistant.text == "ok"
        assert got.assistant.executable_code == ExecutableCode(language="python", code="ls")
        result = got.assistant.code_execution_result
        assert result is not None
        assert result.outcome == "OUTCOME_OK"
        assert result.output == "3\n"
        [file] = got.output_files
        assert result.output_files == (file,)
        name = "output-1.csv" if provider == "gemini" else "made.csv"
        assert (file.filename, file.size, file.mime_type) == (name, len(MADE), "text/csv")
        with file.download() as fetched:
            assert fetched.content == MADE
        assert (f"made {name} ({len(MADE)} bytes)", file) in told


def test_two_files_with_one_name_are_two_and_that_is_told() -> None:
    """Anthropic tells names alone."""
    told: list[str] = []
    with talking("anthropic") as (server, client):
        ids = [server.make("r.csv", data)[0] for data in (b"1", b"2")]
        outputs = [{"type": "bash_code_execution_output", "file_id": id} for id in ids]
        answered("anthropic", server)
        block = server.answers[-1].body["content"][1]
        block["content"]["content"] = outputs
        got = run_code_execution(
            CodeExecutionArgs("sum"), client=client, put_system_message=lambda text, _: told.append(text)
        )
        assert [one.filename for one in got.output_files] == ["r.csv", "r-2.csv"]
        assert told == ["made r.csv (1 bytes)", "made r-2.csv (1 bytes); there is another r.csv"]
        fetched = []
        for one in got.output_files:
            with one.download() as file:
                fetched.append(file.content)
        assert fetched == [b"1", b"2"]
        assert [as_json(one).keys() for one in got.output_files] == [{"fileId", "filename", "size", "mimeType"}] * 2


@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("wanted", [True, False])
def test_the_flag_switches_the_tool_on(provider: str, wanted: bool) -> None:
    with talking(provider) as (server, client):
        answered(provider, server)
        config = GenerateContentConfig(expected_response_type=ExpectedResponseType(code_execution=wanted))
        asking(client, None)("sum", config)
        tools = question(server).get("tools", [])
        assert [TOOLS[provider] in json.dumps(tool) for tool in tools] == ([True] if wanted else [])


@pytest.mark.parametrize("provider", SERVERS)
def test_one_of_three_fails_and_the_others_stay_what_they_are(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    with talking(provider) as (server, client):
        answered(provider, server)
        written("a.csv", b"a")
        written("c.csv", b"c")
        got = run_code_execution(CodeExecutionArgs("sum", ("a.csv", "missing.csv", "c.csv")), client=client)
        assert [(one.original_path, one.filename) for one in got.uploaded_files] == [
            ("a.csv", "a.csv"),
            ("c.csv", "c.csv"),
        ]
        [failed] = got.failed_uploads
        assert failed.original_path == "missing.csv"
        assert "missing.csv was not uploaded" in caplog.text
        assert references(provider, question(server))[0] == [one.file_id for one in got.uploaded_files]


def test_no_files() -> None:
    with talking("openai") as (server, client):
        answered("openai", server)
        got = run_code_execution(CodeExecutionArgs("sum"), client=client)
        assert not got.uploaded_files
        assert not got.failed_uploads
        assert question(server)["tools"] == [{"type": "code_interpreter", "container": {"type": "auto"}}]


def test_uploads_are_deleted_though_the_model_fails() -> None:
    with talking("openai") as (server, client):
        refusal = server.refusal(400)
        server.answers.append(refusal)
        with pytest.raises(ProviderError):
            run_code_execution(CodeExecutionArgs("sum", (written("a.csv", b"a"),)), client=client)
        assert server.kept == {}


def test_a_cleanup_that_fails_is_nobodys_trouble(caplog: pytest.LogCaptureFixture) -> None:
    with talking("openai") as (server, client):
        answered("openai", server)
        server.delete = lambda asked, kept: server.refusal(400)  # type: ignore[method-assign]
        with caplog.at_level(logging.INFO):
            got = run_code_execution(CodeExecutionArgs("sum", (written("a.csv", b"a"),)), client=client)
        assert got.assistant.text == "ok"
        assert "left behind" in caplog.text


def test_uploads_may_be_kept_for_the_next_round() -> None:
    with talking("anthropic") as (server, client):
        files = files_api_of(client)
        assert files is not None
        path = written("a.csv", b"a")
        with CachedUploads(files, clock=lambda: vendors.NOW) as cache:
            for _ in range(2):
                answered("anthropic", server)
                run_code_execution(CodeExecutionArgs("sum", (path,)), client=client, files=cache)
        sent = [one for one in server.asked if (one.method, one.path) == ("POST", "/v1/files")]
        assert len(sent) == 1
        assert not [one for one in server.kept.values() if not one.made]


# -- with a service of one's own --------------------------------------------------------------------------------------


class Model:
    """A service that only remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, GenerateContentConfig]] = []

    def __call__(self, message: str, config: GenerateContentConfig) -> AssistantItem:
        self.asked.append((message, config))
        return AssistantItem(text="answer")


def test_without_a_files_api_the_files_are_left_out_and_the_code_runs() -> None:
    model = Model()
    args = CodeExecutionArgs("sum", (written("a.csv", b"a"),))
    got = run_code_execution(args, service_type="plugin:none", generate_content_fn=model)
    assert got.assistant.text == "answer"
    assert not got.uploaded_files
    assert not got.failed_uploads
    [(message, config)] = model.asked
    assert (message, config.file_ids, config.uploaded_files) == ("sum", (), ())
    assert config.expected_response_type.code_execution


def test_the_service_is_told_ids_and_paths(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    args = CodeExecutionArgs("sum", (written("a.csv", b"a"), "gone.csv", written("b.csv", b"b")))
    with GatewayFiles(base_url=house.base_url) as mine:
        registry = FilesApiRegistry()
        registry.register("plugin:mine", lambda: mine)
        monkeypatch.setattr("belljar.files.registry._shared", registry)
        got = run_code_execution(args, service_type="plugin:mine", generate_content_fn=model)
    [(_, config)] = model.asked
    assert [one.original_path for one in config.uploaded_files] == ["a.csv", "b.csv"]
    assert config.file_ids == tuple(one.file_id for one in config.uploaded_files)
    assert all(isinstance(one, UploadedFile) for one in config.uploaded_files)
    assert [type(one) for one in got.failed_uploads] == [FailedUpload]
    with GatewayFiles(base_url=house.base_url) as files:
        assert not set(config.file_ids) & {one.file_id for one in files.list_files()}


def test_a_service_that_raises_what_it_likes_does_not_stop_the_run() -> None:
    class Wild:
        def upload_file(self, *args: object, **more: object) -> Any:
            raise RuntimeError("wild")

    model = Model()
    args = CodeExecutionArgs("sum", ("a.csv",))
    got = run_code_execution(args, generate_content_fn=model, files=Wild())  # type: ignore[arg-type]
    assert got.failed_uploads == (FailedUpload("a.csv", "wild"),)


# -- the gateway, for real --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("gateway") / "state", "--timeout", "10") as house:
        yield house


@pytest.fixture
def client(house: House) -> Iterator[BaseClient]:
    with create_client("belljar", base_url=house.base_url, settings=ApiSettings()) as client:
        yield client


def test_the_gateway_runs_it_and_gives_back_what_it_made(client: BaseClient, house: House) -> None:
    code = (
        "```python\nimport os\nprint(os.getcwd(), sorted(os.listdir()))\n"
        "_ = open('out.csv', 'w').write(open('in.csv').read().upper())\n"
        "_ = open('big.bin', 'wb').write(bytes(3_000_000))\n```"
    )
    said: list[str] = []
    args = CodeExecutionArgs(code, (written("in.csv", b"a,b\n"),))
    got = run_code_execution(args, client=client, on_text=said.append)
    assert "".join(said) == got.assistant.text
    result = got.assistant.code_execution_result
    assert result is not None
    assert "/mnt/data ['in.csv']" in result.output
    files = {one.filename: one for one in got.output_files}
    assert {name: (one.size, one.mime_type) for name, one in files.items()} == {
        "out.csv": (4, "text/csv"),
        "big.bin": (3_000_000, "application/octet-stream"),
    }
    with files["out.csv"].download() as out, files["big.bin"].download() as big:
        assert (out.content, big.size) == (b"A,B\n", 3_000_000)
    with GatewayFiles(base_url=house.base_url) as api:
        assert got.uploaded_files[0].file_id not in {one.file_id for one in api.list_files()}


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("print(1)", "OUTCOME_OK"), ("1/0", "OUTCOME_FAILED"), ("while True: pass", "OUTCOME_DEADLINE_EXCEEDED")],
)
def test_outcomes(client: BaseClient, code: str, outcome: str) -> None:
    got = run_code_execution(CodeExecutionArgs(f"```python\n{code}\n```"), client=client)
    result = got.assistant.code_execution_result
    assert result is not None
    assert result.outcome == outcome
