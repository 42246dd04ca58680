"""Which tool is to be called, in its one form."""

from __future__ import annotations

from typing import Any

import pytest

from belljar.errors import PromptValidationError
from belljar.prompt import PromptTemplate
from belljar.tools.tool_choice import check_choice, parse_choice, release_choice

NAMED = {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("given", "form"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NAMED, NAMED),
        ({"type": "function", "function": {"name": "f"}}, NAMED),
        ({"type": "code_interpreter"}, {"type": "code_interpreter"}),
    ],
    ids=repr,
)
def test_every_form(given: Any, form: Any) -> None:
    assert parse_choice(given) == form
    assert PromptTemplate(ns="n", key="k", tool_choice=given).tool_choice == form


@pytest.mark.parametrize(
    "given",
    ["any", "", 3, {}, {"name": "f"}, {"type": "function"}, {"type": "function", "name": ""}, {"type": 3}, ["auto"]],
    ids=repr,
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(PromptValidationError, match=r"tool_choice: .* is unknown; use auto, none, required"):
        PromptTemplate(ns="n", key="k", tool_choice=given)


@pytest.mark.parametrize("choice", [None, "auto", "none", "required", NAMED, {"type": "web_search"}], ids=repr)
def test_what_there_is(choice: Any) -> None:
    check_choice(choice, ["f"], ["web_search"])


@pytest.mark.parametrize(
    "choice", [{"type": "function", "name": "web_search"}, {"type": "f"}, {"type": "file_search"}], ids=repr
)
def test_what_there_is_not(choice: Any) -> None:
    with pytest.raises(PromptValidationError, match="is none of the tools; there are web_search, f"):
        check_choice(choice, ["f"], ["web_search"])


def test_required_needs_a_tool() -> None:
    with pytest.raises(PromptValidationError, match="'required' needs a tool"):
        check_choice("required", [], [])


@pytest.mark.parametrize(("choice", "after"), [(None, None), ("none", "none"), ("required", "auto"), (NAMED, "auto")])
def test_after_a_call(choice: Any, after: Any) -> None:
    assert release_choice(choice) == after
