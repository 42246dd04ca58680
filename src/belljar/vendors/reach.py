"""How each vendor and each kind of model server is reached: the variables with its key and its address, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec import Struct

VERSION = "/v1"
"""What stands at the end of every address here, and what the SDKs of Anthropic and Google add themselves."""


class Reach(Struct, frozen=True, kw_only=True):
    """One row. Whoever reads the variables hands them over."""

    keys: tuple[str, ...]
    """Variables that may hold the key; the first that is set counts."""
    address: str
    """The variable that may hold another address."""
    base_url: str
    dialect: str = "chat"
    local: bool = False
    """It is a server that people run on their own machine, and `base_url` is where that usually is."""

    def key_in(self, variables: Mapping[str, str]) -> str | None:
        return next(filter(None, (variables.get(name, "").strip() for name in self.keys)), None)

    def address_in(self, variables: Mapping[str, str]) -> str:
        """Another address, in our spelling; empty where none is said.

        A path that somebody chose is his own; without one, or where the vendor's clients add the version, it is added.
        """
        said = variables.get(self.address, "").strip().rstrip("/")
        if not said:
            return ""
        adds = self.dialect in ("anthropic", "gemini") or (self.local and not _path(said))
        return said.removesuffix(VERSION) + VERSION if adds else said


def _path(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:  # no address at all, which is told to whoever asks there
        return address


def _vendor(name: str, base_url: str, *keys: str, address: str = "", dialect: str = "chat") -> Reach:
    named = name.upper()
    return Reach(
        keys=keys or (f"{named}_API_KEY",),
        address=address or f"{named}_BASE_URL",
        base_url=base_url,
        dialect=dialect,
    )


def _server(name: str, port: int) -> Reach:
    named = name.upper()
    return Reach(
        keys=(f"{named}_API_KEY",), address=f"{named}_BASE_URL", base_url=f"http://127.0.0.1:{port}/v1", local=True
    )


REACH: Mapping[str, Reach] = MappingProxyType(
    {
        "openai": _vendor("openai", "https://api.openai.com/v1", dialect="openai"),
        "anthropic": _vendor("anthropic", "https://api.anthropic.com/v1", dialect="anthropic"),
        "gemini": _vendor(
            "gemini",
            "https://generativelanguage.googleapis.com/v1",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            address="GOOGLE_GEMINI_BASE_URL",
            dialect="gemini",
        ),
        "xai": _vendor("xai", "https://api.x.ai/v1", dialect="xai"),
        "groq": _vendor("groq", "https://api.groq.com/openai/v1"),
        "deepseek": _vendor("deepseek", "https://api.deepseek.com/v1"),
        "openrouter": _vendor("openrouter", "https://openrouter.ai/api/v1"),
        "mistral": _vendor("mistral", "https://api.mistral.ai/v1"),
        "lm_studio": _server("lm_studio", 1234),
        "ollama": _server("ollama", 11434),
        "vllm": _server("vllm", 8000),
        "llama_cpp": _server("llama_cpp", 8080),
    }
)
