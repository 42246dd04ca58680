"""One call of a tool, as a transaction: what fails leaves the session and the files as they were."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from belljar.errors import BudgetExceededError, DeadlineExceededError, PromptValidationError, ToolValidationError
from belljar.runtime import ToolInvoked, transaction
from belljar.tools.context import ToolContext
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
) -> ToolResult[ResultT]:
    """Run the handler and report ToolInvoked on the session's dispatcher.

    What is wrong with the arguments, or goes wrong in the handler, becomes a failed result for the model to read. A
    deadline or budget that has run out is raised: there is no use in telling the model.
    """
    if tool.handler is None:
        raise PromptValidationError(f"tool {tool.name!r}: has no handler to call")
    params: object = arguments
    with transaction(context.session, context.resources.snapshotable_resources()) as current:
        try:
            params = tool.parse_arguments(arguments)
            result = tool.handler(params, context=context)
            rendered = result.render()
        except (DeadlineExceededError, BudgetExceededError):
            raise
        except ToolValidationError as error:
            result, rendered = ToolResult.error(f"Tool validation failed: {error}"), ""
        except Exception as error:  # noqa: BLE001 - handlers are other people's code, and the model can react
            _log.exception("tool %s failed", tool.name)
            result, rendered = ToolResult.error(f"Tool '{tool.name}' execution failed: {error}"), ""
        event = ToolInvoked(
            prompt_name=context.prompt.name,
            adapter=adapter,
            name=tool.name,
            params=params,
            result=result,
            session_id=context.session.session_id,
            rendered_output=rendered,
            call_id=call_id,
        )
        told = context.session.dispatcher.dispatch(event)
        if not told.ok:
            faults = "; ".join(str(failure) for failure in told.errors)
            result = replace(result, message=f"{result.message}\n\nNothing was kept: {faults}", success=False)
        if not result.success:
            current.fail()
    return result
