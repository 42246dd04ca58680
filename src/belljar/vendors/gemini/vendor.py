"""Gemini, at AI Studio and at Vertex: how each is reached, and what serves it."""

from __future__ import annotations

from datetime import timedelta

from belljar.vendors.file_reading import FileReading
from belljar.vendors.gemini.models import MODELS
from belljar.vendors.sampling import row
from belljar.vendors.server_profile import ServerProfile
from belljar.vendors.vendor import MIB, FileLimits, Vendor, Wire

WIRE = Wire("gemini", "belljar.vendors.gemini.dialect:GeminiDialect")
_MODEL = "gemini-3.8-flash"
_READING = FileReading(largest=14 * MIB)
"""A request may have 20 MB, in which files stand as base64."""

VENDOR = Vendor(
    name="gemini",
    title="Gemini",
    aliases=("ai_studio", "google"),
    wire=WIRE,
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    address="GOOGLE_GEMINI_BASE_URL",
    base_url="https://generativelanguage.googleapis.com/v1",
    adds_version=True,
    hosts=("generativelanguage.googleapis.com",),
    model=_MODEL,
    model_rows=MODELS,
    sees=r"gemini|gemma-?(3n?|[4-9])(?!.*(270m|[-:]1b))",
    runs_code=True,
    reading=_READING,
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
    wire=WIRE,
    address="GOOGLE_VERTEX_BASE_URL",
    needs_key=False,
    login_hint="no project; set GOOGLE_CLOUD_PROJECT, and log in with gcloud",
    host_pattern=r"([a-z0-9-]+-)?aiplatform(\.[a-z]+\.rep)?\.googleapis\.com",
    model=_MODEL,
    models="gemini",
    runs_code=True,
    reading=_READING,
    sdk="google.genai",
    extra="gemini",
    client="belljar.providers.gemini_client:VertexClient",
    profile=ServerProfile(
        think_tags=False, sampling=row("stop", "seed", "presence_penalty", "frequency_penalty", stops=5)
    ),
    without_files="Vertex takes no uploads; put the file into Cloud Storage and refer to it by its gs:// address",
)
