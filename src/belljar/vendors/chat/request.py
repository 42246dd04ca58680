"""A turn as the body of POST /chat/completions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from belljar.errors import InvalidRequest
from belljar.vendors import code_call, function_names
from belljar.vendors.call_ids import CallIds
from belljar.vendors.chat import tools_in_prompt
from belljar.vendors.chat.servers import for_model
from belljar.vendors.request import ModelRequest, refuse_item
from belljar.vendors.sampling import members
from belljar.vendors.server_profile import Member, ServerProfile
from belljar.wire import codec
from belljar.wire.items import (
    CodeInterpreterCall,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputAudio,
    InputFile,
    InputImage,
    InputText,
    ItemReference,
    Message,
    OutputText,
    Part,
    Reasoning,
    Refusal,
)
from belljar.wire.responses import TextFormat
from belljar.wire.tools import AllowedTools, Choice, CustomTool, FunctionTool, HostedTool, ToolChoice

Body: TypeAlias = dict[str, Any]
_Function: TypeAlias = FunctionTool | CustomTool

_IMAGES = "The images among the results:"
_HEARD = "I have the results."
"""What the assistant says where somebody has to and nobody did."""


def encode(request: ModelRequest, profile: ServerProfile) -> bytes:
    """What the server would not take is left out, as `profile` says. Asks for the whole where nobody wants pieces."""
    request, profile = function_names.fit_names(request, function_names.CHAT), for_model(profile, request.model)
    body: Body = {"model": request.model, "messages": _Messages(request, profile).all(), "stream": request.stream}
    functions = _functions(request)
    if not request.in_words:
        body.update(_write_tools(request.tool_choice, functions, profile))
    body.update(_format(request.text.format, profile))
    if request.max_output_tokens is not None:
        body[profile.limit] = request.max_output_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    body.update(members(request.sampling, profile.sampling))
    for name, write in _MEMBERS.items():
        if name in profile.members and (value := write(request, "tools" in body)) is not None:
            body[name] = value
    if "logprobs" in body and request.top_logprobs:
        body["top_logprobs"] = request.top_logprobs
    return codec.encode(body)


_MEMBERS: Mapping[Member, Callable[[ModelRequest, bool], object]] = {
    "stream_options": lambda request, _: {"include_usage": True} if request.stream else None,
    "parallel_tool_calls": lambda request, tools: False if tools and not request.parallel_tool_calls else None,
    "reasoning_effort": lambda request, _: request.reasoning.effort if request.reasoning else None,
    "verbosity": lambda request, _: request.text.verbosity if request.text.verbosity != "medium" else None,
    "logprobs": lambda request, _: True if request.logprobs or request.top_logprobs else None,
    "service_tier": lambda request, _: request.service_tier,
    "prompt_cache_key": lambda request, _: request.prompt_cache_key,
    "safety_identifier": lambda request, _: request.safety_identifier,
}
"""What is said in a member that only some servers take, given whether there are tools; None: nothing."""


def custom_names(request: ModelRequest) -> frozenset[str]:
    """The tools that take free text and go out as functions: their calls are to be turned back."""
    return frozenset(tool.name for tool in request.tools if isinstance(tool, CustomTool))


# -- tools ------------------------------------------------------------------------------------------------------------


def _functions(request: ModelRequest) -> list[_Function]:
    functions: list[_Function] = []
    for tool in request.tools:
        if not isinstance(tool, FunctionTool | CustomTool):
            name = tool.type if isinstance(tool, HostedTool) else code_call.NAME
            raise InvalidRequest(
                f"tools: {request.model!r} is asked over chat completions, which cannot run {name!r};"
                " leave the tool out or choose a model whose provider runs it",
                param="tools",
            )
        functions.append(tool)
    return functions


def _function(tool: _Function, profile: ServerProfile) -> Body:
    if isinstance(tool, CustomTool):
        return {"type": "function", "function": _custom(tool)}
    function: Body = {
        "name": tool.name,
        "description": tool.description or "",  # llama.cpp and some templates break where there is none
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    if tool.strict and profile.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _custom(tool: CustomTool) -> Body:
    said = [tool.description] if tool.description else []
    if isinstance(tool.format, dict) and "definition" in tool.format:
        said.append(f"The input must fit this {tool.format.get('syntax', '')} grammar:\n{tool.format['definition']}")
    return {
        "name": tool.name,
        "description": "\n\n".join(said),
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
            "additionalProperties": False,
        },
    }


def _write_tools(choice: ToolChoice, tools: Sequence[_Function], profile: ServerProfile) -> Body:
    """The tools, and which must be used."""
    tools, said = _apply_choice(choice, tools, profile.choosing)
    if not tools:
        return {}
    body: Body = {"tools": [_function(tool, profile) for tool in tools]}
    if isinstance(said, dict) or said in profile.choosing:
        body["tool_choice"] = said
    return body


def _apply_choice(
    choice: ToolChoice, tools: Sequence[_Function], choosing: Collection[str]
) -> tuple[Sequence[_Function], str | Body]:
    """Where a choice cannot be said, there are fewer tools, which comes close."""
    if isinstance(choice, Choice):
        meant = [tool for tool in tools if _is(choice, tool)]
        if meant and "named" in choosing:
            return tools, {"type": "function", "function": {"name": meant[0].name}}
        return meant, "required"
    if isinstance(choice, AllowedTools):
        return [tool for tool in tools if any(_is(one, tool) for one in choice.tools)], choice.mode
    return () if choice == "none" and choice not in choosing else tools, choice


def _is(choice: Choice, tool: _Function) -> bool:
    if choice.type == code_call.NAME:
        return tool.name == code_call.NAME
    return choice.type in ("function", "custom") and choice.name == tool.name


# -- form of the answer -----------------------------------------------------------------------------------------------


def _format(asked: TextFormat, profile: ServerProfile) -> Body:
    if asked.type == "text":
        return {}
    if asked.type == "json_schema" and "json_schema" in profile.formats:
        schema: Body = {"name": asked.name or "answer", "schema": asked.schema or {}}
        if asked.description:
            schema["description"] = asked.description
        if asked.strict:
            schema["strict"] = True
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if "json_object" in profile.formats:
        return {"response_format": {"type": "json_object"}}
    anything = {"name": "answer", "schema": {"type": "object"}}
    return {"response_format": {"type": "json_schema", "json_schema": anything}}


def _describe_schema(asked: TextFormat, profile: ServerProfile) -> str:
    """The schema in words, for a server that only knows "some JSON"."""
    if asked.type != "json_schema" or "json_schema" in profile.formats:
        return ""
    return f"Answer with one JSON object that fits this JSON schema:\n{codec.encode(asked.schema or {}).decode()}"


# -- messages ---------------------------------------------------------------------------------------------------------


class _Turn:
    """What the assistant said in one go: text, the calls that follow it or were written in it, and their results."""

    __slots__ = ("calls", "more", "open", "results", "text", "thought")

    def __init__(self, thought: str) -> None:
        self.thought = thought
        self.text: list[str] = []
        self.calls: list[Body] = []
        self.results: list[tuple[str, list[str]]] = []
        """Of each call: what is told and the images that are shown."""
        self.open = False
        """A call of it awaits its result further on: what comes before that belongs to it."""
        self.more = False
        """Another call of it follows."""

    @property
    def over(self) -> bool:
        """Nothing more was said in it, once there are calls."""
        return not (self.open or self.more)


class _Messages:
    """The conversation, item by item."""

    def __init__(self, request: ModelRequest, profile: ServerProfile) -> None:
        self._request = request
        self._profile = profile
        self._call_ids = CallIds(profile.call_ids)
        self._plain = tools_in_prompt.speaks_in_words(request)
        self._told = False
        """The last message tells results in the user's words."""
        self._done: list[Body] = []
        self._turn: _Turn | None = None
        self._thought = ""
        self._outputs: dict[str, deque[FunctionCallOutput | CustomToolCallOutput]] = {}
        for item in request.items:
            if type(item) is FunctionCallOutput or type(item) is CustomToolCallOutput:
                self._outputs.setdefault(item.call_id, deque()).append(item)

    def all(self) -> list[Body]:
        request = self._request
        instructions = [request.instructions or "", _describe_schema(request.text.format, self._profile)]
        if request.in_words:
            tools, said = _apply_choice(request.tool_choice, _functions(request), ())
            instructions.append(tools_in_prompt.describe_tools(tools, now=said == "required"))
        if any(instructions):
            self._order("developer", "\n\n".join(filter(None, instructions)))
        for item in request.items:
            match item:
                case Message():
                    self._message(item)
                case FunctionCall():
                    self._add_call_and_result(item, _whole(item.arguments))
                case CustomToolCall():
                    self._add_call_and_result(item, codec.encode({"input": item.input}).decode())
                case CodeInterpreterCall():
                    self._ran(item)
                case FunctionCallOutput() | CustomToolCallOutput():
                    if self._turn is not None:
                        self._turn.open = False
                case Reasoning():
                    self._thought = _read_thought(item)
                case Compaction() | ItemReference():
                    raise refuse_item(request.model, item)
                case _:  # a hosted tool's doings, or a mark for us: nothing that chat completions can say
                    pass
        self._close()
        return self._done

    def _message(self, item: Message) -> None:
        if item.role == "assistant":
            turn = self._turn
            if turn is None or turn.over:
                self._close()
                turn = self._open_turn()
            turn.text.append(_plain(item.content))
            return
        self._close()
        self._thought = ""
        if item.role == "user":
            self._add_user_message(_content(item.content))
        else:
            self._order(item.role, _plain(item.content))

    def _add_user_message(self, content: str | list[Body]) -> None:
        if self._told:  # many chat templates want the roles to alternate
            self._told = False
            content = _join_contents(self._done.pop()["content"], content)
        if self._profile.ordered and self._done and self._done[-1]["role"] == "tool":
            self._done.append({"role": "assistant", "content": _HEARD})
        self._done.append({"role": "user", "content": content})

    def _order(self, role: str, text: str) -> None:
        """An instruction. Many chat templates take one system message only, so neighbours become one."""
        if self._profile.developer:
            self._done.append({"role": role, "content": text})
        elif self._profile.ordered and self._done and self._done[-1]["role"] in ("assistant", "tool"):
            if self._done[0]["role"] == "system":
                self._done[0]["content"] += f"\n\n{text}"
            else:
                self._done.insert(0, {"role": "system", "content": text})
        elif self._done and self._done[-1]["role"] == "system":
            self._done[-1]["content"] += f"\n\n{text}"
        else:
            self._done.append({"role": "system", "content": text})

    def _open_turn(self) -> _Turn:
        self._turn = _Turn(self._thought)
        self._thought = ""
        return self._turn

    def _add_call_and_result(self, item: FunctionCall | CustomToolCall, arguments: str) -> None:
        turn = self._add_call(item.call_id, item.name, arguments, None)
        turn.open, turn.more = True, False
        outputs = self._outputs.get(item.call_id)
        output = outputs.popleft().output if outputs else ""
        turn.results.append((_plain(output), _images(output)))

    def _ran(self, item: CodeInterpreterCall) -> None:
        turn = self._add_call(
            item.id, code_call.NAME, code_call.write_arguments(item), code_call.find_written_text(item)
        )
        turn.more = code_call.has_more_calls(item)
        turn.results.append(
            (code_call.write_output(item, self._request), [*self._request.call_images.get(item.id, ())])
        )

    def _add_call(self, call_id: str, name: str, arguments: str, written: str | None) -> _Turn:
        turn = self._turn
        if turn is None or (turn.results and turn.over):
            self._close()
            turn = self._open_turn()
        if self._plain:
            if written is None or not (written or any(turn.text)):
                turn.text.append(tools_in_prompt.write_call(name, arguments))
            else:
                turn.text[-1:] = ["".join([*turn.text[-1:], written])]
            return turn
        id = self._call_ids.call(call_id)
        turn.calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        return turn

    def _close(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None or not (turn.results or any(turn.text)):
            return
        self._told = False
        said: Body = {"role": "assistant", "content": "\n\n".join(turn.text)}
        if turn.calls:
            said["tool_calls"] = turn.calls
            if turn.thought and self._profile.reasoning:
                said[self._profile.reasoning] = turn.thought
        self._done.append(said)
        if self._plain:
            self._tell(turn)
            return
        later: list[Body] = []
        for call, (told, images) in zip(turn.calls, turn.results, strict=True):
            shown = [_image(url) for url in images]
            content: str | list[Body] = told
            if shown and self._profile.images == "tool":
                content = [{"type": "text", "text": told}, *shown]
            else:
                later += shown
            self._done.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if later:
            self._add_user_message([{"type": "text", "text": _IMAGES}, *later])

    def _tell(self, turn: _Turn) -> None:
        """The results as the user's words."""
        if turn.results:
            told = tools_in_prompt.write_results([told for told, _ in turn.results])
            shown = [_image(url) for _, images in turn.results for url in images]
            self._add_user_message([{"type": "text", "text": told}, *shown] if shown else told)
            self._told = True


def _join_contents(before: str | list[Body], after: str | list[Body]) -> str | list[Body]:
    """Two messages as one."""
    if isinstance(before, str) and isinstance(after, str):
        return f"{before}\n\n{after}"
    parts = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in (before, after)]
    return [*parts[0], *parts[1]]


