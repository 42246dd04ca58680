"""One evaluation with Anthropic: its history, its container, what it sends next, and what it is answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKModelConfig
from belljar.adapters.steps import Body, Heard
from belljar.adapters.turns import (
    CalledTool,
    Hosted,
    HostedCall,
    TurnAnswer,
    count_tokens,
    read_call,
    wire_choice,
    write_results,
)
from belljar.errors import ProviderError
from belljar.prompt.prompt import RenderedPrompt
from belljar.providers import AnthropicError
from belljar.providers.code_execution import execution_of
from belljar.tools import CodeInterpreterOutput, ProviderTool, ToolContext, ToolResult
from belljar.tools.tool_choice import Chosen, check_choice, release_choice
from belljar.vendors.anthropic.dialect import AnthropicDialect
from belljar.vendors.anthropic.messages import VENDOR
from belljar.vendors.anthropic.request import HOSTED, code_tool
from belljar.vendors.anthropic.sandbox import use_id_of
from belljar.vendors.anthropic.wire_version import CURRENT
from belljar.vendors.deltas import Decoder, Finish, HostedEnd
from belljar.vendors.fold import Folded, fold
from belljar.vendors.request import Asked, ModelRequest, VendorTool, Verbatim
from belljar.wire.items import Message
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import FunctionTool

_DIALECT = AnthropicDialect(server=AnthropicError.vendor)


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
        functions = [tool.definition for tool in rendered.tools if not isinstance(tool, ProviderTool)]
        check_choice(choice, [tool["name"] for tool in functions], [tool.type for tool in self.hosted])
        self._functions = tuple(_function(tool) for tool in functions)
        self._text = TextConfig() if format is None else TextConfig(format=msgspec.convert(format, TextFormat))
        self._items: list[Asked] = [Message(role="user", content=rendered.text)]
        self._failed: set[str] = set()
        self._container: str | None = None

    def prepare(self) -> None:
        """Nothing: Anthropic makes containers as they are needed."""

    def request(self) -> bytes:
        return _DIALECT.encode(self._turn())

    def decoder(self) -> Decoder:
        return _DIALECT.decoder(self._turn(), keep=True)

    def _turn(self) -> ModelRequest:
        config = self._config
        hosted = (
            VendorTool(VENDOR, {"name": tool.name, **tool.wire()}, container=self._container) for tool in self.hosted
        )
        return ModelRequest(
            model=self._model,
            items=tuple(self._items),
            tools=(*hosted, *self._functions),
            tool_choice=wire_choice(self._choice),
            max_output_tokens=config.max_tokens,
            text=self._text,
            reasoning=Reasoner(effort=config.reasoning_effort) if config.reasoning_effort else None,
            safety_identifier=config.safety_identifier,
            failed_calls=frozenset(self._failed),
        )

    def hear(self, heard: Heard) -> TurnAnswer:
        folded = fold(heard.deltas)
        if folded.container is not None:
            self._container = folded.container.container_id
        if heard.verbatim is not None:
            self._items.append(heard.verbatim)
        answer = _answer(folded, heard, self._container)
        if answer.calls or answer.hosted:
            self._choice = release_choice(self._choice)
        return answer

    def tell(self, results: Sequence[tuple[CalledTool, ToolResult[Any]]]) -> None:
        outputs, failed = write_results(results)
        self._items += outputs
        self._failed |= failed

    def postponed_act(self) -> None:
        """Nothing: a conversation is as long as it is."""

    def settling(self, answer: TurnAnswer) -> None:
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


# -- asked ------------------------------------------------------------------------------------------------------------


def code_execution(model: str) -> Hosted:
    """Anthropic's own code interpreter, whose calls are told as those of OpenAI's are."""
    return ProviderTool[None, CodeInterpreterOutput, Mapping[str, Any]](
        name=HOSTED,
        description="Runs code that the model writes, in a sandbox of Anthropic's.",
        provider=VENDOR,
        config=code_tool(CURRENT, model),
        handle_provider_output=_pass_result,
    )


def _pass_result(result: CodeInterpreterOutput, context: ToolContext) -> ToolResult[CodeInterpreterOutput]:
    return ToolResult(result.output_text, result, result.success)


def _function(tool: Mapping[str, Any]) -> FunctionTool:
    return FunctionTool(
        name=tool["name"], description=tool["description"], parameters=tool["input_schema"], strict=False
    )


# -- answered ---------------------------------------------------------------------------------------------------------


def _answer(folded: Folded, heard: Heard, container: str | None) -> TurnAnswer:
    return TurnAnswer(
        text=folded.text,
        last=folded.last_text,
        refusal=folded.refusal,
        calls=[read_call(one) for one in folded.calls],
        hosted=[_hosted_call(cell, container) for cell in folded.cells],
        annotations=_citations(heard.verbatim),
        usage=count_tokens(folded.usage),
        finish=_finish(folded, heard),
        id=folded.id,
    )


def _finish(folded: Folded, heard: Heard) -> Literal["stop", "length", "filtered", "paused"]:
    if not any(isinstance(delta, Finish) for delta in heard.deltas):
        return "paused"
    return "stop" if folded.finish == "calls" else folded.finish


def _hosted_call(cell: HostedEnd, container: str | None) -> HostedCall:
    """The members of a CodeInterpreterOutput. A file goes by its id: its name would have to be asked for."""
    ran = execution_of(cell, ())
    payload = {
        "output_text": ran.output,
        "code": ran.code,
        "container_id": container,
        "status": "completed" if ran.exit is not None else "failed",
        "stdout": ran.stdout,
        "stderr": ran.stderr,
        "exit_code": ran.exit,
        "citations": [
            {"container_id": container or "", "file_id": file.id, "filename": file.id} for file in cell.files
        ],
        "success": ran.outcome == "OUTCOME_OK",
    }
    return HostedCall(use_id_of(cell.item.id), HOSTED, payload)


def _citations(verbatim: Verbatim | None) -> list[Mapping[str, Any]]:
    """As Anthropic writes them."""
    blocks = () if verbatim is None else verbatim.blocks
    return [one for block in blocks if block["type"] == "text" for one in block.get("citations") or ()]
