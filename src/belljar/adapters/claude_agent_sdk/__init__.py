"""Anthropic: a workspace in a directory of the host, and the adapter that works in it."""

from belljar.adapters.claude_agent_sdk.adapter import ClaudeAgentSDKAdapter
from belljar.adapters.claude_agent_sdk.settings import ClaudeAgentSDKClientConfig, ClaudeAgentSDKModelConfig
from belljar.adapters.claude_agent_sdk.workspace import ClaudeAgentWorkspaceSection

__all__ = [
    "ClaudeAgentSDKAdapter",
    "ClaudeAgentSDKClientConfig",
    "ClaudeAgentSDKModelConfig",
    "ClaudeAgentWorkspaceSection",
]
