"""Prompts in sections, with typed parameters, tools and answers."""

from belljar.prompt.frozen import FrozenDataclass
from belljar.prompt.prompt import Prompt, PromptResponse, RenderedPrompt
from belljar.prompt.section import MarkdownSection, PromptSection, Section
from belljar.prompt.structured import parse_structured_output, text_format
from belljar.prompt.template import PromptTemplate
from belljar.prompt.vfs import VfsToolsSection
from belljar.runtime import Budget, BudgetTracker, Deadline
from belljar.tools import ResourceRegistry, Tool, ToolChoice, ToolContext, ToolExample, ToolHandler, ToolResult

__all__ = [
    "Budget",
    "BudgetTracker",
    "Deadline",
    "FrozenDataclass",
    "MarkdownSection",
    "Prompt",
    "PromptResponse",
    "PromptSection",
    "PromptTemplate",
    "RenderedPrompt",
    "ResourceRegistry",
    "Section",
    "Tool",
    "ToolChoice",
    "ToolContext",
    "ToolExample",
    "ToolHandler",
    "ToolResult",
    "VfsToolsSection",
    "parse_structured_output",
    "text_format",
]
