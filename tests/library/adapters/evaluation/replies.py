"""Answers of the Responses API as a model server sends them whole, and the prompts that ask for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.library.providers.wires import function_call, message, response

from belljar.prompt import MarkdownSection, Prompt, PromptTemplate, Tool, ToolContext, ToolResult
from belljar.testing import Reply

CITED = {
    "type": "container_file_citation",
    "container_id": "cntr_1",
    "file_id": "cfile_1",
    "filename": "plot.png",
    "start_index": 0,
    "end_index": 1,
}


@dataclass(frozen=True)
class Verdict:
    summary: str
    issues: list[str]


@dataclass(frozen=True)
class QueryParams:
    sql: str
    limit: int = 10


@dataclass(frozen=True)
class QueryResult:
    rows: int


def run_query(params: QueryParams, *, context: ToolContext) -> ToolResult[QueryResult]:
    return ToolResult(f"{params.limit} rows", QueryResult(params.limit))


QUERY = Tool[QueryParams, QueryResult](name="run_query", description="Asks the database.", handler=run_query)


def prompt(*tools: Tool[Any, Any], output: Any = None, sections: Sequence[Any] = (), **more: Any) -> Prompt[Any]:
    task = MarkdownSection(title="Task", key="task", template="Do it.", tools=tools)
    made = PromptTemplate[output](ns="tests", key="task", name="a-prompt", sections=[task, *sections], **more)
    return Prompt(made)


def whole(*items: dict[str, Any], tokens: tuple[int, int] = (10, 5), **fields: Any) -> Reply:
    """A response with these items."""
    usage = {
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "total_tokens": sum(tokens),
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    made = response("resp_1", *items, usage=usage, **fields)
    return Reply(body=json.dumps(made).encode(), headers={"x-request-id": "req_1"})


def says(text: str, *annotations: dict[str, Any], **fields: Any) -> Reply:
    return whole(said(text, *annotations), **fields)


def said(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    item = message(text)
    item["content"][0]["annotations"] = list(annotations)
    return item


def calls(name: str, call_id: str = "call_1", /, **arguments: Any) -> dict[str, Any]:
    return function_call(name, arguments, call_id)


def ran(logs: str = "4\n", *, id: str = "ci_1", status: str = "completed", **more: Any) -> dict[str, Any]:
    """A cell that OpenAI ran."""
    return {
        "id": id,
        "type": "code_interpreter_call",
        "status": status,
        "code": "print(2 + 2)",
        "container_id": "cntr_1",
        "outputs": [{"type": "logs", "logs": logs}],
        **more,
    }


def refuses(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, body=json.dumps(body).encode(), headers=named)
