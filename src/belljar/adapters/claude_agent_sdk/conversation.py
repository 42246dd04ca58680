"""One evaluation with Anthropic: its history, its container, and what it sends next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from belljar.adapters.claude_agent_sdk import requests
from belljar.adapters.claude_agent_sdk.answers import read
from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKModelConfig
from belljar.adapters.steps import Body
from belljar.adapters.turns import Answer, Call, Hosted
from belljar.errors import ProviderError
from belljar.prompt.prompt import RenderedPrompt
from belljar.tools import ProviderTool, ToolResult
from belljar.tools.tool_choice import Chosen, check_choice, release_choice


class ClaudeConversation:
    def __init__(
        self,
        *,
        model: str,
        config: ClaudeAgentSDKModelConfig,
        hosted: Sequence[Hosted],
        choice: Chosen,
        rendered: RenderedPrompt[Any],
        format: Body | None,
    ) -> None:
        self._model = model
        self._config = config
        self._choice = choice
        own = [tool for tool in rendered.tools if isinstance(tool, ProviderTool)]
        self.hosted: Sequence[Hosted] = [*own, *(one for one in hosted if one.type not in {tool.type for tool in own})]
        functions = [tool for tool in rendered.tools if not isinstance(tool, ProviderTool)]
        self._tools = requests.wire_tools(functions, self.hosted)
        check_choice(choice, [tool.name for tool in functions], [tool.type for tool in self.hosted])
        words, self._form = requests.form(model, format)
        self._messages: list[Body] = [requests.message(rendered.text + words)]
        self._container: str | None = None

    def prepare(self) -> None:
        """Nothing: Anthropic makes containers as they are needed."""

    def request(self) -> Body:
        body: Body = {
            "model": self._model,
            "max_tokens": self._config.max_tokens,
            "messages": list(self._messages),
            **self._form,
        }
        choice = requests.wire_choice(self._choice) if self._tools else None
        if self._tools:
            body["tools"] = self._tools
            if choice is not None:
                body["tool_choice"] = choice
        requests.add_settings(body, self._config)
        if self._container is not None:
            body["container"] = self._container
        return body

    def hear(self, payload: Body) -> Answer:
        answer = read(payload)
        self._container = (payload.get("container") or {}).get("id") or self._container
        content = [block for block in payload["content"] if block.get("text") != ""]
        if self._messages[-1]["role"] == "assistant":  # it was paused, and goes on
            self._messages[-1] = {"role": "assistant", "content": [*self._messages[-1]["content"], *content]}
        else:
            self._messages.append({"role": "assistant", "content": content})
        if answer.calls or answer.hosted:
            self._choice = release_choice(self._choice)
        return answer

    def tell(self, results: Sequence[tuple[Call, ToolResult[Any]]]) -> None:
        if results:
            self._messages.append(requests.results(results))

    def unsettled(self) -> None:
        """Nothing: a conversation is as long as it is."""

    def settling(self, answer: Answer) -> None:
        """Nothing either."""

    def postpone(self) -> None:
        """Never: there is nothing to settle."""

    def forget(self) -> None:
        """Nor to forget."""

    def mend(self, error: ProviderError) -> bool:
        return False

    def about(self) -> Mapping[str, object]:
        return {
            "model": self._model,
            "max_output_tokens": self._config.max_tokens,
            "container_id": self._container,
        }
