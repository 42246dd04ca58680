"""OpenAI's client, with the founding documents' calls and `local()`: the whole gateway inside the program."""

from belljar.providers.vendor_settings import sdk

sdk("openai")  # says which extra to install where it is missing

from belljar.openai.client import AsyncOpenAI, OpenAI  # noqa: E402
from belljar.openai.items import readable  # noqa: E402

__all__ = ["AsyncOpenAI", "OpenAI", "readable"]
