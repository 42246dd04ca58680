"""A code interpreter for any model, under its owner's control: the public names, loaded when first used."""

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
        BelljarError,
        CompactionError,
        ContainerExpiredError,
        WinkError,
        WorkspaceBudgetExceededError,
        WorkspaceConflictError,
        WorkspaceSecurityError,
    )
    from belljar.filesystem import Filesystem, HostMount, HostMountPreview, InMemoryFilesystem, VfsPath
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
    from belljar.providers import AssistantResponse, BaseClient, ContextManager, create_client
    from belljar.runtime import Budget, BudgetTracker, Deadline, InProcessDispatcher, Session, SessionProtocol
    from belljar.sandbox.blocking import Sandbox
    from belljar.sandbox.session import AsyncSandbox
    from belljar.tools import OpenAICodeInterpreterTool, ProviderTool, ResourceRegistry, Tool, ToolContext, ToolResult
    from belljar.tools.choices import ToolChoice

__version__ = "0.1.0"
__all__ = [
    "AssistantResponse",
    "AsyncSandbox",
    "BaseClient",
    "BelljarError",
    "Budget",
    "BudgetTracker",
    "ClaudeAgentSDKAdapter",
    "ClaudeAgentWorkspaceSection",
    "CompactionConfig",
    "CompactionError",
    "CompactionManager",
    "CompactionState",
    "ContainerConfig",
    "ContainerExpiredError",
    "ContainerFilesystem",
    "ContextManager",
    "Deadline",
    "FileSearchConfig",
    "Filesystem",
    "FrozenDataclass",
    "HostMount",
    "HostMountPreview",
    "InMemoryFilesystem",
    "InProcessDispatcher",
    "MarkdownSection",
    "OpenAIAdapter",
    "OpenAIClientConfig",
    "OpenAICodeInterpreterTool",
    "OpenAIContainerWorkspaceSection",
    "OpenAIHostedToolsConfig",
    "OpenAIModelConfig",
    "Prompt",
    "PromptResponse",
    "PromptSection",
    "PromptTemplate",
    "ProviderAdapter",
    "ProviderTool",
    "ResourceRegistry",
    "Sandbox",
    "Section",
    "Session",
    "SessionProtocol",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolResult",
    "VfsPath",
    "VfsToolsSection",
    "WinkError",
    "WorkspaceBudgetExceededError",
    "WorkspaceConflictError",
    "WorkspaceSecurityError",
    "__version__",
    "create_client",
]

_HOMES = {
    "AssistantResponse": "belljar.providers",
    "AsyncSandbox": "belljar.sandbox.session",
    "BaseClient": "belljar.providers",
    "BelljarError": "belljar.errors",
    "Budget": "belljar.runtime",
    "BudgetTracker": "belljar.runtime",
    "ClaudeAgentSDKAdapter": "belljar.adapters.claude_agent_sdk",
    "ClaudeAgentWorkspaceSection": "belljar.adapters.claude_agent_sdk",
    "CompactionConfig": "belljar.adapters.openai",
    "CompactionError": "belljar.errors",
    "CompactionManager": "belljar.adapters.openai",
    "CompactionState": "belljar.adapters.openai",
    "ContainerConfig": "belljar.adapters.openai",
    "ContainerExpiredError": "belljar.errors",
    "ContainerFilesystem": "belljar.adapters.openai",
    "ContextManager": "belljar.providers",
    "Deadline": "belljar.runtime",
    "FileSearchConfig": "belljar.adapters.openai",
    "Filesystem": "belljar.filesystem",
    "FrozenDataclass": "belljar.prompt",
    "HostMount": "belljar.filesystem",
    "HostMountPreview": "belljar.filesystem",
    "InMemoryFilesystem": "belljar.filesystem",
    "InProcessDispatcher": "belljar.runtime",
    "MarkdownSection": "belljar.prompt",
    "OpenAIAdapter": "belljar.adapters.openai",
    "OpenAIClientConfig": "belljar.adapters.openai",
    "OpenAICodeInterpreterTool": "belljar.tools",
    "OpenAIContainerWorkspaceSection": "belljar.adapters.openai",
    "OpenAIHostedToolsConfig": "belljar.adapters.openai",
    "OpenAIModelConfig": "belljar.adapters.openai",
    "Prompt": "belljar.prompt",
    "PromptResponse": "belljar.prompt",
    "PromptSection": "belljar.prompt",
    "PromptTemplate": "belljar.prompt",
    "ProviderAdapter": "belljar.adapters",
    "ProviderTool": "belljar.tools",
    "ResourceRegistry": "belljar.tools",
    "Sandbox": "belljar.sandbox.blocking",
    "Section": "belljar.prompt",
    "Session": "belljar.runtime",
    "SessionProtocol": "belljar.runtime",
    "Tool": "belljar.tools",
    "ToolChoice": "belljar.tools.choices",
    "ToolContext": "belljar.tools",
    "ToolResult": "belljar.tools",
    "VfsPath": "belljar.filesystem",
    "VfsToolsSection": "belljar.prompt",
    "WinkError": "belljar.errors",
    "WorkspaceBudgetExceededError": "belljar.errors",
    "WorkspaceConflictError": "belljar.errors",
    "WorkspaceSecurityError": "belljar.errors",
    "create_client": "belljar.providers",
}

if not TYPE_CHECKING:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
