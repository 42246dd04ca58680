"""Call a tool as a transaction: a failure leaves the session and the files as they were."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from belljar.errors import BudgetExceededError, DeadlineExceededError, PromptValidationError, ToolValidationError
from belljar.runtime import TokenUsage, ToolInvoked, transaction
from belljar.tools.async_handlers import wait_for_result
from belljar.tools.context import ToolContext
from belljar.tools.provider import ProviderTool
from belljar.tools.result import ToolResult
from belljar.tools.tool import Tool

ResultT = TypeVar("ResultT")
_log = logging.getLogger(__name__)


def call_tool(
    tool: Tool[Any, ResultT],
    arguments: str | Mapping[str, object],
    *,
    context: ToolContext,
    adapter: str,
    call_id: str | None = None,
    usage: TokenUsage | None = None,
) -> ToolResult[ResultT]:
    """Run the handler and report ToolInvoked on the session's dispatcher.

    What is wrong with the arguments, or goes wrong in the handler, becomes a failed result for the model to read. A
    deadline or budget that has run out is raised: there is no use in telling the model.
    """
    handler = tool.handler
    if handler is None:
        raise PromptValidationError(f"tool {tool.name!r}: has no handler to call")
    call = _Call(tool.name, context, adapter, call_id, usage)
    return call.run(arguments, tool.parse_arguments, lambda params: wait_for_result(handler(params, context=context)))


def receive_output(
    tool: ProviderTool[Any, ResultT, Any],
    payload: Mapping[str, object],
    *,
    context: ToolContext,
    adapter: str,
    call_id: str | None = None,
    usage: TokenUsage | None = None,
) -> ToolResult[ResultT]:
    """The same for a call that the provider ran itself: its hook or handler is told what came of it."""
    call = _Call(tool.name, context, adapter, call_id, usage)
    return call.run(None, lambda _: None, lambda _: tool.receive(payload, context=context))


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    context: ToolContext
    adapter: str
    call_id: str | None
    usage: TokenUsage | None

    def run(
        self, given: Any, read: Callable[[Any], object], act: Callable[[Any], ToolResult[ResultT]]
    ) -> ToolResult[ResultT]:
        """The session takes the result in before others hear of it, so that nobody hears of a success that was none."""
        session = self.context.session
        with transaction(session, self.context.resources.snapshotable_resources()) as current:
            params, result, rendered = self._try_call(given, read, act)
            event = ToolInvoked(
                prompt_name=self.context.prompt.name,
                adapter=self.adapter,
                name=self.name,
                params=params,
                result=result,
                session_id=session.session_id,
                usage=self.usage,
                rendered_output=rendered,
                call_id=self.call_id,
            )
            if result.success and (refused := session.accept(event).errors):
                faults = "; ".join(str(failure) for failure in refused)
                result = replace(result, message=f"{result.message}\n\nNothing was kept: {faults}", success=False)
                event = replace(event, result=result)
            if not result.success:
                current.fail()
        for failure in session.dispatcher.dispatch(event).errors:
            _log.error("a subscriber of ToolInvoked failed: %s", failure, exc_info=failure.error)
        return result

    def _try_call(
        self, given: Any, read: Callable[[Any], object], act: Callable[[Any], ToolResult[ResultT]]
    ) -> tuple[object, ToolResult[ResultT], str]:
        """The parameters, the result, and its value as the model is shown it."""
        params: object = given
        try:
            params = read(given)
            result = act(params)
            return params, result, result.render()
        except (DeadlineExceededError, BudgetExceededError):
            raise
        except ToolValidationError as error:
            return params, ToolResult.error(f"Tool validation failed: {error}"), ""
        except Exception as error:  # noqa: BLE001 - handlers are other people's code, and the model can react
            _log.exception("tool %s failed", self.name)
            return params, ToolResult.error(f"Tool '{self.name}' execution failed: {error}"), ""
