"""Chat completions in terms of responses: a body in, a request out; events in, chunks out. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct, structs

from belljar.errors import InvalidRequest
from belljar.wire import complaints, reading
from belljar.wire.codec import encode
from belljar.wire.events import (
    TERMINAL,
    AnnotationAdded,
    ArgumentsDelta,
    Created,
    CustomInputDelta,
    ErrorEvent,
    Event,
    Failed,
    ItemAdded,
    RefusalDelta,
    TextDelta,
)
from belljar.wire.items import CustomToolCall, FunctionCall, Json, Message, OutputText, Refusal
from belljar.wire.requests import CreateResponse
from belljar.wire.responses import Response, ResponseError, Usage

# -- the request ------------------------------------------------------------------------------------------------------

_SAME = {
    "metadata",
    "model",
    "parallel_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "stream",
    "temperature",
    "top_p",
    "user",
}
_TRANSLATED = {
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "reasoning_effort",
    "response_format",
    "stream_options",
    "tool_choice",
    "tools",
    "top_logprobs",
    "verbosity",
}
_WITHOUT_EFFECT = {"prediction", "seed", "store"}
_NEUTRAL: Mapping[str, tuple[Json, ...]] = {
    "audio": (),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "n": (1,),
    "presence_penalty": (0,),
    "stop": ([],),
}
"""What cannot be done through responses, and the values that ask for nothing."""


class Chat(Struct, frozen=True):
    request: CreateResponse
    usage: bool
    """The stream is to end with a chunk of its usage."""


def read(data: dict[str, Json]) -> Chat:
    """The request that a chat completion is; refusals name the caller's own parameters."""
    given = {name: value for name, value in data.items() if value is not None}
    for name, value in given.items():
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise complaints.unsupported(name, "Leave it out.")
        elif name not in _SAME | _TRANSLATED | _WITHOUT_EFFECT:
            raise complaints.unknown(name)
    return _Reader(given).read()


