"""Sentences that other rooms have too: numbers as people write them, never more of a value than is of use."""

from belljar.wire import error_messages


def test_numbers_are_written_out() -> None:
    error = error_messages.out_of_range("expires_after[seconds]", 3_000_000, 2_592_000, decimal=False)
    assert str(error).endswith("Expected a value <= 2592000, but got 3000000 instead.")


def test_long_values_are_cut() -> None:
    assert error_messages.at("metadata", "k" * 200) == f"metadata.{'k' * 100}…"
    assert len(str(error_messages.not_declared("tool_choice", "n" * 10_000))) < 200
