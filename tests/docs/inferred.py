"""What a checker and an editor make of the library, as its users write it: checked by mypy in `test_types`, never run.

An error that must be told has an ignore of its kind, and mypy tells of ignores that are not needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_type

import anthropic
import openai
from google import genai
from openai.types.responses import Response

from belljar import (
    AsyncSandbox,
    BaseClient,
    ClaudeAgentSDKAdapter,
    CompactionState,
    Filesystem,
    FrozenDataclass,
    HostMount,
    MarkdownSection,
    OpenAIAdapter,
    Prompt,
    PromptExecuted,
    PromptResponse,
    PromptTemplate,
    ResourceRegistry,
    Sandbox,
    Session,
    Tool,
    ToolContext,
    ToolExample,
    ToolInvoked,
    ToolResult,
    create_client,
)
from belljar.openai import AsyncOpenAI, OpenAI
from belljar.sandbox.outputs import Error, Exit, FileChanged, Output, Run
from belljar.tools import CodeInterpreterOutput, FileCitation, OpenAICodeInterpreterTool, ProviderTool
from belljar.wire.responses import Usage


@dataclass(frozen=True)
class Question:
    topic: str


@FrozenDataclass(kw_only=True)
class Settled:
    words: tuple[str, ...] = field(default_factory=tuple)
    topic: str = field(metadata={"description": "What it is about."})


@dataclass(frozen=True)
class Reply:
    words: tuple[str, ...]


def answer(params: Question, *, context: ToolContext) -> ToolResult[Reply]:
    assert_type(context.filesystem, Filesystem | None)
    assert_type(context.resources.get(Session), Session | None)
    assert_type(context.resources.get(Session, 3), Session | int)
    assert_type(context.resources[Session], Session)
    assert_type(context.resources[Filesystem], Filesystem)  # a protocol is as good a key as a class
    assert_type(context.session[ToolInvoked].latest(), ToolInvoked | None)
    return ToolResult(params.topic, Reply((params.topic,)))


async def answer_later(params: Question, *, context: ToolContext) -> ToolResult[Reply]:
    return answer(params, context=context)


def backwards(params: Reply, *, context: ToolContext) -> ToolResult[Question]:
    raise NotImplementedError


def prompts_and_answers(adapter: OpenAIAdapter | ClaudeAgentSDKAdapter, session: Session) -> None:
    task = MarkdownSection[Question](title="Task", key="task", template="Tell of $topic.")
    typed = Prompt(PromptTemplate[Reply](ns="a", key="b", sections=[task])).bind(Question("x"))
    assert_type(typed, Prompt[Reply])
    assert_type(adapter.evaluate(typed, session=session), PromptResponse[Reply])
    assert_type(adapter.evaluate(typed, session=session).output, Reply)
    listed = Prompt(PromptTemplate[list[Reply]](ns="a", key="b", sections=[task]))
    assert_type(adapter.evaluate(listed, session=session).output, list[Reply])
    words = Prompt(PromptTemplate[str](ns="a", key="b", sections=[task]))
    assert_type(adapter.evaluate(words, session=session).output, str)
    plain = adapter.evaluate(Prompt(PromptTemplate(ns="a", key="b", sections=[task])), session=session)
    assert_type(plain.text, str | None)
    assert_type(plain.output, None)
    assert_type(plain.citations, tuple[FileCitation, ...])
    adapter.evaluate(typed, sesion=session)  # type: ignore[call-arg]
    PromptTemplate[Reply](ns="a", key="b", tool_choice="requierd")  # type: ignore[arg-type]


async def awaited(adapter: OpenAIAdapter, prompt: Prompt[Reply], session: Session) -> None:
    assert_type(await adapter.evaluate_async(prompt, session=session), PromptResponse[Reply])


def settled() -> None:
    assert_type(Settled(topic="x").words, tuple[str, ...])
    Settled(words=())  # type: ignore[call-arg]
    Settled(topic="x").topic = "y"  # type: ignore[misc]


def tools() -> None:
    tool = Tool[Question, Reply](name="a", description="b", handler=answer)
    assert_type(tool.parse_arguments("{}"), Question)
    Tool[Question, Reply](name="a", description="b", handler=answer_later)
    example = ToolExample("x", Question("x"), Reply(("y",)))
    assert_type(example, ToolExample[Question, Reply])
    Tool[Question, Reply](name="a", description="b", examples=[example])
    Tool[Reply, Question](name="a", description="b", examples=[example])  # type: ignore[list-item]
    Tool[Question, Reply](name="a", description="b", handler=backwards)  # type: ignore[arg-type]
    create_client(tools=[tool, {"name": "b", "description": "c", "input_schema": {}}])
    hosted = OpenAICodeInterpreterTool(name="python", container={"type": "auto"})
    assert_type(hosted, OpenAICodeInterpreterTool[CodeInterpreterOutput])
    ProviderTool[Question, Reply, None](name="a", description="b", provider="c", handler=answer)
    ResourceRegistry.build({Session: Session(), Filesystem: None})


def states(session: Session) -> None:
    assert_type(session[CompactionState].latest(), CompactionState | None)
    assert_type(session[ToolInvoked].all(), tuple[ToolInvoked, ...])
    assert_type(session[Reply].where(lambda reply: bool(reply.words)), tuple[Reply, ...])
    session.dispatcher.subscribe(ToolInvoked, lambda event: print(event.result.message, event.usage))
    session.dispatcher.subscribe(PromptExecuted, lambda event: print(event.result.text, event.usage))
    session.dispatcher.subscribe(ToolInvoked, lambda event: print(event.tool))  # type: ignore[attr-defined]
    session.observe(Reply, lambda old, new: print(old[0].words, new[0].words))


def clients(name: str) -> None:
    assert_type(create_client("openai").client, openai.OpenAI)
    assert_type(create_client("belljar", base_url="http://127.0.0.1:8787/v1").client, openai.OpenAI)
    assert_type(create_client("ollama").client, openai.OpenAI)
    assert_type(create_client("xai").client, openai.OpenAI)
    assert_type(create_client("anthropic").client, anthropic.Anthropic)
    assert_type(create_client("gemini").client, genai.Client)
    assert_type(create_client(name), BaseClient)
    assert_type(create_client(), BaseClient)
    assert_type(create_client().send_message("hello").usage, Usage | None)
    create_client().set_reasoning_effort("lwo")  # type: ignore[arg-type]
    create_client("openai", modle="gpt-5")  # type: ignore[call-overload]


def openai_client() -> None:
    with OpenAI.local() as client:
        assert_type(client, OpenAI)
        mount = {"host_path": "b.csv", "exclude_glob": ["*.key"]}
        response = client.responses.create(
            model="belljar",
            input=[{"role": "user", "content": "hello"}],
            tools=[
                {
                    "type": "code_interpreter",
                    "container": {"type": "auto", "host_mounts": [HostMount(Path("a")), mount]},
                }
            ],
        )
        assert_type(response, Response)
        client.responses.create(model="belljar", input=response.output, timeout=3)
        client.responses.create(model="belljar", input=[item.to_dict() for item in response.output])
        for event in client.responses.create(model="belljar", input="hello", stream=True):
            if event.type == "response.output_text.delta":
                assert_type(event.delta, str)
        client.responses.create(model="belljar", inputs="hello")  # type: ignore[call-overload]


async def async_openai_client() -> None:
    async with AsyncOpenAI.local() as client:
        assert_type(await client.responses.create(model="belljar", input="hello"), Response)
        async for event in await client.responses.create(model="belljar", input="hello", stream=True):
            if event.type == "response.output_text.delta":
                assert_type(event.delta, str)


def sandboxes() -> None:
    with Sandbox(memory="1g") as box:
        assert_type(box, Sandbox)
        run = box.run("6 * 7")
        assert_type(run, Run)
        assert_type((run.text, run.html, run.exit, run.error), tuple[str, str, Exit, Error | None])
        assert_type(run.images[0].png, bytes)
        assert_type(run.files, tuple[FileChanged, ...])
        assert_type(list(box.stream("6 * 7")), list[Output])
        assert_type(box.files.read("a"), bytes)
        Sandbox(memroy="1g")  # type: ignore[call-arg]


async def async_sandboxes() -> None:
    async with AsyncSandbox() as box:
        assert_type(box, AsyncSandbox)
        assert_type((await box.run("6 * 7")).images[0].png, bytes)
        assert_type([output async for output in box.stream("6 * 7")], list[Output])
        assert_type(await box.files.read("a"), bytes)
