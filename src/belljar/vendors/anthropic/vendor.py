"""Anthropic: how it is reached, what serves it, and what the versions of its wire take."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.vendor import MIB, FileLimits, Vendor

VENDOR = Vendor(
    name="anthropic",
    title="Anthropic",
    aliases=("claude",),
    dialect="anthropic",
    keys=("ANTHROPIC_API_KEY",),
    address="ANTHROPIC_BASE_URL",
    base_url="https://api.anthropic.com/v1",
    adds_version=True,
    hosts=("anthropic.com",),
    model="claude-sonnet-5-5",
    sees="claude",
    runs_code=True,
    sdk="anthropic",
    extra="anthropic",
    client="belljar.providers.anthropic_client:AnthropicClient",
    files="belljar.files.anthropic_files:AnthropicFiles",
    file_limits=FileLimits(
        largest=500 * MIB,
        lifetimes=(timedelta(hours=1), timedelta(days=90)),
        source="size: the founding table, unchecked since; lifetimes: Anthropic's SDK 2.8",
    ),
)

PROFILES = (
    ServerProfile(name="anthropic", strict=True, eager=True),
    # As its version was until 2026: takes temperature and top_p, wants another header, knows no form of answer.
    ServerProfile(
        name="anthropic-2023-06-01",
        version="2023-06-01",
        formats=frozenset(),
        code_tool="code_execution_20250825",
    ),
)
