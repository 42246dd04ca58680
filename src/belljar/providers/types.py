"""What a client answers with, and what it is asked to send: the same for every vendor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from belljar.providers.code_execution import CodeExecution, OutputFile
from belljar.providers.context_manager import Message
from belljar.providers.tool_converters import Tool, ToolCall
from belljar.wire.responses import Usage

OnText: TypeAlias = Callable[[str], None]
FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "content_filter", "other"]
FINISHES: Mapping[str, FinishReason] = MappingProxyType(
    {"stop": "stop", "calls": "tool_calls", "length": "length", "filtered": "content_filter"}
)
"""By the reason that the dialects give."""


@dataclass
class AssistantResponse:
    """One answer of the model."""

    text: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    is_complete: bool = True
    """It came to its end: no tool is waited for, and nothing cut it off; `finish_reason` tells what did."""
    requires_action: bool = False
    """Tools are to be run, and their results sent."""
    pending_confirmations: list[ToolCall] = field(default_factory=list)
    """For callers who ask before they run a tool; clients leave it empty."""
    code_executions: list[CodeExecution] = field(default_factory=list)
    output_files: list[OutputFile] = field(default_factory=list)
    usage: Usage | None = None
    """Tokens of this answer, cached ones and reasoning included; None where the server does not say."""
    finish_reason: FinishReason = "stop"
    """Why the model says no more: it is done, it waits for tools, the limit was reached, or a filter held the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTurn:
    """One request, in no vendor's words."""

    messages: Sequence[Message]
    """All of the conversation, or with `previous` what came after that."""
    system: str = ""
    tools: Sequence[Tool] = ()
    code_execution: bool = False
    on_text: OnText | None = None
    previous: str | None = None
    """The response that the vendor remembers the conversation by."""
    keep: bool = True
    """Whether the vendor may remember this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAnswer:
    """What the vendor answered, in no vendor's words."""

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    executions: Sequence[CodeExecution] = ()
    files: Sequence[OutputFile] = ()
    finish: FinishReason = "stop"
    usage: Usage | None = None
    id: str | None = None
    native: Any = None
    """The turn as the vendor wants it back in its history."""
