"""A turn as the body of :streamGenerateContent."""

from __future__ import annotations

import base64
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from belljar.errors import InvalidRequest
from belljar.vendors import code_call, function_names
from belljar.vendors.call_ids import GEMINI, CallIds
from belljar.vendors.gemini.models import GeminiFamily, family
from belljar.vendors.gemini.sampling import SAMPLING
from belljar.vendors.gemini.schema import convert_schema
from belljar.vendors.gemini.service import Service
from belljar.vendors.gemini.signatures import SKIPPED, unpack_signature
from belljar.vendors.media_types import type_of
from belljar.vendors.request import AttachedFiles, ModelRequest, VendorFile, Verbatim, refuse_item
from belljar.vendors.sampling import members
from belljar.wire import codec
from belljar.wire.items import (
    CellEnd,
    CodeInterpreterCall,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Image,
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
from belljar.wire.tools import (
    AllowedTools,
    Choice,
    CodeInterpreterTool,
    CustomTool,
    FunctionTool,
    HostedTool,
    ToolChoice,
)

Body: TypeAlias = dict[str, Any]
_Function: TypeAlias = FunctionTool | CustomTool

_DATA_URL = re.compile(r"data:([^;,]*+)[^,]*;base64,", re.ASCII)
_UNKNOWN_TYPE = "application/octet-stream"
_NO_PARAMETERS = {"type": "object", "properties": {}}
_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


def encode(request: ModelRequest, service: Service) -> bytes:
    """The body; the model's name is in the path. Gemini cannot be told to call one function at a time."""
    request = function_names.fit_names(request, function_names.GEMINI)
    kind = family(request.model)
    functions = [tool for tool in request.tools if isinstance(tool, FunctionTool | CustomTool)]
    hosted = _is_hosted(request)
    tools: list[Body] = []
    if functions:
        tools.append({"functionDeclarations": [_declare_function(tool) for tool in functions]})
    if hosted:
        tools.append({"codeExecution": {}})
    told, form = _format(request, kind if functions else GeminiFamily())
    orders = [request.instructions or "", *_orders(request), told]
    generation: Body = {
        "maxOutputTokens": request.max_output_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        **members(request.sampling, SAMPLING),
        "thinkingConfig": _write_thinking(request, kind),
        **form,
    }
    body: Body = {
        "systemInstruction": {"parts": [{"text": "\n\n".join(filter(None, orders))}]} if any(orders) else None,
        "contents": _Contents(request, service, kind, hosted=hosted).all(),
        "tools": tools,
        "toolConfig": _write_choice(request.tool_choice, functions, kind, service, hosted=hosted),
        "generationConfig": {name: value for name, value in generation.items() if value is not None},
    }
    return codec.encode({name: value for name, value in body.items() if value})


def custom_names(request: ModelRequest) -> frozenset[str]:
    """The tools that take free text and go out as functions: their calls are to be turned back."""
    return frozenset(tool.name for tool in request.tools if isinstance(tool, CustomTool))


def _is_hosted(request: ModelRequest) -> bool:
    for tool in request.tools:
        if isinstance(tool, HostedTool):
            raise InvalidRequest(
                f"tools: {request.model!r} is a Gemini model, which cannot run {tool.type!r}; leave the tool out or"
                " choose a model whose provider runs it",
                param="tools",
            )
    return any(isinstance(tool, CodeInterpreterTool) for tool in request.tools)


# -- tools ------------------------------------------------------------------------------------------------------------


def _declare_function(tool: _Function) -> Body:
    if isinstance(tool, FunctionTool):
        schema, said = tool.parameters or _NO_PARAMETERS, [tool.description or ""]
    else:
        schema, said = _FREE_TEXT, [tool.description or ""]
        if isinstance(tool.format, dict) and "definition" in tool.format:
            grammar = f"{tool.format.get('syntax', '')} grammar:\n{tool.format['definition']}"
            said.append(f"The input must fit this {grammar}")
    described = "\n\n".join(filter(None, said))
    return {
        "name": tool.name,
        **({"description": described} if described else {}),
        "parametersJsonSchema": convert_schema(schema),
    }


def _write_choice(
    choice: ToolChoice, functions: list[_Function], kind: GeminiFamily, service: Service, *, hosted: bool
) -> Body:
    """Which functions must be used. Its own code execution cannot be chosen, only offered."""
    if not functions:
        return {}
    calling: Body = {}
    if isinstance(choice, Choice | AllowedTools):
        wanted = choice.tools if isinstance(choice, AllowedTools) else (choice,)
        function_names = [tool.name for tool in functions if any(_is(one, tool) for one in wanted)]
        if function_names:  # without ANY it takes a list only if it holds the model to it as well
            any_of = isinstance(choice, Choice) or choice.mode == "required"
            calling = {"mode": "ANY" if any_of else "VALIDATED", "allowedFunctionNames": function_names}
    elif choice != "auto":
        calling = {"mode": {"none": "NONE", "required": "ANY"}[choice]}
    elif kind.thinks and all(isinstance(tool, FunctionTool) and tool.strict for tool in functions):
        calling = {"mode": "VALIDATED"}
    if service.streams_arguments and kind.signs:
        calling["streamFunctionCallArguments"] = True
    config: Body = {"functionCallingConfig": calling} if calling else {}
    if hosted and kind.combines and service.tells_server_tools:
        config["includeServerSideToolInvocations"] = True
    return config


def _is(choice: Choice, tool: _Function) -> bool:
    if choice.type == code_call.NAME:
        return tool.name == code_call.NAME
    return choice.type in ("function", "custom") and choice.name == tool.name


# -- thinking and form ------------------------------------------------------------------------------------------------


def _write_thinking(request: ModelRequest, kind: GeminiFamily) -> Body | None:
    asked = request.reasoning
    if asked is None or not kind.thinks:
        return None
    config = kind.write_thinking(asked.effort) if asked.effort else {}
    if asked.summary:
        config["includeThoughts"] = True
    return config or None


def _format(request: ModelRequest, kind: GeminiFamily) -> tuple[str, Body]:
    """How the answer is to look: in words where it cannot be said beside functions, and as members."""
    asked = request.text.format
    if asked.type == "text":
        return "", {}
    schema = asked.schema if asked.type == "json_schema" and isinstance(asked.schema, dict) else None
    if not kind.combines:
        wanted = "" if schema is None else f" that fits this JSON schema:\n{codec.encode(schema).decode()}"
        return f"When you answer, and do not call a function, answer with one JSON object{wanted}", {}
    form: Body = {"responseMimeType": "application/json"}
    if schema is not None:
        form["responseJsonSchema"] = convert_schema(schema)
    return "", form


def _orders(request: ModelRequest) -> Iterator[str]:
    """Instructions have one place only, wherever in the conversation they were given."""
    for item in request.items:
        if isinstance(item, Message) and item.role in ("system", "developer"):
            yield "\n".join(part["text"] for part in _parts(item.content) if "text" in part)


# -- contents ---------------------------------------------------------------------------------------------------------


class _Step:
    """What the model said in one go: its parts, and what came of the calls among them."""

    __slots__ = ("calls", "known", "more", "open", "parts", "results", "shown")

    def __init__(self) -> None:
        self.parts: list[Body] = []
        self.calls = 0
        self.results: list[Body] = []
        self.shown: list[Body] = []
        """Images among the results that must be told apart from them."""
        self.open = False
        """A call of it awaits its result further on: what comes before that belongs to it."""
        self.more = False
        """Another call of it follows."""
        self.known = False
        """Its last call itself tells whether another follows."""

    @property
    def over(self) -> bool:
        """Its calls have their results, as far as can be told."""
        return bool(self.calls) and not (self.open or self.more)


class _Contents:
    """The conversation, item by item."""

    def __init__(self, request: ModelRequest, service: Service, kind: GeminiFamily, *, hosted: bool) -> None:
        self._request = request
        self._issuer = service.issuer
        self._kind = kind
        self._hosted = hosted
        self._call_ids = CallIds(GEMINI)
        self._done: list[Body] = []
        self._step: _Step | None = None
        self._signature: str | None = None
        """Of the call that comes next."""
        self._attached: list[Body] = []
        """Files of the user's message that comes next."""
        self._there: dict[str, Body] = {}
        """What a result of a call that goes back as it came is told with, by the id of the call."""
        self._outputs: dict[str, deque[FunctionCallOutput | CustomToolCallOutput]] = {}
        for item in request.items:
            if isinstance(item, FunctionCallOutput | CustomToolCallOutput):
                self._outputs.setdefault(item.call_id, deque()).append(item)

    def all(self) -> list[Body]:
        for item in self._request.items:
            match item:
                case Message(role="user"):
                    self._close()
                    self._say("user", [*self._files(), *self._attached, *_parts(item.content)])
                    self._attached = []
                case AttachedFiles():
                    self._attached += [_write_file(file) for file in item.files]
                case Verbatim():
                    self._verbatim(item)
                case Message(role="assistant"):
                    self._add_message(item)
                case FunctionCall():
                    self._add_call_and_result(item, _object(item.arguments))
                case CustomToolCall():
                    self._add_call_and_result(item, {"input": item.input})
                case CodeInterpreterCall() if self._hosted:
                    self._ran_there(item)
                case CodeInterpreterCall():
                    self._ran_here(item)
                case FunctionCallOutput() if item.call_id in self._there:
                    response = {**self._there[item.call_id], "response": self._write_result(item.call_id, item.output)}
                    self._say("user", [{"functionResponse": response}])
                case FunctionCallOutput() | CustomToolCallOutput():
                    if self._step is not None:
                        self._step.open = False
                case Reasoning():
                    self._add_thought(item)
                case Compaction() | ItemReference():
                    raise refuse_item(self._request.model, item)
                case _:  # an order, which stands elsewhere; a hosted tool's doings; a mark for us
                    pass
        self._close()
        if not self._done or self._done[0]["role"] == "model":  # a conversation begins with the user
            self._done.insert(0, {"role": "user", "parts": [{"text": ""}]})
        return self._done

    def _verbatim(self, item: Verbatim) -> None:
        """As it came; a call keeps the id that Gemini gave it, or none."""
        self._close()
        if item.vendor != self._issuer or not item.blocks:
            return
        self._done.append({"role": "model", "parts": list(item.blocks)})
        calls = [part["functionCall"] for part in item.blocks if "functionCall" in part]
        for id, call in zip(item.calls, calls, strict=False):
            self._there[id] = {name: call[name] for name in ("id", "name") if name in call}

    def _write_result(self, call_id: str, output: str | Iterable[Part]) -> Body:
        told, _ = _split_output(output)
        return {"error" if call_id in self._request.failed_calls else "output": told}

    def _files(self) -> Iterator[Body]:
        """For code that Gemini runs: before the user's first words, as every request is a sandbox of its own."""
        if not self._done:
            for file in self._request.files:
                kind = file.type or _UNKNOWN_TYPE
                yield {"text": f"[The file {file.name!r}:]"}
                if file.data is None:
                    yield {"fileData": {"mimeType": kind, "fileUri": file.id}}
                else:
                    yield {"inlineData": {"mimeType": kind, "data": base64.b64encode(file.data).decode()}}

    def _say(self, role: str, parts: list[Body]) -> None:
        """One role after the other; but results stay by themselves, as what is said beside them counts as theirs."""
        if not parts:
            return
        last = self._done[-1] if self._done else None
        if last is not None and last["role"] == role and _answers(last["parts"]) == _answers(parts):
            last["parts"] += parts
        else:
            self._done.append({"role": role, "parts": parts})

    def _add_message(self, item: Message) -> None:
        step = self._open_step()
        step.parts += _parts(item.content)
        signed = unpack_signature(self._issuer, item.sealed)
        if signed is not None:
            step.parts.append({"text": "", "thoughtSignature": signed.signature})

    def _open_step(self) -> _Step:
        """What is said after calls that have their results is another step."""
        step = self._step
        return self._new() if step is None or step.over else step

    def _new(self) -> _Step:
        self._close()
        self._step = _Step()
        return self._step

    def _add_thought(self, item: Reasoning) -> None:
        signed = unpack_signature(self._issuer, item.encrypted_content)
        if signed is None:
            return
        if signed.on == "thought":
            text = "".join(part.text for part in item.summary)
            self._open_step().parts.append({"text": text, "thought": True, "thoughtSignature": signed.signature})
        else:
            self._signature = signed.signature

    # -- calls

    def _add_call_and_result(self, item: FunctionCall | CustomToolCall, arguments: Body) -> None:
        id = self._call_ids.call(item.call_id)
        step = self._add_call(id, item.name, arguments)
        step.open, step.more, step.known = True, False, False
        outputs = self._outputs.get(item.call_id)
        output = outputs.popleft().output if outputs else ""
        told, images = _split_output(output)
        self._answer(step, id, item.name, told, images)

    def _ran_here(self, item: CodeInterpreterCall) -> None:
        id = self._call_ids.call(item.id)
        step = self._add_call(id, code_call.NAME, {"code": item.code or ""})
        step.more, step.known = code_call.has_more_calls(item), isinstance(item.belljar, CellEnd)
        images = [_media(url) for url in self._request.call_images.get(item.id, ())]
        self._answer(step, id, code_call.NAME, code_call.write_output(item, self._request), images)

    def _ran_there(self, item: CodeInterpreterCall) -> None:
        """As Gemini tells of code that it ran: code, outcome, and the images that came of it."""
        step = self._open_step()
        id = item.id.removeprefix("ci_")
        code: Body = {"executableCode": {"language": "PYTHON", "code": item.code or "", "id": id}}
        if self._signature:
            code["thoughtSignature"], self._signature = self._signature, None
        result = {"outcome": _outcome(item), "output": code_call.write_output(item, self._request), "id": id}
        images = [_media(output.url) for output in item.outputs or () if isinstance(output, Image)]
        step.parts += [code, {"codeExecutionResult": result}, *images]

    def _add_call(self, call_id: str, name: str, arguments: Body) -> _Step:
        """Calls that were made at once stay together: where nothing else tells, only the first of them is signed."""
        step, signature = self._step, self._signature
        if step is None or (step.over and (step.known or signature or not self._kind.signs)):
            step = self._new()
        part: Body = {"functionCall": {"id": call_id, "name": name, "args": arguments}}
        if signature is None and not step.calls and self._kind.signs:
            signature = SKIPPED
        if signature:
            part["thoughtSignature"] = signature
        self._signature = None
        step.calls += 1
        step.parts.append(part)
        return step

    def _answer(self, step: _Step, call_id: str, name: str, told: str, images: list[Body]) -> None:
        response: Body = {"id": call_id, "name": name, "response": {"output": told}}
        if images and self._kind.combines:
            response["parts"] = images
        else:
            step.shown += images
        step.results.append({"functionResponse": response})

    def _close(self) -> None:
        step, self._step = self._step, None
        if step is None:
            return
        self._say("model", step.parts)
        self._say("user", step.results)
        self._say("user", step.shown)


def _answers(parts: list[Body]) -> bool:
    return "functionResponse" in parts[0]


def _object(arguments: str) -> Body:
    try:
        found = codec.decode(arguments or "{}")
    except msgspec.DecodeError:
        found = arguments
    return found if isinstance(found, dict) else {"arguments": found}


def _outcome(item: CodeInterpreterCall) -> str:
    if item.status == "failed":
        return "OUTCOME_DEADLINE_EXCEEDED"
    raised = isinstance(item.belljar, CellEnd) and item.belljar.exit == "raised"
    return "OUTCOME_FAILED" if raised else "OUTCOME_OK"


def _split_output(output: str | Iterable[Part]) -> tuple[str, list[Body]]:
    """A function's result: its text, and what there is to see."""
    if isinstance(output, str):
        return output, []
    parts = list(_parts(output))
    return "\n".join(part["text"] for part in parts if "text" in part), [part for part in parts if "text" not in part]


# -- parts ------------------------------------------------------------------------------------------------------------


def _parts(content: str | Iterable[Part]) -> Iterator[Body]:
    if isinstance(content, str):
        if content:
            yield {"text": content}
        return
    for part in content:
        match part:
            case InputText(text=text) | OutputText(text=text) | Refusal(refusal=text):
                if text:
                    yield {"text": text}
            case InputImage(image_url=str(url)):
                yield _media(url)
            case InputImage(file_id=str(name)):
                yield {"text": f"[attached image: {name}]"}
            case InputFile(file_data=str(data)) if _DATA_URL.match(data):
                yield _media(data)
            case InputFile(file_url=str(url)):
                yield _media(url)
            case InputFile(filename=str(name)) | InputFile(file_id=str(name)):
                yield {"text": f"[attached file: {name}]"}
            case InputAudio(input_audio={"data": str(data), "format": str(kind)}):
                yield {"inlineData": {"mimeType": f"audio/{kind}", "data": data}}
            case _:
                pass


def _write_file(file: VendorFile) -> Body:
    """A file that Google has, by its address."""
    return {"fileData": {"fileUri": file.id, "mimeType": file.type or type_of(file.name)}}


def _media(url: str) -> Body:
    """By value, or by an address that Google fetches."""
    found = _DATA_URL.match(url)
    if found is not None:
        return {"inlineData": {"mimeType": found[1] or _UNKNOWN_TYPE, "data": url[found.end() :]}}
    return {"fileData": {"fileUri": url, "mimeType": type_of(urlsplit(url).path)}}