class _Reader:
    """Translates one body, and remembers where everything was so that a refusal can say so."""

    def __init__(self, given: dict[str, Json]) -> None:
        self._given = given
        self._places: dict[str, str] = {}
        """Path in the translation to path in the body."""
        self._custom: set[str] = set()
        """Ids of calls whose tool takes free text."""

    def read(self) -> Chat:
        given = self._given
        body: dict[str, Json] = {name: value for name, value in given.items() if name in _SAME}
        body |= {"store": False, "input": self._input()}
        for name in ("max_tokens", "max_completion_tokens"):
            if name in given:
                body["max_output_tokens"] = given[name]
                self._places["max_output_tokens"] = name
        if "reasoning_effort" in given:
            body["reasoning"] = {"effort": given["reasoning_effort"]}
            self._places["reasoning.effort"] = "reasoning_effort"
        if text := self._text():
            body["text"] = text
        if "tools" in given:
            body["tools"] = self._tools()
        if "tool_choice" in given:
            body["tool_choice"] = _choice(given["tool_choice"])
        if given.get("logprobs"):
            body["include"] = ["message.output_text.logprobs"]
            body["top_logprobs"] = given.get("top_logprobs", 0)
        try:
            request = reading.read_response(body)
        except InvalidRequest as error:
            raise self._ours(error) from None
        return Chat(request, self._wants_usage())

    def _wants_usage(self) -> bool:
        options = self._given.get("stream_options", {})
        if not isinstance(options, dict):
            raise complaints.wrong_type("stream_options", ["an object"], options)
        return bool(options.get("include_usage"))

    def _text(self) -> dict[str, Json]:
        text: dict[str, Json] = {}
        if "response_format" in self._given:
            form = _object(self._given["response_format"], "response_format")
            if form.get("type") == "json_schema":
                form = {**_object(form.get("json_schema"), "response_format.json_schema"), "type": "json_schema"}
            text["format"] = form
            self._places["text.format"] = "response_format.json_schema"
            self._places["text.format.type"] = "response_format.type"
        if "verbosity" in self._given:
            text["verbosity"] = self._given["verbosity"]
            self._places["text.verbosity"] = "verbosity"
        return text

    def _tools(self) -> list[Json]:
        tools = _list(self._given["tools"], "tools")
        for at, tool in enumerate(tools):
            if isinstance(tool, dict) and tool.get("type") in ("function", "custom"):
                self._places[f"tools[{at}]"] = f"tools[{at}].{tool['type']}"
                self._places[f"tools[{at}].type"] = f"tools[{at}].type"
        return [_flat(tool, f"tools[{at}]") for at, tool in enumerate(tools)]

    # -- messages -----------------------------------------------------------------------------------------------------

    def _input(self) -> list[Json]:
        if "messages" not in self._given:
            raise complaints.missing("messages")
        messages = _list(self._given["messages"], "messages")
        if not messages:
            raise complaints.too_short("messages", "array", 1)
        items: list[Json] = []
        for at, message in enumerate(messages):
            path = f"messages[{at}]"
            for item, place in self._items(_object(message, path), path):
                self._places[f"input[{len(items)}]"] = place
                items.append(item)
        return items

    def _items(self, message: dict[str, Json], path: str) -> list[tuple[Json, str]]:
        """What one message stands for, each with where it was."""
        role = message.get("role")
        if role is None:
            raise complaints.missing(f"{path}.role")
        if role == "tool":
            return [(self._output(message, path), path)]
        if role not in ("system", "developer", "user", "assistant"):
            raise complaints.not_one_of(f"{path}.role", str(role), ("system", "developer", "user", "assistant", "tool"))
        items: list[tuple[Json, str]] = []
        content = message.get("content")
        if role == "assistant" and message.get("refusal"):
            content = [{"type": "refusal", "refusal": message["refusal"]}]
        if content or role != "assistant":
            parts = _parts(content, f"{path}.content", answered=role == "assistant")
            items.append(({"type": "message", "role": role, "content": parts}, path))
        for at, call in enumerate(_list(message.get("tool_calls") or [], f"{path}.tool_calls")):
            place = f"{path}.tool_calls[{at}]"
            items.append((self._call(_object(call, place), place), place))
        return items

    def _call(self, call: dict[str, Json], path: str) -> Json:
        kind = call.get("type", "function")
        if kind not in ("function", "custom"):
            raise complaints.not_one_of(f"{path}.type", str(kind), ("function", "custom"))
        if "id" not in call:
            raise complaints.missing(f"{path}.id")
        called = _object(call.get(kind), f"{path}.{kind}")
        if kind == "custom":
            self._custom.add(str(call["id"]))
            return {"type": "custom_tool_call", "call_id": call["id"], **_only(called, "name", "input")}
        return {"type": "function_call", "call_id": call["id"], **_only(called, "name", "arguments")}

    def _output(self, message: dict[str, Json], path: str) -> Json:
        if "tool_call_id" not in message:
            raise complaints.missing(f"{path}.tool_call_id")
        kind = "custom_tool_call_output" if message["tool_call_id"] in self._custom else "function_call_output"
        output = _parts(message.get("content"), f"{path}.content", answered=False)
        return {"type": kind, "call_id": message["tool_call_id"], "output": output}

    def _ours(self, error: InvalidRequest) -> InvalidRequest:
        """The same complaint, with the name that the caller used."""
        param = error.param or ""
        for there in sorted(self._places, key=len, reverse=True):
            if param.startswith(there) and param[len(there) :][:1] in ("", ".", "["):
                here = self._places[there] + param[len(there) :]
                return InvalidRequest(str(error).replace(param, here), param=here, fault=error.fault)
        return error


def _parts(content: Json, path: str, *, answered: bool) -> Json:
    if content is None:
        raise complaints.missing(path)
    if isinstance(content, str):
        return content
    return [
        _part(_object(part, f"{path}[{at}]"), f"{path}[{at}]", answered) for at, part in enumerate(_list(content, path))
    ]


