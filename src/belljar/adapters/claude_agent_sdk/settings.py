"""How Claude is asked, and how Anthropic is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from belljar.config import ApiSettings
from belljar.prompt.frozen import FrozenDataclass
from belljar.providers import AnthropicError, access

if TYPE_CHECKING:
    from anthropic import Anthropic


@FrozenDataclass(kw_only=True)
class ClaudeAgentSDKModelConfig:
    max_tokens: int = 8192
    """Of one answer."""


@FrozenDataclass(kw_only=True)
class ClaudeAgentSDKClientConfig:
    """None: what the environment says, or the SDK's default."""

    api_key: str | None = None
    base_url: str | None = None
    timeout: float | None = None

    def client(self) -> Anthropic:
        settings = ApiSettings.load()
        key = self.api_key or access.key_for("anthropic", settings)
        if key is None:
            raise AnthropicError.of("AUTH_ERROR", "no key is set")
        address = (self.base_url or access.address_for("anthropic", settings)).removesuffix("/v1")
        more = {} if self.timeout is None else {"timeout": self.timeout}
        made: Anthropic = access.sdk("anthropic").Anthropic(api_key=key, base_url=address, **more)
        return made
