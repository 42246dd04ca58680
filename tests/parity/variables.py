"""Every variable by which a face finds a vendor and its key, and what each face makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tests.parity.faces import FACES, Face
from tests.parity.rows import Row

from belljar.adapters.claude_agent_sdk import ClaudeAgentSDKClientConfig
from belljar.adapters.openai import OpenAIClientConfig
from belljar.config import Settings, Upstream
from belljar.files.registry import FACTORIES
from belljar.gateway.upstream.discovery import find_by_key, find_local
from belljar.providers import create_client

KEY = "sk-variable-0123456789"
_THERE, _HERE = "https://proxy.example", "http://127.0.0.1:9"
_LOCAL = ("lm_studio", "ollama", "vllm")


@dataclass(frozen=True, kw_only=True)
class Variable(Row):
    """What the environment says, and whom it is to lead to."""

    environment: Mapping[str, str]
    address: str = ""
    """Without the version of the API; empty where the vendor's own is meant."""

    @property
    def faces(self) -> tuple[Face, ...]:
        return FACES[self.vendor]

    def meaning(self, face: str) -> str:
        return f"{self.vendor} {self.address or _OWN[self.vendor]} {KEY}"


_OWN = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "xai": "https://api.x.ai",
}


def _vendor(vendor: str, keys: tuple[str, ...], address: str) -> list[Variable]:
    """All that a vendor's own clients take: an address with and without the version, with a slash and spaces."""
    rows = [Variable(id=key, vendor=vendor, environment={key: KEY}) for key in keys]
    rows.append(Variable(id=f"{keys[0]} in spaces", vendor=vendor, environment={keys[0]: f" {KEY}\n"}))
    if len(keys) > 1:
        both = {keys[0]: KEY, keys[1]: "sk-second-0123456789"}
        rows.append(Variable(id=f"{keys[0]} before {keys[1]}", vendor=vendor, environment=both))
    for spelling, said in (
        ("", f"{_THERE}/v1"),
        (" with a slash", f"{_THERE}/v1/"),
        (" in spaces", f" {_THERE}/v1 "),
        (" as nothing", " "),
        *(((" without a version", _THERE),) if vendor in ("anthropic", "gemini") else ()),
    ):
        environment = {keys[0]: KEY, address: said}
        where = _THERE if said.strip() else ""
        rows.append(Variable(id=address + spelling, vendor=vendor, environment=environment, address=where))
    return rows


def _server(vendor: str, prefix: str) -> list[Variable]:
    """A server on this machine is looked for at the address that is said; there it is shown the key."""
    return [
        Variable(
            id=f"{prefix}_BASE_URL{spelling}",
            vendor=vendor,
            environment={f"{prefix}_BASE_URL": said, f"{prefix}_API_KEY": KEY},
            address=_HERE,
        )
        for spelling, said in (("", f"{_HERE}/v1"), (" with a slash", f"{_HERE}/v1/"), (" without a version", _HERE))
    ]


VARIABLES = (
    *_vendor("openai", ("OPENAI_API_KEY",), "OPENAI_BASE_URL"),
    *_vendor("anthropic", ("ANTHROPIC_API_KEY",), "ANTHROPIC_BASE_URL"),
    *_vendor("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "GOOGLE_GEMINI_BASE_URL"),
    *_vendor("xai", ("XAI_API_KEY",), "XAI_BASE_URL"),
    *_server("lm_studio", "LM_STUDIO"),
    *_server("ollama", "OLLAMA"),
    *_server("vllm", "VLLM"),
)


def told(row: Variable, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """The name, the address and the key that each face finds in an environment that has nothing else."""
    for name, value in row.environment.items():
        patch.setenv(name, value)
    return {face: _FOUND[face](row) for face in row.faces}


def _serve(row: Variable) -> str:
    variables = Settings.load().provider_variables
    found = find_local(variables) if row.vendor in _LOCAL else find_by_key(variables)
    said = {row.address, row.address.replace("127.0.0.1", "localhost")}
    one = next((one for one in found if row.vendor not in _LOCAL or _bare(one.base_url) in said), None)
    return "nothing" if one is None else f"{one.name} {_address(one, row.vendor)} {one.api_key}"


def _address(upstream: Upstream, vendor: str) -> str:
    """Every dialect of ours wants the version in the address."""
    whole = upstream.base_url.endswith("/v1")
    return _bare(upstream.base_url) if whole else f"{upstream.base_url} without a version"


def _client(row: Variable) -> str:
    with create_client(row.vendor, model="m") as client:
        return f"{client.provider} {_sdk(row.vendor, cast(Any, client).client)}"


def _adapter(row: Variable) -> str:
    config = ClaudeAgentSDKClientConfig() if row.vendor == "anthropic" else OpenAIClientConfig()
    with config.client() as sdk:
        return f"{row.vendor} {_sdk(row.vendor, sdk)}"


def _files(row: Variable) -> str:
    files = cast(Any, FACTORIES[row.vendor]())
    try:
        return f"{files.provider} {_sdk(row.vendor, files.client)}"
    finally:
        files.close()


def _sdk(vendor: str, sdk: Any) -> str:
    """Where an SDK's client will go. Those of OpenAI's take the address with the version; the others add it."""
    if vendor == "gemini":
        options = sdk._api_client._http_options
        return f"{_added(options.base_url)} {sdk._api_client.api_key}"
    address = str(sdk.base_url).rstrip("/")
    if vendor == "anthropic":
        return f"{_added(address)} {sdk.api_key}"
    return f"{_bare(address) if address.endswith('/v1') else f'{address} without a version'} {sdk.api_key}"


def _added(address: str) -> str:
    plain = address.rstrip("/")
    return f"{plain} twice" if plain.endswith("/v1") else plain


def _bare(address: str) -> str:
    return address.rstrip("/").removesuffix("/v1")


_FOUND: Mapping[Face, Callable[[Variable], str]] = {
    "gateway": _serve,
    "client": _client,
    "adapter": _adapter,
    "files": _files,
}
