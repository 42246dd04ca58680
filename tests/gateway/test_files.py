"""Files in and out: exact in name and bytes, wherever they come from and however they are named."""

from __future__ import annotations

import base64
import io
import tarfile
import zipfile
from typing import Any, cast

import httpx2
import openai
import pytest
from openai import OpenAI
from tests.gateway.houses import House, Scene
from tests.gateway.test_first_minute import cell, logs, said
from tests.gateway.test_loop import ask, messages

from belljar.testing import Reply, call

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NAMES = ["data.csv", "報告 1.xlsx", "naïve — draft (2).txt", "-leading.csv", "a'b\"c.txt", "x" * 240 + ".txt", "𝔘𝔫𝔦.md"]


def auto(*file_ids: str) -> list[dict[str, Any]]:
    return [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": list(file_ids)}}]


@pytest.mark.parametrize("name", NAMES)
def test_an_uploaded_file_is_in_the_container_under_its_own_name(client: OpenAI, scene: Scene, name: str) -> None:
    content = f"content of {name}".encode()
    file = client.files.create(file=(name, content), purpose="user_data")
    assert (file.filename, file.bytes) == (name, len(content))
    assert client.files.content(file.id).read() == content
    code = "import os; (os.listdir(), open(os.listdir()[0], 'rb').read())"
    scene.play([call("code_interpreter", code=code)], "read")
    response = ask(client, tools=auto(file.id))
    assert logs(response) == repr(([name], content))
    assert f"- /mnt/data/{name} (" in messages(scene, 0)[-1]["content"]
    [listed] = client.containers.files.list(cell(response).container_id)
    assert (listed.path, listed.bytes, listed.source) == (f"/mnt/data/{name}", len(content), "user")


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_code_made_comes_back_exactly(client: OpenAI, scene: Scene, name: str) -> None:
    link = f"Here: [get it](sandbox:/mnt/data/{name}) – enjoy 🎉."
    scene.play([call("code_interpreter", code=f"_ = open({name!r}, 'wb').write(b'\\x00\\xff made')")], link)
    response = ask(client)
    [cited] = [one for one in said(response).annotations if one.type == "container_file_citation"]
    assert cited.filename == name
    assert said(response).text[cited.start_index : cited.end_index] == f"sandbox:/mnt/data/{name}"
    content = client.containers.files.content.retrieve(cited.file_id, container_id=cited.container_id)
    assert content.read() == b"\x00\xff made"


def test_two_files_of_one_name_do_not_collide(client: OpenAI, scene: Scene) -> None:
    one = client.files.create(file=("data.csv", b"one"), purpose="user_data")
    two = client.files.create(file=("data.csv", b"two"), purpose="user_data")
    code = "import os; sorted(open(n).read() for n in os.listdir())"
    scene.play([call("code_interpreter", code=code)], "both")
    assert logs(ask(client, tools=auto(one.id, two.id))) == "['one', 'two']"


@pytest.mark.parametrize("way", ["file_id", "file_data"])
def test_a_file_in_the_input_is_in_the_container_and_never_in_the_prompt(
    client: OpenAI, scene: Scene, way: str
) -> None:
    content = b"secret,column\n1,2\n"
    if way == "file_id":
        part = {"type": "input_file", "file_id": client.files.create(file=("in.csv", content), purpose="user_data").id}
    else:
        url = "data:text/csv;base64," + base64.b64encode(content).decode()
        part = {"type": "input_file", "filename": "in.csv", "file_data": url}
    message = {"role": "user", "content": [{"type": "input_text", "text": "sum it"}, part]}
    scene.play([call("code_interpreter", code="open('in.csv').read()")], "done", "yes, still here")
    first = ask(client, cast(Any, [message]))
    assert logs(first) == repr(content.decode())
    assert "/mnt/data/in.csv" in str(messages(scene, 0))
    assert "secret,column" not in str(messages(scene, 0))
    ask(client, "and again", previous_response_id=first.id)
    assert "/mnt/data/in.csv" in str(messages(scene))
    [kept] = client.responses.input_items.list(first.id)
    assert kept.type == "message"


@pytest.mark.parametrize("name", ["..", "a/../b", "/etc/passwd", "a\0b", "x" * 300, "."])
def test_a_name_that_cannot_be_is_refused_by_its_place_in_the_request(client: OpenAI, scene: Scene, name: str) -> None:
    part = {"type": "input_file", "filename": name, "file_data": "data:text/plain;base64,aGk="}
    text = {"type": "input_text", "text": "see"}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, cast(Any, [{"role": "user", "content": [text, part]}]))
    assert (caught.value.param, caught.value.code) == ("input[0].content[1].filename", "invalid_value")
    assert repr(name)[:30] in caught.value.message
    made = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": [part]}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, cast(Any, [made, output]))
    assert caught.value.param == "input[1].output[0].filename"
    assert not scene.asked


