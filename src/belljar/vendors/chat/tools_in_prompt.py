"""Tools for a model that does not speak the protocol of calls: told in the prompt, calls as it wrote them, results as
the user's words. Models that were trained with tools badly or not at all answer to that, and repeat themselves to the
other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import structs

from belljar.vendors import call_ids, code_call
from belljar.vendors.request import ModelRequest
from belljar.wire import codec
from belljar.wire.items import CodeInterpreterCall, CustomToolCall, FunctionCall, Message
from belljar.wire.tools import CustomTool, FunctionTool

_CODE = (
    "You can run Python code. To run some, write it in one block that begins with ```python and ends with ```, print "
    "what you want to know, and stop there: the block is run for you, and you are told what it printed. Do not guess "
    "results that code can find."
)
_CALL = (
    "You can call the functions below. To call one, write nothing but such a block, and stop there: you are told what "
    "came of it.\n\n```json\n"
    '{"name": "the name of the function", "arguments": {"its arguments": "as its JSON schema has them"}}\n```'
)
_REFUSED = re.compile(
    r"(?i)does(?:n't| not) support (?:tool|function)|support tool use|tool(?: calling|s)?`? (?:is|are) not supported"
    r"|--enable-auto-tool-choice|tools param requires"
)
"""As Ollama, OpenRouter, Groq, vLLM and llama.cpp say it."""
_CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_MUST = "Do that now, before you answer."


def speaks_in_words(request: ModelRequest) -> bool:
    """Whether the model is spoken to in words: it has no tools, or only wrote its newest call into its answer."""
    return request.in_words or _newest(request) == "written"


def makes_calls(request: ModelRequest) -> bool:
    """Whether the model has shown that it can make calls: what it writes is then meant to be read."""
    return not request.in_words and _newest(request) == "made"


def _newest(request: ModelRequest) -> Literal["made", "written"] | None:
    """How the newest call came."""
    for item in reversed(request.items):
        if type(item) is CodeInterpreterCall:
            return "made" if code_call.find_written_text(item) is None else "written"
        if type(item) is FunctionCall or type(item) is CustomToolCall:
            return "written" if call_ids.is_written(item.call_id) else "made"
    return None


def refuses_tools(status: int, body: bytes) -> bool:
    """Whether a server says that this model cannot be given tools."""
    return status in (400, 404, 422, 500) and _REFUSED.search(body[:2000].decode(errors="replace")) is not None


def make_trials(model: str) -> tuple[ModelRequest, ModelRequest]:
    """The same question without tools and with one. Where both are equally long for the model, it does not see it."""
    hello = (Message(role="user", content="Hi"),)
    tool = FunctionTool(name="get_time", description="Tells what time it is in a city.", parameters=_CITY)
    without = ModelRequest(model=model, items=hello, max_output_tokens=1, stream=False)
    return without, structs.replace(without, tools=(tool,))


def describe_tools(tools: Sequence[FunctionTool | CustomTool], *, now: bool) -> str:
    """The tools, for the prompt; `now` says that one is to be used at once."""
    said = [f"{_CODE}\n\n{tool.description}" for tool in tools if tool.name == code_call.NAME]
    functions = [tool for tool in tools if tool.name != code_call.NAME]
    if functions:
        said.append("\n\n".join([_CALL, *map(_describe_tool, functions)]))
    if said and now:
        said.append(_MUST)
    return "\n\n".join(said)


def _describe_tool(tool: FunctionTool | CustomTool) -> str:
    schema = tool.parameters if isinstance(tool, FunctionTool) else {"properties": {"input": {"type": "string"}}}
    return f"{tool.name}: {tool.description or ''}\nArguments: {codec.encode(schema or {}).decode()}"


def write_call(name: str, arguments: str) -> str:
    """A call that nobody has as it was written."""
    return f'```json\n{{"name": {codec.encode(name).decode()}, "arguments": {arguments}}}\n```'


def write_results(results: Sequence[str]) -> str:
    """What came of the calls, as the user tells it."""
    told = "\n\n".join(results)
    return f"Result:\n\n{told}\n\nNow answer in words, or call again if something is still missing."
