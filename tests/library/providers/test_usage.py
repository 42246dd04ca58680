"""What an answer cost, in the same words for every vendor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import claude, gemini, message, responded, said, streamed

from belljar.wire.responses import InputDetails, OutputDetails, Usage

Make = Callable[..., Any]

RESPONSES = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 15,
}
CHAT = {
    "choices": [],
    "usage": {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    },
}
SAME = Usage(
    input_tokens=10,
    input_tokens_details=InputDetails(cached_tokens=4),
    output_tokens=5,
    output_tokens_details=OutputDetails(reasoning_tokens=3),
    total_tokens=15,
)


def chat() -> Reply:
    shared = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "sim"}
    text = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    return Reply(events=[{**shared, **text}, {**shared, **CHAT}])


ANSWERS: dict[str, Callable[[], Reply]] = {
    "openai": lambda: responded("r", message("a"), usage=RESPONSES),
    "xai": lambda: responded("r", message("a"), usage=RESPONSES),
    "belljar": lambda: responded("r", message("a"), usage=RESPONSES),
    "anthropic": lambda: Reply(
        claude(
            said("a"),
            usage={
                "input_tokens": 6,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 0,
                "output_tokens": 5,
                "output_tokens_details": {"thinking_tokens": 3},
            },
        )
    ),
    "gemini": lambda: Reply(
        gemini(
            {"text": "a"},
            usageMetadata={
                "promptTokenCount": 10,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 2,
                "thoughtsTokenCount": 3,
                "totalTokenCount": 15,
            },
        )
    ),
    "lm_studio": chat,
}


@pytest.mark.parametrize("provider", ANSWERS)
def test_every_vendor_counts_alike(server: Replay, make: Make, provider: str) -> None:
    server.play(ANSWERS[provider]())
    assert make(provider, model="sim").send_message("x").usage == SAME


def test_nobody_counted(server: Replay, make: Make) -> None:
    server.play(responded("r", message("a")))
    assert make().send_message("x").usage is None
    server.play(Reply(gemini({"text": "a"})))
    assert make("gemini", model="gemini-3-flash").send_message("x").usage is None
    server.play(streamed("r", "a"))
    assert make().send_message("x", on_text=lambda text: None).usage is None


def test_a_turn_in_several_requests_is_counted_whole(server: Replay, make: Make) -> None:
    server.play(Reply(claude(said("a"), stop_reason="pause_turn")), Reply(claude(said("b"))))
    usage = make("anthropic").send_message("x", code_execution=True).usage
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (2, 2, 4)


def test_a_recorded_stream(server: Replay, make: Make) -> None:
    events = recorded("openai/openai-code-interpreter-tool.1.chunks.txt")
    server.play(Reply(events=events))
    reply = make().send_message("x", on_text=lambda text: None, code_execution=True)
    assert reply.usage.total_tokens == events[-1]["response"]["usage"]["total_tokens"]
