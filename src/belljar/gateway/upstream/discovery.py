"""Upstreams that need no configuration: by the keys in the environment, and by asking the usual local ports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from belljar.config import Upstream
from belljar.gateway.upstream import builtin, listings
from belljar.gateway.upstream.adapter import DIALECTS
from belljar.gateway.upstream.answers import Broken
from belljar.gateway.upstream.transport import Transport

PROBE_SECONDS = 0.3


class Vendor(Struct, frozen=True, kw_only=True):
    """A provider that a key in the environment gives access to."""

    name: str
    keys: tuple[str, ...]
    """Variables that may hold the key; the first that is set counts."""
    base_url: str
    dialect: str = "chat"
    address: str | None = None
    """The variable that may hold another address."""
    path: str = ""
    """What the vendor's own clients add to such an address."""


class Local(Struct, frozen=True):
    """A server that people run on their own machine."""

    name: str
    base_url: str


# A row whose dialect is not there yet finds nothing until it is.
VENDORS = (
    Vendor(
        name="openai",
        keys=("OPENAI_API_KEY",),
        base_url="https://api.openai.com/v1",
        dialect="openai",
        address="OPENAI_BASE_URL",
    ),
    Vendor(
        name="anthropic",
        keys=("ANTHROPIC_API_KEY",),
        base_url="https://api.anthropic.com/v1",
        dialect="anthropic",
        address="ANTHROPIC_BASE_URL",
        path="/v1",
    ),
    Vendor(
        name="gemini",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url="https://generativelanguage.googleapis.com/v1",
        dialect="gemini",
    ),
    Vendor(name="xai", keys=("XAI_API_KEY",), base_url="https://api.x.ai/v1", dialect="xai"),
    Vendor(name="groq", keys=("GROQ_API_KEY",), base_url="https://api.groq.com/openai/v1"),
    Vendor(name="deepseek", keys=("DEEPSEEK_API_KEY",), base_url="https://api.deepseek.com/v1"),
    Vendor(name="openrouter", keys=("OPENROUTER_API_KEY",), base_url="https://openrouter.ai/api/v1"),
    Vendor(name="mistral", keys=("MISTRAL_API_KEY",), base_url="https://api.mistral.ai/v1"),
)
LOCAL = (
    Local("lmstudio", "http://127.0.0.1:1234/v1"),
    Local("ollama", "http://127.0.0.1:11434/v1"),
    Local("vllm", "http://127.0.0.1:8000/v1"),
    Local("llamacpp", "http://127.0.0.1:8080/v1"),
)


async def discover(
    environment: Mapping[str, str], configured: Sequence[Upstream], *, local: Sequence[Local] = LOCAL
) -> list[Upstream]:
    """What is there beside the configured upstreams, which keep their names and addresses to themselves."""
    found = [*by_key(environment), *await _running(local)]
    names = {upstream.name for upstream in configured}
    addresses = {_address(upstream.base_url) for upstream in configured}
    return [one for one in found if one.name not in names and _address(one.base_url) not in addresses]


def by_key(environment: Mapping[str, str]) -> list[Upstream]:
    """The vendors that the environment has a key for."""
    found = []
    for vendor in VENDORS:
        keys = (environment.get(variable, "").strip() for variable in vendor.keys)
        key = next(filter(None, keys), None)
        if key and vendor.dialect in DIALECTS:
            address = environment.get(vendor.address, "").strip() if vendor.address else ""
            if address:
                address = address.rstrip("/").removesuffix(vendor.path) + vendor.path
            found.append(
                Upstream(name=vendor.name, base_url=address or vendor.base_url, dialect=vendor.dialect, api_key=key)
            )
    return found


async def _running(local: Sequence[Local]) -> list[Upstream]:
    transport = Transport()
    try:
        answers = await asyncio.gather(*(_has_models(transport, one.base_url) for one in local))
    finally:
        await transport.close()
    return [Upstream(name=one.name, base_url=one.base_url) for one, has in zip(local, answers, strict=True) if has]


async def _has_models(transport: Transport, base_url: str) -> bool:
    """Whether a list of models comes back at once; one with our own model in it is another Belljar's."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            status, body = await transport.get(f"{base_url}/models", {}, timeout=PROBE_SECONDS)
    except (Broken, TimeoutError):
        return False
    listed = listings.read(body) if status == 200 else None
    return listed is not None and builtin.NAME not in listed


def _address(base_url: str) -> str:
    """Spelled one way: a local server is the same under each of its names."""
    plain = base_url.rstrip("/").removesuffix("/v1").lower()
    return plain.replace("://localhost", "://127.0.0.1").replace("://[::1]", "://127.0.0.1")
