"""The built-in model `belljar`: runs the Python it is sent and tells what happened. It does not think.

The first of these rules that fits the newest user message and the tools decides, the same way every time:

1. the instructions ask for a summary (`SUMMARISE`): a digest of the conversation
2. a function of the caller's gave a result: what it gave
3. `tool_choice` names a tool: a call of it, with arguments that fit its schema
4. the message has a JSON object that names a function: that call
5. the message has Python: its blocks, a call each, until one fails; then what came of them
6. a function has a word in common with the message: a call of it
7. `tool_choice` is `required`: a call of the first tool
8. anything else: what this is, and how to connect a real model

Where `text.format` has a schema, what is said is a JSON value that fits it. A schema that has none, or none that is
small enough, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from itertools import islice
from textwrap import dedent
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct

from belljar.errors import InvalidRequest
from belljar.gateway.builtin_model import retelling
from belljar.gateway.builtin_model.code_blocks import LONGEST, find_cells, is_python
from belljar.gateway.builtin_model.schema_samples import Unfit, sample
from belljar.vendors.deltas import CallBegun, CallEnd, CallPiece, Delta, Finish, Text, Traits, UsageDelta
from belljar.vendors.request import ModelRequest
from belljar.wire import ids
from belljar.wire.items import (
    CodeInterpreterCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    InputItem,
    InputText,
    Json,
    Message,
)
from belljar.wire.responses import Usage
from belljar.wire.tools import Choice, CustomTool, FunctionTool

NAME = "belljar"
TRAITS = Traits(sees=False, hosted=False, dialect=NAME)
SUMMARISE = (
    "You are about to hand this conversation over to somebody who cannot read it. Write a summary that lets them go on"
    " without asking: what the user wants and has decided, what was done and found (numbers exactly), which files exist"
    " under /mnt/data and what is in them, which variables and imports later code may rely on, and what is still open."
    " Leave out pleasantries and dead ends. Write the summary only."
)
"""The instructions for a summary, for any model; this one answers them with a digest."""

_INTERPRETER = "code_interpreter"
_CHARACTERS = 4
"""Of a token, about."""
_OBJECT = re.compile(r"\{(?=\s*\")")
_MOST_OBJECTS = 64
"""That are looked at in a message, each to its end: they may stand in each other."""
_READ = 256 << 10
"""Characters of a message: more would keep everybody else waiting."""
_ABOUT = """\
I am `belljar`, the built-in model. I do not think: I run the Python you send me, as a fenced block or as the whole \
message, and tell you what happened. Try:

```python
sum(n * n for n in range(10))
```

For a model that thinks, start LM Studio or Ollama on this machine, which is found while I run, or set a key such as \
`OPENAI_API_KEY` and start `belljar serve` again. Then choose one of the names that `GET /v1/models` lists."""
_NO_TOOL = """\
That is Python and I would run it, but the request does not give me the tool. Add it:

```json
{"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}
```"""


class BuiltIn:
    """The model itself."""

    async def ask(self, request: ModelRequest) -> AsyncGenerator[list[Delta], None]:
        """A list a line of what it writes."""
        decided = decide(request)
        reason: Literal["calls", "stop", "length"] = "calls"
        if isinstance(decided, PlannedCall):
            written = decided.arguments
            yield [CallBegun(0, ids.new("call"), decided.name, decided.custom)]
            for piece in _split_lines(written, "\\n"):
                yield [CallPiece(0, piece)]
            yield [CallEnd(0, written)]
        else:
            written, reason = _cut_text(_format_answer(decided, request), request.max_output_tokens)
            for piece in _split_lines(written, "\n"):
                yield [Text(piece)]
        yield [Finish(reason), UsageDelta(_count_usage(request, written))]


class PlannedCall(Struct, frozen=True):
    """A tool that is called, with its arguments as JSON or its free text."""

    name: str
    arguments: str
    custom: bool = False


class _Facts(Struct, frozen=True):
    """What the rules look at."""

    request: ModelRequest
    message: str
    """The newest of the user's."""
    since: tuple[InputItem, ...]
    """What came after it."""
    python: tuple[str, ...]
    """The pieces to run."""
    done: tuple[CodeInterpreterCall, ...]
    """The pieces that ran."""
    interpreter: FunctionTool | None
    functions: tuple[FunctionTool | CustomTool, ...]
    """The caller's own."""


