"""The table of servers has a row for each, and an upstream's address or name tells which."""

import pytest

from belljar.dialects.quirks import GENERIC, TABLE, guess


def test_every_kind_has_a_row() -> None:
    kinds = {
        "openai",
        "lm_studio",
        "ollama",
        "vllm",
        "llama_cpp",
        "groq",
        "deepseek",
        "openrouter",
        "alibaba",
        "vertex",
        "anthropic",
        "anthropic-2023-06-01",
        "generic",
    }
    assert kinds <= set(TABLE)
    assert all(row.name == name for name, row in TABLE.items())


@pytest.mark.parametrize(
    ("name", "base_url", "row"),
    [
        ("x", "https://api.openai.com/v1", "openai"),
        ("x", "https://mine.openai.azure.com/openai/v1", "openai"),
        ("x", "https://api.groq.com/openai/v1", "groq"),
        ("x", "https://api.deepseek.com", "deepseek"),
        ("x", "https://openrouter.ai/api/v1", "openrouter"),
        ("x", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "alibaba"),
        ("x", "https://ollama.com/v1", "ollama"),
        ("x", "https://api.anthropic.com/v1", "anthropic"),
        ("my-anthropic", "http://proxy/v1", "anthropic"),
        ("x", "https://us-central1-aiplatform.googleapis.com/v1/projects/p", "vertex"),
        ("x", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p", "vertex"),
        ("x", "https://aiplatform.googleapis.com/v1/publishers/google", "vertex"),
        ("x", "https://generativelanguage.googleapis.com/v1", "generic"),
        ("x", "http://127.0.0.1:11434/v1", "ollama"),
        ("openai", "http://localhost:1234/v1", "lm_studio"),
        ("vllm", "http://gpu:8000/v1", "vllm"),
        ("my-vLLM-2", "http://gpu:8000/v1", "vllm"),
        ("llama.cpp", "http://gpu:8080", "llama_cpp"),
        ("llama_cpp", "http://gpu:8080", "llama_cpp"),
        ("LM Studio", "http://mac/v1", "lm_studio"),
        ("dashscope", "http://proxy/v1", "alibaba"),
        ("openai", "http://proxy/v1", "openai"),
        ("x", "http://notopenai.com/v1", "generic"),
        ("mistral", "https://api.mistral.ai/v1", "generic"),
        ("", "", "generic"),
    ],
)
def test_guess(name: str, base_url: str, row: str) -> None:
    assert guess(name, base_url) is TABLE[row]


def test_generic_is_the_row_of_the_defaults() -> None:
    assert TABLE["generic"] is GENERIC
    assert GENERIC.members == {"stream_options"}
