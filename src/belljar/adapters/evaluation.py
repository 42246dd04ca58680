"""One evaluation: render, ask, run what is called, ask again, and read the answer. Written once, for every provider."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeAlias
from uuid import uuid4

from belljar.adapters.failures import phase
from belljar.adapters.retry import ask_turn, patiently, worth_another
from belljar.adapters.steps import Do, Heard, OnText, Steps
from belljar.adapters.turns import CalledTool, Hosted, HostedCall, ProviderConversation, TurnAnswer
from belljar.adapters.workspace_section import MountedSection
from belljar.errors import (
    CompactionError,
    DeadlineExceededError,
    Garbled,
    OutputFiltered,
    OutputParseError,
    PromptValidationError,
    TurnLimitExceededError,
)
from belljar.filesystem import Filesystem
from belljar.prompt.prompt import Prompt, PromptResponse, RenderedPrompt
from belljar.prompt.section import Section
from belljar.prompt.structured import parse_structured_output
from belljar.prompt.template import OutputT
from belljar.runtime import (
    BudgetTracker,
    CompactionFailed,
    Deadline,
    PromptExecuted,
    PromptRendered,
    SessionProtocol,
    ThrottlePolicy,
    TokenUsage,
    ToolInvoked,
)
from belljar.tools import ProviderTool, ResourceRegistry, Tool, ToolContext, ToolResult, call_tool, receive_output
from belljar.tools.context import Evaluator

Converse: TypeAlias = Callable[
    [Prompt[Any], RenderedPrompt[Any], SessionProtocol, Deadline | None], ProviderConversation
]
_ONCE = ThrottlePolicy(max_attempts=1)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Evaluation(Generic[OutputT]):
    adapter: Evaluator
    provider: str
    converse: Converse
    throttle: ThrottlePolicy
    prompt: Prompt[OutputT]
    session: SessionProtocol
    deadline: Deadline | None
    tracker: BudgetTracker | None
    resources: ResourceRegistry
    on_text: OnText | None
    max_turns: int
    id: str = field(default_factory=lambda: uuid4().hex)

    @property
    def name(self) -> str:
        return self.prompt.name or f"{self.prompt.ns}:{self.prompt.key}"

    def steps(self) -> Steps[PromptResponse[OutputT]]:
        with phase("request", self.name):
            rendered = self.prompt.render()
            self._check_tools(rendered.tools)
            self._check_sections(rendered.sections)
            conversation = self.converse(self.prompt, rendered, self.session, self._earliest)
            context = self._context(rendered)
            self._tell_rendered(rendered)
            self._check_limits()
            yield from self._prepare_conversation(conversation)
        if (yield from self._try_act(conversation.postponed_act())) == "never":
            conversation.forget()
        total = TokenUsage()
        cited: list[Mapping[str, Any]] = []
        for turn in itertools.count(1):
            heard, answer = yield from self._turn(conversation, context)
            total += answer.usage
            if not answer.calls and answer.finish != "paused":
                break
            self._check_turns(turn, answer)
            cited += answer.annotations
            conversation.tell((yield from self._run_calls(answer, rendered, context)))
            yield from self._try_act(conversation.settling(answer))
        with phase("response", self.name, heard.payload):
            response = replace(self._response(answer, rendered), earlier_annotations=tuple(cited))
        self._tell_executed(response, total)
        match (yield from self._try_act(conversation.settling(answer))):
            case "later":
                conversation.postpone()
            case "never":
                conversation.forget()
        return response

    # -- before --------------------------------------------------------------------------------------------------------

    def _check_tools(self, tools: Sequence[Tool[Any, Any]]) -> None:
        for tool in tools:
            if isinstance(tool, ProviderTool):
                if tool.provider != self.provider:
                    raise PromptValidationError(
                        f"tool {tool.name!r}: is for {tool.provider}, and this adapter is {self.provider}'s"
                    )
            elif tool.handler is None:
                raise PromptValidationError(f"tool {tool.name!r}: has no handler, and the model may call it")

    def _check_sections(self, sections: Sequence[Section[Any]]) -> None:
        """A workspace of another provider's brings its files to where this one's model never sees them."""
        for section in sections:
            if isinstance(section, MountedSection) and section.provider != self.provider:
                raise PromptValidationError(
                    f"section {section.key!r}: a {type(section).__name__} is for adapters of {section.provider}, and "
                    f"this one is {self.provider}'s; put its own workspace there, which takes the same mounts"
                )

    def _context(self, rendered: RenderedPrompt[OutputT]) -> ToolContext:
        """One for all calls of the evaluation. What the caller hands in goes before what the prompt has."""
        own = {Filesystem: self.prompt.filesystem(), BudgetTracker: self.tracker}
        return ToolContext(
            prompt=self.prompt,
            rendered_prompt=rendered,
            adapter=self.adapter,
            session=self.session,
            deadline=self._earliest,
            resources=ResourceRegistry.build(own).merge(self.resources),
        )

    @property
    def _earliest(self) -> Deadline | None:
        given = (self.deadline, self.tracker.budget.deadline if self.tracker is not None else None)
        return min(filter(None, given), key=lambda one: one.expires_at, default=None)

    def _check_limits(self) -> None:
        if self.deadline is not None:
            self.deadline.check()
        if self.tracker is not None:
            self.tracker.check()

    def _prepare_conversation(self, conversation: ProviderConversation) -> Steps[None]:
        """With a deadline, the throttle policy counts: how often the SDK would try, and wait, knows none."""
        policy = _ONCE if self._earliest is None else self.throttle
        yield from patiently(lambda: Do(conversation.prepare), self.name, policy, self._earliest)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _turn(self, conversation: ProviderConversation, context: ToolContext) -> Steps[tuple[Heard, TurnAnswer]]:
        with phase("request", self.name):
            self._check_limits()
            heard = yield from ask_turn(conversation, self.name, self.throttle, self._earliest, self.on_text)
        with phase("response", self.name, heard.payload):
            answer = self._read(conversation, heard)
        self._count(answer.usage)
        self._log(conversation, heard, answer)
        with phase("tool", self.name):
            for tool, call in _pair_calls(conversation.hosted, answer.hosted):
                yield Do(partial(self._take_result, tool, call, context, answer.usage))
        with phase("response", self.name, heard.payload):
            if answer.finish == "filtered":
                raise OutputFiltered(f"{self.provider} held the answer back: its content filter found fault with it")
        return heard, answer

    def _read(self, conversation: ProviderConversation, heard: Heard) -> TurnAnswer:
        try:
            return conversation.hear(heard)
        except (LookupError, TypeError, AttributeError) as error:
            raise Garbled(f"{self.provider} answered what is not of its own wire: {error!r}") from error

    def _run_calls(
        self, answer: TurnAnswer, rendered: RenderedPrompt[OutputT], context: ToolContext
    ) -> Steps[list[tuple[CalledTool, ToolResult[Any]]]]:
        """One after another, in the order of the calls."""
        tools = {tool.name: tool for tool in rendered.tools if not isinstance(tool, ProviderTool)}
        results = []
        with phase("tool", self.name):
            for call in answer.calls:
                self._check_limits()
                if call.name in tools:
                    act = partial(self._call, tools[call.name], call, context, answer.usage)
                else:
                    act = partial(self._call_nothing, call, list(tools), answer.usage)
                result: ToolResult[Any] = yield Do(act)
                results.append((call, result))
        return results

    def _check_turns(self, turn: int, answer: TurnAnswer) -> None:
        """Before the tools: there would be no turn to tell their results in."""
        if turn < self.max_turns:
            return
        wanted = f"calls {', '.join(call.name for call in answer.calls)}" if answer.calls else "is not done"
        with phase("budget", self.name):
            raise TurnLimitExceededError(
                f"the model was asked {turn} times, still {wanted}, and max_turns={self.max_turns} is the limit; make "
                "the adapter with a higher max_turns, or tell the model when it is done"
            )

    def _call(self, tool: Tool[Any, Any], call: CalledTool, context: ToolContext, usage: TokenUsage) -> ToolResult[Any]:
        return call_tool(tool, call.arguments, context=context, adapter=self.provider, call_id=call.id, usage=usage)

    def _call_nothing(self, call: CalledTool, known: Sequence[str], usage: TokenUsage) -> ToolResult[Any]:
        """The model thought of a tool that is not there: it is told, and may go on with those that are."""
        there = f"The tools are: {', '.join(known)}." if known else "There are no functions here: answer without."
        result: ToolResult[Any] = ToolResult.error(f"There is no tool {call.name!r}. {there}")
        _log.warning("%s: the model called %r, which the prompt does not have", self.name, call.name)
        self._dispatch(
            ToolInvoked(
                prompt_name=self.prompt.name,
                adapter=self.provider,
                name=call.name,
                params=call.arguments,
                result=result,
                session_id=self.session.session_id,
                usage=usage,
                rendered_output="",
                call_id=call.id,
            )
        )
        return result

    def _take_result(self, tool: Hosted, call: HostedCall, context: ToolContext, usage: TokenUsage) -> ToolResult[Any]:
        return receive_output(tool, call.payload, context=context, adapter=self.provider, call_id=call.id, usage=usage)

    def _count(self, usage: TokenUsage) -> None:
        if self.tracker is not None:
            self.tracker.record_cumulative(self.id, usage)
        self._dispatch(usage)

    def _log(self, conversation: ProviderConversation, heard: Heard, answer: TurnAnswer) -> None:
        about = {
            "adapter": self.provider,
            "prompt": self.name,
            **conversation.about(),
            "request_id": heard.request_id,
            "response_id": answer.id,
            "input_tokens": answer.usage.input_tokens,
            "output_tokens": answer.usage.output_tokens,
        }
        told = " ".join(f"{key}={value}" for key, value in about.items() if value is not None)
        _log.info("turn: %s", told, extra={"turn": about})

    def _try_act(self, act: Callable[[], object] | None) -> Steps[Literal["done", "later", "never"]]:
        """What fails here costs nobody his answer: it is told, and whether it is worth another try."""
        if act is None:
            return "done"
        try:
            yield from patiently(lambda: Do(act), self.name, self.throttle, self._earliest)
        except (CompactionError, DeadlineExceededError) as error:
            again = not isinstance(error, CompactionError) or worth_another(_original(error))
            self._tell_unsettled(error, again=again)
            return "later" if again else "never"
        return "done"

    # -- after ---------------------------------------------------------------------------------------------------------

    def _response(self, answer: TurnAnswer, rendered: RenderedPrompt[OutputT]) -> PromptResponse[OutputT]:
        finish: Literal["stop", "length"] = "length" if answer.finish == "length" else "stop"
        annotations = tuple(answer.annotations)
        if rendered.output_type is None:
            words: Any = answer.text if self.prompt.template.type_arguments == (str,) else None
            return PromptResponse(self.prompt.name, answer.text, words, annotations, finish)
        if answer.refusal is not None:
            raise OutputFiltered(f"the model refused to answer: {answer.refusal}")
        try:
            output = parse_structured_output(answer.last, rendered)
        except OutputParseError as error:
            if finish == "stop":
                raise
            raise OutputParseError(f"the answer was cut off, as it was as long as it may be: {error}") from error
        return PromptResponse(self.prompt.name, None, output, annotations, finish)

    # -- events --------------------------------------------------------------------------------------------------------

    def _tell_rendered(self, rendered: RenderedPrompt[OutputT]) -> None:
        self._dispatch(
            PromptRendered(
                prompt_ns=self.prompt.ns,
                prompt_key=self.prompt.key,
                prompt_name=self.prompt.name,
                adapter=self.provider,
                session_id=self.session.session_id,
                render_inputs=self.prompt.bound,
                rendered_prompt=rendered.text,
            )
        )

    def _tell_executed(self, response: PromptResponse[OutputT], usage: TokenUsage) -> None:
        self._dispatch(
            PromptExecuted(
                prompt_name=self.prompt.name,
                adapter=self.provider,
                result=response,
                session_id=self.session.session_id,
                usage=usage,
            )
        )

    def _tell_unsettled(self, error: CompactionError | DeadlineExceededError, *, again: bool) -> None:
        _log.warning("%s: the conversation was not compacted: %s", self.name, error)
        self._dispatch(
            CompactionFailed(
                prompt_name=self.prompt.name,
                adapter=self.provider,
                error=error,
                will_retry=again,
                session_id=self.session.session_id,
            )
        )

    def _dispatch(self, event: object) -> None:
        for failure in self.session.dispatcher.dispatch(event).errors:
            _log.error("a subscriber of %s failed: %s", type(event).__name__, failure, exc_info=failure.error)


def _original(error: CompactionError) -> CompactionError:
    """As it was raised: `failed` makes another of it."""
    return error.__cause__ if isinstance(error.__cause__, CompactionError) else error


def _pair_calls(tools: Sequence[Hosted], calls: Sequence[HostedCall]) -> list[tuple[Hosted, HostedCall]]:
    """Each call with the tool that it is of; others are of no concern to anybody here."""
    known = {tool.type: tool for tool in tools}
    return [(known[call.type], call) for call in calls if call.type in known]
