"""The table of servers has a row for each, and an upstream's address or name tells which."""

import pytest

from belljar.vendors.chat.servers import for_model
from belljar.vendors.registry import KINDS, guess_vendor, vendor_of_owners
from belljar.vendors.vendor import GENERIC


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
        "mistral",
        "anthropic",
        "anthropic-2023-06-01",
        "generic",
    }
    assert kinds <= set(KINDS)
    assert all(row.name == name for name, row in KINDS.items())


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
        ("x", "https://generativelanguage.googleapis.com/v1", "gemini"),
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
        ("x", "https://api.mistral.ai/v1", "mistral"),
        ("my-mistral", "http://proxy/v1", "mistral"),
        ("qwen-on-vllm", "http://gpu:8000/v1", "vllm"),
        ("anthropic-by-openrouter", "http://proxy/v1", "openrouter"),
        ("gemini-at-vertex", "http://proxy/v1", "vertex"),
        ("", "", "generic"),
    ],
)
def test_guess(name: str, base_url: str, row: str) -> None:
    assert guess_vendor(name, base_url) is KINDS[row]


@pytest.mark.parametrize(
    ("owners", "row"),
    [
        (["llamacpp"], "llama_cpp"),
        (["vllm", "vllm"], "vllm"),
        (["organization_owner"], "lm_studio"),
        (["library", "somebody"], "ollama"),
        (["somebody"], None),
        (["vllm", "library"], None),
        ([], None),
    ],
)
def test_whose_the_models_are_tells_the_server(owners: list[str], row: str | None) -> None:
    assert vendor_of_owners(owners) == (None if row is None else KINDS[row])


def test_generic_is_the_row_of_the_defaults() -> None:
    assert KINDS["generic"] is GENERIC
    assert GENERIC.profile.members == {"stream_options"}


@pytest.mark.parametrize(
    "model",
    [
        "mistral-large-latest",
        "mistralai/Mistral-Nemo-Instruct-2407",
        "open-mixtral-8x22b",
        "ministral-8b-latest",
        "magistral:24b",
        "mistralai/devstral-small",
        "codestral-2501",
        "pixtral-12b",
        "voxtral-small",
    ],
)
def test_models_of_mistral_have_its_rules_on_any_server(model: str) -> None:
    row = for_model(KINDS["vllm"].profile, model)
    assert (row.call_ids, row.ordered) == (KINDS["mistral"].profile.call_ids, True)
    assert (row.reasoning, row.members) == ("reasoning", KINDS["vllm"].profile.members)
    assert for_model(KINDS["mistral"].profile, model) == KINDS["mistral"].profile


@pytest.mark.parametrize("model", ["gpt-5", "qwen3-32b", "astral-7b", "australis", ""])
def test_models_of_others_have_their_servers_rules(model: str) -> None:
    assert for_model(GENERIC.profile, model) is GENERIC.profile
