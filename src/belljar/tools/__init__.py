"""Typed tools: what a model may call, its parameters, and its result."""

from belljar.filesystem import HostFilesystem, HostMount, HostMountPreview, InMemoryFilesystem, VfsPath
from belljar.tools.code_interpreter import CodeInterpreterOutput, FileCitation, OpenAICodeInterpreterTool
from belljar.tools.containers import AutoContainerConfig, ExistingContainerRef
from belljar.tools.context import ToolContext
from belljar.tools.execution import call_tool, receive_output
from belljar.tools.provider import ProviderTool
from belljar.tools.resources import ResourceRegistry
from belljar.tools.result import ToolResult
from belljar.tools.schema import schema
from belljar.tools.serde import dump, parse
from belljar.tools.tool import Tool, ToolExample, ToolHandler
from belljar.tools.tool_choice import ToolChoice

__all__ = [
    "AutoContainerConfig",
    "CodeInterpreterOutput",
    "ExistingContainerRef",
    "FileCitation",
    "HostFilesystem",
    "HostMount",
    "HostMountPreview",
    "InMemoryFilesystem",
    "OpenAICodeInterpreterTool",
    "ProviderTool",
    "ResourceRegistry",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolExample",
    "ToolHandler",
    "ToolResult",
    "VfsPath",
    "call_tool",
    "dump",
    "parse",
    "receive_output",
    "schema",
]
