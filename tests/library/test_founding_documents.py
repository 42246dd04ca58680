"""Every Python block of the founding documents, with only the import roots changed.

Examples run against the real gateway with the real jail, and a model that plays a script. What the documents declare
without a body is compared with ours. What a reader has to supply (files, keys, ids, functions) is supplied here.
"""

from __future__ import annotations

import ast
import json
import os
import re
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.houses import House
from tests.helpers.wire_meaning import meaning
from tests.library.founding import signatures
from tests.library.founding.documents import Block, read

import belljar
from belljar.openai import OpenAI
from belljar.testing import LoopbackUpstream, Received, Reply, ReplyStep, call

BLOCKS = read()
MODELS = ["gpt-4.1", "gpt-5.2", "gpt-5.2-pro", "gpt-5.2-codex", "gpt-5-mini", "gpt-5-nano"]
Names = dict[str, Any]

COMPARED = [
    f"hosted-tools: {name}"
    for name in (
        "OpenAIHostedToolsConfig",
        "ContainerConfig",
        "CompactionConfig",
        "FileSearchConfig",
        "OpenAIContainerWorkspaceSection",
        "HostMount (Reused)",
        "ContainerFilesystem",
        "CompactionState",
        "CompactionManager",
        "Extended OpenAIAdapter",
        "ContainerExpiredError",
        "CompactionError",
    )
]
"""Declarations without a body."""
LITERALS = {
    f"providers: {name}"
    for name in (
        "Response Structure",
        "Function Calls in Response",
        "Anthropic Format (Internal)",
        "OpenAI Responses API Format (Converted)",
        "How Optional Parameters Are Handled",
        "How Optional Parameters Are Handled 2",
    )
}
"""Data, to which what really comes is compared."""


def block(key: str) -> Block:
    return BLOCKS[key]


# -- the scene ---------------------------------------------------------------------------------------------------------


