"""OpenAI: hosted tools, workspaces in containers, compaction."""

from belljar.adapters.openai.adapter import OpenAIAdapter
from belljar.adapters.openai.compaction import CompactionManager, CompactionState
from belljar.adapters.openai.config import (
    CompactionConfig,
    ContainerConfig,
    FileSearchConfig,
    OpenAIHostedToolsConfig,
)
from belljar.adapters.openai.container import ContainerManager
from belljar.adapters.openai.container_fs import ContainerFilesystem
from belljar.adapters.openai.settings import OpenAIClientConfig, OpenAIModelConfig
from belljar.adapters.openai.workspace import OpenAIContainerWorkspaceSection

__all__ = [
    "CompactionConfig",
    "CompactionManager",
    "CompactionState",
    "ContainerConfig",
    "ContainerFilesystem",
    "ContainerManager",
    "FileSearchConfig",
    "OpenAIAdapter",
    "OpenAIClientConfig",
    "OpenAIContainerWorkspaceSection",
    "OpenAIHostedToolsConfig",
    "OpenAIModelConfig",
]
