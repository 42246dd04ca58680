"""Prompts evaluated by OpenAI and Anthropic themselves: typed answers, tools, code that they run. Needs keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from openai import OpenAI
from tests.live.conftest import small_model

from belljar.adapters import ProviderAdapter
from belljar.adapters.claude_agent_sdk import ClaudeAgentSDKAdapter
from belljar.adapters.openai import OpenAIAdapter, OpenAIHostedToolsConfig
from belljar.config import ApiSettings
from belljar.prompt import MarkdownSection, Prompt, PromptTemplate, Tool, ToolContext, ToolResult
from belljar.providers.vendor_settings import VENDORS, key_for
from belljar.runtime import Session, ToolInvoked
from belljar.tools import CodeInterpreterOutput, OpenAICodeInterpreterTool

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Article:
    name: str


@dataclass(frozen=True)
class Stock:
    pieces: int


@dataclass(frozen=True)
class Total:
    pieces: int
    squared: int


def look(params: Article, *, context: ToolContext) -> ToolResult[Stock]:
    return ToolResult("in stock", Stock(317))


STOCK = Tool[Article, Stock](name="stock", description="How many pieces of an article are in stock.", handler=look)


def needs(vendor: str) -> None:
    if key_for(vendor, ApiSettings.load()) is None:
        pytest.skip(f"set {' or '.join(VENDORS[vendor].keys)} to ask {vendor} itself")


@pytest.fixture
def client() -> Iterator[OpenAI]:
    needs("openai")
    with OpenAI() as client:
        yield client


@pytest.fixture(params=["openai", "anthropic"])
def adapter(request: pytest.FixtureRequest) -> ProviderAdapter:
    needs(request.param)
    model = small_model(request.param)
    if request.param == "openai":
        return OpenAIAdapter(model=model, hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True))
    return ClaudeAgentSDKAdapter(model=model, code_execution=True)


def asking(text: str, output: Any = None, *tools: Tool[Any, Any], **more: Any) -> Prompt[Any]:
    section = MarkdownSection(title="Task", key="task", template=text, tools=tools)
    return Prompt(PromptTemplate[output](ns="live", key="task", sections=[section], **more))


def test_a_typed_answer_with_tools_and_code(adapter: ProviderAdapter) -> None:
    session = Session()
    task = "How many bolts are in stock? Compute the square of that number by running code, and give both."
    answer = adapter.evaluate(asking(task, Total, STOCK), session=session)
    assert answer.output == Total(317, 100_489)
    assert session[Stock].all() == (Stock(317),)
    [output, *_] = session[CodeInterpreterOutput].all()
    assert "100489" in output.output_text
    assert output.container_id


def test_a_plot_is_cited_and_can_be_fetched(client: OpenAI) -> None:
    task = "Plot y = x * x with matplotlib, save it as square.png, and link to the file."
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"type": "auto"})
    session = Session()
    adapter = OpenAIAdapter(model=small_model("openai"), client=client)
    answer = adapter.evaluate(asking(task, None, tool, tool_choice="required"), session=session)
    [cited, *_] = answer.citations
    content = client.containers.files.content.retrieve(cited.file_id, container_id=cited.container_id).read()
    assert content.startswith(b"\x89PNG")
    assert any(cited in output.citations for output in session[CodeInterpreterOutput].all())


def test_a_container_is_used_again(client: OpenAI) -> None:
    container = client.containers.create(name="belljar-live", memory_limit="1g")
    tool: OpenAICodeInterpreterTool[Any] = OpenAICodeInterpreterTool(name="python", container={"id": container.id})
    adapter = OpenAIAdapter(model=small_model("openai"), client=client)
    session = Session()
    try:
        for task in ("Write 4711 into number.txt with Python.", "Print what is in number.txt with Python."):
            adapter.evaluate(asking(task, None, tool, tool_choice="required"), session=session)
    finally:
        client.containers.delete(container.id)
    events = session[ToolInvoked].all()
    assert {event.result.value.container_id for event in events} == {container.id}
    assert "4711" in events[-1].result.value.output_text
