"""Reasoning that a model writes into its text between <think> tags, told apart as it streams."""

from __future__ import annotations

from typing import Literal

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkTags:
    """One answer. Only tags at its very start count: further on they are what the model talks about."""

    __slots__ = ("_held", "_place")

    def __init__(self) -> None:
        self._held = ""
        self._place: Literal["start", "opened", "inside", "closed", "text"] = "start"

    @property
    def over(self) -> bool:
        """All that follows is text."""
        return self._place == "text"

    def feed(self, piece: str) -> tuple[str, str]:
        """What of this is reasoning, and what is text."""
        held = self._held + piece
        self._held = ""
        thought = ""
        if self._place == "start":
            begun = held.lstrip()
            if begun.startswith(_OPEN):
                self._place = "opened"
                held = begun.removeprefix(_OPEN)
            elif _OPEN.startswith(begun):
                self._held = held
                return "", ""
            else:
                self._place = "text"
        if self._place == "opened":
            held = held.lstrip()
            if held:
                self._place = "inside"
        if self._place == "inside":
            thought, tag, after = held.partition(_CLOSE)
            if not tag:
                cut = len(held) - _overlap(held)
                self._held = held[cut:]
                return held[:cut], ""
            self._place = "closed"
            held = after
        if self._place == "closed":
            held = held.lstrip()
            if held:
                self._place = "text"
        return thought, held

    def end(self) -> tuple[str, str]:
        """What was held back in case a tag would come of it."""
        held, self._held = self._held, ""
        return (held, "") if self._place == "inside" else ("", held)


def _overlap(text: str) -> int:
    """How much of the end of this may be the beginning of the closing tag."""
    at = text.rfind("<", -len(_CLOSE) + 1)
    return len(text) - at if at >= 0 and _CLOSE.startswith(text[at:]) else 0
