"""How Claude is asked, and how Anthropic is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.adapters.validation import check_choice, check_text, check_whole
from belljar.config import ApiSettings
from belljar.models import EFFORTS, Effort
from belljar.prompt.frozen import FrozenDataclass
from belljar.providers import AnthropicError, vendor_settings

if TYPE_CHECKING:
    from anthropic import Anthropic


@FrozenDataclass(kw_only=True)
class ClaudeAgentSDKModelConfig:
    max_tokens: int = 8192
    """Of one answer."""
    reasoning_effort: Effort | None = None
    """How long Claude may think; what the model has nearest to it is sent, and nothing to one that takes none."""
    safety_identifier: str | None = None
    """Who of your users asks, as a hash: `metadata.user_id` on the wire."""

    def __post_init__(self) -> None:
        check_whole("ClaudeAgentSDKModelConfig.max_tokens", self.max_tokens)
        check_choice("ClaudeAgentSDKModelConfig.reasoning_effort", self.reasoning_effort, EFFORTS)
        if self.safety_identifier is not None:
            check_text("ClaudeAgentSDKModelConfig.safety_identifier", self.safety_identifier)


@FrozenDataclass(kw_only=True)
class ClaudeAgentSDKClientConfig:
    """None: what the environment says, or the SDK's default."""

    api_key: str | None = None
    base_url: str | None = None
    timeout: float | None = None

    def client(self) -> Anthropic:
        settings = ApiSettings.load()
        key = self.api_key or vendor_settings.key_for("anthropic", settings)
        if key is None:
            raise AnthropicError.of("AUTH_ERROR", "no key is set")
        address = vendor_settings.strip_version(self.base_url or vendor_settings.address_for("anthropic", settings))
        more = {} if self.timeout is None else {"timeout": self.timeout}
        made: Anthropic = vendor_settings.sdk("anthropic").Anthropic(api_key=key, base_url=address, **more)
        return made
