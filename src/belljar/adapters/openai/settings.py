"""How a model of OpenAI's is asked, and how OpenAI is reached; checked when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.adapters.validation import check_choice, check_text, check_whole
from belljar.config import ApiSettings
from belljar.models import EFFORTS, Effort
from belljar.prompt.frozen import FrozenDataclass
from belljar.providers import OpenAIError, handle_openai_error, vendor_settings
from belljar.providers.base import VERBOSITIES, Verbosity
from belljar.providers.failures import translate_errors

if TYPE_CHECKING:
    from openai import OpenAI

LONGEST_IDENTIFIER = 128
_REFUSED = ("stop", "seed", "presence_penalty", "frequency_penalty")


@FrozenDataclass(kw_only=True)
class OpenAIModelConfig:
    """None: what the model does by itself."""

    temperature: float | None = None
    max_tokens: int | None = None
    """Of one answer: `max_output_tokens` on the wire."""
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    parallel_tool_calls: bool | None = True
    store: bool | None = None
    user: str | None = None
    """OpenAI has put `safety_identifier` and `prompt_cache_key` in its place."""
    reasoning_effort: Effort | None = None
    """How long the model may think; what it has nearest to it is sent, and nothing to one that takes none."""
    verbosity: Verbosity | None = None
    """How much it says; sent to models that heed it."""
    safety_identifier: str | None = None
    """Who of your users asks, as a hash: OpenAI looks for misuse by it."""
    prompt_cache_key: str | None = None
    """Requests with one key and one beginning are sent where that is cached already."""

    def __post_init__(self) -> None:
        check_choice("OpenAIModelConfig.reasoning_effort", self.reasoning_effort, EFFORTS)
        check_choice("OpenAIModelConfig.verbosity", self.verbosity, VERBOSITIES)
        if self.max_tokens is not None:
            check_whole("OpenAIModelConfig.max_tokens", self.max_tokens)
        if self.safety_identifier is not None:
            check_text("OpenAIModelConfig.safety_identifier", self.safety_identifier, longest=LONGEST_IDENTIFIER)
        if self.prompt_cache_key is not None:
            check_text("OpenAIModelConfig.prompt_cache_key", self.prompt_cache_key)
        for name in _REFUSED:
            if getattr(self, name) is not None:
                raise ValueError(f"OpenAIModelConfig.{name}: the Responses API has no such parameter; leave it out")


@FrozenDataclass(kw_only=True)
class OpenAIClientConfig:
    """None: what the environment or the settings say, or the SDK's default."""

    api_key: str | None = None
    base_url: str | None = None
    organization: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    """Of containers and files; turns are tried again by the adapter's throttle policy."""

    def client(self) -> OpenAI:
        settings = ApiSettings.load()
        key = self.api_key or vendor_settings.key_for("openai", settings)
        if key is None:
            raise OpenAIError.of("AUTH_ERROR", "no key is set")
        members = {
            "api_key": key,
            "base_url": self.base_url or vendor_settings.address_for("openai", settings),
            "organization": self.organization,
            "timeout": self.timeout,
            "max_retries": self.max_retries,
        }
        module = vendor_settings.sdk("openai")
        with translate_errors(handle_openai_error):
            made: OpenAI = module.OpenAI(**{name: value for name, value in members.items() if value is not None})
        return made
