"""A gateway whose providers run the code themselves: files go to them and come back, and their containers live on."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from tests.gateway.houses import OUTPUTS, House, Scene

from belljar.testing import Received, Reply

MODELS = {
    "openai": "gpt-5.2",
    "anthropic": "claude-sonnet-5",
    "gemini": "gemini-3-flash",
    "vertex": "gemini-3.1-pro",
    "xai": "grok-4.3",
}
GOOGLES = ("gemini", "vertex")
"""To whom files go within the request."""
CSV = b"item,value\napple,30\n"
PNG = b"\x89PNG" + bytes(range(200))
LINK = "Here: [squares](sandbox:/mnt/data/squares.csv)."


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    scene.server.models = None
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def house(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    home = tmp_path_factory.mktemp("hosted")
    settings = home / "config.toml"
    tables = [
        f'[upstreams.{name}]\nbase_url = "{_scene.server.base_url}"\nmodels = ["{model}"]\n'
        f'dialect = "{"gemini" if name == "vertex" else name}"\n'
        + (f'quirks = "{name}"\n' if name in ("openai", "vertex") else "")
        for name, model in MODELS.items()
    ]
    settings.write_text('executor = "provider"\n' + "\n".join(tables))
    with House(home / "state", "--config", str(settings)) as house:
        yield house


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    _scene.server.files.clear()
    return _scene


@pytest.fixture
def client(house: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=house.base_url, api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(params=MODELS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def asked(scene: Scene) -> list[Any]:
    """What the model was asked."""
    return [one.json for one in scene.asked if not one.asks("files")]


def uploads(scene: Scene) -> list[Received]:
    return [one for one in scene.asked if one.asks("files") and "/containers/" not in one.path]


def placed(scene: Scene) -> list[Received]:
    return [one for one in scene.asked if one.asks("files") and "/containers/" in one.path]


def create(client: OpenAI, vendor: str, *parts: dict[str, Any], container: Any = None, **more: Any) -> Any:
    content = [{"type": "input_text", "text": "Sum the values."}, *parts]
    tool = {"type": "code_interpreter", "container": container or {"type": "auto"}}
    wanted: dict[str, Any] = {"input": [{"role": "user", "content": content}], "tools": [tool], "include": OUTPUTS}
    return client.responses.create(model=MODELS[vendor], **wanted, **more)


def upload(client: OpenAI, data: bytes = CSV, name: str = "data.csv") -> str:
    return client.files.create(file=(name, data), purpose="user_data").id


def inline(name: str = "data.csv", data: bytes = CSV) -> dict[str, Any]:
    url = f"data:text/csv;base64,{base64.b64encode(data).decode()}"
    return {"type": "input_file", "filename": name, "file_data": url}


# -- what each vendor answers when it ran code ------------------------------------------------------------------------


def ran(vendor: str, container: str = "1", *, text: str = "It is 30.", **made: Any) -> Reply:
    """In the vendor's container of that number, where it has containers."""
    answers: dict[str, Callable[..., Reply]] = {
        "openai": _openai,
        "anthropic": _anthropic,
        "gemini": _gemini,
        "vertex": _gemini,
        "xai": _xai,
    }
    return answers[vendor](container, text, **made)


def _openai(
    container: str,
    text: str,
    cites: tuple[str, str] | None = None,
    image: bytes | None = None,
    more: tuple[str, str] | None = None,
    end: dict[str, Any] | None = None,
) -> Reply:
    id = f"cntr_{container}"
    outputs: list[dict[str, Any]] = [{"type": "logs", "logs": "30\n"}]
    if image:
        outputs.append({"type": "image", "url": f"data:image/png;base64,{base64.b64encode(image).decode()}"})
    annotations = []
    for file_id, name in filter(None, (cites, more)):
        at = text.find("sandbox:")
        annotations.append(
            {
                "type": "container_file_citation",
                "container_id": id,
                "file_id": file_id,
                "filename": name,
                "start_index": max(at, 0),
                "end_index": len(text) - 2 if at >= 0 else 0,
            }
        )
    cell = {
        "type": "code_interpreter_call",
        "id": f"ci_{secrets.token_hex(24)}",
        "status": "completed",
        "code": "sum()",
        "container_id": id,
        "outputs": outputs,
        **({} if end is None else {"belljar": end}),
    }
    part = {"type": "output_text", "text": text, "annotations": annotations}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return Reply(body=json.dumps({"status": "completed", "output": [cell, message]}).encode())


