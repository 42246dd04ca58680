"""What every adapter is: it evaluates prompts, blocking or in asyncio, by the same steps."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from belljar.adapters.evaluation import Evaluation
from belljar.adapters.steps import Ask, Heard, OnText, run, run_async
from belljar.adapters.turns import ProviderConversation
from belljar.adapters.validation import check_evaluation, check_kind, check_text, check_whole
from belljar.models import ending
from belljar.prompt.prompt import Prompt, PromptResponse, RenderedPrompt
from belljar.prompt.template import OutputT
from belljar.runtime import Budget, BudgetTracker, Deadline, SessionProtocol, ThrottlePolicy
from belljar.runtime.dispatcher import check_not_coroutine
from belljar.tools import ResourceRegistry
from belljar.tools.tool_choice import Chosen, ToolChoice, parse_choice

MAX_TURNS = 50
_log = logging.getLogger(__name__)


class ProviderAdapter(ABC):
    """`evaluate` asks, runs the tools that are called, and asks again, until the model is done.

    Every error is one of `belljar.errors` and a `PromptEvaluationError` besides, which names the prompt and the phase.
    """

    provider: ClassVar[str]
    """The name that a ProviderTool must have for this adapter."""

    def __init__(
        self, *, model: str, tool_choice: ToolChoice, throttle: ThrottlePolicy | None, max_turns: int = MAX_TURNS
    ) -> None:
        name = type(self).__name__
        check_text(f"{name}.model", model)
        check_kind(f"{name}.throttle", throttle, ThrottlePolicy)
        check_whole(f"{name}.max_turns", max_turns)
        self.model = model
        self.tool_choice = parse_choice(tool_choice)
        self.throttle = throttle or ThrottlePolicy()
        self.max_turns = max_turns
        """How often the model is asked in one evaluation; TurnLimitExceededError where it then wants to go on."""
        if told := ending(model):
            _log.warning("%s", told)

    def evaluate(
        self,
        prompt: Prompt[OutputT],
        *,
        session: SessionProtocol,
        deadline: Deadline | None = None,
        budget: Budget | None = None,
        budget_tracker: BudgetTracker | None = None,
        resources: ResourceRegistry | None = None,
        on_text: OnText | None = None,
    ) -> PromptResponse[OutputT]:
        """The answer, typed as the prompt wants it.

        Deadline and budget are looked at before each turn and each tool: an answer that is there is given, whatever
        it cost. `on_text` is called with the text as it comes; a turn that breaks after that is not tried again. Tools
        that are coroutines are awaited, each call in an event loop of its own.
        """
        evaluation = self._evaluation(prompt, session, deadline, budget, budget_tracker, resources, on_text)
        return run(evaluation.steps(), self._ask)

    async def evaluate_async(
        self,
        prompt: Prompt[OutputT],
        *,
        session: SessionProtocol,
        deadline: Deadline | None = None,
        budget: Budget | None = None,
        budget_tracker: BudgetTracker | None = None,
        resources: ResourceRegistry | None = None,
        on_text: OnText | None = None,
    ) -> PromptResponse[OutputT]:
        """The same in asyncio. Tools that are coroutines are awaited in this loop, and others run in threads; one that
        runs goes on to its end when the caller is cancelled.
        """
        evaluation = self._evaluation(prompt, session, deadline, budget, budget_tracker, resources, on_text)
        return await run_async(evaluation.steps(), self._ask_async)

    @abstractmethod
    def _converse(
        self,
        prompt: Prompt[Any],
        rendered: RenderedPrompt[Any],
        session: SessionProtocol,
        deadline: Deadline | None,
    ) -> ProviderConversation:
        """Begin; nothing is sent yet, and what cannot work is refused."""

    def _choice(self, prompt: Prompt[Any]) -> Chosen:
        """The prompt's goes before the adapter's."""
        own = parse_choice(prompt.template.tool_choice)
        return self.tool_choice if own is None else own

    @abstractmethod
    def _ask(self, ask: Ask) -> Heard:
        """One request; raises `ClientError`."""

    @abstractmethod
    async def _ask_async(self, ask: Ask) -> Heard: ...

    def _evaluation(
        self,
        prompt: Prompt[OutputT],
        session: SessionProtocol,
        deadline: Deadline | None,
        budget: Budget | None,
        tracker: BudgetTracker | None,
        resources: ResourceRegistry | None,
        on_text: OnText | None,
    ) -> Evaluation[OutputT]:
        check_evaluation(prompt, session, deadline, budget, tracker, resources, on_text)
        check_not_coroutine(on_text, "evaluate: on_text")
        if budget is not None and tracker is not None and tracker.budget is not budget:
            raise ValueError("evaluate: budget is not that of budget_tracker; pass one of them")
        if tracker is None and budget is not None:
            tracker = BudgetTracker(budget)
        return Evaluation(
            adapter=self,
            provider=self.provider,
            converse=self._converse,
            throttle=self.throttle,
            prompt=prompt,
            session=session,
            deadline=deadline,
            tracker=tracker,
            resources=resources or ResourceRegistry(),
            on_text=on_text,
            max_turns=self.max_turns,
        )