Decided: TypeAlias = PlannedCall | str
"""A call, or words."""


def decide(request: ModelRequest) -> Decided:
    """The answer of the first rule that has one."""
    facts = _find_facts(request)
    return next((decided for rule in _RULES if (decided := rule(facts)) is not None), _ABOUT)


def _find_python_parts(message: InputItem) -> tuple[str, ...]:
    """Of a message that is not Python as a whole: notes on the files that came with it stand beside the code."""
    if not isinstance(message, Message) or isinstance(message.content, str):
        return ()
    texts = [part.text for part in message.content if isinstance(part, InputText)]
    if sum(map(len, texts)) > LONGEST:
        return ()
    return tuple(text for text in (dedent(text).strip() for text in texts) if is_python(text))


def _find_facts(request: ModelRequest) -> _Facts:
    items = request.plain_items
    users = [at for at, item in enumerate(items) if isinstance(item, Message) and item.role == "user"]
    message = retelling.read_text(items[users[-1]]) if users else ""
    if len(message) > _READ:
        raise InvalidRequest(
            f"The newest message has {len(message)} characters, and the built-in model reads at most {_READ}. Send "
            "less, upload it as a file, or ask another model.",
            param="input",
        )
    message = dedent(message).strip()
    since = items[users[-1] + 1 :] if users else ()
    usable = () if request.tool_choice == "none" else request.tools
    tools = [tool for tool in usable if isinstance(tool, FunctionTool | CustomTool)]
    ours = (tool for tool in tools if isinstance(tool, FunctionTool) and tool.name == _INTERPRETER)
    return _Facts(
        request=request,
        message=message,
        since=since,
        python=find_cells(message) or (_find_python_parts(items[users[-1]]) if users else ()),
        done=tuple(item for item in since if isinstance(item, CodeInterpreterCall)),
        interpreter=next(ours, None),
        functions=tuple(tool for tool in tools if tool.name != _INTERPRETER),
    )


# -- the rules --------------------------------------------------------------------------------------------------------


def _decide_summary(facts: _Facts) -> Decided | None:
    if SUMMARISE not in (facts.request.instructions or ""):
        return None
    asking = bool(facts.message) and not facts.since  # the newest message is not part of what it asks for
    return retelling.write_digest(facts.request.plain_items[:-1] if asking else facts.request.plain_items)


def _decide_on_results(facts: _Facts) -> Decided | None:
    outputs = [item for item in facts.since if isinstance(item, FunctionCallOutput | CustomToolCallOutput)]
    return "\n\n".join(retelling.describe_result(output, facts.since) for output in outputs) or None


def _decide_named_tool(facts: _Facts) -> Decided | None:
    choice = facts.request.tool_choice
    if not isinstance(choice, Choice) or facts.done:
        return None
    name = choice.type if choice.name is UNSET else choice.name
    if name == _INTERPRETER and facts.interpreter:
        return _plan_run(facts)
    return next((_make_call(tool, facts.message) for tool in facts.functions if tool.name == name), None)


def _decide_spelled_call(facts: _Facts) -> Decided | None:
    """Such as `{"name": "get_weather", "arguments": {"location": "Rome"}}`."""
    functions = {tool.name: tool for tool in facts.functions}
    if not functions or '"name"' not in facts.message:
        return None
    decoder = json.JSONDecoder()
    for brace in islice(_OBJECT.finditer(facts.message[:LONGEST]), _MOST_OBJECTS):
        try:
            value, _ = decoder.raw_decode(facts.message, brace.start())
        except (ValueError, RecursionError):
            continue
        tool = functions.get(str(value.get("name")))
        if tool:
            arguments = value.get("arguments", {})
            written = arguments if isinstance(arguments, str) else _encode_json(arguments)
            return PlannedCall(tool.name, written, isinstance(tool, CustomTool))
    return None


