"""OpenAI: how it is reached, what serves it, and what its servers take."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.file_reading import FileReading
from belljar.vendors.openai.models import MODELS
from belljar.vendors.sampling import row
from belljar.vendors.server_profile import OPENAI_SAMPLING, ServerProfile
from belljar.vendors.vendor import MIB, FileLimits, Vendor, Wire

WIRE = Wire("openai", "belljar.vendors.openai.dialect:OpenAIDialect")

_PROFILE = ServerProfile(
    limit="max_completion_tokens",
    developer=True,
    members=frozenset(
        [
            "stream_options",
            "parallel_tool_calls",
            "reasoning_effort",
            "verbosity",
            "logprobs",
            "service_tier",
            "prompt_cache_key",
            "safety_identifier",
        ]
    ),
    sampling=row(*OPENAI_SAMPLING, stops=4),
    strict=True,
    think_tags=False,
)

VENDOR = Vendor(
    name="openai",
    title="OpenAI",
    wire=WIRE,
    profile=_PROFILE,
    keys=("OPENAI_API_KEY",),
    address="OPENAI_BASE_URL",
    base_url="https://api.openai.com/v1",
    hosts=("openai.com", "openai.azure.com"),
    model="gpt-5.2",
    model_rows=MODELS,
    sees=r"gpt-?4o|gpt-?4\.1|gpt-?[5-9]|\bo[1-9]\b",
    reading=FileReading(largest=50 * MIB),
    client="belljar.providers.openai_client:OpenAIClient",
    files="belljar.files.openai_files:OpenAIFiles",
    file_limits=FileLimits(
        largest=512 * MIB,
        lifetimes=(timedelta(hours=1), timedelta(days=30)),
        source="OpenAI's API reference; the 20 minutes of the founding table are a container's, not a file's",
    ),
)