def _whole(arguments: str) -> str:
    """Arguments that are JSON, if need be by wrapping: servers parse them again, and refuse the conversation if not."""
    try:
        codec.decode(arguments)
    except msgspec.DecodeError:
        return codec.encode({"arguments": arguments} if arguments else {}).decode()
    return arguments


def _read_thought(item: Reasoning) -> str:
    return "\n\n".join(part.text for part in (item.content or item.summary))


def _image(url: str, detail: str | None = None) -> Body:
    image = {"url": url, "detail": detail} if detail in ("low", "high") else {"url": url}
    return {"type": "image_url", "image_url": image}


def _images(content: str | Iterable[Part]) -> list[str]:
    parts = () if isinstance(content, str) else content
    return [part.image_url for part in parts if isinstance(part, InputImage) and part.image_url]


def _plain(content: str | Iterable[Part]) -> str:
    """The text of it, with a word for each file."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_words, content)))


def _words(part: Part) -> str:
    # Nearly all of a long conversation: the patterns below need 0.3 us more for what the assistant said.
    if type(part) is InputText or type(part) is OutputText:
        return part.text
    match part:
        case Refusal(refusal=text):
            return text
        case InputFile(filename=str(name)):
            return f"[attached file: {name}]"
        case InputImage(image_url=None, file_id=str(name)):
            return f"[attached image: {name}]"
        case _:
            return ""


def _content(content: str | Sequence[Part]) -> str | list[Body]:
    """A user's message: one text where it is nothing else, which every server takes."""
    if isinstance(content, str) or all(type(part) is InputText for part in content):
        return _plain(content)
    parts: list[Body] = []
    for part in content:
        if isinstance(part, InputImage) and part.image_url:
            parts.append(_image(part.image_url, part.detail))
        elif isinstance(part, InputAudio):
            parts.append({"type": "input_audio", "input_audio": part.input_audio})
        elif text := _words(part):
            parts.append({"type": "text", "text": text})
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