def test_a_name_that_is_taken_by_a_directory_is_refused_by_its_place_too(client: OpenAI, scene: Scene) -> None:
    container = client.containers.create(name="taken")
    inside = {"type": "input_file", "filename": "a/b.txt", "file_data": "data:text/plain;base64,aGk="}
    tools = [{"type": "code_interpreter", "container": container.id}]
    scene.play("ok")
    ask(client, cast(Any, [{"role": "user", "content": [inside]}]), tools=tools)
    with pytest.raises(openai.BadRequestError, match="a file and a directory") as caught:
        ask(client, cast(Any, [{"role": "user", "content": [{**inside, "filename": "a"}]}]), tools=tools)
    assert caught.value.param == "input[0].content[0].filename"


def picture(file_id: str, *, code: bool = True) -> Any:
    files = [{"type": "input_file", "file_id": file_id}] if code else []
    return [{"role": "user", "content": [*files, {"type": "input_image", "file_id": file_id}]}]


def test_a_picture_that_is_a_file_too_is_shown_where_it_can_be_and_never_refused(client: OpenAI, scene: Scene) -> None:
    plain = client.files.create(file=("a.png", b"text", "text/plain"), purpose="user_data")
    image = client.files.create(file=("b.png", PNG, "image/png"), purpose="vision")
    words = "cannot be shown to you as a picture; code can open it"
    for model, file, shown in (("sim", image, 0), ("llava", image, 1), ("llava", plain, 0)):
        scene.play([call("code_interpreter", code="import os; os.listdir()")], "ok")
        response = ask(client, picture(file.id), model=model)
        assert logs(response) == repr([file.filename])
        told = str(messages(scene))
        assert (told.count("data:image/png;base64,"), told.count(words)) == (shown, 1 - shown)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, picture(plain.id, code=False))
    assert caught.value.param == "input[0].content[0].file_id"


def test_a_provider_that_takes_no_pictures_is_asked_without_them_or_its_word_is_handed_on(
    client: OpenAI, scene: Scene
) -> None:
    image = client.files.create(file=("b.png", PNG, "image/png"), purpose="vision")
    no = Reply(status=400, body=b'{"error": {"message": "This model has no vision."}}')
    scene.play(no, "In words.")
    response = ask(client, picture(image.id), model="llava")
    assert response.output_text == "In words."
    assert "data:image" not in str(messages(scene))
    scene.play(no)
    with pytest.raises(openai.BadRequestError, match="has no vision"):
        ask(client, picture(image.id, code=False), model="llava")
    other = Reply(status=400, body=b'{"error": {"message": "You talk too much."}}')
    scene.play(other)
    with pytest.raises(openai.BadRequestError, match="too much"):
        ask(client, picture(image.id), model="llava")
    client.files.delete(image.id)
    scene.play("It was red.")
    again = ask(client, "And its colour?", model="llava", previous_response_id=response.id)
    assert again.output_text == "It was red."
    assert "no longer here" in str(messages(scene))


def test_a_file_without_the_tool_is_refused_with_the_remedy(client: OpenAI, scene: Scene) -> None:
    file = client.files.create(file=("in.csv", b"a"), purpose="user_data")
    message = {"role": "user", "content": [{"type": "input_file", "file_id": file.id}]}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, cast(Any, [message]), tools=[])
    assert caught.value.param == "input[0].content[0]"
    assert "code_interpreter" in str(caught.value)


def test_files_in_directories_and_unmentioned_ones_are_kept(client: OpenAI, scene: Scene) -> None:
    code = "import os; os.makedirs('a/b'); open('a/b/deep.txt', 'w').write('deep'); open('top.txt', 'w').write('t')"
    scene.play([call("code_interpreter", code=code)], "I say nothing of files.")
    response = ask(client)
    cited = {one.filename: one for one in said(response).annotations if one.type == "container_file_citation"}
    assert cited.keys() == {"deep.txt", "top.txt"}
    paths = {one.path: one.bytes for one in client.containers.files.list(cell(response).container_id)}
    assert paths == {"/mnt/data/a/b/deep.txt": 4, "/mnt/data/top.txt": 1}


