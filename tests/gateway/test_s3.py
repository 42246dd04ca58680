"""A gateway that keeps files in a bucket: as with a directory, and another machine with the same records finds them."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from openai import OpenAI
from tests.gateway.houses import House
from tests.helpers import s3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    with s3.running("rclone", tmp_path_factory.mktemp("s3") / "rclone") as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return os.urandom(8).hex()


def start(server: s3.S3Server, place: Path, prefix: str, *, cache: str = "cache") -> House:
    environment = {**s3.VARIABLES, "BELLJAR_BLOBS_ENDPOINT": server.url, "BELLJAR_CACHE_DIR": str(place / cache)}
    return House(place / "state", "--blobs", f"s3://{s3.BUCKET}/{prefix}", environment=environment)


def run(client: OpenAI, container: str, code: str) -> str:
    answer = client.responses.create(
        model="belljar",
        input=f"```python\n{code}\n```",
        tools=[{"type": "code_interpreter", "container": container}],
        include=["code_interpreter_call.outputs"],
    )
    assert answer.status == "completed"
    [call] = [item for item in answer.output if item.type == "code_interpreter_call"]
    return "".join(output.logs for output in call.outputs or [] if output.type == "logs")


def test_files_come_and_go_and_outlive_the_machine(server: s3.S3Server, tmp_path: Path, prefix: str) -> None:
    large = os.urandom(20 << 20)
    with start(server, tmp_path, prefix) as house, OpenAI(base_url=house.base_url, api_key="none") as client:
        container = client.containers.create(name="c").id
        file = client.files.create(file=("large.bin", large), purpose="user_data")
        client.containers.files.create(container, file_id=file.id)
        code = "data = open('large.bin', 'rb').read()\nopen('end.bin', 'wb').write(data[-9:])\nprint(len(data))"
        assert run(client, container, code) == f"{len(large)}\n"
        house.process.kill()
        house.process.wait()
    assert not (tmp_path / "state/blobs").exists()
    with (
        start(server, tmp_path, prefix, cache="another machine's") as house,
        OpenAI(base_url=house.base_url, api_key="none") as client,
    ):
        files = {one.path: one.id for one in client.containers.files.list(container)}
        end = client.containers.files.content.retrieve(files["/mnt/data/end.bin"], container_id=container)
        assert end.read() == large[-9:]
        part = httpx2.get(f"{house.base_url}/files/{file.id}/content", headers={"range": "bytes=-7"})
        assert (part.status_code, part.content) == (206, large[-7:])
        assert client.files.content(file.id).read() == large
        assert (
            run(client, container, "print(open('end.bin', 'rb').read() == open('large.bin', 'rb').read()[-9:])")
            == "True\n"
        )


def test_an_archive_of_many_files_is_a_few_objects(server: s3.S3Server, tmp_path: Path, prefix: str) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(20_000):
            archive.writestr(f"d{number % 100}/f{number}.txt", f"file {number}\n" * (number % 20))
    with start(server, tmp_path, prefix) as house, OpenAI(base_url=house.base_url, api_key="none") as client:
        container = client.containers.create(name="c").id
        answer = httpx2.post(
            f"{house.base_url}/containers/{container}/files?extract=true",
            content=packed.getvalue(),
            headers={"content-type": "application/zip"},
            timeout=100,
        )
        assert answer.status_code == 200, answer.text
        assert len(server.objects(prefix)) <= 30
        code = "import pathlib\nfiles = [p for p in pathlib.Path('.').rglob('*.txt')]\nprint(len(files))\n"
        code += "print(open('d77/f19977.txt').read() == 'file 19977\\n' * 17)"
        assert run(client, container, code) == "20000\nTrue\n"


def test_a_wrong_bucket_stops_the_start(server: s3.S3Server, tmp_path: Path) -> None:
    environment = {**s3.VARIABLES, "BELLJAR_BLOBS_ENDPOINT": server.url, "BELLJAR_CACHE_DIR": str(tmp_path / "cache")}
    told = House(tmp_path / "state", "--blobs", "s3://nobodys", environment=environment).run()
    assert told.returncode == 3
    assert "there is no bucket nobodys" in told.stderr
    assert "Traceback" not in told.stderr