class Scene:
    """The model behind the gateway, which passes for OpenAI: by its wire, its names, and tools of its own."""

    def __init__(self) -> None:
        self._replies: deque[Any] = deque()
        self.server = LoopbackUpstream(self._script(), models=MODELS)

    def _script(self) -> Iterator[Any]:
        while True:
            yield (
                self._replies.popleft() if self._replies else Reply(status=400, body=b'{"error": {"message": "over"}}')
            )

    def play(self, *replies: Reply | ReplyStep | list[ReplyStep]) -> None:
        self._replies = deque(replies)
        self.server.requests.clear()

    @property
    def asked(self) -> list[Received]:
        return [one for one in self.server.requests if one.method == "POST"]


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def house(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("founding")
    upstreams = {"loop": {"base_url": _scene.server.base_url, "dialect": "openai", "quirks": "openai"}}
    (folder / "config.yaml").write_text(json.dumps({"upstreams": upstreams}))
    with House(folder / "state", "--config", str(folder / "config.yaml")) as house:
        yield house


@pytest.fixture
def scene(_scene: Scene, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """With the reader's environment: a key, the gateway's address, a home of their own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-your-key-here")
    monkeypatch.setenv("OPENAI_BASE_URL", house.base_url)
    _scene.play()
    yield _scene
    assert not _scene._replies, "the model was asked less often than it should be"


@pytest.fixture
def names() -> Names:
    """Every public name, as the documents use them without saying where they are from."""
    return {"__name__": "founding", "Any": Any, **{name: getattr(belljar, name) for name in belljar.__all__}}


@pytest.fixture(autouse=True)
def close_connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The documents make clients and adapters that nobody there closes, and some take the name of one before.

    Left to the collector, which takes them in any order, a socket may go before the client that would close it.
    """
    made: list[httpx2.Client] = []
    begin = httpx2.Client.__init__

    def note(client: httpx2.Client, *given: Any, **named: Any) -> None:
        begin(client, *given, **named)
        made.append(client)

    monkeypatch.setattr(httpx2.Client, "__init__", note)
    yield
    for one in made:
        one.close()


@pytest.fixture
def client(scene: Scene) -> Iterator[OpenAI]:
    with OpenAI(max_retries=0) as client:
        yield client


def test_every_block_has_its_test() -> None:
    calls = [node for node in ast.walk(ast.parse(Path(__file__).read_text())) if isinstance(node, ast.Call)]
    named = [
        one.args[0].value for one in calls if ast.unparse(one.func) == "block" and isinstance(one.args[0], ast.Constant)
    ]
    assert {*named, *COMPARED, *LITERALS} == {*BLOCKS}


# -- the code interpreter as a tool ------------------------------------------------------------------------------------

HISTOGRAM = """
import os, statistics
import pandas as pd
import matplotlib.pyplot as plt
values = pd.read_csv('/mnt/data/input.csv')['value']
values.hist()
plt.savefig('/mnt/data/histogram.png')
print(values.mean(), sorted(os.listdir('/workspace/sunfish')))
"""


def test_registering_the_code_interpreter(
    scene: Scene, names: Names, client: OpenAI, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sunfish = tmp_path / "sunfish"
    (sunfish / "__pycache__").mkdir(parents=True)
    for name in ("main.py", "notes.md", "data.csv", "__pycache__/stale.py"):
        (sunfish / name).write_text("x")
    uploaded = client.files.create(file=("input.csv", b"value\n1\n2\n6\n"), purpose="user_data")
    scene.play([call("code_interpreter", code=HISTOGRAM)], "The mean is 3: [plot](sandbox:/mnt/data/histogram.png)")
    block("code-interpreter-tool: Registering `OpenAICodeInterpreterTool`").run(names, {"file_csv_upload": uploaded.id})
    assert capsys.readouterr().out.startswith("The mean is 3: [plot](sandbox:")
    assert "3.0 ['main.py', 'notes.md']" in json.dumps(scene.asked[1].json)
    assert Path("histogram.png").read_bytes().startswith(b"\x89PNG")
    handled = names["identity_provider_output"]({"output_text": "said"}, None)
    assert (handled.message, handled.value, handled.success) == ("said", {"output_text": "said"}, True)
    made = client.containers.retrieve(names["response"].output[0]["container_id"])
    assert made.memory_limit == "4g"


# -- hosted tools: declarations ----------------------------------------------------------------------------------------

KNOWN = {
    # The four tiers that there are, and no others.
    "ContainerConfig.memory_limit": "Tier",
    "ContainerConfig.mode": "Mode",
    # One class for both documents, and for paths as the standard library has them.
    "HostMount.host_path": "str | os.PathLike[str]",
    "HostMount.mount_path": "str | VfsPath | None",
    # Anything that a session is used for.
    "OpenAIContainerWorkspaceSection.__init__.session": "SessionProtocol",
    "CompactionManager.__init__.session": "SessionProtocol",
    "OpenAIContainerWorkspaceSection.__init__.allowed_host_roots": "Roots",
    # The narrower of the two.
    "OpenAIContainerWorkspaceSection.filesystem()": "ContainerFilesystem",
    # A client that is made when it is needed.
    "ContainerFilesystem.__init__.client": "OpenAI | Callable[[], OpenAI]",
    # Items, under a name of their own.
    "CompactionState.encrypted_items": "tuple[Item, ...]",
    "CompactionManager.compact.messages": "list[Item]",
    "CompactionManager.compact()": "list[Item]",
    "CompactionManager.inject_encrypted_items.messages": "list[Item]",
    "CompactionManager.inject_encrypted_items()": "list[Item]",
}
"""Annotations that are ours on purpose."""


def declared(key: str) -> ast.ClassDef:
    (found,) = ast.parse(BLOCKS[key].code).body
    assert isinstance(found, ast.ClassDef)
    return found


@pytest.mark.parametrize("key", COMPARED)
def test_declarations(names: Names, key: str) -> None:
    theirs = declared(key)
    assert signatures.differences(theirs, names[theirs.name], names, KNOWN) == []


@pytest.mark.parametrize("where", KNOWN)
def test_a_known_difference_is_one(names: Names, where: str) -> None:
    (theirs,) = [one for one in map(declared, COMPARED) if one.name == where.partition(".")[0]]
    others = {one: ours for one, ours in KNOWN.items() if one != where}
    assert len(signatures.differences(theirs, names[theirs.name], names, others)) == 1


@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("ContainerExpiredError", {"container_id": "cntr_1", "original_error": ValueError()}),
        ("CompactionError", {"token_count": 3, "original_error": ValueError()}),
    ],
)
def test_errors_carry_what_they_declare(names: Names, name: str, members: Names) -> None:
    error = names[name]("gone", **members)
    assert isinstance(error, names["WinkError"])
    assert {member: getattr(error, member) for member in members} == members


# -- hosted tools: the wire, and the stories ---------------------------------------------------------------------------


@pytest.mark.parametrize("workspace", [False, True])
def test_hosted_tools_on_the_wire(scene: Scene, names: Names, workspace: bool) -> None:
    """What our adapter sends is what the document's function builds."""
    names |= block("hosted-tools: Hosted Tool Wire Format").run(names)
    hosted = names["OpenAIHostedToolsConfig"](
        code_interpreter=True, file_search=names["FileSearchConfig"](("vs_1",), 7), web_search=True
    )
    scene.play("done")
    session = names["Session"]()
    section = names["OpenAIContainerWorkspaceSection"](session=session) if workspace else None
    task = names["MarkdownSection"](title="Task", key="task", template="Look.")
    template = names["PromptTemplate"](ns="n", key="k", sections=[task, *([section] if section else [])])
    bodies: list[Any] = []

    class Listening(OpenAI):
        def request(self, cast_to: Any, options: Any, **more: Any) -> Any:
            if options.url == "/responses":
                bodies.append({**options.json_data, **(options.extra_json or {})})
            return super().request(cast_to, options, **more)

    with Listening(max_retries=0) as client:
        adapter = names["OpenAIAdapter"](model="gpt-5.2-codex", client=client, hosted_tools=hosted)
        adapter.evaluate(names["Prompt"](template), session=session)

        class Self:
            _hosted_tools = hosted

        wanted = names["_build_hosted_tools"](Self(), section)
    if section is None:
        wanted[0]["container"] = {"type": "auto", "memory_limit": "1g"}
    else:
        section.cleanup()
    assert bodies[0]["tools"] == wanted


REVIEW = json.dumps({"summary": "Fine.", "issues": ["eval"], "suggestions": []})


@pytest.fixture
def repos(tmp_path: Path) -> Path:
    project = tmp_path / "repos" / "myproject"
    for name in ("src/main.py", ".git/config", "node_modules/x/index.js", "src/old.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("eval(input())\n")
    return tmp_path / "repos"


LOOK = "import os\nprint(sorted(os.path.join(at, n) for at, _, names in os.walk('project') for n in names))"


def test_story_1(scene: Scene, names: Names, repos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scene.play([call("code_interpreter", code=LOOK)], REVIEW)
    block("hosted-tools: Story 1: Portable Code Review").run(names, {'"/repos': f'"{repos}'})
    assert capsys.readouterr().out == "ReviewResult(summary='Fine.', issues=['eval'], suggestions=[])\n"
    assert "['project/src/main.py']" in json.dumps(scene.asked[1].json)
    assert not os.path.exists(names["workspace"].temp_dir)


def _claude(stop_reason: str, *content: dict[str, Any]) -> Reply:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": content,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Reply(body=json.dumps(message).encode())


def test_story_1_with_the_other_provider(
    names: Names, repos: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace's configuration is the same; only the adapter is another. The model reads what it is told of."""
    read = {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "project/src/main.py"}}
    replies = [_claude("tool_use", read), _claude("end_turn", {"type": "text", "text": REVIEW})]
    with LoopbackUpstream(replies) as upstream:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-your-key-here")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", upstream.base_url.removesuffix("/v1"))
        other = {
            '"/repos': f'"{repos}',
            "OpenAIContainerWorkspaceSection(  # or ClaudeAgentWorkspaceSection": "ClaudeAgentWorkspaceSection(",
            "OpenAIAdapter(": "ClaudeAgentSDKAdapter(",
            "gpt-5.2-codex": "claude-sonnet-5-5",
            "        hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True),\n": "",
        }
        block("hosted-tools: Story 1: Portable Code Review").run(names, other)
        first, second = (asked.json for asked in upstream.requests)
    assert "`project/src/main.py`" in meaning(first)["messages"][0]["content"]
    assert "read_file" in [tool["name"] for tool in first["tools"]]
    [result] = meaning(second)["messages"][-1]["content"]
    assert "eval(input())" in result["content"]
    assert "is_error" not in result
    assert capsys.readouterr().out == "ReviewResult(summary='Fine.', issues=['eval'], suggestions=[])\n"


def test_story_2(scene: Scene, names: Names, house: House, tmp_path: Path) -> None:
    """The reader's numbers are smaller: so that two tasks are past the threshold."""
    (tmp_path / "data" / "analysis").mkdir(parents=True)
    (tmp_path / "data" / "analysis" / "in.txt").write_text("7")
    processed: list[Any] = []

    @dataclass(frozen=True)
    class Finding:
        found: str

    def create_analysis_prompt(task: str, workspace: Any) -> Any:
        section = names["MarkdownSection"](title="Task", key="task", template=task)
        return names["Prompt"](names["PromptTemplate"][Finding](ns="n", key="k", sections=[section, workspace]))

    names |= {
        "session": names["Session"](bus=names["InProcessDispatcher"]()),
        "analysis_tasks": ["First task", "Second task"],
        "create_analysis_prompt": create_analysis_prompt,
        "process_results": processed.append,
    }
    scene.play(
        [
            call(
                "code_interpreter",
                code="n = int(open('data/in.txt').read()); open('data/out.txt', 'w').write(str(n * 6))",
            )
        ],
        '{"found": "42"}',
        "SUMMARY: the answer was 42",
        '{"found": "still 42"}',
        "SUMMARY: twice",
    )
    before = stored(house)
    block("hosted-tools: Story 2: Long-Running Analysis with Compaction").run(
        names, {'"/data': f'"{tmp_path}/data', "threshold_tokens=100_000": "threshold_tokens=1"}
    )
    assert processed == [Finding("42"), Finding("still 42")]
    state = names["session"][names["CompactionState"]].latest()
    assert (state.compaction_count, len(state.encrypted_items)) == (2, 1)
    assert "SUMMARY: the answer was 42" in json.dumps(scene.asked[3].json)
    assert stored(house) == before, "zero data retention"
    assert {tuple(sorted(one.json["include"])) for one in scene.asked if "include" in one.json} == {
        ("reasoning.encrypted_content",)
    }
    workspace = names["workspace"]
    assert workspace.synced == ("data/out.txt",)
    assert (workspace.results_dir / "data/out.txt").read_text() == "42"


def stored(house: House) -> int:
    with closing(sqlite3.connect(f"file:{house.state / 'records.db'}?mode=ro", uri=True)) as database:
        count: int = database.execute("SELECT count(*) FROM responses").fetchone()[0]
    return count


class DatabaseConnection:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute(self, sql: str) -> list[dict[str, Any]]:
        self.asked.append(sql)
        return [{"month": "May", "sales": 5}]


@dataclass(frozen=True)
class AnalysisResult:
    trend: str
    months: list[str] = field(default_factory=list)


def test_story_3(scene: Scene, names: Names) -> None:
    from dataclasses import dataclass

    session, database = names["Session"](), DatabaseConnection()
    names |= {
        "dataclass": dataclass,
        "DatabaseConnection": DatabaseConnection,
        "AnalysisResult": AnalysisResult,
        "workspace": names["OpenAIContainerWorkspaceSection"](session=session),
    }
    block("hosted-tools: Story 3: Hybrid Tools (Hosted + Custom)").run(names)
    scene.play(
        [call("run_query", sql="select 1")],
        [call("code_interpreter", code="print(5 * 2)")],
        '{"trend": "up", "months": ["May"]}',
    )
    resources = names["ResourceRegistry"].build({DatabaseConnection: database})
    response = names["adapter"].evaluate(names["Prompt"](names["template"]), session=session, resources=resources)
    assert response.output == AnalysisResult("up", ["May"])
    assert database.asked == ["select 1"]
    told = json.dumps(scene.asked[1].json)
    assert "Query returned 1 rows" in told
    assert {tool["type"] for tool in scene.asked[0].json["tools"]} >= {"function", "web_search"}
    assert session[names["QueryResult"]].latest().row_count == 1
    names["workspace"].cleanup()


def test_from_vfs_tools(scene: Scene, names: Names, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    names["session"] = names["Session"]()
    block("hosted-tools: From VfsToolsSection").run(names, {'"/data"': f'"{tmp_path}/data"'})
    assert isinstance(names["workspace"], names["OpenAIContainerWorkspaceSection"])
    names["workspace"].cleanup()


def test_from_the_claude_agent_sdk(names: Names) -> None:
    """Its arguments are left out: what it names is there, and takes what it is given."""
    assert signatures.calls(block("hosted-tools: From Claude Agent SDK").code, names) == []


# -- providers: models and conversion ----------------------------------------------------------------------------------


def test_model_detection(names: Names) -> None:
    code = block("providers: Model Detection")
    code.run(names)
    told = re.findall(r"^(\w+\(.+?\)) +# (True|False)$", code.ours, re.M)
    assert len(told) == 8
    assert [(one, str(eval(one, names))) for one, _ in told] == told


def test_models_by_provider(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    block('providers: "Model not found" Error').run(names)
    told = capsys.readouterr().out.splitlines()
    assert {"gpt-5.2: GPT-5.2", "gpt-5-nano: GPT-5 Nano", "gpt-4o: GPT-4o (Legacy)"} <= {*told}


def literal(key: str) -> Any:
    text = BLOCKS[key].code.strip()
    return ast.literal_eval(text if text.startswith("{") else f"{{{text}}}")


def test_conversion(names: Names) -> None:
    theirs = literal("providers: Anthropic Format (Internal)")
    block("providers: Conversion Function").run(names | {"anthropic_tools": [theirs]})
    from belljar.providers.tool_converters import convert_tools_for_openai

    (strict,), (loose,) = (convert_tools_for_openai([theirs], strict=strict) for strict in (True, False))
    assert strict == literal("providers: OpenAI Responses API Format (Converted)")
    assert (
        strict["parameters"]["properties"].items()
        >= literal("providers: How Optional Parameters Are Handled 2").items()
    )
    assert (
        theirs["input_schema"]["properties"].items()
        >= literal("providers: How Optional Parameters Are Handled").items()
    )
    assert loose["parameters"]["required"] == ["command"]


# -- providers: requests through the client ----------------------------------------------------------------------------


def covers(actual: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there; texts and numbers may be others."""
    if isinstance(wanted, dict):
        return isinstance(actual, dict) and all(key in actual and covers(actual[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(actual, list) and len(actual) == len(wanted) and all(map(covers, actual, wanted))
    return type(actual) is type(wanted)


def test_a_basic_request_and_its_response(scene: Scene, names: Names) -> None:
    scene.play("Hello!")
    block("providers: Basic Request Flow").run(names, {"tools=[...]": "tools=[]"})
    response = names["response"]
    wanted = literal("providers: Response Structure")
    assert response.output_text == wanted.pop("output_text")
    assert covers(response.to_dict(), wanted)
    assert response.to_dict()["output"][0]["content"][0]["text"] == "Hello!"


def test_sending_tool_results(scene: Scene, names: Names, client: OpenAI) -> None:
    run_command: Any = literal("providers: OpenAI Responses API Format (Converted)")
    scene.play([call("run_command", command="ls -la")], "Two files.")
    first = client.responses.create(model="gpt-5.2", input="List", tools=[run_command])
    assert covers(first.to_dict(), literal("providers: Function Calls in Response"))
    called = first.output[0]["call_id"]  # type: ignore[index]
    names["client"] = client
    block("providers: Sending Tool Results").run(names, {"call_xyz789": called, "resp_abc123...": first.id})
    assert names["response"].output_text == "Two files."
    assert "file1.txt" in json.dumps(scene.asked[1].json)


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        (lambda: block("providers: Reasoning Effort 2"), {"reasoning": {"effort": "high"}}),
        (lambda: block("providers: Verbosity 2"), {"text": {"verbosity": "low"}}),
    ],
    ids=["reasoning", "verbosity"],
)
def test_effort_and_verbosity_of_one_request(
    scene: Scene, names: Names, client: OpenAI, key: Callable[[], Block], sent: Names
) -> None:
    scene.play("Done.")
    names["client"] = client
    key().run(names)
    assert names["response"].output_text == "Done."
    assert covers(scene.asked[0].json, sent)
    assert [scene.asked[0].json[name] | sent[name] for name in sent] == [scene.asked[0].json[name] for name in sent]


# -- providers: clients ------------------------------------------------------------------------------------------------


def test_basic_text_generation(scene: Scene, names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    scene.play("Paris.")
    block("providers: Basic Text Generation").run(names)
    assert capsys.readouterr().out == "Paris.\n"


def test_with_streaming(scene: Scene, names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    from belljar.providers import create_client

    scene.play("Code flows")
    names["client"] = create_client(provider="openai")
    block("providers: With Streaming").run(names)
    assert capsys.readouterr().out == names["response"].text == "Code flows"


def test_tool_calling_flow(scene: Scene, names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    from belljar.providers import create_client

    tools = [literal("providers: Anthropic Format (Internal)")]
    names |= {
        "client": create_client(provider="openai", tools=tools),
        "execute_tool": lambda name, given: f"{name} {given}",
    }
    scene.play([call("run_command", command="ls", requires_confirmation=None)], "Two files.")
    block("providers: Tool Calling Flow").run(names)
    assert capsys.readouterr().out == "Two files.\n"
    assert "run_command {'command': 'ls', 'requires_confirmation': False}" in scene.asked[1].body.decode()


def test_reasoning_effort_and_verbosity_of_a_client(scene: Scene, names: Names) -> None:
    block("providers: Reasoning Effort").run(names)
    block("providers: Verbosity").run(names)
    scene.play("Done.", "Done.", "Done.")
    names["client"].send_message("x")
    block("providers: Combined Example").run(names)
    block("providers: Complex Reasoning Task").run(names)
    told = [(one.json["reasoning"]["effort"], one.json["text"]["verbosity"]) for one in scene.asked]
    assert told == [("medium", "low"), ("high", "high"), ("xhigh", "high")]


def test_programmatic_configuration(scene: Scene, names: Names) -> None:
    block("providers: Programmatic Configuration").run(names)
    scene.play("Done.")
    names["client"].send_message("x")
    asked = scene.asked[0].json
    assert (asked["model"], asked["reasoning"]["effort"]) == ("gpt-5.2-pro", "high")


def test_context_statistics(scene: Scene, names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    from belljar.providers import create_client

    names["client"] = create_client(provider="openai")
    scene.play("Done.")
    names["client"].send_message("x")
    block("providers: Context Statistics").run(names)
    assert capsys.readouterr().out.splitlines() == [
        "Provider: openai",
        "Model: gpt-5.2",
        "Is GPT-5.x: True",
        "Reasoning Effort: N/A",
        "Verbosity: medium",
        "Messages: 2",
        "Response Chain Active: True",
    ]


def test_chaining(scene: Scene) -> None:
    """The document's class is a sketch, whose methods leave arguments out: ours has them, and does what it says."""
    sketch = block("providers: Implementation in AIOS").code
    from belljar.providers import BaseClient, OpenAIClient

    assert issubclass(OpenAIClient, BaseClient)
    methods = re.findall(r"def ([a-z]\w+)\(self", sketch)
    assert methods == ["send_message", "clear_history"]
    assert all(callable(getattr(OpenAIClient, name)) for name in methods)
    scene.play("One.", "Two.", "Three.")
    client = OpenAIClient()
    client.send_message("first")
    client.send_message("second")
    assert client.get_context_stats()["has_response_chain"]
    client.clear_history()
    assert not client.get_context_stats()["has_response_chain"]
    client.send_message("third")
    seen = [one.body.decode() for one in scene.asked]
    assert ["first" in body for body in seen] == [True, True, False]


def test_the_context_manager(names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    names["my_summarize_function"] = lambda messages, *rest: "They greeted each other."
    block("providers: ContextManager API").run(names)
    assert [one["content"] for one in names["messages"]] == ["Hello", "Hi there!"]
    assert re.fullmatch(r"Tokens: \d+, Summarized: 0\n", capsys.readouterr().out)
    names["manager"].add_messages({"role": "user", "content": "x" * 400_000} for _ in range(8))
    assert names["manager"].check_and_summarize()
    assert "They greeted each other." in names["manager"].get_messages()[0]["content"]


def test_the_error_handler(scene: Scene, names: Names, capsys: pytest.CaptureFixture[str]) -> None:
    from belljar.providers import create_client

    names["client"] = create_client(provider="openai")
    fault = {"error": {"message": "no", "type": "invalid_request_error", "code": "content_policy_violation"}}
    scene.play(Reply(status=400, body=json.dumps(fault).encode()))
    block("providers: Error Handler").run(names)
    assert capsys.readouterr().out.startswith("Error [CONTENT_POLICY]: Content policy violation")


def test_slow_responses_have_a_remedy(scene: Scene) -> None:
    """The document's advice, which has no code of its own: a smaller model, less thought, fewer words."""
    from belljar.providers import create_client

    scene.play("a", "b")
    client = create_client(provider="openai")
    client.set_reasoning_effort("low")
    client.set_verbosity("low")
    for model in ("gpt-5-mini", "gpt-5-nano"):
        client.set_model(model)
        client.send_message("x")
    told = [(one.json["model"], one.json["reasoning"]["effort"], one.json["text"]["verbosity"]) for one in scene.asked]
    assert told == [("gpt-5-mini", "low", "low"), ("gpt-5-nano", "low", "low")]
