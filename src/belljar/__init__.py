"""Belljar's public names, loaded when first used: a code interpreter for any model, under its owner's control."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from belljar.adapters import ProviderAdapter
    from belljar.adapters.claude_agent_sdk import ClaudeAgentSDKAdapter, ClaudeAgentWorkspaceSection
    from belljar.adapters.openai import (
        CompactionConfig,
        CompactionManager,
        CompactionState,
        ContainerConfig,
        ContainerFilesystem,
        FileSearchConfig,
        OpenAIAdapter,
        OpenAIClientConfig,
        OpenAIContainerWorkspaceSection,
        OpenAIHostedToolsConfig,
        OpenAIModelConfig,
    )
    from belljar.errors import (
        BadKey,
        BadSettings,
        BelljarError,
        BudgetExceededError,
        CallerError,
        CannotConfine,
        CompactionError,
        ContainerExpired,
        ContainerExpiredError,
        ContextTooLong,
        DeadlineExceededError,
        DeadlinePassed,
        Declined,
        Fenced,
        Filtered,
        Forbidden,
        Garbled,
        HeldElsewhere,
        InvalidContainer,
        InvalidRequest,
        Loading,
        Lost,
        NoneFree,
        NotFound,
        OperatorError,
        OutputFiltered,
        OutputParseError,
        OverQuota,
        PromptEvaluationError,
        PromptValidationError,
        ProviderError,
        QuotaExceeded,
        RateLimited,
        Refused,
        SandboxError,
        StorageExceeded,
        StoreUnavailable,
        TooLarge,
        ToolValidationError,
        TurnLimitExceededError,
        Unauthenticated,
        Unreachable,
        WinkError,
        WorkspaceBudgetExceededError,
        WorkspaceConflictError,
        WorkspaceError,
        WorkspaceSecurityError,
    )
    from belljar.filesystem import Filesystem, HostFilesystem, HostMount, HostMountPreview, InMemoryFilesystem, VfsPath
    from belljar.prompt import (
        FrozenDataclass,
        MarkdownSection,
        Prompt,
        PromptResponse,
        PromptSection,
        PromptTemplate,
        Section,
        VfsToolsSection,
    )
    from belljar.providers import AssistantResponse, BaseClient, ClientError, ContextManager, create_client
    from belljar.runtime import (
        Budget,
        BudgetTracker,
        CompactionFailed,
        Deadline,
        InProcessDispatcher,
        PromptExecuted,
        PromptRendered,
        Session,
        SessionProtocol,
        ThrottlePolicy,
        TokenUsage,
        ToolInvoked,
    )
    from belljar.sandbox.blocking import Sandbox
    from belljar.sandbox.session import AsyncSandbox
    from belljar.tools import (
        CodeInterpreterOutput,
        FileCitation,
        OpenAICodeInterpreterTool,
        ProviderTool,
        ResourceRegistry,
        Tool,
        ToolChoice,
        ToolContext,
        ToolExample,
        ToolResult,
    )

__version__ = "0.1.0"
__all__ = [
    "AssistantResponse",
    "AsyncSandbox",
    "BadKey",
    "BadSettings",
    "BaseClient",
    "BelljarError",
    "Budget",
    "BudgetExceededError",
    "BudgetTracker",
    "CallerError",
    "CannotConfine",
    "ClaudeAgentSDKAdapter",
    "ClaudeAgentWorkspaceSection",
    "ClientError",
    "CodeInterpreterOutput",
    "CompactionConfig",
    "CompactionError",
    "CompactionFailed",
    "CompactionManager",
    "CompactionState",
    "ContainerConfig",
    "ContainerExpired",
    "ContainerExpiredError",
    "ContainerFilesystem",
    "ContextManager",
    "ContextTooLong",
    "Deadline",
    "DeadlineExceededError",
    "DeadlinePassed",
    "Declined",
    "Fenced",
    "FileCitation",
    "FileSearchConfig",
    "Filesystem",
    "Filtered",
    "Forbidden",
    "FrozenDataclass",
    "Garbled",
    "HeldElsewhere",
    "HostFilesystem",
    "HostMount",
    "HostMountPreview",
    "InMemoryFilesystem",
    "InProcessDispatcher",
    "InvalidContainer",
    "InvalidRequest",
    "Loading",
    "Lost",
    "MarkdownSection",
    "NoneFree",
    "NotFound",
    "OpenAIAdapter",
    "OpenAIClientConfig",
    "OpenAICodeInterpreterTool",
    "OpenAIContainerWorkspaceSection",
    "OpenAIHostedToolsConfig",
    "OpenAIModelConfig",
    "OperatorError",
    "OutputFiltered",
    "OutputParseError",
    "OverQuota",
    "Prompt",
    "PromptEvaluationError",
    "PromptExecuted",
    "PromptRendered",
    "PromptResponse",
    "PromptSection",
    "PromptTemplate",
    "PromptValidationError",
    "ProviderAdapter",
    "ProviderError",
    "ProviderTool",
    "QuotaExceeded",
    "RateLimited",
    "Refused",
    "ResourceRegistry",
    "Sandbox",
    "SandboxError",
    "Section",
    "Session",
    "SessionProtocol",
    "StorageExceeded",
    "StoreUnavailable",
    "ThrottlePolicy",
    "TokenUsage",
    "TooLarge",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolExample",
    "ToolInvoked",
    "ToolResult",
    "ToolValidationError",
    "TurnLimitExceededError",
    "Unauthenticated",
    "Unreachable",
    "VfsPath",
    "VfsToolsSection",
    "WinkError",
    "WorkspaceBudgetExceededError",
    "WorkspaceConflictError",
    "WorkspaceError",
    "WorkspaceSecurityError",
    "__version__",
    "create_client",
]

_HOMES = dict.fromkeys((name for name in __all__ if name != "__version__"), "belljar.errors") | {
    name: home
    for home, names in {
        "belljar.adapters": "ProviderAdapter",
        "belljar.adapters.claude_agent_sdk": "ClaudeAgentSDKAdapter ClaudeAgentWorkspaceSection",
        "belljar.adapters.openai": """
            CompactionConfig CompactionManager CompactionState ContainerConfig ContainerFilesystem FileSearchConfig
            OpenAIAdapter OpenAIClientConfig OpenAIContainerWorkspaceSection OpenAIHostedToolsConfig OpenAIModelConfig
        """,
        "belljar.filesystem": "Filesystem HostFilesystem HostMount HostMountPreview InMemoryFilesystem VfsPath",
        "belljar.prompt": """
            FrozenDataclass MarkdownSection Prompt PromptResponse PromptSection PromptTemplate Section VfsToolsSection
        """,
        "belljar.providers": "AssistantResponse BaseClient ClientError ContextManager create_client",
        "belljar.runtime": """
            Budget BudgetTracker CompactionFailed Deadline InProcessDispatcher PromptExecuted PromptRendered Session
            SessionProtocol ThrottlePolicy TokenUsage ToolInvoked
        """,
        "belljar.sandbox.blocking": "Sandbox",
        "belljar.sandbox.session": "AsyncSandbox",
        "belljar.tools": """
            CodeInterpreterOutput FileCitation OpenAICodeInterpreterTool ProviderTool ResourceRegistry Tool ToolChoice
            ToolContext ToolExample ToolResult
        """,
    }.items()
    for name in names.split()
}
"""Where each is loaded from when it is first used: errors, and those named here. The imports above are for checkers."""

if not TYPE_CHECKING:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
