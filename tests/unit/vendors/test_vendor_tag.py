"""What OpenAI sealed keeps the id that it had there; what others sealed, or nobody, stays as it is."""

import pytest

from belljar.vendors.vendor_tag import give_back, tag_reasoning
from belljar.wire.items import Reasoning


def test_what_openai_sealed_comes_back_with_the_id_that_it_had_there() -> None:
    theirs = Reasoning(id="rs_theirs", encrypted_content="gAAAAABn")
    kept = tag_reasoning(theirs)
    assert kept == Reasoning(id="rs_theirs", encrypted_content="openai:rs_theirs:gAAAAABn")
    assert tag_reasoning(kept) is kept
    assert give_back(Reasoning(id="rs_ours", encrypted_content=kept.encrypted_content)) == theirs


def test_what_another_gateway_sealed_is_like_openais() -> None:
    theirs = Reasoning(id="rs_theirs", encrypted_content="belljar:abc")
    kept = tag_reasoning(theirs)
    assert kept.encrypted_content == "openai:rs_theirs:belljar:abc"
    assert tag_reasoning(kept) is kept
    assert give_back(Reasoning(id="rs_ours", encrypted_content=kept.encrypted_content)) == theirs


def test_what_this_gateway_sealed_goes_to_nobody() -> None:
    assert give_back(Reasoning(id="rs_ours", encrypted_content="belljar:abc")) is None


@pytest.mark.parametrize(
    "item",
    [
        Reasoning(id="rs_1"),
        Reasoning(id="rs_1", encrypted_content=None),
        Reasoning(encrypted_content="gAAAAABn"),
        Reasoning(id="rs_1", encrypted_content="anthropic:{}"),
    ],
)
def test_what_is_kept_as_it_came(item: Reasoning) -> None:
    assert tag_reasoning(item) is item
