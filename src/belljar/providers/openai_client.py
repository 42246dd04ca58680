"""OpenAI, by the Responses API with chaining; its errors by the codes that users are told."""

from __future__ import annotations

from belljar.models import nearest_effort, supports_verbosity
from belljar.providers import openai_errors
from belljar.providers.failures import ClientError
from belljar.providers.responses_client import ResponsesClient


class OpenAIError(ClientError):
    """OpenAI failed, or found fault."""

    vendor = "OpenAI"
    key = "OPENAI_API_KEY"


def handle_openai_error(error: BaseException) -> OpenAIError:
    """What an exception of the SDK means; one that is ours already stays as it is."""
    meant = openai_errors.failure(error, OpenAIError)
    return meant if isinstance(meant, OpenAIError) else OpenAIError.of(meant.error_code, meant.detail, meant, meant)


class OpenAIClient(ResponsesClient):
    """Models of OpenAI."""

    provider = "openai"
    error = OpenAIError

    def _takes_effort(self) -> bool:
        return nearest_effort(self.get_model(), "high") is not None

    def _takes_verbosity(self) -> bool:
        return supports_verbosity(self.get_model())
