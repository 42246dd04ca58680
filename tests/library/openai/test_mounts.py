"""`host_mounts` of a request's container: uploaded by the client, and visible to the code where they say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from belljar import HostMount
from belljar.errors import InvalidContainer, WorkspaceSecurityError
from belljar.openai import AsyncOpenAI, OpenAI, readable
from belljar.testing import LoopbackUpstream, ReplyStep, call

READ = """
import os
found = [os.path.join(top, name) for top, _, names in os.walk('/workspace/sunfish') for name in names]
print(*sorted(found), open('/workspace/sunfish/data/input.csv').read())
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[LoopbackUpstream]:
    def script() -> Iterator[list[ReplyStep]]:
        while True:
            yield [call("code_interpreter", code=READ)]
            yield ["done"]

    with LoopbackUpstream(script()) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def client(upstream: LoopbackUpstream) -> Iterator[OpenAI]:
    with OpenAI.local(discover=False, upstreams=[upstream.base_url]) as client:
        yield client


@pytest.fixture
def sunfish(tmp_path: Path) -> Path:
    root = tmp_path / "sunfish"
    (root / "data").mkdir(parents=True)
    (root / "data" / "input.csv").write_text("value\n1\n")
    (root / "notes.md").write_text("n")
    (root / "secret.key").write_text("s")
    return root


def tools(**mount: Any) -> Any:
    mounts = [{"host_path": "sunfish", "mount_path": "/workspace/sunfish", "include_glob": ["*.csv", "*.md"], **mount}]
    return [{"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g", "host_mounts": mounts}}]


def logs(response: Any) -> str:
    return str(response.output[0]["outputs"][0]["logs"])


OUTPUTS: Any = ["code_interpreter_call.outputs"]
SEEN = "/workspace/sunfish/data/input.csv /workspace/sunfish/notes.md value\n1\n\n"


def test_files_are_where_the_mount_says(client: OpenAI, sunfish: Path) -> None:
    uploaded = client.files.create(file=("extra.txt", b"E"), purpose="user_data")
    asked = tools()
    asked[0]["container"]["file_ids"] = [uploaded.id]
    response = client.responses.create(model="sim", input="x", tools=asked, include=OUTPUTS)
    assert logs(response) == SEEN
    container = client.containers.retrieve(response.output[0]["container_id"])  # type: ignore[index]
    assert container.memory_limit == "4g"
    paths = {file.path for file in client.containers.files.list(container.id)}
    assert paths == {"/mnt/data/extra.txt"} | {f"/mnt/data{path}" for path in SEEN.split()[:2]}
    assert "host_mounts" in asked[0]["container"], "the caller's own request is as it was"


def test_a_mount_may_be_a_mount_and_items_go_back_as_they_came(client: OpenAI, sunfish: Path) -> None:
    mount = HostMount("sunfish", "/workspace/sunfish", include_glob=("*.csv", "*.md"))
    response = client.responses.create(
        model="sim",
        input=[{"role": "user", "content": "x"}],
        tools=[{"type": "code_interpreter", "container": {"type": "auto", "host_mounts": [mount]}}],
        include=["code_interpreter_call.outputs"],
    )
    cell, _ = readable(response.output)
    assert cell["outputs"][0]["logs"] == SEEN
    again = client.responses.create(
        model="sim", input=[*response.output, {"role": "user", "content": "y"}], tool_choice="none"
    )
    assert again.status == "completed"


def test_files_may_come_from_allowed_roots_only(client: OpenAI, sunfish: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(client.containers.list().data)
    (sunfish / "inner").mkdir()
    monkeypatch.chdir(sunfish / "inner")
    for path in ("../../sunfish", str(sunfish)):
        with pytest.raises(WorkspaceSecurityError):
            client.responses.create(model="sim", input="x", tools=tools(host_path=path))
    assert len(client.containers.list().data) == before
    other = client.with_options(timeout=60)
    other.allowed_host_roots = (sunfish.parent,)
    again = other.with_options(max_retries=0)
    assert logs(again.responses.create(model="sim", input="x", tools=tools(), include=OUTPUTS)) == SEEN


def test_a_mount_that_says_what_there_is_not_is_refused_before_anything_is_asked(client: OpenAI, sunfish: Path) -> None:
    with pytest.raises(InvalidContainer, match="follow"):
        client.responses.create(model="sim", input="x", tools=tools(follow="links"))


def test_a_plain_client_is_told_that_the_wire_has_none(client: OpenAI, sunfish: Path) -> None:
    """By the gateway: only this client uploads."""
    plain = openai.OpenAI(base_url="http://belljar.localhost/v1", api_key="none", http_client=client._client)
    with pytest.raises(openai.BadRequestError, match="host_mounts"):
        plain.responses.create(model="sim", input="x", tools=tools())


def test_the_same_for_asyncio(upstream: LoopbackUpstream, sunfish: Path) -> None:
    async def main() -> None:
        async with AsyncOpenAI.local(discover=False, upstreams=[upstream.base_url]) as client:
            response = await client.responses.create(model="sim", input="x", tools=tools(), include=OUTPUTS)
            assert logs(response) == SEEN

    asyncio.run(main())
