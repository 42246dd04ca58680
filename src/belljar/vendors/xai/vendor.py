"""xAI: how it is reached, and what serves it."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.file_reading import FileReading
from belljar.vendors.vendor import MIB, FileLimits, Vendor, Wire
from belljar.vendors.xai.models import MODELS

VENDOR = Vendor(
    name="xai",
    title="xAI",
    aliases=("grok",),
    wire=Wire("xai", "belljar.vendors.xai.dialect:XaiDialect"),
    keys=("XAI_API_KEY",),
    address="XAI_BASE_URL",
    base_url="https://api.x.ai/v1",
    hosts=("x.ai",),
    model="grok-4.6",
    model_rows=MODELS,
    sees=r"grok-?[2-9]",
    runs_code=True,
    reading=FileReading(largest=48 * MIB, uploaded=True),
    extra="xai",
    client="belljar.providers.xai_client:XAIClient",
    files="belljar.files.openai_files:XAIFiles",
    file_limits=FileLimits(
        largest=48 * MIB,
        lifetimes=(timedelta(hours=1), timedelta(days=30)),
        source="xAI's REST reference (50 MB, kept until deleted); the 72 hours of the founding table are gone",
    ),
)
