"""Sections, templates and prompts: what is refused, and what is rendered."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

import pytest

from belljar.errors import PromptValidationError
from belljar.prompt import (
    FrozenDataclass,
    MarkdownSection,
    Prompt,
    PromptResponse,
    PromptSection,
    PromptTemplate,
    RenderedPrompt,
    Section,
    Tool,
)
from belljar.tools import FileCitation, InMemoryFilesystem, OpenAICodeInterpreterTool


@dataclass(frozen=True)
class Task:
    goal: str
    limit: int = 3


@dataclass(frozen=True)
class ReviewResult:
    summary: str
    issues: list[str]


def tool_of(name: str) -> Tool[None, None]:
    return Tool[None, None](name=name, description="d")


def text(key: str = "task", template: str = "words", **more: Any) -> MarkdownSection:
    return MarkdownSection(title=key.title(), key=key, template=template, **more)


def rendered(*sections: Section[Any], bound: tuple[object, ...] = ()) -> str:
    return Prompt(PromptTemplate(ns="tests", key="p", sections=sections)).bind(*bound).render().text


def test_the_founding_example() -> None:
    template = PromptTemplate[ReviewResult](
        ns="review",
        key="code",
        sections=[
            MarkdownSection(
                title="Task",
                key="task",
                template="Review the Python code in project/src/ for:\n- Security vulnerabilities\n",
            )
        ],
    )
    prompt = Prompt(template)
    assert (prompt.ns, prompt.key, prompt.name) == ("review", "code", None)
    assert prompt.render() == RenderedPrompt[ReviewResult](
        "## 1. Task (task)\n\nReview the Python code in project/src/ for:\n- Security vulnerabilities",
        tools=(),
        output_type=ReviewResult,
        container="object",
        sections=prompt.sections,
    )


def test_prompt_section_is_section() -> None:
    assert PromptSection is Section
    assert isinstance(text(), PromptSection)


def test_headings_go_down_with_the_tree() -> None:
    child = text("child", children=[text("leaf", "")])
    assert rendered(text("a", children=[child]), text("b")) == (
        "## 1. A (a)\n\nwords\n\n### 1.1. Child (a.child)\n\nwords\n\n"
        "#### 1.1.1. Leaf (a.child.leaf)\n\n## 2. B (b)\n\nwords"
    )


def test_templates_are_dedented_and_filled() -> None:
    section = MarkdownSection[Task](
        title="Task",
        key="task",
        template="""
            Do $goal
              at most ${limit} times for $$5.
        """,
    )
    assert rendered(section, bound=(Task("this", 2),)).split("\n\n")[1] == "Do this\n  at most 2 times for $5."


def test_parameters_are_bound_or_given() -> None:
    section = MarkdownSection[Task](title="T", key="t", template="$goal", default_params=Task("default"))
    assert rendered(section).endswith("default")
    assert rendered(section, bound=(Task("bound"),)).endswith("bound")
    prompt = Prompt(PromptTemplate(ns="n", key="k", sections=[section])).bind(Task("one"))
    assert prompt.bind(Task("two")).render().text.endswith("two")
    assert prompt.render().text.endswith("one")


def test_missing_parameters_are_named() -> None:
    section = MarkdownSection[Task](title="T", key="t", template="$goal")
    with pytest.raises(PromptValidationError, match="prompt tests:p: section t needs a Task"):
        rendered(section)


def test_binding_what_nobody_takes_is_refused() -> None:
    prompt = Prompt(PromptTemplate(ns="n", key="k", sections=[text()]))
    with pytest.raises(PromptValidationError, match="no section takes a Task"):
        prompt.bind(Task("x"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("$goul", "section 't': $goul is unknown; Task has goal, limit"),
        ("costs $5", "a $ without a name; write $$ for a dollar"),
    ],
)
def test_templates_are_checked_when_the_prompt_is_made(template: str, message: str) -> None:
    section = MarkdownSection[Task](title="T", key="t", template=template)
    with pytest.raises(PromptValidationError, match=re.escape(message)):
        PromptTemplate(ns="n", key="k", sections=[section])


def test_a_section_without_parameters_has_no_placeholders() -> None:
    with pytest.raises(PromptValidationError, match="it has no parameters"):
        PromptTemplate(ns="n", key="k", sections=[text("t", "$goal")])


@pytest.mark.parametrize("key", ["", "A", "-a", "a b", "a" * 65], ids=repr)
def test_bad_keys(key: str) -> None:
    with pytest.raises(PromptValidationError, match="a key is"):
        MarkdownSection(title="T", key=key, template="")
    with pytest.raises(PromptValidationError, match="prompt ns"):
        PromptTemplate(ns=key, key="k")


def test_bad_sections() -> None:
    with pytest.raises(PromptValidationError, match="its title is empty"):
        MarkdownSection(title=" ", key="t", template="")
    with pytest.raises(PromptValidationError, match="its parameters are a dataclass"):
        MarkdownSection[int](title="T", key="t", template="")
    with pytest.raises(PromptValidationError, match="default_params are no Task"):
        MarkdownSection[Task](title="T", key="t", template="", default_params=3)  # type: ignore[arg-type]


def test_two_sections_may_not_share_a_path() -> None:
    with pytest.raises(PromptValidationError, match="two sections have the path a"):
        PromptTemplate(ns="n", key="k", sections=[text("a"), text("a")])
    PromptTemplate(ns="n", key="k", sections=[text("a", children=[text("c")]), text("b", children=[text("c")])])


def test_tools_are_collected_in_order() -> None:
    one, two = tool_of("one"), tool_of("two")
    python = OpenAICodeInterpreterTool(name="python", container={"type": "auto"})
    sections = [text("a", tools=(one,), children=[text("c", tools=(python,))]), text("b", tools=(two,))]
    assert Prompt(PromptTemplate(ns="n", key="k", sections=sections)).render().tools == (one, python, two)


def test_two_tools_may_not_share_a_name() -> None:
    with pytest.raises(PromptValidationError, match="two tools have the name 'one'"):
        PromptTemplate(ns="n", key="k", sections=[text("a", tools=[tool_of("one")]), text("b", tools=[tool_of("one")])])


def test_what_is_not_enabled_takes_its_children_and_tools_along() -> None:
    dark = text("a", enabled=lambda: False, tools=[tool_of("one")], children=[text("c", tools=[tool_of("two")])])
    light = text("b")
    result = Prompt(PromptTemplate(ns="n", key="k", sections=[dark, light])).render()
    assert (result.text, result.tools) == ("## 2. B (b)\n\nwords", ())
    assert result.sections == (light,)


def test_enabled_is_asked_with_the_parameters() -> None:
    section = MarkdownSection[Task](title="T", key="t", template="$goal", enabled=lambda task: task.limit > 3)
    assert rendered(section, bound=(Task("x"),)) == ""
    assert rendered(section, bound=(Task("x", 4),)).endswith("x")


@pytest.mark.parametrize(
    ("output", "kind", "container"),
    [
        (ReviewResult, ReviewResult, "object"),
        (list[ReviewResult], ReviewResult, "array"),
        (None, None, None),
        (str, None, None),
    ],
    ids=str,
)
def test_outputs(output: Any, kind: object, container: str | None) -> None:
    template = PromptTemplate[output](ns="n", key="k")
    assert (template.output_type, template.container) == (kind, container)


@pytest.mark.parametrize("output", [int, list[int], dict[str, int], tuple[ReviewResult, ...]], ids=str)
def test_bad_outputs(output: Any) -> None:
    with pytest.raises(PromptValidationError, match="prompt n:k: its output is a dataclass or a list of one"):
        PromptTemplate[output](ns="n", key="k")


def test_sections_are_found_by_type_at_any_depth() -> None:
    class Workspace(MarkdownSection):
        filesystem = InMemoryFilesystem()

    workspace = Workspace(title="W", key="w", template="")
    prompt = Prompt(PromptTemplate(ns="n", key="k", sections=[text("a", children=[workspace])]))
    assert prompt.find_section(Workspace) is workspace
    assert prompt.filesystem() is workspace.filesystem
    assert Prompt(PromptTemplate(ns="n", key="k")).find_section(Workspace) is None
    assert Prompt(PromptTemplate(ns="n", key="k")).filesystem() is None


def test_frozen_dataclass() -> None:
    @FrozenDataclass()
    class Settings:
        limit: int = 3

    settings = Settings()
    assert (settings, settings.limit) == (Settings(limit=3), 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.limit = 4  # type: ignore[misc]
    assert not hasattr(settings, "__dict__")


def test_a_response_is_frozen() -> None:
    response = PromptResponse[ReviewResult]("p", None, ReviewResult("s", []))
    with pytest.raises(dataclasses.FrozenInstanceError):
        response.text = "x"  # type: ignore[misc]


def test_a_response_knows_the_files_it_cites() -> None:
    cited = {"type": "container_file_citation", "container_id": "cntr_1", "file_id": "cfile_1", "filename": "a.png"}
    response = PromptResponse("p", "see", None, annotations=(cited, {"type": "url_citation", "url": "https://x"}))
    assert response.citations == (FileCitation("cntr_1", "cfile_1", "a.png"),)
