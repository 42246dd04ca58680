"""The same evaluations with Claude behind them: Anthropic's wire, its code execution, its pauses and refusals."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from tests.helpers.wire_meaning import meaning
from tests.library.adapters.evaluation.conftest import AT_ONCE
from tests.library.adapters.evaluation.replies import QUERY, Verdict, prompt
from tests.library.providers.replay import Replay, Reply
from tests.library.providers.wires import claude, claude_refused, claude_streamed, said

from belljar.adapters.claude_agent_sdk import (
    ClaudeAgentSDKAdapter,
    ClaudeAgentSDKClientConfig,
    ClaudeAgentSDKModelConfig,
    ClaudeAgentWorkspaceSection,
)
from belljar.errors import (
    BadKey,
    OutputFiltered,
    PromptEvaluationError,
    PromptValidationError,
    QuotaExceeded,
    TurnLimitExceededError,
)
from belljar.filesystem import HostFilesystem, HostMount
from belljar.prompt import Tool, ToolContext, ToolResult
from belljar.runtime import Session, TokenUsage, ToolInvoked
from belljar.tools import CodeInterpreterOutput, FileCitation, OpenAICodeInterpreterTool, ProviderTool

MakeClaude: TypeAlias = Callable[..., ClaudeAgentSDKAdapter]
CODE = {"type": "code_execution_20260120", "name": "code_execution"}
ASKED = {"role": "user", "content": "## 1. Task (task)\n\nDo it."}
CALLED = {"type": "tool_use", "id": "toolu_1", "name": "run_query", "input": {"sql": "x", "limit": 2}}
RUN = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "bash_code_execution", "input": {"command": "ls"}}


def came(**more: Any) -> dict[str, Any]:
    content = {"type": "bash_code_execution_result", "stdout": "a\n", "stderr": "", "return_code": 0, "content": []}
    return {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": {**content, **more},
    }


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay() as replay:
        yield replay


@pytest.fixture
def make_claude(server: Replay, http: httpx2.Client) -> MakeClaude:
    def made(**given: Any) -> ClaudeAgentSDKAdapter:
        client = Anthropic(base_url=server.url, api_key="k", http_client=http)
        return ClaudeAgentSDKAdapter(**{"model": "claude-sonnet-4-6", "client": client, "throttle": AT_ONCE, **given})

    return made


def test_tools_and_their_results(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    blocks = [thought, said("Let me look."), CALLED]
    server.play(Reply(claude(*blocks, stop_reason="tool_use")), Reply(claude(said("Two rows."))))
    answer = make_claude().evaluate(prompt(QUERY), session=session)
    assert answer.text == "Two rows."
    first, second = server.asked
    assert (first.path, meaning(first.json["messages"])) == ("/v1/messages", [ASKED])
    [tool] = first.json["tools"]
    assert (tool["name"], tool["description"], tool["input_schema"]["required"]) == (
        "run_query",
        "Asks the database.",
        ["sql"],
    )
    assert ("tool_choice" in meaning(first.json), first.json["max_tokens"]) == (False, 8192)
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": '2 rows\n\n{"rows": 2}'}
    assert meaning(second.json["messages"]) == [
        ASKED,
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [result]},
    ]
    [event] = session[ToolInvoked].all()
    assert (event.name, event.adapter, event.call_id) == ("run_query", "anthropic", "toolu_1")
    assert event.usage == TokenUsage(1, 1)


def test_a_failed_tool_is_marked(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    bad = {**CALLED, "input": {"sql": 3}}
    server.play(Reply(claude(bad, stop_reason="tool_use")), Reply(claude(said("Sorry."))))
    make_claude().evaluate(prompt(QUERY), session=session)
    [result] = meaning(server.asked[1].json["messages"][-1]["content"])
    assert result["is_error"] is True


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("auto", None),
        ("required", {"type": "any"}),
        ("none", {"type": "none"}),
        ({"type": "function", "name": "run_query"}, {"type": "tool", "name": "run_query"}),
        ({"type": "code_execution"}, {"type": "tool", "name": "code_execution"}),
        (None, None),
    ],
    ids=repr,
)
def test_the_choice(choice: Any, wire: Any, server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(CALLED, stop_reason="tool_use")), Reply(claude(said("Done."))))
    make_claude(tool_choice=choice, code_execution=True).evaluate(prompt(QUERY), session=session)
    first, second = (meaning(one.json).get("tool_choice") for one in server.asked)
    assert (first, second) == (wire, wire if wire == {"type": "none"} else None)


# -- typed answers ----------------------------------------------------------------------------------------------------

JSON = '{"summary": "fine", "issues": []}'


def test_a_typed_answer_where_the_model_keeps_to_a_schema(
    server: Replay, make_claude: MakeClaude, session: Session
) -> None:
    server.play(Reply(claude(said(JSON))))
    answer = make_claude().evaluate(prompt(output=Verdict), session=session)
    assert (answer.output, answer.text) == (Verdict("fine", []), None)
    form = server.asked[0].json["output_config"]["format"]
    assert (form["type"], form["schema"]["required"]) == ("json_schema", ["summary", "issues"])
    assert meaning(server.asked[0].json["messages"]) == [ASKED]


@dataclass(frozen=True)
class Open:
    counts: dict[str, int]


@pytest.mark.parametrize(
    ("model", "output", "given"),
    [
        ("claude-3-5-haiku", Verdict("fine", []), {"summary": "fine", "issues": []}),
        ("claude-sonnet-4-6", Open({"a": 1}), {"counts": {"a": 1}}),
    ],
    ids=["model", "open"],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_typed_answer_that_has_to_be_asked_for_by_a_tool(
    model: str,
    output: Any,
    given: dict[str, Any],
    streamed: bool,
    server: Replay,
    make_claude: MakeClaude,
    session: Session,
) -> None:
    """The model cannot be held to a schema, or not to this one, whose objects are open."""
    heard: list[str] = []
    answered = {"type": "tool_use", "id": "toolu_2", "name": "json", "input": given}
    server.play(Reply(claude(CALLED, stop_reason="tool_use")), Reply(claude(answered, stop_reason="tool_use")))
    answer = make_claude(model=model).evaluate(
        prompt(QUERY, output=type(output)), session=session, on_text=heard.append if streamed else None
    )
    assert answer.output == output
    assert json.loads("".join(heard) or "null") == (given if streamed else None)
    body = server.asked[0].json
    assert "output_config" not in body
    assert (body["tools"][-1]["name"], body["tool_choice"]["type"]) == ("json", "any")
    assert [event.name for event in session[ToolInvoked].all()] == ["run_query"]


def test_a_typed_answer_comes_after_the_code(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(said('First {"a": 1}.'), RUN, came(), said(JSON))))
    answer = make_claude(code_execution=True).evaluate(prompt(output=Verdict), session=session)
    assert answer.output == Verdict("fine", [])


# -- code execution ---------------------------------------------------------------------------------------------------


def test_code_that_anthropic_runs(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    container = {"id": "container_1", "expires_at": "2099-01-01T00:00:00Z"}
    made = came(content=[{"type": "bash_code_execution_output", "file_id": "file_1"}])
    server.play(
        Reply(claude(RUN, made, CALLED, stop_reason="tool_use", container=container)),
        Reply(claude(said("Listed."), container=container)),
    )
    make_claude(code_execution=True).evaluate(prompt(QUERY), session=session)
    assert server.asked[0].json["tools"][0] == CODE
    assert "container" not in server.asked[0].json
    assert server.asked[1].json["container"] == "container_1"
    hosted, _ = session[ToolInvoked].all()
    assert (hosted.name, hosted.call_id) == ("code_execution", "srvtoolu_1")
    assert hosted.result == ToolResult(
        "a\n",
        CodeInterpreterOutput(
            output_text="a\n",
            code="ls",
            container_id="container_1",
            stdout="a\n",
            stderr="",
            exit_code=0,
            citations=(FileCitation("container_1", "file_1", "file_1"),),
        ),
    )


@pytest.mark.parametrize(
    "result",
    [
        came(stderr="boom", return_code=1),
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "bash_code_execution_tool_result_error", "error_code": "unavailable"},
        },
    ],
    ids=["raised", "unavailable"],
)
def test_code_that_fails(result: dict[str, Any], server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(RUN, result, said("It failed."))))
    make_claude(code_execution=True).evaluate(prompt(), session=session)
    [event] = session[ToolInvoked].all()
    assert event.result.success is False
    assert event.result.value.stderr in ("boom", "unavailable")
    assert session[CodeInterpreterOutput].all() == ()


def test_a_hook_of_the_prompt_s_own(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    def hook(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
        return ToolResult(f"ran {result.code}", result)

    tool = ProviderTool[None, CodeInterpreterOutput, dict[str, str]](
        name="code_execution", description="d", provider="anthropic", config=dict(CODE), handle_provider_output=hook
    )
    server.play(Reply(claude(RUN, came(), said("Listed."))))
    make_claude(code_execution=True).evaluate(prompt(tool), session=session)
    assert server.asked[0].json["tools"] == [CODE]
    [event] = session[ToolInvoked].all()
    assert event.result.message == "ran ls"


def test_a_turn_that_was_paused_goes_on(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(RUN, came(), stop_reason="pause_turn")), Reply(claude(said("Listed."))))
    assert make_claude(code_execution=True).evaluate(prompt(), session=session).text == "Listed."
    assert meaning(server.asked[1].json["messages"]) == [ASKED, {"role": "assistant", "content": [RUN, came()]}]


def test_a_tool_of_openais_is_never_offered(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"type": "auto"})
    with pytest.raises(PromptValidationError, match="'python': is for openai, and this adapter is anthropic's"):
        make_claude().evaluate(prompt(tool), session=session)
    assert server.asked == []


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_refusal_breaks_the_contract(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(said(""), stop_reason="refusal")))
    with pytest.raises(AssertionError) as caught:
        make_claude().evaluate(prompt(), session=session)
    assert isinstance(caught.value, OutputFiltered)


def test_what_passes_is_tried_again(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(
        claude_refused(429, "rate_limit_error", retry_after="0"),
        claude_refused(529, "overloaded_error"),
        claude_refused(500, "api_error"),
        Reply(claude(said("At last."), stop_reason="max_tokens")),
    )
    answer = make_claude().evaluate(prompt(), session=session)
    assert (answer.text, answer.finish_reason) == ("At last.", "length")
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (claude_refused(401, "authentication_error"), BadKey),
        (claude_refused(402, "billing_error"), QuotaExceeded),
    ],
    ids=["key", "billing"],
)
def test_what_stays_is_raised(
    fault: Reply, kind: type[Exception], server: Replay, make_claude: MakeClaude, session: Session
) -> None:
    server.play(fault)
    with pytest.raises(kind) as caught:
        make_claude().evaluate(prompt(), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert len(server.asked) == 1


# -- the adapter itself -----------------------------------------------------------------------------------------------


def test_text_as_it_comes(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    heard: list[str] = []
    server.play(claude_streamed("Hel", "lo"))
    assert make_claude().evaluate(prompt(), session=session, on_text=heard.append).text == "Hello"
    assert heard == ["Hel", "lo"]


@pytest.mark.parametrize("on_text", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("own", [False, True], ids=["thread", "async client"])
def test_in_asyncio(
    on_text: bool, own: bool, server: Replay, make_claude: MakeClaude, session: Session, plain: ssl.SSLContext
) -> None:
    heard: list[str] = []
    given: Any = {"on_text": heard.append} if on_text else {}

    async def evaluated() -> str | None:
        http = httpx2.AsyncClient(verify=plain)
        async with AsyncAnthropic(base_url=server.url, api_key="k", http_client=http) as client:
            adapter = make_claude(async_client=client) if own else make_claude()
            return (await adapter.evaluate_async(prompt(), session=session, **given)).text

    server.play(
        claude_refused(529, "overloaded_error"),
        claude_streamed("Hel", "lo") if on_text else Reply(claude(said("Hello"))),
    )
    assert asyncio.run(evaluated()) == "Hello"
    assert heard == (["Hel", "lo"] if on_text else [])


def test_settings(server: Replay, session: Session) -> None:
    config = ClaudeAgentSDKClientConfig(api_key="k", base_url=f"{server.url}/v1", timeout=9.5)
    model_config = ClaudeAgentSDKModelConfig(max_tokens=50)
    adapter = ClaudeAgentSDKAdapter(model="claude-sonnet-4-6", model_config=model_config, client_config=config)
    server.play(Reply(claude(said("Hi."))))
    with adapter.client as client:
        assert adapter.evaluate(prompt(), session=session).text == "Hi."
    assert client.timeout == 9.5
    body = server.asked[0].json
    assert (body["max_tokens"], "tool_choice" in body) == (50, False)
    assert server.asked[0].headers["authorization"] == "Bearer k"
    with pytest.raises(ValueError, match="client and client_config exclude each other"):
        ClaudeAgentSDKAdapter(client=client, client_config=config)


@pytest.mark.parametrize(
    ("model", "wanted", "effort", "thinking"),
    [
        ("claude-sonnet-5-5", "high", "high", {"type": "adaptive"}),
        ("claude-sonnet-5-5", "minimal", "low", {"type": "adaptive"}),
        ("claude-sonnet-5-5", "none", None, {"type": "disabled"}),
        ("claude-opus-5-5", "none", "low", None),
        ("claude-haiku-4-5", "high", None, None),
    ],
)
def test_how_hard_claude_thinks(
    model: str, wanted: Any, effort: Any, thinking: Any, server: Replay, make_claude: MakeClaude, session: Session
) -> None:
    server.play(Reply(claude(said(JSON))))
    config = ClaudeAgentSDKModelConfig(reasoning_effort=wanted, safety_identifier="u-1")
    make_claude(model=model, model_config=config).evaluate(prompt(output=Verdict), session=session)
    body = server.asked[0].json
    assert (body["output_config"].get("effort"), body.get("thinking")) == (effort, thinking)
    assert body["output_config"]["format"]["type"] == "json_schema"
    assert body["metadata"] == {"user_id": "u-1"}


def test_claude_does_not_think_where_a_tool_is_forced(
    server: Replay, make_claude: MakeClaude, session: Session
) -> None:
    server.play(Reply(claude(CALLED, stop_reason="tool_use")), Reply(claude(said("done"))))
    config = ClaudeAgentSDKModelConfig(reasoning_effort="high")
    make_claude(model="claude-sonnet-5-5", model_config=config, tool_choice="required").evaluate(
        prompt(QUERY), session=session
    )
    assert ["thinking" in one.json for one in server.asked] == [False, True]


def test_turns_of_claude_have_a_limit(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude(CALLED, stop_reason="tool_use")), Reply(claude(said("wait"), stop_reason="pause_turn")))
    with pytest.raises(TurnLimitExceededError, match="asked 2 times, still is not done"):
        make_claude(max_turns=2).evaluate(prompt(QUERY), session=session)


def test_a_tool_that_claude_made_up(server: Replay, make_claude: MakeClaude, session: Session) -> None:
    server.play(Reply(claude({**CALLED, "name": "x"}, stop_reason="tool_use")), Reply(claude(said("done"))))
    assert make_claude().evaluate(prompt(QUERY), session=session).text == "done"
    [result] = meaning(server.asked[1].json["messages"][-1]["content"])
    assert (result["is_error"], result["content"]) == (True, "There is no tool 'x'. The tools are: run_query.")


def test_a_key_is_needed_when_it_is_asked_and_not_before(session: Session) -> None:
    adapter = ClaudeAgentSDKAdapter()
    with pytest.raises(BadKey, match="ANTHROPIC_API_KEY"):
        adapter.evaluate(prompt(), session=session)


def test_tools_work_in_the_workspace(server: Replay, make_claude: MakeClaude, session: Session, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Where:
        path: str

    def show(params: Where, *, context: ToolContext) -> ToolResult[None]:
        assert isinstance(context.filesystem, HostFilesystem)
        return ToolResult(context.filesystem.read_text(params.path), None)

    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/a.txt").write_text("from the host")
    section = ClaudeAgentWorkspaceSection(
        session=session, mounts=(HostMount(str(tmp_path / "repo")),), allowed_host_roots=(tmp_path,)
    )
    tool = Tool[Where, None](name="show", description="Shows a file.", handler=show)
    called = {"type": "tool_use", "id": "toolu_1", "name": "show", "input": {"path": "repo/a.txt"}}
    server.play(Reply(claude(called, stop_reason="tool_use")), Reply(claude(said("Read."))))
    make_claude().evaluate(prompt(tool, sections=[section]), session=session)
    [result] = meaning(server.asked[1].json["messages"][-1]["content"])
    assert result["content"] == "from the host"
    section.cleanup()
