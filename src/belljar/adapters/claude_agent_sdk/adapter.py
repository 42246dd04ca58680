"""Prompts evaluated by Claude, over Anthropic's Messages API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

from belljar.adapters.base import MAX_TURNS, ProviderAdapter
from belljar.adapters.claude_agent_sdk.conversation import ClaudeConversation, code_execution
from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKClientConfig, ClaudeAgentSDKModelConfig
from belljar.adapters.sdk import Hearing, blocking_twin, check_clients, options
from belljar.adapters.steps import Ask, Heard
from belljar.adapters.validation import check_kind
from belljar.prompt.prompt import Prompt, RenderedPrompt
from belljar.prompt.structured import text_format
from belljar.providers import vendor_settings
from belljar.providers.anthropic_client import answering, as_event, handle_anthropic_error
from belljar.providers.failures import translate_async_stream_errors, translate_errors
from belljar.providers.sdk_body import MESSAGES, split_body
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
            hosted=[code_execution(self.model)] if self.code_execution else [],
            choice=self._choice(prompt),
            rendered=rendered,
            format=text_format(rendered, prompt.name or f"{prompt.ns}-{prompt.key}"),
        )

    def _ask(self, ask: Ask) -> Heard:
        client = self.client.with_options(**options(self.client.timeout, ask.deadline))
        return Hearing(ask, handle_anthropic_error, "content").hear(answering(client, ask.body))

    async def _ask_async(self, ask: Ask) -> Heard:
        if self._async_client is None:
            return await asyncio.to_thread(self._ask, ask)
        client = self._async_client.with_options(**options(self._async_client.timeout, ask.deadline))
        return await Hearing(ask, handle_anthropic_error, "content").hear_async(_answering(client, ask.body))


@asynccontextmanager
async def _answering(client: AsyncAnthropic, body: bytes) -> AsyncIterator[tuple[AsyncIterator[bytes], str | None]]:
    """What `answering` is, in asyncio."""
    given = split_body(body, MESSAGES)
    plain = isinstance(client, vendor_settings.sdk("anthropic").AsyncAnthropic)
    async with AsyncExitStack() as stack:
        with translate_errors(handle_anthropic_error):
            if plain:
                response = await stack.enter_async_context(client.messages.with_streaming_response.create(**given))
                pieces = response.iter_bytes()
            else:
                stream = await stack.enter_async_context(await client.messages.create(**given))
                response, pieces = stream.response, (as_event(event) async for event in stream)
        yield translate_async_stream_errors(pieces, handle_anthropic_error), response.headers.get("request-id")
