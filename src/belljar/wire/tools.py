"""Tools that a request declares, and which of them the model must or may use."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from belljar.wire.items import Carried, Json, Value

Tier: TypeAlias = Literal["1g", "4g", "16g", "64g"]
FunctionName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9_-]+\Z")]


class FunctionTool(Value, frozen=True, kw_only=True, tag="function"):
    """A function of the caller's; told back complete."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Json] | None = None
    strict: bool | None = None
    defer_loading: bool | UnsetType = UNSET
    allowed_callers: tuple[str, ...] | UnsetType | None = UNSET


class CustomTool(Value, frozen=True, kw_only=True, tag="custom"):
    """A tool of the caller's that takes free text."""

    name: Annotated[str, Meta(min_length=1, max_length=128)]
    description: str | UnsetType = UNSET
    format: Json | UnsetType = UNSET


class DomainSecret(Struct, frozen=True, kw_only=True):
    domain: str
    name: str
    value: str


class NetworkPolicy(Struct, frozen=True, kw_only=True):
    type: Literal["disabled", "allowlist"]
    allowed_domains: tuple[str, ...] | UnsetType = UNSET
    domain_secrets: tuple[DomainSecret, ...] | UnsetType | None = UNSET


class AutoContainer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="auto"):
    """Use the chain's container, or make one."""

    file_ids: Annotated[tuple[str, ...], Meta(max_length=50)] | UnsetType = UNSET
    memory_limit: Tier | UnsetType | None = UNSET
    network_policy: NetworkPolicy | UnsetType = UNSET


class CodeInterpreterTool(Value, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="code_interpreter"):
    container: str | AutoContainer
    """A container's id, or auto."""
    allowed_callers: tuple[str, ...] | UnsetType | None = UNSET


class HostedTool(Carried):
    """A tool that only its vendor can run."""

    __slots__ = ()


Tool: TypeAlias = FunctionTool | CustomTool | CodeInterpreterTool | HostedTool

HOSTED = frozenset(
    [
        "file_search",
        "computer",
        "computer_use_preview",
        "web_search",
        "web_search_2025_08_26",
        "mcp",
        "programmatic_tool_calling",
        "image_generation",
        "local_shell",
        "shell",
        "namespace",
        "tool_search",
        "web_search_preview",
        "web_search_preview_2025_03_11",
        "apply_patch",
    ]
)


class Choice(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool, by type and where it has one by name: in `tool_choice` and in `allowed_tools`."""

    type: str
    name: str | UnsetType = UNSET
    server_label: str | UnsetType = UNSET


class AllowedTools(Value, frozen=True, kw_only=True, tag="allowed_tools"):
    """Only these, whatever `tools` declares."""

    mode: Literal["auto", "required"]
    tools: tuple[Choice, ...]


ToolChoice: TypeAlias = Literal["none", "auto", "required"] | AllowedTools | Choice