def _decide_python(facts: _Facts) -> Decided | None:
    left = len(facts.python) - len(facts.done)
    if left > 0 and facts.interpreter and all(map(_ran_well, facts.done)):
        return _plan_run(facts)
    if not facts.done:
        return _NO_TOOL if left > 0 and facts.request.tool_choice != "required" else None
    told = retelling.describe_cells(facts.done, facts.request.call_outputs)
    return f"{told}\n\nNot run: the last {left} of {len(facts.python)} blocks." if left > 0 else told


def _decide_matching_tool(facts: _Facts) -> Decided | None:
    words = _split_words(facts.message)
    return next((_make_call(tool, facts.message) for tool in facts.functions if _split_words(tool.name) & words), None)


def _decide_required_tool(facts: _Facts) -> Decided | None:
    if facts.request.tool_choice != "required":
        return None
    made = (_make_call(tool, facts.message) for tool in facts.functions)
    return next(made, _plan_run(facts) if facts.interpreter else None)


_RULES: tuple[Callable[[_Facts], Decided | None], ...] = (
    _decide_summary,
    _decide_on_results,
    _decide_named_tool,
    _decide_spelled_call,
    _decide_python,
    _decide_matching_tool,
    _decide_required_tool,
)


def _plan_run(facts: _Facts) -> PlannedCall:
    """The next piece of Python; the message as a text where it has none and must be run all the same."""
    code = facts.python[len(facts.done)] if facts.python else repr(facts.message)
    return PlannedCall(_INTERPRETER, _encode_json({"code": code}))


def _ran_well(cell: CodeInterpreterCall) -> bool:
    return cell.status == "completed" and (cell.belljar is UNSET or cell.belljar.exit == "ok")


def _make_call(tool: FunctionTool | CustomTool, message: str) -> PlannedCall:
    """A call of the tool with what the message gives for it."""
    if isinstance(tool, CustomTool):
        return PlannedCall(tool.name, message, custom=True)
    schema = {"type": "object", **(tool.parameters or {})}
    return PlannedCall(tool.name, _make_fitting_json(schema, message, "tools", f"the parameters of '{tool.name}'"))


def _split_words(text: str) -> set[str]:
    """Of four letters or more: `get_weather` has one, and so has `getWeather`."""
    return set(re.findall(r"[a-z]{4,}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))


# -- writing ----------------------------------------------------------------------------------------------------------


def _format_answer(text: str, request: ModelRequest) -> str:
    wanted = request.text.format
    if wanted.type == "text" or SUMMARISE in (request.instructions or ""):
        return text
    schema = wanted.schema if wanted.schema is not UNSET else {"const": {"answer": text}}
    return _make_fitting_json(schema, text, "text.format.schema", "it")


def _make_fitting_json(schema: Mapping[str, Json], text: str, param: str, what: str) -> str:
    try:
        return _encode_json(sample(schema, text))
    except Unfit as error:
        raise InvalidRequest(
            f"Invalid '{param}': the built-in model has no value for {what}: {error}."
            " Ask for less, or choose a model that thinks: GET /v1/models lists those there are.",
            param=param,
            fault="invalid_value",
        ) from None


def _cut_text(text: str, tokens: int | None) -> tuple[str, Literal["stop", "length"]]:
    if tokens is None or len(text) <= tokens * _CHARACTERS:
        return text, "stop"
    return text[: tokens * _CHARACTERS], "length"


def _split_lines(text: str, end: str) -> list[str]:
    return [piece for piece in re.split(f"(?<={re.escape(end)})", text) if piece]


def _encode_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _count_usage(request: ModelRequest, written: str) -> Usage:
    read = len(request.instructions or "") + sum(len(retelling.read_text(item)) for item in request.plain_items)
    taken, given = -(-read // _CHARACTERS), -(-len(written) // _CHARACTERS)
    return Usage(input_tokens=taken, output_tokens=given, total_tokens=taken + given)
