"""Prompts evaluated by Claude, over Anthropic's Messages API."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Any

from belljar.adapters.base import MAX_TURNS, ProviderAdapter
from belljar.adapters.claude_agent_sdk import requests
from belljar.adapters.claude_agent_sdk.conversation import ClaudeConversation
from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKClientConfig, ClaudeAgentSDKModelConfig
from belljar.adapters.sdk import blocking_twin, check_clients, friendly_stream, options
from belljar.adapters.steps import Ask, Heard
from belljar.adapters.validation import check_kind
from belljar.prompt.prompt import Prompt, RenderedPrompt
from belljar.prompt.structured import text_format
from belljar.providers import vendor_settings
from belljar.providers.anthropic_client import LONGEST_WHOLE, handle_anthropic_error
from belljar.providers.failures import translate_errors, translate_stream_errors
from belljar.providers.vendor_settings import VENDORS
from belljar.runtime import Deadline, SessionProtocol, ThrottlePolicy
from belljar.tools.tool_choice import ToolChoice

if TYPE_CHECKING:
    from anthropic import Anthropic, AsyncAnthropic


class ClaudeAgentSDKAdapter(ProviderAdapter):
    """The same evaluations as OpenAIAdapter's, with Claude behind them; its tools are those of the prompt."""

    provider = "anthropic"

    def __init__(
        self,
        *,
        model: str = VENDORS["anthropic"].model,
        model_config: ClaudeAgentSDKModelConfig | None = None,
        client_config: ClaudeAgentSDKClientConfig | None = None,
        client: Anthropic | None = None,
        code_execution: bool = False,
        tool_choice: ToolChoice = "auto",
        throttle: ThrottlePolicy | None = None,
        async_client: AsyncAnthropic | None = None,
        max_turns: int = MAX_TURNS,
    ) -> None:
        """With `code_execution` Anthropic runs the code that Claude writes, in a sandbox of its own.

        `evaluate_async` asks by `async_client`, and without one by the client in a thread; `evaluate` without a client
        by one that is made of `async_client`.
        """
        super().__init__(model=model, tool_choice=tool_choice, throttle=throttle, max_turns=max_turns)
        check_kind("ClaudeAgentSDKAdapter.model_config", model_config, ClaudeAgentSDKModelConfig)
        check_kind("ClaudeAgentSDKAdapter.client_config", client_config, ClaudeAgentSDKClientConfig)
        check_clients("ClaudeAgentSDKAdapter", client, async_client, "Anthropic", "AsyncAnthropic")
        if client is not None and client_config is not None:
            raise ValueError("ClaudeAgentSDKAdapter: client and client_config exclude each other; pass one of them")
        self.model_config = model_config or ClaudeAgentSDKModelConfig()
        self.code_execution = code_execution
        self._client = client
        self._client_config = client_config
        self._async_client = async_client
        self._lock = Lock()

    @property
    def client(self) -> Anthropic:
        """Made when it is first needed."""
        with self._lock:
            if self._client is None:
                if self._async_client is not None and self._client_config is None:
                    kind = vendor_settings.sdk("anthropic").Anthropic
                    self._client = blocking_twin(self._async_client, kind, "ClaudeAgentSDKAdapter.client")
                else:
                    self._client = (self._client_config or ClaudeAgentSDKClientConfig()).client()
            return self._client

    def _converse(
        self,
        prompt: Prompt[Any],
        rendered: RenderedPrompt[Any],
        session: SessionProtocol,
        deadline: Deadline | None,
    ) -> ClaudeConversation:
        return ClaudeConversation(
            model=self.model,
            config=self.model_config,
            hosted=[requests.code_execution(self.model)] if self.code_execution else [],
            choice=self._choice(prompt),
            rendered=rendered,
            format=text_format(rendered, prompt.name or f"{prompt.ns}-{prompt.key}"),
        )

    def _ask(self, ask: Ask) -> Heard:
        messages = self.client.with_options(**options(self.client.timeout, ask.deadline)).messages
        if ask.on_text is None and ask.body["max_tokens"] <= LONGEST_WHOLE:
            with translate_errors(handle_anthropic_error):
                message = messages.create(**ask.body)
                return _heard(message, message._request_id)
        with translate_errors(handle_anthropic_error):
            stream = messages.stream(**ask.body).__enter__()
        try:
            for text in translate_stream_errors(stream.text_stream, handle_anthropic_error):
                _hear(ask, text)
            with translate_errors(handle_anthropic_error):
                return _heard(stream.get_final_message(), stream.request_id)
        finally:
            stream.close()

    async def _ask_async(self, ask: Ask) -> Heard:
        if self._async_client is None:
            return await asyncio.to_thread(self._ask, ask)
        messages = self._async_client.with_options(**options(self._async_client.timeout, ask.deadline)).messages
        if ask.on_text is None and ask.body["max_tokens"] <= LONGEST_WHOLE:
            with translate_errors(handle_anthropic_error):
                message = await messages.create(**ask.body)
                return _heard(message, message._request_id)
        with translate_errors(handle_anthropic_error):
            stream = await messages.stream(**ask.body).__aenter__()
        try:
            async for text in friendly_stream(stream.text_stream, handle_anthropic_error):
                _hear(ask, text)
            with translate_errors(handle_anthropic_error):
                return _heard(await stream.get_final_message(), stream.request_id)
        finally:
            await stream.close()


def _hear(ask: Ask, text: str) -> None:
    if ask.deadline is not None:
        ask.deadline.check()
    if ask.on_text is not None:
        ask.on_text(text)


def _heard(message: Any, request_id: str | None) -> Heard:
    return Heard(message.to_dict(mode="json", warnings=False), request_id)
