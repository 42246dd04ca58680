"""Through a real gateway into a real sandbox: code that runs, files that come back, workspaces that heal."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError, OpenAI
from tests.gateway.houses import House, Scene
from tests.library.adapters.evaluation.replies import QUERY, QueryResult, prompt

from belljar.adapters.openai import (
    CompactionConfig,
    CompactionState,
    ContainerConfig,
    OpenAIAdapter,
    OpenAIContainerWorkspaceSection,
    OpenAIHostedToolsConfig,
)
from belljar.errors import (
    ContainerExpired,
    Declined,
    InvalidContainer,
    PromptEvaluationError,
    PromptValidationError,
    WorkspaceSecurityError,
)
from belljar.prompt import MarkdownSection, Prompt, PromptTemplate
from belljar.runtime import PromptExecuted, Session, ToolInvoked
from belljar.testing import Call, call
from belljar.tools import CodeInterpreterOutput, HostMount, OpenAICodeInterpreterTool, VfsPath

CODE = OpenAIHostedToolsConfig(code_interpreter=True)
SMALL = ContainerConfig(memory_limit="1g")


@pytest.fixture(scope="module")
def _stage() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def house(_stage: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    state = tmp_path_factory.mktemp("gateway") / "state"
    with House(state, "--upstream", f"loop={_stage.server.base_url}") as house:
        yield house


@pytest.fixture
def scene(_stage: Scene) -> Scene:
    """What the model behind the gateway says."""
    _stage.play()
    return _stage


@pytest.fixture
def client(house: House) -> Iterator[OpenAI]:
    with OpenAI(base_url=house.base_url, api_key="none") as client:
        yield client


@pytest.fixture
def adapter(client: OpenAI) -> OpenAIAdapter:
    return OpenAIAdapter(model="sim", client=client, hosted_tools=CODE)


def python(code: str) -> Call:
    return call("code_interpreter", code=code)


def expire(house: House, container_id: str) -> None:
    """Let its idle time run out."""
    with sqlite3.connect(house.state / "records.db", timeout=30) as records:
        records.execute("UPDATE containers SET last_active_at = 1 WHERE id = ?", (container_id,))
    records.close()


def read(client: OpenAI, container_id: str, file_id: str) -> bytes:
    return client.containers.files.content.retrieve(file_id, container_id=container_id).read()


@dataclass(frozen=True)
class Report:
    total: int


def test_code_runs_and_the_answer_is_typed(scene: Scene, adapter: OpenAIAdapter, session: Session) -> None:
    scene.play(python("print(6 * 7)"), '{"total": 42}')
    assert adapter.evaluate(prompt(output=Report), session=session).output == Report(42)
    [output] = session[CodeInterpreterOutput].all()
    assert (output.output_text, output.exit_code, output.success) == ("42\n", 0, True)
    assert output.container_id is not None
    assert output.container_id.startswith("cntr_")


def test_a_file_that_code_made_is_cited_and_can_be_fetched(
    scene: Scene, adapter: OpenAIAdapter, client: OpenAI, session: Session
) -> None:
    scene.play(python("open('a.txt', 'w').write('made')"), "Here is [the file](sandbox:/mnt/data/a.txt).")
    answer = adapter.evaluate(prompt(), session=session)
    [cited] = answer.citations
    assert cited.filename == "a.txt"
    assert read(client, cited.container_id, cited.file_id) == b"made"
    [output] = session[CodeInterpreterOutput].all()
    assert output.citations == (cited,)


def test_code_that_raises_is_told_with_its_traceback(scene: Scene, adapter: OpenAIAdapter, session: Session) -> None:
    scene.play(
        python("open('b.txt', 'w').write('x')\nraise ValueError('bad value')"), "Sorry: [b](sandbox:/mnt/data/b.txt)"
    )
    answer = adapter.evaluate(prompt(), session=session)
    [event] = session[ToolInvoked].all()
    assert event.result.success is False
    assert event.result.value.exit_code == 1
    assert "ValueError: bad value" in event.result.value.stderr
    assert [one.filename for one in answer.citations] == ["b.txt"]
    assert event.result.value.citations == answer.citations


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        ("import sys\nprint('warn', file=sys.stderr)\nprint('out')\n5", (True, 0, "out\n", "warn\n")),
        ("print('out')\nraise SystemExit(3)", (False, 3, "out\n", "")),
        ("import sys\nprint('out')\nsys.exit(0)", (True, 0, "out\n", "")),
        ("pass", (True, 0, "", "")),
    ],
)
def test_how_code_ended_is_exact(
    code: str, ends: tuple[bool, int, str, str], scene: Scene, adapter: OpenAIAdapter, session: Session
) -> None:
    scene.play(python(code), "done")
    adapter.evaluate(prompt(), session=session)
    [event] = session[ToolInvoked].all()
    output: CodeInterpreterOutput = event.result.value
    assert (event.result.success, output.exit_code, output.stdout, output.stderr) == ends
    assert (output.output_text == "") is (code == "pass")


def test_functions_and_code_in_one_evaluation_and_one_sandbox(
    scene: Scene, adapter: OpenAIAdapter, session: Session
) -> None:
    scene.play(
        python("rows = 40"), call("run_query", sql="select", limit=2), python("print(rows + 2)"), "There are 42."
    )
    assert adapter.evaluate(prompt(QUERY), session=session).text == "There are 42."
    names = [(one.name, one.result.success) for one in session[ToolInvoked].all()]
    assert names == [("code_interpreter", True), ("run_query", True), ("code_interpreter", True)]
    assert [one.output_text for one in session[CodeInterpreterOutput].all()] == ["", "42\n"]
    assert session[QueryResult].all() == (QueryResult(2),)
    usage = session[PromptExecuted].all()[0].usage
    assert usage is not None
    assert (usage.total_tokens or 0) > 0


def test_the_tool_can_be_forced(scene: Scene, adapter: OpenAIAdapter, session: Session) -> None:
    scene.play(python("print(1)"), "one")
    adapter.evaluate(prompt(tool_choice="required"), session=session)
    assert scene.asked[0].json["tool_choice"] == "required"
    assert len(session[CodeInterpreterOutput].all()) == 1


def test_text_as_it_comes(scene: Scene, adapter: OpenAIAdapter, session: Session) -> None:
    heard: list[str] = []
    scene.play(["Let me see. ", python("print(1)")], "It is one.")
    answer = adapter.evaluate(prompt(), session=session, on_text=heard.append)
    assert answer.text == "Let me see. \n\nIt is one."
    assert "".join(heard) == "Let me see. It is one."
    assert len(session[CodeInterpreterOutput].all()) == 1


def test_in_asyncio(scene: Scene, house: House, client: OpenAI, session: Session) -> None:
    async def evaluated() -> str | None:
        async with AsyncOpenAI(base_url=house.base_url, api_key="none") as remote:
            adapter = OpenAIAdapter(model="sim", client=client, async_client=remote, hosted_tools=CODE)
            return (await adapter.evaluate_async(prompt(QUERY), session=session)).text

    scene.play(python("print(1)"), call("run_query", sql="x", limit=1), "done")
    assert asyncio.run(evaluated()) == "done"
    assert [one.name for one in session[ToolInvoked].all()] == ["code_interpreter", "run_query"]


def test_the_built_in_model(client: OpenAI, session: Session) -> None:
    section = MarkdownSection(title="Task", key="task", template="```python\nprint(6 * 7)\n```")
    adapter = OpenAIAdapter(model="belljar", client=client, hosted_tools=CODE)
    answer = adapter.evaluate(Prompt(PromptTemplate(ns="t", key="t", sections=[section])), session=session)
    assert "42" in (answer.text or "")


# -- containers that are named ----------------------------------------------------------------------------------------


def test_an_existing_container_goes_out_as_its_id(
    scene: Scene, adapter: OpenAIAdapter, client: OpenAI, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    made = client.containers.create(name="mine", memory_limit="4g")
    client.containers.files.create(made.id, file=("in.txt", b"from me"))
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(
        name="python", container={"id": made.id, "memory_limit": "4g"}
    )
    scene.play(python("print(open('in.txt').read())"), "read")
    with caplog.at_level("INFO", "belljar.adapters"):
        adapter.evaluate(prompt(tool), session=session)
    [output] = session[CodeInterpreterOutput].all()
    assert (output.output_text, output.container_id) == ("from me\n", made.id)
    assert f"container_id={made.id} memory_limit=4g" in caplog.text


@pytest.mark.parametrize("how", ["deleted", "expired", "never was"])
def test_a_container_that_is_gone_is_said_so_before_the_model_is_asked(
    how: str, scene: Scene, house: House, adapter: OpenAIAdapter, client: OpenAI, session: Session
) -> None:
    id = client.containers.create(name="mine").id
    if how == "deleted":
        client.containers.delete(id)
    elif how == "expired":
        expire(house, id)
    else:
        id = "cntr_none"
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"id": id})
    with pytest.raises(ContainerExpired, match=f"{id} has expired or is gone; make another") as caught:
        adapter.evaluate(prompt(tool), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert scene.asked == []
    scene.play(python("print(1)"), "again")
    another = client.containers.create(name="mine").id
    again: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"id": another})
    assert adapter.evaluate(prompt(again), session=session).text == "again"


def test_a_container_of_another_size_is_said_so(
    scene: Scene, adapter: OpenAIAdapter, client: OpenAI, session: Session
) -> None:
    id = client.containers.create(name="mine", memory_limit="1g").id
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(
        name="python", container={"id": id, "memory_limit": "4g"}
    )
    with pytest.raises(InvalidContainer, match=f"'4g' is not what {id} has, '1g'"):
        adapter.evaluate(prompt(tool), session=session)
    assert scene.asked == []


def test_a_container_that_cannot_be_asked_about(scene: Scene, session: Session) -> None:
    """The model server has no containers at all."""
    with OpenAI(base_url="http://127.0.0.1:9/v1", api_key="k", max_retries=0) as client:
        adapter = OpenAIAdapter(model="sim", client=client)
        tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"id": "cntr_1"})
        with pytest.raises(PromptEvaluationError, match="Network issue"):
            adapter.evaluate(prompt(tool), session=session)


# -- host files -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sunfish(tmp_path: Path) -> Path:
    (tmp_path / "roots/sunfish/data").mkdir(parents=True)
    (tmp_path / "roots/sunfish/data/input.csv").write_text("value\n1\n2\n")
    (tmp_path / "roots/sunfish/main.py").write_text("print('fish')\n")
    return tmp_path / "roots/sunfish"


def test_host_mounts_of_a_tool(scene: Scene, client: OpenAI, session: Session, sunfish: Path) -> None:
    mount = HostMount(str(sunfish), VfsPath(("workspace", "sunfish")), include_glob=("*.csv",))
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(
        name="python", container={"type": "auto", "host_mounts": [mount]}
    )
    adapter = OpenAIAdapter(model="sim", client=client, allowed_host_roots=(sunfish.parent,))
    scene.play(
        python("import glob; print(sorted(glob.glob('workspace/**/*.*', recursive=True)))"),
        python("print(open('workspace/sunfish/data/input.csv').read().split())"),
        "done",
    )
    adapter.evaluate(prompt(tool), session=session)
    first, second = session[CodeInterpreterOutput].all()
    assert first.output_text == "['workspace/sunfish/data/input.csv']\n"
    assert second.output_text == "['value', '1', '2']\n"
    strict = OpenAIAdapter(model="sim", client=client, allowed_host_roots=(sunfish / "data",))
    scene.play()
    with pytest.raises(WorkspaceSecurityError):
        strict.evaluate(prompt(tool), session=session)
    assert scene.asked == []


@pytest.fixture
def workspace(session: Session, sunfish: Path) -> Iterator[OpenAIContainerWorkspaceSection]:
    section = OpenAIContainerWorkspaceSection(
        session=session,
        mounts=(HostMount(str(sunfish), "project"),),
        allowed_host_roots=(sunfish.parent,),
        container_config=SMALL,
    )
    yield section
    section.cleanup()


def test_a_workspace_is_where_the_code_runs(
    scene: Scene, adapter: OpenAIAdapter, session: Session, workspace: OpenAIContainerWorkspaceSection
) -> None:
    assert workspace.container_id is None
    code = "open('project/new.txt', 'w').write('new'); print(open('project/main.py').read())"
    scene.play(python(code), "ok")
    adapter.evaluate(prompt(sections=[workspace]), session=session)
    [output] = session[CodeInterpreterOutput].all()
    assert output.output_text == "print('fish')\n\n"
    assert output.container_id == workspace.container_id
    assert workspace.filesystem.read_text("project/new.txt") == "new"
    scene.play(python("print(open('project/new.txt').read())"), "ok")
    adapter.evaluate(prompt(sections=[workspace]), session=session)
    assert session[CodeInterpreterOutput].all()[-1].output_text == "new\n"


def test_a_workspace_heals_between_evaluations(
    scene: Scene,
    adapter: OpenAIAdapter,
    house: House,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    scene.play("one")
    adapter.evaluate(prompt(sections=[workspace]), session=session)
    first = workspace.container_id
    assert first is not None
    expire(house, first)
    scene.play(python("print(open('project/main.py').read())"), "two")
    adapter.evaluate(prompt(sections=[workspace]), session=session)
    assert workspace.container_id not in (None, first)
    assert session[CodeInterpreterOutput].all()[-1].output_text == "print('fish')\n\n"


def test_a_workspace_heals_within_an_evaluation(
    scene: Scene,
    adapter: OpenAIAdapter,
    client: OpenAI,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    """While a tool ran, the container went."""
    gone: list[str] = []

    def lose(event: ToolInvoked) -> None:
        if not gone and workspace.container_id is not None and event.name == "run_query":
            gone.append(workspace.container_id)
            client.containers.delete(workspace.container_id)

    session.dispatcher.subscribe(ToolInvoked, lose)
    scene.play(call("run_query", sql="x", limit=1), python("print(open('project/main.py').read())"), "done")
    assert adapter.evaluate(prompt(QUERY, sections=[workspace]), session=session).text == "done"
    assert gone != [workspace.container_id]
    assert session[CodeInterpreterOutput].all()[-1].container_id == workspace.container_id


def test_a_workspace_that_is_switched_off_makes_no_container(
    scene: Scene, client: OpenAI, session: Session, workspace: OpenAIContainerWorkspaceSection
) -> None:
    off = MarkdownSection(title="Off", key="off", template="", children=[workspace], enabled=lambda: False)
    scene.play("ok")
    OpenAIAdapter(model="sim", client=client).evaluate(prompt(sections=[off]), session=session)
    assert workspace.container_id is None


def test_a_workspace_needs_the_code_interpreter(
    scene: Scene, client: OpenAI, session: Session, workspace: OpenAIContainerWorkspaceSection
) -> None:
    with pytest.raises(PromptValidationError, match="needs the code interpreter"):
        OpenAIAdapter(model="sim", client=client).evaluate(prompt(sections=[workspace]), session=session)
    assert (scene.asked, workspace.container_id) == ([], None)


@pytest.mark.parametrize("container", [{"id": "cntr_1"}, {"type": "auto", "file_ids": ["file_1"]}], ids=repr)
def test_a_workspace_beside_a_container_of_the_tool_s_own_is_refused(
    container: dict[str, Any],
    scene: Scene,
    adapter: OpenAIAdapter,
    session: Session,
    workspace: OpenAIContainerWorkspaceSection,
) -> None:
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container=container)
    with pytest.raises(PromptValidationError, match="'python': has a container or files of its own"):
        adapter.evaluate(prompt(tool, sections=[workspace]), session=session)
    assert (scene.asked, workspace.container_id) == ([], None)


# -- compaction -------------------------------------------------------------------------------------------------------


def test_the_order_of_things(
    scene: Scene, house: House, session: Session, workspace: OpenAIContainerWorkspaceSection
) -> None:
    """Workspace, then the request with what was compacted before, then the threshold."""
    asked: list[str] = []
    with OpenAI(base_url=house.base_url, api_key="none") as client:
        client._client.event_hooks["request"].append(
            lambda request: asked.append(f"{request.method} {request.url.path}")
        )
        adapter = OpenAIAdapter(
            model="sim", client=client, hosted_tools=CODE, compaction=CompactionConfig(threshold_tokens=1)
        )
        scene.play("one", "They counted.", "two", "They counted on.")
        adapter.evaluate(prompt(sections=[workspace]), session=session)
        made, *_, model, compacted = asked
        assert (made, model, compacted) == ("POST /v1/containers", "POST /v1/responses", "POST /v1/responses/compact")
        assert workspace.container_id is not None
        state = session[CompactionState].latest()
        assert state is not None
        assert (state.compaction_count, len(state.encrypted_items)) == (1, 1)
        asked.clear()
        adapter.evaluate(prompt(sections=[workspace]), session=session)
        assert asked[-2:] == ["POST /v1/responses", "POST /v1/responses/compact"]
    told = json.dumps(scene.asked[2].json["messages"])
    assert "They counted." in told
    assert session[CompactionState].latest() != state


def test_history_is_compacted_between_turns(scene: Scene, client: OpenAI, session: Session) -> None:
    adapter = OpenAIAdapter(model="sim", client=client, compaction=CompactionConfig(threshold_tokens=1))
    scene.play(call("run_query", sql="x", limit=1), "A query was run.", "done", "It is done.")
    assert adapter.evaluate(prompt(QUERY), session=session).text == "done"
    roles = [one["role"] for one in scene.asked[2].json["messages"]]
    assert "tool" not in roles
    assert "A query was run." in json.dumps(scene.asked[2].json["messages"])
    state = session[CompactionState].latest()
    assert state is not None
    assert state.compaction_count == 2


def test_without_compaction_nothing_is_compacted(scene: Scene, adapter: OpenAIAdapter, session: Session) -> None:
    scene.play("one")
    adapter.evaluate(prompt(), session=session)
    assert len(scene.asked) == 1
    assert session[CompactionState].all() == ()


def test_with_zero_data_retention_the_gateway_keeps_nothing(
    scene: Scene, client: OpenAI, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    config = CompactionConfig(threshold_tokens=1, zdr_mode=True)
    adapter = OpenAIAdapter(model="sim", client=client, compaction=config)
    scene.play(call("run_query", sql="x", limit=1), "A query was run.", "done", "It is done.")
    with caplog.at_level("INFO", "belljar.adapters"):
        assert adapter.evaluate(prompt(QUERY), session=session).text == "done"
    ids = [one.__dict__["turn"]["response_id"] for one in caplog.records if "turn" in one.__dict__]
    assert len(ids) == 2
    for id in ids:
        with pytest.raises(NotFoundError):
            client.responses.retrieve(id)


def test_a_gateway_that_refuses_is_heard(scene: Scene, client: OpenAI, session: Session) -> None:
    with pytest.raises(Declined, match="Invalid model name") as caught:
        OpenAIAdapter(model="no-such-model", client=client).evaluate(prompt(), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