def test_a_silent_model_does_not_lose_the_files(client: OpenAI, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="_ = open('quiet.txt', 'w').write('q')")], "")
    response = ask(client)
    [cited] = [one for one in said(response).annotations if one.type == "container_file_citation"]
    assert cited.filename == "quiet.txt"


def test_containers_by_hand(client: OpenAI, scene: Scene) -> None:
    name = "listed by this test alone"
    container = client.containers.create(
        name=name, memory_limit="4g", expires_after={"anchor": "last_active_at", "minutes": 5}
    )
    assert (container.status, container.memory_limit) == ("running", "4g")
    assert container.expires_after is not None
    assert container.expires_after.minutes == 5
    uploaded = client.containers.files.create(container.id, file=("über.txt", b"hello"))
    assert uploaded.path == "/mnt/data/über.txt"
    file = client.files.create(file=("second.txt", b"two"), purpose="assistants")
    attached = client.containers.files.create(container.id, file_id=file.id)
    assert attached.bytes == 3
    scene.play([call("code_interpreter", code="import os; sorted(os.listdir())")], "ok")
    tools = [{"type": "code_interpreter", "container": container.id}]
    assert logs(ask(client, tools=tools)) == "['second.txt', 'über.txt']"
    client.containers.files.delete(uploaded.id, container_id=container.id)
    scene.play([call("code_interpreter", code="os.listdir()")], "ok")
    assert logs(ask(client, tools=tools)) == "['second.txt']"
    assert [one.id for one in client.containers.list(name=name)] == [container.id]
    client.containers.delete(container.id)
    with pytest.raises(openai.NotFoundError, match="not found"):
        client.containers.retrieve(container.id)
    with pytest.raises(openai.NotFoundError):
        ask(client, tools=tools)


def test_lists_are_paged(client: OpenAI) -> None:
    container = client.containers.create(name="pages")
    made = [client.containers.files.create(container.id, file=(f"{n}.txt", b"x")).path for n in range(5)]
    pages = client.containers.files.list(container.id, limit=2, order="asc")
    assert [one.path for one in pages] == made
    assert [one.path for one in client.containers.files.list(container.id, limit=2)] == made[::-1]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_is_unpacked_on_request(client: OpenAI, house: House, kind: str) -> None:
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("sub/é.txt", "inside")
    else:
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            info = tarfile.TarInfo("sub/é.txt")
            info.size = 6
            tar.addfile(info, io.BytesIO(b"inside"))
    container = client.containers.create(name="archive")
    address = f"{house.base_url}/containers/{container.id}/files?extract=true"
    answer = httpx2.post(address, files={"file": (f"all.{kind}", buffer.getvalue())})
    assert answer.status_code == 200, answer.text
    assert [one.path for one in client.containers.files.list(container.id)] == ["/mnt/data/sub/é.txt"]


@pytest.mark.parametrize("size", [6, 9 << 20])
def test_an_archive_may_be_the_body_itself(client: OpenAI, house: House, size: int) -> None:
    content = bytes(range(251)) * (size // 251) + b"\0" * (size % 251)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        info = tarfile.TarInfo("sub/é.bin")
        info.size = size
        tar.addfile(info, io.BytesIO(content))
    container = client.containers.create(name="archive")
    address = f"{house.base_url}/containers/{container.id}/files?extract=true"
    answer = httpx2.post(address, content=buffer.getvalue(), headers={"content-type": "application/x-tar"})
    assert answer.status_code == 200, answer.text
    [file] = client.containers.files.list(container.id)
    assert (file.path, file.bytes) == ("/mnt/data/sub/é.bin", size)
    assert client.containers.files.content.retrieve(file.id, container_id=container.id).read() == content


def test_an_archive_with_tricks_is_refused_and_nothing_is_kept(client: OpenAI, house: House) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        good = tarfile.TarInfo("good.txt")
        tar.addfile(good, io.BytesIO(b""))
        tar.addfile(tarfile.TarInfo("../evil.txt"), io.BytesIO(b""))
    container = client.containers.create(name="tricks")
    address = f"{house.base_url}/containers/{container.id}/files?extract=true"
    answer = httpx2.post(address, files={"file": ("all.tar", buffer.getvalue())})
    assert answer.status_code == 400
    assert "evil.txt" in answer.json()["error"]["message"]
    assert not list(client.containers.files.list(container.id))
