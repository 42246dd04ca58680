"""Compaction: when, what the session keeps, and that replay never doubles it. Against the real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.adapters.openai.compaction import CompactionManager, CompactionState, advance, inject
from belljar.adapters.openai.config import CompactionConfig
from belljar.errors import BelljarError, CompactionError, InvalidRequest
from belljar.openai import OpenAI
from belljar.runtime import Session
from belljar.testing import LoopbackUpstream, Reply

Item = dict[str, Any]


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def assistant(text: str) -> Item:
    return {"role": "assistant", "content": text}


def sealed(id: str | None, content: str = "x") -> Item:
    return {"type": "compaction", "encrypted_content": content, **({"id": id} if id else {})}


# -- without a server --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "tokens", "wanted"),
    [
        (CompactionConfig(), 100_000, False),
        (CompactionConfig(), 100_001, True),
        (CompactionConfig(threshold_tokens=10), 11, True),
        (CompactionConfig(threshold_tokens=10, zdr_mode=True), 11, True),
        (CompactionConfig(enabled=False), 10**9, False),
    ],
)
def test_the_threshold(config: CompactionConfig, tokens: int, wanted: bool) -> None:
    assert CompactionManager(openai.OpenAI(api_key="none"), config, Session()).should_compact(tokens) is wanted


def test_the_state_begins_empty_and_is_frozen() -> None:
    state = CompactionState()
    assert (state.encrypted_items, state.last_compaction_tokens, state.compaction_count) == ((), 0, 0)
    with pytest.raises(AttributeError):
        state.compaction_count = 1  # type: ignore[misc]


ITEMS = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=3)),
        st.builds(sealed, st.sampled_from(["cmp_1", "cmp_2", None]), st.sampled_from("ab")),
    ),
    max_size=6,
)
STATES = st.builds(
    lambda items: advance(CompactionState(), items, 0), st.lists(st.builds(sealed, st.sampled_from(["cmp_1", "cmp_2"])))
)


@given(STATES, ITEMS)
def test_injecting_twice_is_injecting_once(state: CompactionState, messages: list[Item]) -> None:
    before = [*messages]
    once = inject(state, messages)
    assert inject(state, once) == once
    assert messages == before
    assert once[len(once) - len(messages) :] == messages
    added = once[: len(once) - len(messages)]
    there = [item.get("id") for item in messages if item.get("type") == "compaction"]
    assert [item for item in state.encrypted_items if item["id"] not in there] == added


def test_a_pass_replaces_the_items_that_went_into_it() -> None:
    first = advance(CompactionState(), [user("a"), sealed("cmp_1")], 5)
    second = advance(first, [user("a"), user("b"), sealed("cmp_2", "old"), sealed("cmp_2", "new")], 9)
    assert second == CompactionState((sealed("cmp_2", "new"),), last_compaction_tokens=9, compaction_count=2)


# -- with the gateway --------------------------------------------------------------------------------------------------


class Scene:
    def __init__(self) -> None:
        self.replies: list[Any] = []
        self.upstream = LoopbackUpstream(self._script(), models=["sim"])

    def _script(self) -> Iterator[Any]:
        while True:
            yield self.replies.pop(0)

    def asked(self, at: int = -1) -> str:
        """What the model was told, as text."""
        return json.dumps([one for one in self.upstream.requests if one.method == "POST"][at].json["messages"])


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.upstream:
        yield scene


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.replies.clear()
    return _scene


@pytest.fixture(scope="module")
def client(_scene: Scene) -> Iterator[OpenAI]:
    with OpenAI.local(discover=False, code_interpreter=False, upstreams=[_scene.upstream.base_url]) as client:
        yield client.with_options(max_retries=0)


def ask(client: OpenAI, messages: list[Item]) -> Any:
    given: Any = messages
    return client.responses.create(model="sim", input=given)


def test_what_was_said_is_sealed_kept_and_replayed(client: OpenAI, scene: Scene) -> None:
    """As the founding document's docstring goes, over two passes and into a conversation that begins anew."""
    session = Session()
    manager = CompactionManager(client, CompactionConfig(threshold_tokens=1), session, model="sim")
    messages = manager.inject_encrypted_items([user("Capital of France?")])
    assert messages == [user("Capital of France?")]
    scene.replies[:] = ["It is Paris.", "SUMMARY ONE"]
    response = ask(client, messages)
    messages += [assistant(response.output_text)]
    assert manager.should_compact(response.usage.total_tokens)
    messages = manager.compact(messages)
    assert [item["type"] for item in messages] == ["message", "compaction"]
    assert "Paris" not in json.dumps(messages)
    assert manager.inject_encrypted_items(messages) == messages
    state = session[CompactionState].latest()
    assert state == CompactionState((messages[1],), response.usage.total_tokens, 1)

    scene.replies[:] = ["As said, Paris.", "SUMMARY TWO"]
    messages += [user("Again?")]
    response = ask(client, manager.inject_encrypted_items(messages))
    assert scene.asked().count("SUMMARY ONE") == 1
    assert manager.should_compact(999)
    messages = manager.compact([*messages, assistant(response.output_text)])
    assert "SUMMARY ONE" in scene.asked(), "the second summary is made of the first"
    assert [item["type"] for item in messages] == ["message", "message", "compaction"]
    assert manager.state == CompactionState((messages[2],), 999, 2)

    scene.replies[:] = ["Still Paris."]
    fresh = CompactionManager(client, CompactionConfig(), session)
    assert ask(client, fresh.inject_encrypted_items([user("And now?")])).output_text == "Still Paris."
    assert (scene.asked().count("SUMMARY TWO"), "SUMMARY ONE" in scene.asked()) == (1, False)


def test_items_that_were_left_out_go_into_the_next_pass(client: OpenAI, scene: Scene) -> None:
    session = Session()
    manager = CompactionManager(client, CompactionConfig(), session, model="sim")
    scene.replies[:] = ["SUMMARY ONE", "SUMMARY TWO"]
    manager.compact([user("one")])
    manager.compact([user("two")])
    assert "SUMMARY ONE" in scene.asked()
    assert len(manager.state.encrypted_items) == 1


def test_a_failure_says_how_much_there_was_and_changes_nothing(client: OpenAI, scene: Scene) -> None:
    session = Session()
    manager = CompactionManager(client, CompactionConfig(), session, model="sim")
    manager.should_compact(123_456)
    scene.replies[:] = [Reply(status=500, body=b'{"error": {"message": "down"}}')] * 9
    messages = [user("one")]
    with pytest.raises(CompactionError) as caught:
        manager.compact(messages)
    assert caught.value.token_count == 123_456
    assert isinstance(caught.value.original_error, openai.APIStatusError)
    assert isinstance(caught.value, BelljarError)
    assert (messages, session[CompactionState].all()) == ([user("one")], ())


def test_without_a_model_it_says_so(client: OpenAI) -> None:
    with pytest.raises(InvalidRequest, match="pass model="):
        CompactionManager(client, CompactionConfig(), Session()).compact([user("one")])
