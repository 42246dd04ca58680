"""One evaluation with OpenAI: its container, its history, and what it sends next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from belljar.adapters.openai import requests
from belljar.adapters.openai.answers import read
from belljar.adapters.openai.compaction import CompactionManager
from belljar.adapters.openai.config import OpenAIHostedToolsConfig
from belljar.adapters.openai.container_lookup import check_reference
from belljar.adapters.openai.host_mounts import materialise
from belljar.adapters.openai.settings import OpenAIModelConfig
from belljar.adapters.openai.workspace import OpenAIContainerWorkspaceSection
from belljar.adapters.sdk import within
from belljar.adapters.steps import Body, Heard
from belljar.adapters.turns import Answer, Call, Hosted, HostedCall
from belljar.adapters.workspace_section import Roots
from belljar.errors import PromptValidationError, ProviderError
from belljar.prompt.prompt import RenderedPrompt
from belljar.runtime import Deadline
from belljar.tools import AutoContainerConfig, ExistingContainerRef, OpenAICodeInterpreterTool, ProviderTool, ToolResult
from belljar.tools.tool_choice import Chosen, check_choice, release_choice

if TYPE_CHECKING:
    from openai import OpenAI


class OpenAIConversation:
    def __init__(
        self,
        *,
        client: Callable[[], OpenAI],
        model: str,
        config: OpenAIModelConfig,
        hosted: OpenAIHostedToolsConfig | None,
        compaction: CompactionManager | None,
        choice: Chosen,
        rendered: RenderedPrompt[Any],
        format: Body | None,
        allowed_host_roots: Roots,
        deadline: Deadline | None,
    ) -> None:
        self._client = client
        self._deadline = deadline
        self._roots = allowed_host_roots
        self._model = model
        self._config = config
        self._compaction = compaction
        self._choice = choice
        self._format = format
        self._functions = [tool.definition for tool in rendered.tools if not isinstance(tool, ProviderTool)]
        self._input: list[Body] = [requests.message(rendered.text)]
        self._workspace = _workspace(rendered)
        self.hosted: Sequence[Hosted] = requests.hosted_tools(rendered, hosted)
        self._interpreter = next((tool for tool in self.hosted if isinstance(tool, OpenAICodeInterpreterTool)), None)
        self._container: str | None = None
        self._ran_in: str | None = None
        """Where code was last run: the server chooses, unless it is told the container."""
        self._memory: str | None = None
        if self._workspace is not None:
            _check_workspace(self._interpreter)
            self._workspace.bind(client())
        check_choice(choice, [one["name"] for one in self._functions], [tool.type for tool in self.hosted])

    def prepare(self) -> None:
        if self._workspace is not None:
            self._container = self._workspace.filesystem.ensure_container(deadline=self._deadline)
            self._memory = self._workspace.container_config.memory_limit
        elif self._interpreter is not None:
            container = self._interpreter.config
            self._memory = container.memory_limit
            if isinstance(container, ExistingContainerRef):
                client = within(self._client(), self._deadline)
                self._container, self._memory = container.id, check_reference(client, container)
            elif container.host_mounts:
                self._container = materialise(
                    self._client(), container, allowed_host_roots=self._roots, deadline=self._deadline
                )

    def request(self) -> bytes:
        compaction = self._compaction
        body = requests.request(
            self._model,
            self._input if compaction is None else compaction.inject_encrypted_items(self._input),
            config=self._config,
            tools=self._tools(),
            choice=self._choice,
            format=self._format,
        )
        return msgspec.json.encode(body)

    def decoder(self) -> None:
        """None: it reads answers whole."""

    def hear(self, heard: Heard) -> Answer:
        answer = read(heard.payload, self._functions)
        self._input += heard.payload["output"]
        self._ran_in = next((one.payload["container_id"] for one in answer.hosted if _ran(one)), self._ran_in)
        if answer.calls or answer.hosted:
            self._choice = release_choice(self._choice)
        return answer

    def tell(self, results: Sequence[tuple[Call, ToolResult[Any]]]) -> None:
        self._input += requests.results(results)

    def unsettled(self) -> Callable[[], object] | None:
        if self._compaction is None or not self._compaction.owed.items:
            return None
        return partial(self._compaction.catch_up, deadline=self._deadline)

    def settling(self, answer: Answer) -> Callable[[], object] | None:
        compaction, tokens = self._compaction, answer.usage.total_tokens or 0
        if compaction is None or not compaction.should_compact(tokens):
            return None
        return partial(self._compact, compaction)

    def postpone(self) -> None:
        if self._compaction is not None:
            self._compaction.owe(self._input)

    def forget(self) -> None:
        if self._compaction is not None:
            self._compaction.forget()

    def mend(self, error: ProviderError) -> bool:
        """A workspace's container that has expired meanwhile is made anew."""
        if self._workspace is None or "container" not in str(error).lower():
            return False
        before = self._container
        self._container = self._workspace.filesystem.ensure_container(deadline=self._deadline)
        return self._container != before

    def about(self) -> Mapping[str, object]:
        return {
            "model": self._model,
            "max_output_tokens": self._config.max_tokens,
            "container_id": self._ran_in or self._container,
            "memory_limit": self._memory,
        }

    def _compact(self, compaction: CompactionManager) -> None:
        """With what an earlier evaluation left, which came before."""
        self._input = compaction.compact([*compaction.owed.items, *self._input], deadline=self._deadline)
        compaction.forget()

    def _tools(self) -> list[Body]:
        return requests.wire_tools(self.hosted, self._functions, self._container)


def _ran(call: HostedCall) -> bool:
    return call.type == requests.CODE_INTERPRETER and bool(call.payload.get("container_id"))


def _workspace(rendered: RenderedPrompt[Any]) -> OpenAIContainerWorkspaceSection | None:
    found = [section for section in rendered.sections if isinstance(section, OpenAIContainerWorkspaceSection)]
    if len(found) > 1:
        raise PromptValidationError(f"sections {', '.join(one.key for one in found)}: code runs in one workspace only")
    return found[0] if found else None


def _check_workspace(interpreter: OpenAICodeInterpreterTool[Any] | None) -> None:
    if interpreter is None:
        raise PromptValidationError(
            "a workspace in a container needs the code interpreter; pass "
            "hosted_tools=OpenAIHostedToolsConfig(code_interpreter=True)"
        )
    if interpreter.config != AutoContainerConfig(memory_limit=interpreter.config.memory_limit or "1g"):
        raise PromptValidationError(
            f"tool {interpreter.name!r}: has a container or files of its own; beside a workspace use {{'type': 'auto'}}"
        )