def _part(part: dict[str, Json], path: str, answered: bool) -> Json:
    match part.get("type"):
        case "text":
            return {"type": "output_text" if answered else "input_text", **_only(part, "text")}
        case "refusal":
            return {"type": "refusal", **_only(part, "refusal")}
        case "image_url":
            image = _object(part.get("image_url"), f"{path}.image_url")
            return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail", "auto")}
        case "file":
            return {
                "type": "input_file",
                **_only(_object(part.get("file"), f"{path}.file"), "file_id", "file_data", "filename"),
            }
        case "input_audio":
            return {"type": "input_audio", **_only(part, "input_audio")}
        case other:
            raise complaints.not_one_of(
                f"{path}.type", str(other), ("text", "image_url", "file", "input_audio", "refusal")
            )


def _flat(tool: Json, path: str) -> Json:
    """Chat completions put a tool's members under the name of its type; responses put them beside it."""
    if isinstance(tool, dict) and (kind := tool.get("type")) in ("function", "custom"):
        return {**_object(tool.get(kind), f"{path}.{kind}"), "type": kind}
    return tool


def _choice(choice: Json) -> Json:
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = _object(choice.get("allowed_tools"), "tool_choice.allowed_tools")
        tools = _list(allowed.get("tools"), "tool_choice.allowed_tools.tools")
        return {**allowed, "type": "allowed_tools", "tools": [_flat(tool, "tool_choice") for tool in tools]}
    return _flat(choice, "tool_choice")


def _only(value: dict[str, Json], *names: str) -> dict[str, Json]:
    return {name: value[name] for name in names if value.get(name) is not None}


def _object(value: Json, path: str) -> dict[str, Json]:
    if value is None:
        raise complaints.missing(path)
    if not isinstance(value, dict):
        raise complaints.wrong_type(path, ["an object"], value)
    return value


def _list(value: Json, path: str) -> list[Json]:
    if not isinstance(value, list):
        raise complaints.wrong_type(path, ["an array of objects"], value)
    return value


# -- the answer -------------------------------------------------------------------------------------------------------


def completion(response: Response) -> bytes:
    """A finished response as a chat completion."""
    messages = [item for item in response.output if isinstance(item, Message)]
    texts = [[part for part in item.content if isinstance(part, OutputText)] for item in messages]
    said = ["".join(part.text for part in parts) for parts in texts]
    refused = [part.refusal for item in messages for part in item.content if isinstance(part, Refusal)]
    calls = [_called(item) for item in response.output if isinstance(item, FunctionCall | CustomToolCall)]
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "\n\n".join(text for text in said if text) or (None if calls or refused else ""),
        "refusal": "".join(refused) or None,
        "annotations": [note for parts in texts for part in parts for note in part.annotations],
    }
    if calls:
        message["tool_calls"] = calls
    logprobs = [one for parts in texts for part in parts for one in part.logprobs]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs, "refusal": None} if logprobs else None,
        "finish_reason": _reason(response),
    }
    return encode(
        {
            "id": _id(response),
            "object": "chat.completion",
            "created": response.created_at,
            "model": response.model,
            "choices": [choice],
            "usage": _usage(response.usage),
            "service_tier": response.service_tier,
            "system_fingerprint": None,
        }
    )


def error_frame(type: str, code: str | None, message: str, param: str | None = None) -> bytes:
    """How a chat stream says that it broke."""
    return b"data: %b\n\n" % encode({"error": {"message": message, "type": type, "param": param, "code": code}})


