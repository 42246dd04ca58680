"""Files in a message for the model itself to read: as each vendor takes them, and refused with what to do else."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from openai import BadRequestError, OpenAI
from tests.contract.test_hosted_execution import asked, uploads
from tests.gateway.houses import Scene

from belljar.openai import OpenAI as Inside

MODELS = {"openai": "gpt-5.2", "anthropic": "claude-sonnet-5", "gemini": "gemini-3-flash", "xai": "grok-4.3"}
PDF = b"%PDF-1.4\n%%EOF\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    scene.server.models = None
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def client(_scene: Scene) -> Iterator[OpenAI]:
    rows = {
        name: {"base_url": _scene.server.base_url, "dialect": name, "models": [model]} for name, model in MODELS.items()
    }
    rows["openai"]["quirks"] = "openai"
    rows["others"] = {"base_url": _scene.server.base_url, "dialect": "openai", "models": ["other"], "quirks": "vllm"}
    with Inside.local(upstreams=rows, discover=False, log_level="error") as inside:
        yield inside.with_options(max_retries=0)


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    return _scene


@pytest.fixture(params=MODELS)
def vendor(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(client: OpenAI, model: str, *parts: dict[str, Any], **more: Any) -> Any:
    content = [*parts, {"type": "input_text", "text": "What is in it?"}]
    return client.responses.create(model=model, input=[{"role": "user", "content": content}], **more)  # type: ignore[misc,list-item]


def kept(client: OpenAI, name: str, data: bytes, kind: str = "") -> dict[str, Any]:
    file = (name, data, kind) if kind else (name, data)
    return {"type": "input_file", "file_id": client.files.create(file=file, purpose="user_data").id}


def sent(name: str, data: bytes, head: str = "") -> dict[str, Any]:
    return {"type": "input_file", "filename": name, "file_data": head + base64.b64encode(data).decode()}


def read(vendor: str, scene: Scene) -> list[tuple[str, bytes]]:
    """The files that the model of the last request reads, each with its type, or its name where it was uploaded."""
    body = asked(scene)[-1]
    found: list[tuple[str, bytes]] = []
    match vendor:
        case "anthropic":
            for block in (one for message in body["messages"] for one in message["content"]):
                if block["type"] == "document":
                    source = block["source"]
                    text = source["type"] == "text"
                    found.append(
                        (source["media_type"], source["data"].encode() if text else base64.b64decode(source["data"]))
                    )
        case "gemini":
            for part in (one for content in body["contents"] for one in content["parts"]):
                if "inlineData" in part:
                    found.append((part["inlineData"]["mimeType"], base64.b64decode(part["inlineData"]["data"])))
        case _:
            for part in (one for item in body["input"] if isinstance(item["content"], list) for one in item["content"]):
                if part["type"] == "input_file" and vendor == "xai":
                    found.append(scene.server.files[part["file_id"]])
                elif part["type"] == "input_file":
                    head, _, data = part["file_data"].partition(";base64,")
                    found.append((head.removeprefix("data:"), base64.b64decode(data)))
    return found


@pytest.mark.parametrize("given", ["id", "data URL", "base64", "id without a type"])
def test_a_file_reaches_the_model(client: OpenAI, scene: Scene, vendor: str, given: str) -> None:
    part = {
        "id": lambda: kept(client, "paper.pdf", PDF),
        "id without a type": lambda: kept(client, "paper.pdf", PDF, "application/octet-stream"),
        "data URL": lambda: sent("paper.pdf", PDF, "data:application/pdf;base64,"),
        "base64": lambda: sent("paper.pdf", PDF),
    }[given]()
    scene.play("A paper.")
    assert ask(client, MODELS[vendor], part).output_text == "A paper."
    assert read(vendor, scene) == [("paper.pdf" if vendor == "xai" else "application/pdf", PDF)]


def test_words_and_files_stand_in_the_order_of_the_message(client: OpenAI, scene: Scene) -> None:
    scene.play("Two.")
    first, second = (kept(client, f"{n}.txt", n.encode()) for n in ("one", "two"))
    ask(client, MODELS["anthropic"], {"type": "input_text", "text": "First:"}, first, second)
    blocks = asked(scene)[-1]["messages"][0]["content"]
    assert [block.get("text") or block["source"]["data"] for block in blocks] == [
        "First:",
        "one",
        "two",
        "What is in it?",
    ]
    assert [block["title"] for block in blocks if block["type"] == "document"] == ["one.txt", "two.txt"]


@pytest.mark.parametrize(
    ("name", "data"), [("table.csv", b"a,b\n"), ("data.json", b"{}"), ("x.yaml", b"a: 1"), ("notes.md", b"# Hi")]
)
def test_a_text_of_any_kind_is_a_text_to_anthropic(client: OpenAI, scene: Scene, name: str, data: bytes) -> None:
    scene.play("Yes.")
    ask(client, MODELS["anthropic"], kept(client, name, data, "application/octet-stream"))
    assert read("anthropic", scene) == [("text/plain", data)]


def test_along_a_chain_a_file_is_uploaded_once(client: OpenAI, scene: Scene) -> None:
    scene.play("A paper.", "By me.")
    part = kept(client, "mine.pdf", PDF)
    first = ask(client, MODELS["xai"], part)
    ask(client, MODELS["xai"], previous_response_id=first.id)
    (upload,) = uploads(scene)
    assert list(upload.form) == ["expires_after", "purpose", "filename", "file"]
    assert (upload.form["expires_after"], upload.form["file"]) == (b"86400", PDF)
    assert read("xai", scene) == [("mine.pdf", PDF)]


def test_a_file_that_is_gone_since_is_told_of(client: OpenAI, scene: Scene, vendor: str) -> None:
    scene.play("A paper.", "By me.")
    part = kept(client, "gone.pdf", PDF)
    first = ask(client, MODELS[vendor], part)
    client.files.delete(part["file_id"])
    ask(client, MODELS[vendor], previous_response_id=first.id)
    assert read(vendor, scene) == []
    assert "was given earlier and is no longer here" in str(asked(scene)[-1])


@pytest.mark.parametrize("given", ["id", "data"])
def test_what_the_model_cannot_read_is_for_code(client: OpenAI, scene: Scene, given: str) -> None:
    make = {"id": lambda: kept(client, "a.docx", b"PK"), "data": lambda: sent("a.docx", b"PK")}
    with pytest.raises(BadRequestError) as caught:
        ask(client, MODELS["anthropic"], make[given]())
    place = "input[0].content[0]" if given == "id" else "input[0].content[0].file_data"
    assert (caught.value.param, caught.value.code) == (place, "unsupported_value")
    assert "reads only application/pdf, text/*" in str(caught.value)
    assert "code_interpreter" in str(caught.value)
    assert scene.asked == []


@pytest.mark.parametrize(("vendor", "most"), [("anthropic", 20), ("gemini", 14), ("xai", 48), ("openai", 50)])
def test_a_file_may_be_so_large(client: OpenAI, scene: Scene, vendor: str, most: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        ask(client, MODELS[vendor], kept(client, "big.txt", bytes(most * MIB + 1)))
    assert (caught.value.param, caught.value.code) == ("input[0].content[0]", "file_too_large")
    assert f"{most * MIB} are the most" in str(caught.value)
    assert scene.asked == []


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_file", "file_id": "file_none"}, "input[0].content[0].file_id"),
        ({"type": "input_file", "filename": "a.txt", "file_data": "data:;base64,?"}, "input[0].content[0].file_data"),
    ],
)
def test_no_file_at_all(client: OpenAI, scene: Scene, vendor: str, part: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        ask(client, MODELS[vendor], part)
    assert caught.value.param == param
    assert scene.asked == []


def test_a_file_by_its_address_is_fetched_by_the_vendor(client: OpenAI, scene: Scene, vendor: str) -> None:
    scene.play("Yes.")
    url = "https://example.com/paper.pdf"
    ask(client, MODELS[vendor], {"type": "input_file", "file_url": url})
    assert url in str(asked(scene)[-1])
    assert uploads(scene) == []


def test_a_server_of_openais_wire_that_is_another_reads_none(client: OpenAI, scene: Scene) -> None:
    with pytest.raises(BadRequestError) as caught:
        ask(client, "other", kept(client, "a.txt", b"a"))
    assert (caught.value.param, caught.value.code) == ("input[0].content[0]", "unsupported_value")
