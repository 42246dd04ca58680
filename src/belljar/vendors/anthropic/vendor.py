"""Anthropic: how it is reached, and what serves it."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.anthropic.models import MODELS
from belljar.vendors.file_reading import FileReading
from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.vendor import MIB, FileLimits, Vendor, Wire

WIRE = Wire("anthropic", "belljar.vendors.anthropic.dialect:AnthropicDialect")
READING = FileReading(
    largest=20 * MIB,
    types=("application/pdf", "text/", "application/json", "application/jsonl", "application/xml", "application/yaml"),
)
"""What is no PDF is read as text."""

VENDOR = Vendor(
    name="anthropic",
    title="Anthropic",
    aliases=("claude",),
    wire=WIRE,
    profile=ServerProfile(strict=True),
    keys=("ANTHROPIC_API_KEY",),
    address="ANTHROPIC_BASE_URL",
    base_url="https://api.anthropic.com/v1",
    adds_version=True,
    hosts=("anthropic.com",),
    model="claude-sonnet-5-5",
    model_rows=MODELS,
    sees="claude",
    runs_code=True,
    reading=READING,
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

OF_2023 = Vendor(name="anthropic-2023-06-01", title="Anthropic", wire=WIRE)
"""A server that still speaks the version of then."""