def _anthropic(container: str, text: str, files: tuple[str, ...] = ()) -> Reply:
    result = {
        "type": "bash_code_execution_result",
        "stdout": "30\n",
        "stderr": "",
        "return_code": 0,
        "content": [{"type": "bash_code_execution_output", "file_id": id} for id in files],
    }
    use = f"srvtoolu_{secrets.token_hex(8)}"
    content = [
        {"type": "server_tool_use", "id": use, "name": "bash_code_execution", "input": {"command": "sum"}},
        {"type": "bash_code_execution_tool_result", "tool_use_id": use, "content": result},
        {"type": "text", "text": text},
    ]
    message = {
        "type": "message",
        "role": "assistant",
        "stop_reason": "end_turn",
        "content": content,
        "container": {"id": f"container_{container}", "expires_at": "2027-01-01T00:00:00Z"},
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Reply(body=json.dumps(message).encode())


def _gemini(container: str, text: str, image: bytes | None = None) -> Reply:
    id = secrets.token_hex(4)
    parts: list[dict[str, Any]] = [
        {"executableCode": {"language": "PYTHON", "code": "sum()", "id": id}},
        {"codeExecutionResult": {"id": id, "outcome": "OUTCOME_OK", "output": "30\n"}},
    ]
    if image:
        parts.append({"inlineData": {"mimeType": "image/png", "data": base64.b64encode(image).decode()}})
    parts.append({"text": text})
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    return Reply(steps=[f"data: {json.dumps({'candidates': [candidate]})}\n\n".encode()])


def _xai(container: str, text: str, output_files: Any = None) -> Reply:
    record = {"stdout": "30\n", "stderr": "", "output_files": output_files or {}, "error": "", "ret": ""}
    cell = {
        "type": "code_interpreter_call",
        "id": f"fc_{secrets.token_hex(8)}",
        "name": "code_execution",
        "arguments": json.dumps({"code": "sum()"}),
        "status": "completed",
        "output": json.dumps(record),
    }
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    return Reply(body=json.dumps({"status": "completed", "output": [cell, message]}).encode())


# -- in ---------------------------------------------------------------------------------------------------------------


def carried(vendor: str, body: Any) -> list[Any]:
    """The files in a request, as the vendor is given them: ids, or whole."""
    match vendor:
        case "openai":
            (tool,) = body["tools"]
            return list(tool["container"].get("file_ids", [])) if isinstance(tool["container"], dict) else []
        case "anthropic":
            blocks = [block for message in body["messages"] for block in message["content"]]
            return [block["file_id"] for block in blocks if block["type"] == "container_upload"]
        case "gemini" | "vertex":
            parts = [part for content in body["contents"] for part in content["parts"] if "inlineData" in part]
            return [base64.b64decode(part["inlineData"]["data"]) for part in parts]
        case _:
            parts = [part for item in body["input"] if item["type"] == "message" for part in item["content"]]
            return [part["file_id"] for part in parts if isinstance(part, dict) and part["type"] == "input_file"]


@pytest.mark.parametrize("given", ["id", "data URL", "container"])
def test_a_file_reaches_the_providers_sandbox(client: OpenAI, scene: Scene, vendor: str, given: str) -> None:
    scene.play(ran(vendor))
    container: dict[str, Any] = {"type": "auto"}
    parts: list[dict[str, Any]] = []
    match given:
        case "id":
            parts = [{"type": "input_file", "file_id": upload(client)}]
        case "data URL":
            parts = [inline()]
        case "container":
            container["file_ids"] = [upload(client)]
    response = create(client, vendor, *parts, container=container)
    assert response.output_text == "It is 30."
    (body,) = asked(scene)
    if vendor in GOOGLES:
        assert carried(vendor, body) == [CSV]
    else:
        (sent,) = uploads(scene)
        assert (sent.form["filename"], sent.form["file"]) == (b"data.csv", CSV)
        assert carried(vendor, body) == list(scene.server.files)
    if given != "container":
        assert "[The file 'data.csv' is " in json.dumps(body)
    (cell,) = [item for item in response.output if item.type == "code_interpreter_call"]
    assert cell.container_id.startswith("cntr_")
    assert [file.path for file in client.containers.files.list(cell.container_id)] == ["/mnt/data/data.csv"]


@pytest.mark.parametrize(
    ("of", "fields"),
    [
        ("openai", {"purpose": b"user_data", "expires_after[seconds]": b"86400"}),
        ("anthropic", {"expires_in_seconds": b"86400"}),
        ("xai", {"purpose": b"assistants", "expires_after": b"86400"}),
    ],
)
def test_what_a_vendor_is_told_of_an_upload(client: OpenAI, scene: Scene, of: str, fields: dict[str, bytes]) -> None:
    scene.play(ran(of))
    create(client, of, inline('a "b"\n.csv'))
    (sent,) = uploads(scene)
    assert sent.form["filename"] == b"a %22b%22%0A.csv"
    assert {name: sent.form[name] for name in fields} == fields


def test_a_vendor_that_takes_no_files(client: OpenAI, scene: Scene) -> None:
    refused = Reply(status=404, body=b'{"error":{"message":"no such path"}}')
    scene.server.uploads = refused
    try:
        with pytest.raises(BadRequestError) as caught:
            create(client, "anthropic", inline())
    finally:
        scene.server.uploads = None
    error = caught.value
    assert (error.param, error.code) == ("input[0].content[1].file_data", "unsupported_value")
    assert "'data.csv' has 20 bytes, and anthropic, which is to run the code, did not take it" in error.message
    assert '"belljar": {"executor": "belljar"}' in error.message


def test_more_than_fits_a_request(client: OpenAI, scene: Scene) -> None:
    id = upload(client, bytes(15 << 20), "big.bin")
    with pytest.raises(BadRequestError, match="takes 14 MiB in all") as caught:
        create(client, "vertex", container={"type": "auto", "file_ids": [id]})
    assert (caught.value.param, caught.value.code) == ("tools[0].container.file_ids[0]", "file_too_large")
    assert asked(scene) == []


def test_what_fits_no_request_is_uploaded_to_gemini(client: OpenAI, scene: Scene) -> None:
    large = bytes(15 << 20)
    parts = [inline(), {"type": "input_file", "file_id": upload(client, large, "big.bin")}]
    scene.play(ran("gemini"), ran("gemini"))
    first = create(client, "gemini", *parts)
    create(client, "gemini", previous_response_id=first.id)
    begun, sent = uploads(scene)
    assert begun.path == "/upload/v1/files"
    assert begun.json["file"] == {
        "display_name": "big.bin",
        "mime_type": "application/octet-stream",
        "size_bytes": 15 << 20,
    }
    assert sent.headers["x-goog-upload-command"] == "upload, finalize"
    assert sent.body == large
    for body in asked(scene):
        assert carried("gemini", body) == [CSV]
        linked = [part["fileData"] for one in body["contents"] for part in one["parts"] if "fileData" in part]
        assert [one["fileUri"] for one in linked] == [f"{scene.server.base_url}/files/given0"]


def test_files_of_a_container_that_the_caller_made(client: OpenAI, scene: Scene, vendor: str) -> None:
    container = client.containers.create(name="mine")
    client.containers.files.create(container.id, file=("data.csv", CSV))
    scene.play(ran(vendor), ran(vendor))
    response = create(client, vendor, container=container.id)
    (body,) = asked(scene)
    assert carried(vendor, body) == ([CSV] if vendor in GOOGLES else list(scene.server.files))
    (cell,) = [item for item in response.output if item.type == "code_interpreter_call"]
    assert cell.container_id == container.id
    create(client, vendor, container=container.id)
    assert len(uploads(scene)) == (0 if vendor in GOOGLES else 1)


# -- on ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["openai", "anthropic"])
def test_a_container_is_gone_on_with(client: OpenAI, scene: Scene, of: str) -> None:
    scene.play(ran(of), ran(of), ran(of))
    first = create(client, of, inline())
    then = create(client, of, previous_response_id=first.id)
    create(client, of, inline("more.csv", b"x"), previous_response_id=then.id)
    _, second, third = asked(scene)
    named = "cntr_1" if of == "openai" else "container_1"
    for body in (second, third):
        assert (body["tools"][0]["container"] if of == "openai" else body["container"]) == named
    assert carried(of, second) == []
    assert len(uploads(scene)) == 2
    if of == "openai":
        (put,) = placed(scene)
        assert put.path == "/v1/containers/cntr_1/files"
        assert put.json == {"file_id": list(scene.server.files)[1]}
        assert "[The file 'more.csv' is at /mnt/data/more.csv]" in json.dumps(third)
        cells = [item for item in second["input"] if item["type"] == "code_interpreter_call"]
        assert [cell["container_id"] for cell in cells] == ["cntr_1"]
    else:
        assert carried(of, third) == [list(scene.server.files)[1]]
    ours = {item.container_id for one in (first, then) for item in one.output if item.type == "code_interpreter_call"}
    assert len(ours) == 1


@pytest.mark.parametrize("of", ["openai", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_container_that_is_gone_is_made_anew(client: OpenAI, scene: Scene, of: str, stream: bool) -> None:
    message = {"message": "Container is expired.", "type": "invalid_request_error"}
    gone = Reply(status=400, body=json.dumps({"type": "error", "error": message}).encode())
    scene.play(ran(of), gone, ran(of, "2"), ran(of, "2"))
    first = create(client, of, inline())
    if stream:
        *_, last = create(client, of, previous_response_id=first.id, stream=True)
        assert last.type == "response.completed"
        then = last.response
    else:
        then = create(client, of, previous_response_id=first.id)
    assert then.output_text == "It is 30."
    _, refused, anew = asked(scene)
    assert "1" in str(refused["tools"][0].get("container") or refused["container"])
    assert carried(of, anew) == list(scene.server.files)
    assert len(uploads(scene)) == 1
    assert "its variables are gone" in json.dumps(anew)
    assert "container_1" not in json.dumps(anew)
    assert "cntr_1" not in json.dumps(anew)
    create(client, of, previous_response_id=then.id)
    assert "container_2" in json.dumps(asked(scene)[-1]) or "cntr_2" in json.dumps(asked(scene)[-1])


@pytest.mark.parametrize("of", ["openai", "anthropic", "gemini"])
def test_a_container_that_the_caller_deleted_is_told_of(client: OpenAI, scene: Scene, of: str) -> None:
    scene.play(ran(of), ran(of, "2"), ran(of, "2"))
    first = create(client, of, inline())
    [cell] = [item for item in first.output if item.type == "code_interpreter_call"]
    client.containers.delete(cell.container_id)
    then = create(client, of, previous_response_id=first.id)
    create(client, of, previous_response_id=then.id)
    moved = ["variables and files of earlier code are gone" in json.dumps(body) for body in asked(scene)]
    assert moved == [False, of != "gemini", False]


def test_a_container_that_is_gone_when_a_file_is_to_be_put_in(client: OpenAI, scene: Scene) -> None:
    scene.play(ran("openai"), ran("openai", "2"))
    first = create(client, "openai")
    scene.server.placing = Reply(status=404, body=b'{"error":{"message":"Container with id \'cntr_1\' not found."}}')
    try:
        create(client, "openai", inline(), previous_response_id=first.id)
    finally:
        scene.server.placing = None
    assert carried("openai", asked(scene)[-1]) == list(scene.server.files)


def test_another_provider_goes_on_with_the_files_alone(client: OpenAI, scene: Scene) -> None:
    scene.server.files["file_made"] = ("made.csv", CSV)
    scene.play(ran("anthropic", files=("file_made",)), ran("openai"))
    first = create(client, "anthropic")
    create(client, "openai", previous_response_id=first.id)
    (sent,) = uploads(scene)
    assert (sent.form["filename"], sent.form["file"]) == (b"made.csv", CSV)
    body = asked(scene)[-1]
    assert len(carried("openai", body)) == 1
    kinds = [item["type"] for item in body["input"]]
    assert kinds[1:3] == ["function_call", "function_call_output"]


# -- out --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_file_that_openai_cites_is_ours(client: OpenAI, scene: Scene, stream: bool) -> None:
    scene.server.files["cfile_theirs"] = ("squares.csv", CSV)
    scene.play(ran("openai", text=LINK, cites=("cfile_theirs", "squares.csv")))
    if stream:
        *_, last = create(client, "openai", stream=True)
        response = last.response
    else:
        response = create(client, "openai")
    (citation,) = response.output[-1].content[0].annotations
    assert citation.filename == "squares.csv"
    assert citation.file_id != "cfile_theirs"
    assert citation.container_id == response.output[0].container_id != "cntr_1"
    assert LINK[citation.start_index : citation.end_index] == "sandbox:/mnt/data/squares.csv"
    fetched = [one.path.partition("/cfile_theirs")[2] for one in scene.server.requests if one.method == "GET"]
    assert fetched == ["", "/content"]
    content = client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id)
    assert content.read() == CSV
    (file,) = client.containers.files.list(citation.container_id)
    assert (file.path, file.bytes, file.source) == ("/mnt/data/squares.csv", len(CSV), "assistant")


def test_a_gateway_behind_this_one_tells_how_it_ended_and_not_its_ids(client: OpenAI, scene: Scene) -> None:
    told = {"exit": "raised", "exit_code": 3, "stdout": "30\n", "stderr": "", "files": ["a"], "file_ids": ["cfile_1"]}
    scene.play(ran("openai", end=told))
    response = create(client, "openai")
    end = response.output[0].belljar
    assert (end["exit"], end["exit_code"], end["stdout"]) == ("raised", 3, "30\n")
    assert not {"files", "file_ids"} & end.keys()


@pytest.mark.parametrize(
    ("vendor", "made", "paths"),
    [
        ("openai", {"cites": ("one", "r.csv"), "more": ("two", "r.csv")}, ["a/r.csv", "b/r.csv"]),
        ("anthropic", {"files": ("one", "two")}, ["r.csv", "r-2.csv"]),
        ("xai", {"output_files": [{"id": id, "name": "r.csv"} for id in ("one", "two")]}, ["r.csv", "r-2.csv"]),
    ],
)
def test_files_of_one_name_are_all_ours(
    client: OpenAI, scene: Scene, vendor: str, made: dict[str, Any], paths: list[str]
) -> None:
    """OpenAI tells where a file lies in its container; of Anthropic and xAI names are all that is known."""
    deep = vendor == "openai"
    scene.server.files |= {"one": ("a/r.csv" if deep else "r.csv", b"1"), "two": ("b/r.csv" if deep else "r.csv", b"2")}
    scene.play(ran(vendor, **made))
    response = create(client, vendor)
    cited = response.output[-1].content[0].annotations
    container = cited[0].container_id
    files = [client.containers.files.retrieve(one.file_id, container_id=container) for one in cited]
    assert [one.path.removeprefix("/mnt/data/") for one in files] == paths
    read = [client.containers.files.content.retrieve(one.id, container_id=container).read() for one in files]
    assert read == [b"1", b"2"]
    if not deep:
        assert "There is another r.csv: this one is kept as r-2.csv" in response.output[0].outputs[-1].logs


@pytest.mark.parametrize("of", GOOGLES)
def test_pictures_of_two_answers_are_two(client: OpenAI, scene: Scene, of: str) -> None:
    scene.play(ran(of, image=PNG), ran(of, image=PNG + b"2"))
    first = create(client, of)
    second = create(client, of, previous_response_id=first.id)
    found = [one.output[-1].content[0].annotations[0] for one in (first, second)]
    assert found[0].container_id == found[1].container_id
    files = client.containers.files
    read = [files.content.retrieve(one.file_id, container_id=one.container_id).read() for one in found]
    assert read == [PNG, PNG + b"2"]


def test_a_picture_is_a_file_once(client: OpenAI, scene: Scene) -> None:
    scene.server.files["cfile_pic"] = ("cfile_pic.png", PNG)
    scene.play(ran("openai", image=PNG), ran("openai", image=PNG, cites=("cfile_pic", "plot.png")))
    for _ in range(2):
        response = create(client, "openai")
        (citation,) = response.output[-1].content[0].annotations
        assert citation.filename.endswith(".png")
        assert response.output[0].outputs[1].url.startswith("data:image/png;base64,")
        content = client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id)
        assert content.read() == PNG


def test_a_cited_file_that_cannot_be_had(client: OpenAI, scene: Scene) -> None:
    scene.play(ran("openai", cites=("cfile_gone", "squares.csv")))
    response = create(client, "openai")
    assert response.output_text == "It is 30."
    assert response.output[-1].content[0].annotations == []


@pytest.mark.parametrize(
    "told",
    [
        {"out.csv": "file_x"},
        {"out.csv": {"file_id": "file_x"}},
        [{"file_id": "file_x", "name": "out.csv"}],
        [{"id": "file_x", "filename": "out.csv"}],
    ],
)
def test_a_file_that_xai_refers_to_is_ours(client: OpenAI, scene: Scene, told: Any) -> None:
    scene.server.files["file_x"] = ("out.csv", CSV)
    scene.play(ran("xai", output_files=told))
    response = create(client, "xai")
    (citation,) = response.output[-1].content[0].annotations
    assert citation.filename == "out.csv"
    content = client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id)
    assert content.read() == CSV


@pytest.mark.parametrize("of", GOOGLES)
def test_a_picture_of_geminis_is_ours(client: OpenAI, scene: Scene, of: str) -> None:
    scene.play(ran(of, image=PNG))
    response = create(client, of)
    (citation,) = response.output[-1].content[0].annotations
    content = client.containers.files.content.retrieve(citation.file_id, container_id=citation.container_id)
    assert content.read() == PNG
