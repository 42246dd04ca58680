"""Results of tools under the name that prompts are written with; they live in `belljar.tools`."""

from belljar.tools.result import ToolResult

__all__ = ["ToolResult"]
