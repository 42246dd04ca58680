"""One evaluation with OpenAI: its container, its history, and what it sends next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from belljar.adapters.openai.answer_items import list_annotations, list_hosted_calls, list_texts, locate_citations
from belljar.adapters.openai.compaction import CompactionManager
from belljar.adapters.openai.config import OpenAIHostedToolsConfig
from belljar.adapters.openai.container_lookup import check_reference
from belljar.adapters.openai.host_mounts import materialise
from belljar.adapters.openai.hosted_tools import CODE_INTERPRETER, declare_tool, list_hosted_tools
from belljar.adapters.openai.settings import OpenAIModelConfig
from belljar.adapters.openai.workspace import OpenAIContainerWorkspaceSection
from belljar.adapters.sdk import within
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
from belljar.adapters.workspace_section import Roots
from belljar.errors import PromptValidationError, ProviderError
from belljar.models import is_reasoning_model
from belljar.prompt.prompt import RenderedPrompt
from belljar.providers import OpenAIError
from belljar.providers.strict import Loose, strict
from belljar.providers.tool_converters import Tool, function_tools
from belljar.runtime import Deadline
from belljar.tools import AutoContainerConfig, ExistingContainerRef, OpenAICodeInterpreterTool, ProviderTool, ToolResult
from belljar.tools.tool_choice import Chosen, check_choice, release_choice
from belljar.vendors.deltas import Decoder
from belljar.vendors.fold import Folded, fold
from belljar.vendors.openai.dialect import OpenAIDialect
from belljar.vendors.openai.request import VENDOR
from belljar.vendors.request import Asked, ModelRequest, VendorTool, Verbatim
from belljar.wire.items import Message
from belljar.wire.responses import Reasoner, TextConfig, TextFormat

if TYPE_CHECKING:
    from openai import OpenAI

_DIALECT = OpenAIDialect(server=OpenAIError.vendor)


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
        self._text = _text_config(format, config)
        self._functions = [tool.definition for tool in rendered.tools if not isinstance(tool, ProviderTool)]
        self._function_tools = function_tools(self._functions, strict=True)
        self._items: list[Asked] = [Message(role="user", content=rendered.text)]
        self._failed: set[str] = set()
        self._workspace = _workspace(rendered)
        self.hosted: Sequence[Hosted] = list_hosted_tools(rendered, hosted)
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
        turn = self._turn()
        if self._compaction is not None:
            sealed = self._compaction.inject_encrypted_items(self._wire_items())
            turn = structs.replace(turn, items=(Verbatim(VENDOR, tuple(sealed)),))
        return _DIALECT.encode(turn)

    def decoder(self) -> Decoder:
        return _DIALECT.decoder(self._turn(), keep=True)

    def _turn(self) -> ModelRequest:
        """Whatever is not kept by the server must be sealed by it, so that it can be sent again."""
        config = self._config
        hosted = (VendorTool(VENDOR, declare_tool(tool, self._container)) for tool in self.hosted)
        return ModelRequest(
            model=self._model,
            items=tuple(self._items),
            tools=(*hosted, *self._function_tools),
            tool_choice=wire_choice(self._choice),
            parallel_tool_calls=config.parallel_tool_calls is not False,
            max_output_tokens=config.max_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            logprobs=bool(config.logprobs),
            top_logprobs=config.top_logprobs or 0,
            text=self._text,
            reasoning=Reasoner(effort=config.reasoning_effort) if config.reasoning_effort else None,
            encrypted_reasoning=config.store is False and is_reasoning_model(self._model),
            prompt_cache_key=config.prompt_cache_key,
            safety_identifier=config.safety_identifier,
            user=config.user,
            store=config.store,
            failed_calls=frozenset(self._failed),
        )

    def _wire_items(self) -> list[Body]:
        """The conversation as OpenAI has it, which is how compaction wants it."""
        items: list[Body] = msgspec.json.decode(_DIALECT.encode(self._turn()))["input"]
        return items

    def hear(self, heard: Heard) -> TurnAnswer:
        assert heard.verbatim is not None, "the decoder was told to keep it"
        self._items.append(heard.verbatim)
        answer = _answer(fold(heard.deltas), heard.verbatim, self._functions)
        self._ran_in = next((one.payload["container_id"] for one in answer.hosted if _ran(one)), self._ran_in)
        if answer.calls or answer.hosted:
            self._choice = release_choice(self._choice)
        return answer

    def tell(self, results: Sequence[tuple[CalledTool, ToolResult[Any]]]) -> None:
        outputs, failed = write_results(results)
        self._items += outputs
        self._failed |= failed

    def postponed_act(self) -> Callable[[], object] | None:
        if self._compaction is None or not self._compaction.owed.items:
            return None
        return partial(self._compaction.catch_up, deadline=self._deadline)

    def settling(self, answer: TurnAnswer) -> Callable[[], object] | None:
        compaction, tokens = self._compaction, answer.usage.total_tokens or 0
        if compaction is None or not compaction.should_compact(tokens):
            return None
        return partial(self._compact, compaction)

    def postpone(self) -> None:
        if self._compaction is not None:
            self._compaction.owe(self._wire_items())

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
        items = compaction.compact([*compaction.owed.items, *self._wire_items()], deadline=self._deadline)
        self._items = [Verbatim(VENDOR, tuple(items))]
        compaction.forget()


def build_text_format(format: Body) -> TextFormat:
    """The format of a typed answer, strict where its schema can be."""
    try:
        format = {**format, "schema": strict(format["schema"]), "strict": True}
    except Loose:
        format = {**format, "strict": False}
    return msgspec.convert(format, TextFormat)


def _text_config(format: Body | None, config: OpenAIModelConfig) -> TextConfig:
    form = TextFormat() if format is None else build_text_format(format)
    return TextConfig(format=form, verbosity=config.verbosity or "medium")


def _answer(folded: Folded, verbatim: Verbatim, functions: Sequence[Tool]) -> TurnAnswer:
    """`functions` are those that were offered: where a strict schema made the model say null, theirs is meant."""
    items = locate_citations(verbatim.blocks)
    texts = list_texts(items)
    return TurnAnswer(
        text="\n\n".join(filter(None, texts)),
        last=texts[-1] if texts else "",
        refusal=folded.refusal,
        calls=[read_call(one, functions) for one in folded.calls],
        hosted=list_hosted_calls(items),
        annotations=list_annotations(items),
        usage=count_tokens(folded.usage),
        finish="stop" if folded.finish == "calls" else folded.finish,
        id=folded.id,
    )


def _ran(call: HostedCall) -> bool:
    return call.type == CODE_INTERPRETER and bool(call.payload.get("container_id"))


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
