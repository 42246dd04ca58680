"""What callers get wrong: prompts, sessions, clients, keys and settings of the wrong kind, each an error of ours."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncAzureOpenAI, AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI
from tests.gateway.houses import Scene
from tests.library.adapters.evaluation.conftest import MakeAdapter
from tests.library.adapters.evaluation.replies import prompt, says

from belljar.adapters.claude_agent_sdk import (
    ClaudeAgentSDKAdapter,
    ClaudeAgentSDKModelConfig,
    ClaudeAgentWorkspaceSection,
)
from belljar.adapters.openai import (
    ContainerConfig,
    OpenAIAdapter,
    OpenAIContainerWorkspaceSection,
    OpenAIHostedToolsConfig,
    OpenAIModelConfig,
)
from belljar.errors import BadKey, InvalidRequest, PromptEvaluationError, PromptValidationError
from belljar.filesystem import HostMount
from belljar.openai import AsyncOpenAI as LocalAsyncOpenAI
from belljar.prompt import MarkdownSection, Prompt, PromptTemplate
from belljar.runtime import Budget, Session
from belljar.testing import ScriptedModel, call

TEMPLATE = PromptTemplate[None](ns="tests", key="task", sections=[MarkdownSection(title="T", key="t", template="x")])

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a text": ({"prompt": "Say hello."}, r"evaluate.prompt: 'Say hello.' cannot be used; pass Prompt\(PromptTemplate"),
    "a long text": ({"prompt": "x" * 100_000}, r"evaluate.prompt: 'x+\.\.\.x+' cannot be used"),
    "nothing": ({"prompt": None}, r"evaluate.prompt: None cannot be used"),
    "a template": ({"prompt": TEMPLATE}, r"evaluate.prompt: 'task' cannot be used; .* pass Prompt\(template\)"),
    "a prompt's class": ({"prompt": Prompt}, r"evaluate.prompt: "),
    "no session": ({"session": None}, r"evaluate.session: None cannot be used; pass a Session\(\)"),
    "a session's class": ({"session": "mine"}, r"evaluate.session: 'mine'"),
    "seconds": ({"deadline": 30}, r"evaluate.deadline: 30 cannot be used; use a Deadline or None"),
    "a moment": ({"deadline": datetime(2030, 1, 1, tzinfo=UTC)}, r"evaluate.deadline: datetime"),
    "tokens": ({"budget": 10_000}, r"evaluate.budget: 10000 cannot be used; use a Budget or None"),
    "a budget's tracker": ({"budget_tracker": Budget(max_total_tokens=1)}, r"evaluate.budget_tracker: .*BudgetTracker"),
    "resources": ({"resources": {int: 1}}, r"evaluate.resources: .* pass ResourceRegistry.build"),
    "a listener": ({"on_text": True}, r"evaluate.on_text: True cannot be used; pass a function"),
}


@pytest.mark.parametrize(("given", "told"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "asyncio"])
def test_an_evaluation_of_the_wrong_thing(
    given: dict[str, Any], told: str, is_async: bool, scene: Scene, make: MakeAdapter, session: Session
) -> None:
    arguments = {"prompt": prompt(), "session": session, **given}

    def evaluate() -> None:
        if is_async:
            asyncio.run(make().evaluate_async(**arguments))
        else:
            make().evaluate(**arguments)

    with pytest.raises(InvalidRequest, match=told) as caught:
        evaluate()
    assert caught.value.param in given
    assert scene.server.requests == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"sections": ["hello"]}, "sections: a str is no section"),
        ({"sections": "hello"}, "sections: is one thing"),
        ({"sections": TEMPLATE.sections[0]}, "sections: is one thing"),
        ({"ns": None}, "prompt ns None"),
        ({"key": 3}, "prompt key 3"),
    ],
    ids=range(5),
)
def test_templates_of_the_wrong_things(given: dict[str, Any], told: str) -> None:
    with pytest.raises(PromptValidationError, match=told):
        PromptTemplate(**{"ns": "n", "key": "k", **given})


@pytest.mark.parametrize("given", ["Say hello.", None])
def test_prompts_of_the_wrong_things(given: Any) -> None:
    with pytest.raises(PromptValidationError, match=f"Prompt.template: a {type(given).__name__} is no template"):
        Prompt(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": ""}, "OpenAIAdapter.model: '' cannot be used"),
        ({"model": None}, "OpenAIAdapter.model: None cannot be used"),
        ({"model_config": {"temperature": 1}}, "OpenAIAdapter.model_config: .*use an OpenAIModelConfig or None"),
        ({"hosted_tools": {"code_interpreter": True}}, "OpenAIAdapter.hosted_tools: .*OpenAIHostedToolsConfig"),
        ({"compaction": True}, "OpenAIAdapter.compaction: True cannot be used; use a CompactionConfig"),
        ({"client_config": "key"}, "OpenAIAdapter.client_config: 'key'"),
        ({"throttle": 3}, "OpenAIAdapter.throttle: 3 cannot be used; use a ThrottlePolicy"),
        ({"client": "sk-key"}, "OpenAIAdapter.client: 'str' cannot be used; use an instance of OpenAI"),
        ({"client": AsyncOpenAI(api_key="k")}, "OpenAIAdapter.client: 'AsyncOpenAI'.* instance of OpenAI$"),
        ({"async_client": OpenAI(api_key="k")}, "OpenAIAdapter.async_client: 'OpenAI'.* instance of AsyncOpenAI"),
        ({"max_turns": 0}, "OpenAIAdapter.max_turns: 0 cannot be used; use a whole number of 1 or more"),
        ({"max_turns": True}, "OpenAIAdapter.max_turns: True"),
    ],
)
def test_an_adapter_of_the_wrong_things(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        OpenAIAdapter(**{"model": "sim", **given})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model_config": OpenAIModelConfig()}, "model_config: .*use a ClaudeAgentSDKModelConfig"),
        ({"client": AsyncAnthropic(api_key="k")}, "client: 'AsyncAnthropic'.* instance of Anthropic"),
        ({"async_client": Anthropic(api_key="k")}, "async_client: 'Anthropic'.* instance of AsyncAnthropic"),
    ],
)
def test_claude_of_the_wrong_things(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        ClaudeAgentSDKAdapter(**given)


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        (OpenAIModelConfig, {"reasoning_effort": "lots"}, "use none, minimal, low, medium, high, xhigh, max or None"),
        (OpenAIModelConfig, {"verbosity": "loud"}, "use low, medium, high or None"),
        (OpenAIModelConfig, {"safety_identifier": "x" * 129}, "it has 129 characters, and 128 is the most"),
        (OpenAIModelConfig, {"safety_identifier": ""}, "use a text that is not empty"),
        (OpenAIModelConfig, {"prompt_cache_key": 3}, "use a text that is not empty"),
        (OpenAIModelConfig, {"max_tokens": 0}, "use a whole number of 1 or more"),
        (ClaudeAgentSDKModelConfig, {"reasoning_effort": "lots"}, "use none, minimal"),
        (ClaudeAgentSDKModelConfig, {"safety_identifier": " "}, "use a text that is not empty"),
        (ClaudeAgentSDKModelConfig, {"max_tokens": "many"}, "use a whole number"),
    ],
)
def test_settings_that_cannot_be(kind: Any, given: dict[str, Any], told: str) -> None:
    [name] = given
    with pytest.raises(InvalidRequest, match=rf"{kind.__name__}.{name}: .* cannot be used; {told}"):
        kind(**given)


# -- keys and clients -------------------------------------------------------------------------------------------------


def test_a_key_is_needed_when_it_is_asked(session: Session) -> None:
    adapter = OpenAIAdapter(model="gpt-6-luna")
    with pytest.raises(BadKey, match=r"OPENAI_API_KEY.*no key is set") as caught:
        adapter.evaluate(prompt(), session=session)
    assert isinstance(caught.value, PromptEvaluationError)
    assert caught.value.attempts == 1


def test_a_workspace_of_its_own_needs_a_key(session: Session) -> None:
    with OpenAIContainerWorkspaceSection(session=session) as workspace, pytest.raises(BadKey, match="OPENAI_API_KEY"):
        workspace.filesystem.exists("a.txt")


def test_a_client_of_asyncio_is_enough(scene: Scene, session: Session) -> None:
    """Blocking too: what it does not have itself is made of it."""

    async def evaluated(adapter: OpenAIAdapter) -> str | None:
        async with made:
            return (await adapter.evaluate_async(prompt(), session=session)).text

    scene.play(says("first"), says("second"))
    made = AsyncOpenAI(base_url=scene.server.base_url, api_key="k", default_headers={"x-team": "red"}, timeout=9.0)
    adapter = OpenAIAdapter(model="sim", async_client=made)
    assert asyncio.run(evaluated(adapter)) == "first"
    assert adapter._client is None
    with adapter.client as client:
        assert adapter.evaluate(prompt(), session=session).text == "second"
    assert client.timeout == 9.0
    assert [(one.headers["authorization"], one.headers["x-team"]) for one in scene.asked] == [("Bearer k", "red")] * 2


@pytest.mark.parametrize(
    "client",
    [
        AsyncOpenAI(api_key="k", http_client=DefaultAsyncHttpxClient()),
        AsyncAzureOpenAI(api_key="k", azure_endpoint="http://127.0.0.1:9", api_version="2026-01-01"),
    ],
    ids=["HTTP", "Azure"],
)
def test_what_cannot_be_taken_over_is_said(client: AsyncOpenAI, session: Session) -> None:
    """A proxy, say, that a blocking client would go without."""
    with pytest.raises(InvalidRequest, match=r"OpenAIAdapter.client: .* pass client as well"):
        OpenAIAdapter(model="sim", async_client=client).evaluate(prompt(), session=session)


def test_a_workspace_with_nothing_but_a_client_of_asyncio(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("from the host")
    workspace = OpenAIContainerWorkspaceSection(
        session=session,
        mounts=[HostMount(str(tmp_path / "a.txt"))],
        allowed_host_roots=[tmp_path],
        container_config=ContainerConfig(memory_limit="1g"),
    )
    script = ScriptedModel([[call("code_interpreter", code="print(open('a.txt').read())")], ["done"]])

    async def evaluated() -> None:
        async with LocalAsyncOpenAI.local(discover=False, model=script) as client:
            tools = OpenAIHostedToolsConfig(code_interpreter=True)
            adapter = OpenAIAdapter(model="belljar", async_client=client, hosted_tools=tools)
            answer = await adapter.evaluate_async(prompt(sections=[workspace]), session=session)
            assert answer.text == "done"
            adapter.client.close()  # which is not the gateway's end
            assert [one.id async for one in client.models.list()] == ["belljar"]

    with workspace:
        asyncio.run(evaluated())
    assert "from the host" in str(script.requests[-1].items[-1])


def test_claude_by_a_client_of_asyncio_alone() -> None:
    adapter = ClaudeAgentSDKAdapter(async_client=AsyncAnthropic(api_key="k", base_url="http://127.0.0.1:9"))
    with adapter.client as client:
        assert (client.api_key, str(client.base_url)) == ("k", "http://127.0.0.1:9")


# -- workspaces -------------------------------------------------------------------------------------------------------


def test_a_workspace_of_another_provider(scene: Scene, make: MakeAdapter, session: Session) -> None:
    with ClaudeAgentWorkspaceSection(session=session) as section:
        adapter = make(hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True))
        told = "a ClaudeAgentWorkspaceSection is for adapters of anthropic, and this one is openai's"
        with pytest.raises(PromptValidationError, match=told) as caught:
            adapter.evaluate(prompt(sections=[section]), session=session)
        assert isinstance(caught.value, PromptEvaluationError)
    with OpenAIContainerWorkspaceSection(session=session) as other:
        claude = ClaudeAgentSDKAdapter(client=Anthropic(api_key="k", base_url="http://127.0.0.1:9"))
        with pytest.raises(PromptValidationError, match="is for adapters of openai, and this one is anthropic's"):
            claude.evaluate(prompt(sections=[other]), session=session)
    assert scene.server.requests == []
