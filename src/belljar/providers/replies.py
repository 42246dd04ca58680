"""What a client answers with, and what it is asked to send: the same for every vendor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from belljar.providers.context_manager import Message
from belljar.providers.executions import CodeExecution, OutputFile
from belljar.providers.tool_converters import Tool, ToolCall
from belljar.wire.responses import Usage

OnText: TypeAlias = Callable[[str], None]


@dataclass
class AssistantResponse:
    """One answer of the model."""

    text: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    is_complete: bool = True
    """It came to its end: no tool is waited for, and no limit cut it off."""
    requires_action: bool = False
    """Tools are to be run, and their results sent."""
    pending_confirmations: list[ToolCall] = field(default_factory=list)
    """For callers who ask before they run a tool; clients leave it empty."""
    code_executions: list[CodeExecution] = field(default_factory=list)
    output_files: list[OutputFile] = field(default_factory=list)
    usage: Usage | None = None
    """Tokens of this answer, cached ones and reasoning included; None where the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
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
class Answer:
    """What the vendor answered, in no vendor's words."""

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    executions: Sequence[CodeExecution] = ()
    files: Sequence[OutputFile] = ()
    finished: bool = True
    """No limit cut it off."""
    usage: Usage | None = None
    id: str | None = None
    native: Any = None
    """The turn as the vendor wants it back in its history."""
