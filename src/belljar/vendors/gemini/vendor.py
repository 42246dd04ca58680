"""Gemini, at AI Studio and at Vertex: how each is reached, and what serves it."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.vendor import MIB, FileLimits, Vendor

_MODEL = "gemini-3.8-flash"

VENDOR = Vendor(
    name="gemini",
    title="Gemini",
    aliases=("ai_studio", "google"),
    dialect="gemini",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    address="GOOGLE_GEMINI_BASE_URL",
    base_url="https://generativelanguage.googleapis.com/v1",
    adds_version=True,
    hosts=("generativelanguage.googleapis.com",),
    model=_MODEL,
    sees=r"gemini|gemma-?(3n?|[4-9])(?!.*(270m|[-:]1b))",
    runs_code=True,
    sdk="google.genai",
    extra="gemini",
    client="belljar.providers.gemini_client:GeminiClient",
    files="belljar.files.gemini_files:GeminiFiles",
    file_limits=FileLimits(
        largest=2048 * MIB, retention=timedelta(hours=48), source="the founding table, unchecked since"
    ),
)

VERTEX = Vendor(
    name="vertex",
    title="Vertex",
    aliases=("vertex_ai",),
    dialect="gemini",
    address="GOOGLE_VERTEX_BASE_URL",
    needs_key=False,
    login_hint="no project; set GOOGLE_CLOUD_PROJECT, and log in with gcloud",
    host_pattern=r"([a-z0-9-]+-)?aiplatform(\.[a-z]+\.rep)?\.googleapis\.com",
    model=_MODEL,
    models="gemini",
    runs_code=True,
    sdk="google.genai",
    extra="gemini",
    client="belljar.providers.gemini_client:VertexClient",
    without_files="Vertex takes no uploads; put the file into Cloud Storage and refer to it by its gs:// address",
)

PROFILE = ServerProfile(name="vertex", think_tags=False, uploads=False)
"""Streams the arguments of calls, which Google's other door for Gemini does not, and takes no uploads."""
