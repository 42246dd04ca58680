"""Prompts evaluated by OpenAI's Responses API, or by whoever speaks it, such as `belljar serve`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from belljar.adapters.base import MAX_TURNS, ProviderAdapter
from belljar.adapters.openai.compaction import CompactionManager
from belljar.adapters.openai.config import CompactionConfig, OpenAIHostedToolsConfig
from belljar.adapters.openai.conversation import OpenAIConversation
from belljar.adapters.openai.settings import OpenAIClientConfig, OpenAIModelConfig
from belljar.adapters.sdk import Hearing, blocking_twin, check_clients, options
from belljar.adapters.steps import Ask, Heard
from belljar.adapters.validation import check_kind
from belljar.adapters.workspace_section import Roots
from belljar.models import find, nearest_effort, supports_verbosity
from belljar.prompt.prompt import Prompt, RenderedPrompt
from belljar.prompt.structured import text_format
from belljar.providers import handle_openai_error, vendor_settings
from belljar.providers.failures import translate_async_stream_errors, translate_errors
from belljar.providers.responses_client import answering
from belljar.providers.sdk_body import RESPONSES, split_body
from belljar.runtime import Deadline, SessionProtocol, ThrottlePolicy
from belljar.tools.tool_choice import ToolChoice

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

_log = logging.getLogger(__name__)


class OpenAIAdapter(ProviderAdapter):
    """With hosted tools, workspaces in containers and compaction.

    >>> adapter = OpenAIAdapter(                                                  # doctest: +SKIP
    ...     model="gpt-5.2-codex",
    ...     hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True),
    ...     compaction=CompactionConfig(threshold_tokens=100_000),
    ... )
    """

    provider = "openai"

    def __init__(
        self,
        *,
        model: str,
        model_config: OpenAIModelConfig | None = None,
        client_config: OpenAIClientConfig | None = None,
        client: OpenAI | None = None,
        hosted_tools: OpenAIHostedToolsConfig | None = None,
        compaction: CompactionConfig | None = None,
        tool_choice: ToolChoice = "auto",
        throttle: ThrottlePolicy | None = None,
        async_client: AsyncOpenAI | None = None,
        allowed_host_roots: Roots = (),
        max_turns: int = MAX_TURNS,
    ) -> None:
        """`client` and `client_config` exclude each other; without both, and without `async_client`, the environment
        and the settings tell how OpenAI is reached.

        `evaluate_async` asks by `async_client`, and without one by the client in a thread. Containers and compaction
        go by a blocking client always: without one, by one that is made of `async_client`. `allowed_host_roots` is
        where the `host_mounts` of a code interpreter may come from; without any, each is its own root.
        """
        super().__init__(model=model, tool_choice=tool_choice, throttle=throttle, max_turns=max_turns)
        check_kind("OpenAIAdapter.model_config", model_config, OpenAIModelConfig)
        check_kind("OpenAIAdapter.client_config", client_config, OpenAIClientConfig)
        check_kind("OpenAIAdapter.hosted_tools", hosted_tools, OpenAIHostedToolsConfig)
        check_kind("OpenAIAdapter.compaction", compaction, CompactionConfig)
        check_clients("OpenAIAdapter", client, async_client, "OpenAI", "AsyncOpenAI")
        if client is not None and client_config is not None:
            raise ValueError("OpenAIAdapter: client and client_config exclude each other; pass one of them")
        self.hosted_tools = hosted_tools
        self.compaction = compaction
        self.model_config = _without_retention(model_config or OpenAIModelConfig(), compaction)
        self._client = client
        self._client_config = client_config
        self._async_client = async_client
        self._roots = allowed_host_roots
        self._lock = Lock()
        _warn_of_settings(model, self.model_config)

    @property
    def client(self) -> OpenAI:
        """Made when it is first needed."""
        with self._lock:
            if self._client is None:
                if self._async_client is not None and self._client_config is None:
                    kind = vendor_settings.sdk("openai").OpenAI
                    where = "OpenAIAdapter.client"
                    self._client = blocking_twin(self._async_client, kind, where, "organization", "project")
                else:
                    self._client = (self._client_config or OpenAIClientConfig()).client()
            return self._client

    def _converse(
        self,
        prompt: Prompt[Any],
        rendered: RenderedPrompt[Any],
        session: SessionProtocol,
        deadline: Deadline | None,
    ) -> OpenAIConversation:
        compaction = None
        if self.compaction is not None:
            once = self.client.with_options(max_retries=0)
            compaction = CompactionManager(once, self.compaction, session, model=self.model)
        return OpenAIConversation(
            client=lambda: self.client,
            model=self.model,
            config=self.model_config,
            hosted=self.hosted_tools,
            compaction=compaction,
            choice=self._choice(prompt),
            rendered=rendered,
            format=text_format(rendered, prompt.name or f"{prompt.ns}-{prompt.key}"),
            allowed_host_roots=self._roots,
            deadline=deadline,
        )

    def _ask(self, ask: Ask) -> Heard:
        client = self.client.with_options(**options(self.client.timeout, ask.deadline))
        return Hearing(ask, handle_openai_error, "output").hear(answering(client, ask.body, handle_openai_error))

    async def _ask_async(self, ask: Ask) -> Heard:
        if self._async_client is None:
            return await asyncio.to_thread(self._ask, ask)
        client = self._async_client.with_options(**options(self._async_client.timeout, ask.deadline))
        return await Hearing(ask, handle_openai_error, "output").hear_async(_answering(client, ask.body))


@asynccontextmanager
async def _answering(client: AsyncOpenAI, body: bytes) -> AsyncIterator[tuple[AsyncIterator[bytes], str | None]]:
    """What `answering` is, in asyncio."""
    async with AsyncExitStack() as stack:
        with translate_errors(handle_openai_error):
            create = client.responses.with_streaming_response.create
            response = await stack.enter_async_context(create(**split_body(body, RESPONSES)))
        pieces = translate_async_stream_errors(response.iter_bytes(), handle_openai_error)
        yield pieces, response.headers.get("x-request-id")


def _heeds_verbosity(model: str) -> bool:
    """A model that is not in the table is taken at the caller's word."""
    return find(model) is None or supports_verbosity(model)


def _warn_of_settings(model: str, config: OpenAIModelConfig) -> None:
    effort = config.reasoning_effort
    nearest = None if effort is None else nearest_effort(model, effort)
    if effort is not None and nearest is None:
        _log.warning("%s takes no reasoning effort: it is left out", model)
    elif effort != nearest:
        _log.warning("%s takes no reasoning effort %s: it is asked for %s", model, effort, nearest)
    if config.verbosity is not None and not _heeds_verbosity(model):
        _log.warning("%s takes no verbosity: it is left out", model)


def _without_retention(config: OpenAIModelConfig, compaction: CompactionConfig | None) -> OpenAIModelConfig:
    """With zero data retention, no request lets the server keep anything."""
    if compaction is None or not compaction.zdr_mode:
        return config
    if config.store:
        raise ValueError("OpenAIModelConfig.store: is true, and CompactionConfig.zdr_mode forbids it; set one of them")
    return replace(config, store=False)
