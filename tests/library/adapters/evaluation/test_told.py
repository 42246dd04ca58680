"""What a model is told of a tool, on each vendor's wire: its parameters in their authors' words, and examples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import openai
import pytest
from anthropic import Anthropic
from typing_extensions import Doc

from belljar import (
    ClaudeAgentSDKAdapter,
    MarkdownSection,
    OpenAIAdapter,
    Prompt,
    PromptTemplate,
    ProviderAdapter,
    Session,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
)
from belljar.testing import LoopbackUpstream


@dataclass(frozen=True)
class Place:
    city: Annotated[str, "As on a map, in English."]
    country: str | None = field(default=None, metadata={"description": "Two letters, as in ISO 3166."})


@dataclass(frozen=True)
class Ask:
    places: Annotated[list[Place], Doc("Where it is asked for.")]
    days: Annotated[int, "How many."] = 1


@dataclass(frozen=True)
class Weather:
    degrees: list[int]


@dataclass(frozen=True)
class Summary:
    warmest: Annotated[str, "The name of a city."]


MUNICH = ToolExample("One city", Ask([Place("Munich")]), Weather([21]))
TOLD = (
    'Tells the weather.\n\nExamples:\n- One city: {"places": [{"city": "Munich"}], "days": 1} gives {"degrees": [21]}'
)


@contextmanager
def adapter_of(kind: str, url: str) -> Iterator[ProviderAdapter]:
    if kind == "openai":
        with openai.OpenAI(base_url=url, api_key="k") as client:
            yield OpenAIAdapter(model="sim", client=client)
    else:
        with Anthropic(base_url=url, api_key="k") as client:
            yield ClaudeAgentSDKAdapter(model="claude-sonnet-5-5", client=client)


def handle(params: Ask, *, context: ToolContext) -> ToolResult[Weather]:
    return ToolResult("measured", Weather([21] * params.days))


def tool(examples: Sequence[ToolExample[Ask, Weather]] = ()) -> Tool[Ask, Weather]:
    return Tool[Ask, Weather](name="weather", description="Tells the weather.", handler=handle, examples=examples)


def sent(adapter: str, tool: Tool[Any, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tool as its provider gets it, and the schema of its parameters."""
    task = MarkdownSection(title="Task", key="task", template="Do it.", tools=[tool])
    with LoopbackUpstream([["done"]]) as server, adapter_of(adapter, server.base_url) as made:
        prompt = Prompt(PromptTemplate(ns="tests", key="told", sections=[task]))
        made.evaluate(prompt, session=Session())
        [wire] = server.requests[0].json["tools"]
    return wire, wire["parameters" if adapter == "openai" else "input_schema"]


both = pytest.mark.parametrize("adapter", ["openai", "claude"])


@both
def test_parameters_in_their_authors_words(adapter: str) -> None:
    _, parameters = sent(adapter, tool())
    places, days = parameters["properties"]["places"], parameters["properties"]["days"]
    assert (places["description"], days["description"]) == ("Where it is asked for.", "How many.")
    city, country = places["items"]["properties"]["city"], places["items"]["properties"]["country"]
    assert (city["description"], country["description"]) == ("As on a map, in English.", "Two letters, as in ISO 3166.")


@both
def test_examples(adapter: str) -> None:
    wire, parameters = sent(adapter, tool([MUNICH]))
    assert wire["description"] == TOLD
    assert "description" not in parameters


@both
def test_many_examples_are_told_with_the_parameters(adapter: str) -> None:
    """Servers refuse a description of a tool beyond 1024 characters, and nothing is left out."""
    many = [ToolExample(f"City {n}", Ask([Place(f"City {n}")]), Weather([n])) for n in range(40)]
    wire, parameters = sent(adapter, tool(many))
    assert wire["description"] == "Tells the weather."
    assert all(example.render() in parameters["description"] for example in many)


def test_a_typed_answer_is_described_too() -> None:
    task = MarkdownSection(title="Task", key="task", template="Do it.")
    prompt = Prompt(PromptTemplate[Summary](ns="tests", key="told", sections=[task]))
    with LoopbackUpstream([['{"warmest": "Rome"}']]) as server, adapter_of("openai", server.base_url) as adapter:
        answer = adapter.evaluate(prompt, session=Session())
        schema = server.requests[0].json["text"]["format"]["schema"]
    assert answer.output == Summary("Rome")
    assert schema["properties"]["warmest"]["description"] == "The name of a city."