class Chunks:
    """The stream of a chat completion: feed it events, it gives frames, or nothing for what chat has no words for."""

    _TAIL: ClassVar = b',"logprobs":null,"finish_reason":null}]'

    def __init__(self, *, usage: bool) -> None:
        self._wants_usage = usage
        self._head = b""
        self._end = b',"usage":null}\n\n' if usage else b"}\n\n"
        self._calls: dict[str, int] = {}
        self._message = ""
        """The message that said something last: a next one begins a new paragraph."""
        self._broken = False

    def feed(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._say(event)
            case Created():
                return self._open(event.response)
            case RefusalDelta():
                return self._delta(b'{"refusal":%b}' % encode(event.delta))
            case ItemAdded(item=FunctionCall() | CustomToolCall() as item):
                return self._call(item)
            case ArgumentsDelta():
                return self._more(event.item_id, {"function": {"arguments": event.delta}})
            case CustomInputDelta():
                return self._more(event.item_id, {"custom": {"input": event.delta}})
            case AnnotationAdded():
                return self._delta(encode({"annotations": [event.annotation]}))
            case ErrorEvent():
                self._broken = True
                return error_frame(event.error.type, event.error.code, event.error.message, event.error.param)
            case Failed():
                return b"" if self._broken else failure(event.response.error)
            case _ if isinstance(event, TERMINAL):
                return self._finish(event.response)
            case _:
                return b""

    def _open(self, response: Response) -> bytes:
        told = {
            "id": _id(response),
            "object": "chat.completion.chunk",
            "created": response.created_at,
            "model": response.model,
            "service_tier": response.service_tier,
            "system_fingerprint": None,
        }
        self._head = b'data: %b,"choices":[' % encode(told)[:-1]
        return self._delta(b'{"role":"assistant","content":"","refusal":null}')

    def _say(self, event: TextDelta) -> bytes:
        text = event.delta
        if event.item_id != self._message:
            text = f"\n\n{text}" if self._message else text
            self._message = event.item_id
        delta = b'{"content":%b}' % encode(text)
        if not event.logprobs:
            return self._delta(delta)
        logprobs = encode({"content": event.logprobs, "refusal": None})
        return b'%b{"index":0,"delta":%b,"logprobs":%b,"finish_reason":null}]%b' % (
            self._head,
            delta,
            logprobs,
            self._end,
        )

    def _call(self, item: FunctionCall | CustomToolCall) -> bytes:
        index = self._calls[str(item.id)] = len(self._calls)
        empty = structs.replace(item, **{"arguments" if isinstance(item, FunctionCall) else "input": ""})
        return self._delta(encode({"tool_calls": [{"index": index, **_called(empty)}]}))

    def _more(self, item_id: str, piece: dict[str, Any]) -> bytes:
        return self._delta(encode({"tool_calls": [{"index": self._calls[item_id], **piece}]}))

    def _finish(self, response: Response) -> bytes:
        frame = b'%b{"index":0,"delta":{},"logprobs":null,"finish_reason":"%b"}]%b' % (
            self._head,
            _reason(response).encode(),
            self._end,
        )
        if self._wants_usage:
            frame += b'%b],"usage":%b}\n\n' % (self._head, encode(_usage(response.usage)))
        return frame

    def _delta(self, delta: bytes) -> bytes:
        return b'%b{"index":0,"delta":%b%b%b' % (self._head, delta, self._TAIL, self._end)


def failure(error: ResponseError | None) -> bytes:
    return error_frame(
        "server_error", error.code if error else None, error.message if error else "The response failed."
    )


def _id(response: Response) -> str:
    return f"chatcmpl-{response.id.removeprefix('resp_')}"


def _called(item: FunctionCall | CustomToolCall) -> dict[str, Any]:
    if isinstance(item, FunctionCall):
        called = {"name": item.name, "arguments": item.arguments}
        return {"id": item.call_id, "type": "function", "function": called}
    return {"id": item.call_id, "type": "custom", "custom": {"name": item.name, "input": item.input}}


def _reason(response: Response) -> str:
    if response.incomplete_details is not None:
        return "content_filter" if response.incomplete_details.reason == "content_filter" else "length"
    called = any(isinstance(item, FunctionCall | CustomToolCall) for item in response.output)
    return "tool_calls" if called else "stop"


def _usage(usage: Usage | None) -> dict[str, Any]:
    usage = usage or Usage()
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.output_tokens_details.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
