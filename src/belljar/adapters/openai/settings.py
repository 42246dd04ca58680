"""How a model of OpenAI's is asked, and how OpenAI is reached; checked when it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from belljar.prompt.frozen import FrozenDataclass
from belljar.providers import access

if TYPE_CHECKING:
    from openai import OpenAI

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

    def __post_init__(self) -> None:
        for name in _REFUSED:
            if getattr(self, name) is not None:
                raise ValueError(f"OpenAIModelConfig.{name}: the Responses API has no such parameter; leave it out")

    def wire(self) -> dict[str, Any]:
        """Its members in a request; `parallel_tool_calls` goes with the tools."""
        members = {
            "temperature": self.temperature,
            "max_output_tokens": self.max_tokens,
            "top_p": self.top_p,
            "top_logprobs": self.top_logprobs,
            "store": self.store,
            "user": self.user,
        }
        written: dict[str, Any] = {name: value for name, value in members.items() if value is not None}
        return {**written, "include": ["message.output_text.logprobs"]} if self.logprobs else written


@FrozenDataclass(kw_only=True)
class OpenAIClientConfig:
    """None: what the SDK takes from the environment, or its default."""

    api_key: str | None = None
    base_url: str | None = None
    organization: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    """Of containers and files; turns are tried again by the adapter's throttle policy."""

    def client(self) -> OpenAI:
        members = {
            "api_key": self.api_key,
            "base_url": self.base_url,
            "organization": self.organization,
            "timeout": self.timeout,
            "max_retries": self.max_retries,
        }
        made: OpenAI = access.sdk("openai").OpenAI(
            **{name: value for name, value in members.items() if value is not None}
        )
        return made
