"""Models on one's own machine, by chat completions: LM Studio, Ollama, vLLM."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from belljar.config import ApiSettings
from belljar.errors import InvalidRequest
from belljar.providers import openai_errors
from belljar.providers.base import BaseClient
from belljar.providers.context_manager import Message
from belljar.providers.failures import ClientError, translate_errors, translate_stream_errors
from belljar.providers.responses_client import openai_sdk
from belljar.providers.tool_converters import (
    Tool,
    ToolObject,
    build_openai_tool_results,
    convert_tools_for_openai,
    tool_call,
)
from belljar.providers.types import FINISHES, Answer, Turn
from belljar.providers.uploads import FileReference
from belljar.vendors.chat import dialect as chat
from belljar.vendors.deltas import Delta, Refused, Text
from belljar.vendors.fold import Folded, fold
from belljar.vendors.registry import PROFILES
from belljar.vendors.request import ModelRequest
from belljar.wire import items
from belljar.wire.items import InputItem
from belljar.wire.responses import Reasoner
from belljar.wire.tools import FunctionTool

if TYPE_CHECKING:
    import openai

_ELSEWHERE = "start `belljar serve` in front of it and use the provider belljar, which runs code and takes files"


class LMStudioError(ClientError):
    """A local model server failed, or found fault."""

    vendor = "the model server"
    key = "its API key"


class ChatClient(BaseClient):
    """A conversation that is sent whole each time. Answers are always streamed: a slow model shows that it lives."""

    error: ClassVar[type[ClientError]] = LMStudioError
    budget = 32_000

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[Tool | ToolObject] = (),
        system: str = "",
        client: openai.OpenAI | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: ApiSettings | None = None,
    ) -> None:
        settings = settings or ApiSettings.load()
        super().__init__(model=model, tools=tools, system=system, settings=settings)
        self.client = client or openai_sdk(self.provider, self.error, settings, api_key, base_url)
        self._close_sdk = self.client.close if client is None else None
        self._quirks = PROFILES[self.provider]

    def get_model(self) -> str:
        """Where none was named, the first that the server has."""
        if not self._model:
            with translate_errors(self._failure):
                listed = self.client.models.list().data
            if not listed:
                raise self.error.of("INVALID_MODEL", "it has no model loaded")
            self._model = listed[0].id
        return self._model

    def _takes_effort(self) -> bool:
        return "reasoning_effort" in self._quirks.members

    def _upload(self, path: Path) -> FileReference:
        raise InvalidRequest(f"files: {self.provider} takes no files; {_ELSEWHERE}", param="files")

    def _ask(self, turn: Turn) -> Answer:
        if turn.code_execution:
            raise InvalidRequest(f"code_execution: {self.provider} runs no code; {_ELSEWHERE}", param="code_execution")
        effort = self._effort()
        request = ModelRequest(
            model=self.get_model(),
            items=tuple(_items(turn.messages)),
            instructions=turn.system or None,
            tools=tuple(
                msgspec.convert(tool, FunctionTool)
                for tool in convert_tools_for_openai(turn.tools, strict=self._quirks.strict)
            ),
            parallel_tool_calls=self.parallel_tool_calls,
            max_output_tokens=self.max_tokens,
            reasoning=Reasoner(effort=effort) if effort else None,
        )
        body = msgspec.json.decode(chat.encode(request, self._quirks))
        heard: list[Delta] = []
        with closing(self._streamed(request, body)) as deltas:
            for delta in deltas:
                heard.append(delta)
                if turn.on_text is not None and isinstance(delta, Text | Refused):
                    turn.on_text(delta.text)
        return _answer(fold(heard), turn.tools)

    def _streamed(self, request: ModelRequest, body: dict[str, Any]) -> Generator[Delta, None, None]:
        """The SDK asks; the dialect reads, since what local servers send fits the SDK's types only nearly."""
        decoder = chat.decoder(request, self._quirks, self.error.vendor)
        with translate_errors(self._failure):
            asked = self.client.chat.completions.with_streaming_response.create(**cast(Any, body))
            response = asked.__enter__()
        try:
            for data in translate_stream_errors(response.iter_bytes(), self._failure):
                with translate_errors(self._failure):
                    deltas = decoder.feed(data)
                yield from deltas
            with translate_errors(self._failure):
                deltas = decoder.close()
            yield from deltas
        finally:
            response.close()

    def _failure(self, error: BaseException) -> ClientError:
        return openai_errors.failure(error, self.error)


class LMStudioClient(ChatClient):
    """Models in LM Studio."""

    provider = "lm_studio"


class OllamaClient(ChatClient):
    """Models in Ollama."""

    provider = "ollama"


class VLLMClient(ChatClient):
    """Models in vLLM."""

    provider = "vllm"


def _items(messages: Iterable[Message]) -> Iterator[InputItem]:
    for message in messages:
        match message["role"]:
            case "tool":
                for result in build_openai_tool_results(message["tool_results"]):
                    yield items.FunctionCallOutput(call_id=result["call_id"], output=result["output"])
            case "assistant":
                yield from message.get("native") or ()
                if message["content"]:
                    yield items.Message(role="assistant", content=message["content"])
                for call in message.get("tool_calls", ()):
                    arguments = json.dumps(call["input"], ensure_ascii=False)
                    yield items.FunctionCall(call_id=call["id"], name=call["name"], arguments=arguments)
            case role:
                yield items.Message(role=role, content=message["content"])


def _answer(folded: Folded, tools: Sequence[Tool]) -> Answer:
    return Answer(
        text=folded.text,
        tool_calls=[tool_call(call.id, call.name, call.arguments, tools) for call in folded.calls],
        finish=FINISHES[folded.finish],
        usage=folded.usage,
        native=folded.thoughts,
    )
