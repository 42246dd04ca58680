"""The examples of the founding document, with only the import root changed and no argument added."""

from __future__ import annotations

import pytest
from tests.library.providers.conftest import TOOLS
from tests.library.providers.replay import Replay
from tests.library.providers.wires import function_call, message, refused, responded, streamed


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, server: Replay, tmp_path: object) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-your-key-here")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")


def test_basic_text_generation(server: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    server.play(responded("resp_1", message("Paris.")))
    from belljar.providers import create_client

    client = create_client(provider="openai")
    response = client.send_message("What is the capital of France?")
    print(response.text)
    assert capsys.readouterr().out == "Paris.\n"


def test_with_streaming(server: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    server.play(streamed("resp_1", "Code ", "flows"))
    from belljar.providers import create_client

    client = create_client(provider="openai")

    def on_text(chunk: str) -> None:
        print(chunk, end="", flush=True)

    response = client.send_message("Write a short poem about coding", on_text=on_text)
    assert capsys.readouterr().out == response.text == "Code flows"


def test_tool_calling_flow(server: Replay) -> None:
    server.play(
        responded("resp_1", function_call("run_command", {"command": "ls", "requires_confirmation": None})),
        responded("resp_2", message("Two files.")),
    )
    from belljar.providers import create_client

    def execute_tool(name: str, given: dict[str, object]) -> str:
        return f"{name} {given}"

    client = create_client(provider="openai", tools=TOOLS)
    response = client.send_message("List files in the current directory")
    if response.tool_calls:
        results = []
        for tool_call in response.tool_calls:
            output = execute_tool(tool_call["name"], tool_call["input"])
            results.append({"tool_use_id": tool_call["id"], "content": output})
        response = client.send_tool_results(results)
    assert response.text == "Two files."
    [result] = server.asked[1].json["input"]
    assert result["output"] == "run_command {'command': 'ls', 'requires_confirmation': False}"


def test_programmatic_configuration_and_a_complex_task(server: Replay) -> None:
    server.play(responded("resp_1", message("Done.")))
    from belljar.providers import create_client

    client = create_client(provider="openai")
    client.set_model("gpt-5.2-pro")
    client.set_reasoning_effort("xhigh")
    client.set_verbosity("high")
    client.send_message("Analyze this algorithm and suggest optimizations")
    asked = server.asked[0].json
    assert (asked["model"], asked["reasoning"], asked["text"]) == (
        "gpt-5.2-pro",
        {"effort": "xhigh"},
        {"verbosity": "high"},
    )


def test_reasoning_effort_of_a_client_without_arguments(server: Replay) -> None:
    server.play(responded("resp_1", message("Done.")))
    from belljar.providers import OpenAIClient

    client = OpenAIClient()
    client.set_reasoning_effort("medium")
    client.send_message("x")
    assert server.asked[0].json["reasoning"] == {"effort": "medium"}
    assert server.asked[0].headers["authorization"] == "Bearer sk-your-key-here"


def test_context_statistics(server: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    server.play(responded("resp_1", message("Done.")))
    from belljar.providers import create_client

    client = create_client(provider="openai")
    client.send_message("x")
    stats = client.get_context_stats()
    print(f"Provider: {stats['provider']}")
    print(f"Model: {stats['model']}")
    print(f"Is GPT-5.x: {stats['is_gpt5_model']}")
    print(f"Reasoning Effort: {stats.get('reasoning_effort', 'N/A')}")
    print(f"Verbosity: {stats.get('verbosity', 'N/A')}")
    print(f"Messages: {stats['message_count']}")
    print(f"Response Chain Active: {stats['has_response_chain']}")
    assert capsys.readouterr().out.splitlines() == [
        "Provider: openai",
        "Model: gpt-5.2",
        "Is GPT-5.x: True",
        "Reasoning Effort: N/A",
        "Verbosity: medium",
        "Messages: 2",
        "Response Chain Active: True",
    ]


def test_error_handler(server: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    server.play(refused(400, "no", code="content_policy_violation"))
    from belljar.providers import create_client
    from belljar.providers.openai_client import handle_openai_error

    client = create_client(provider="openai")
    try:
        client.send_message("Hello")
    except Exception as e:  # noqa: BLE001 - as the document has it
        error = handle_openai_error(e)
        print(f"Error [{error.error_code}]: {error.user_message}")
    assert capsys.readouterr().out.startswith("Error [CONTENT_POLICY]: Content policy violation")


def test_models(capsys: pytest.CaptureFixture[str]) -> None:
    from belljar.models import get_models_by_provider, is_gpt5_model, is_reasoning_model, supports_verbosity

    assert [is_gpt5_model(name) for name in ("gpt-5.2", "gpt-5-mini", "gpt-4o")] == [True, True, False]
    assert [is_reasoning_model(name) for name in ("gpt-5.2", "o3-mini", "gpt-4o")] == [True, True, False]
    assert [supports_verbosity(name) for name in ("gpt-5.2", "o3-mini")] == [True, False]
    for m in get_models_by_provider("openai"):
        print(f"{m.id}: {m.name}")
    listed = capsys.readouterr().out.splitlines()
    wanted = {"gpt-5.2: GPT-5.2", "gpt-5.2-pro: GPT-5.2 Pro", "gpt-5.2-codex: GPT-5.2 Codex", "gpt-5-mini: GPT-5 Mini"}
    assert wanted | {"gpt-5-nano: GPT-5 Nano", "gpt-4o: GPT-4o (Legacy)"} <= {*listed}


def test_slow_responses_have_a_remedy(server: Replay) -> None:
    """A smaller model, less thought, fewer words."""
    server.play(responded("resp_1", message("a")), responded("resp_2", message("b")))
    from belljar.providers import create_client

    client = create_client(provider="openai")
    client.set_reasoning_effort("low")
    client.set_verbosity("low")
    for model in ("gpt-5-mini", "gpt-5-nano"):
        client.set_model(model)
        client.send_message("x")
    assert [one.json["model"] for one in server.asked] == ["gpt-5-mini", "gpt-5-nano"]
    assert {(one.json["reasoning"]["effort"], one.json["text"]["verbosity"]) for one in server.asked} == {
        ("low", "low")
    }
