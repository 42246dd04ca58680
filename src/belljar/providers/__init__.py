"""One conversation over any vendor: clients, their errors, the context they keep and the tools they convert."""

from belljar.providers.anthropic_client import AnthropicClient, AnthropicError
from belljar.providers.base import BaseClient
from belljar.providers.belljar_client import BelljarClient, GatewayError
from belljar.providers.chat_client import LMStudioClient, LMStudioError, OllamaClient, VLLMClient
from belljar.providers.code_execution import CodeExecution, OutputFile
from belljar.providers.context_manager import ContextManager, ContextStats, SimpleTokenCounter, TokenCounter
from belljar.providers.factory import create_client, get_provider_name
from belljar.providers.failures import ClientError
from belljar.providers.gemini_client import GeminiClient, GeminiError, VertexClient
from belljar.providers.openai_client import OpenAIClient, OpenAIError, handle_openai_error
from belljar.providers.types import AssistantResponse
from belljar.providers.uploads import FileReference, Uploads
from belljar.providers.xai_client import XAIClient, XAIError

__all__ = [
    "AnthropicClient",
    "AnthropicError",
    "AssistantResponse",
    "BaseClient",
    "BelljarClient",
    "ClientError",
    "CodeExecution",
    "ContextManager",
    "ContextStats",
    "FileReference",
    "GatewayError",
    "GeminiClient",
    "GeminiError",
    "LMStudioClient",
    "LMStudioError",
    "OllamaClient",
    "OpenAIClient",
    "OpenAIError",
    "OutputFile",
    "SimpleTokenCounter",
    "TokenCounter",
    "Uploads",
    "VLLMClient",
    "VertexClient",
    "XAIClient",
    "XAIError",
    "create_client",
    "get_provider_name",
    "handle_openai_error",
]
