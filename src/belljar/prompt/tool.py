"""Tools under the name that prompts are written with; they live in `belljar.tools`."""

from belljar.tools.context import ToolContext
from belljar.tools.tool import Tool, ToolExample, ToolHandler

__all__ = ["Tool", "ToolContext", "ToolExample", "ToolHandler"]
