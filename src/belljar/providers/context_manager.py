"""The conversation as the client remembers it: counted, and summarised before it grows too long."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from belljar.errors import InvalidRequest

Message: TypeAlias = dict[str, Any]
"""`role` and `content`, and whatever else was added with them."""

Content: TypeAlias = str | Sequence[Any] | None
"""A text, or parts of any vendor's: texts, calls, results, pictures."""

BUDGET = 150_000
_LONGEST_PART = 4_000
"""Characters that count of a part without text: the data of a picture is not what it takes of the context."""
_CHARACTERS = 4
_OVERHEAD = 10
_log = logging.getLogger(__name__)


class TokenCounter(Protocol):
    """Tells how much of the model's context a text takes."""

    def count_tokens(self, text: str) -> int: ...


class SimpleTokenCounter:
    """Four characters a token: near enough for English and code, and needs no vocabulary."""

    def count_tokens(self, text: str) -> int:
        return len(text) // _CHARACTERS


@dataclass(frozen=True, slots=True)
class ContextStats:
    """How full the context is."""

    total_tokens: int
    message_count: int
    summarized_message_count: int
    has_summary: bool
    budget_used_percentage: float
    token_budget: int


def text_of(content: Content) -> str:
    """What a message says, as far as it is words; other parts as the beginning of their JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(filter(None, map(_text_of_part, content)))


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    said = part.get("text", part.get("content")) if isinstance(part, Mapping) else None
    if isinstance(said, str | list | tuple):
        return text_of(said)
    return json.dumps(part, ensure_ascii=False, default=str)[:_LONGEST_PART]


class ContextManager:
    """Messages, and a summary of those that went before.

    The newest `min_recent_messages` stay as they are; a few more where the first of them would be the results of tool
    calls that were summarised, since no vendor takes the one without the other.
    """

    def __init__(
        self,
        summarize_fn: Callable[[list[Message]], str] | None = None,
        context_budget: int = BUDGET,
        summarize_threshold: float = 0.75,
        min_recent_messages: int = 6,
        token_counter: TokenCounter | None = None,
    ) -> None:
        if context_budget < 1 or min_recent_messages < 1 or not 0 < summarize_threshold <= 1:
            raise InvalidRequest(
                "context_budget and min_recent_messages must be 1 or more, summarize_threshold above 0 and at most 1; "
                f"they are {context_budget}, {min_recent_messages} and {summarize_threshold}"
            )
        self.context_budget = context_budget
        self.summarize_threshold = summarize_threshold
        self.min_recent_messages = min_recent_messages
        self._summarize = summarize_fn
        self._counter = token_counter or SimpleTokenCounter()
        self._messages: list[Message] = []
        self._summary = ""
        self._summarized = 0

    # -- what is in it

    def add_message(self, role: str, content: Content, **meta: Any) -> None:
        """`role` is user, assistant or tool; `meta` is kept beside the content."""
        self.add_messages([{"role": role, "content": content, **meta}])

    def add_messages(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """All of them, or none where one is no message."""
        added = [dict(message) for message in messages]
        for n, message in enumerate(added):
            if not isinstance(message.get("role"), str):
                raise InvalidRequest(f"messages[{n}]: has no role; use user, assistant or tool", param="messages")
            if not isinstance(message.setdefault("content", None), str | list | tuple | None):
                kind = type(message["content"]).__name__
                raise InvalidRequest(
                    f"messages[{n}].content: is a {kind}; use a text or a list of parts", param="messages"
                )
        self._messages.extend(added)

    def drop_last(self) -> None:
        """Forget the newest message: it was not answered."""
        self._messages.pop()

    def clear(self) -> None:
        self._messages.clear()
        self._summary, self._summarized = "", 0

    @property
    def recent(self) -> list[Message]:
        """The messages that are kept as they are."""
        return list(self._messages)

    @property
    def summary(self) -> str | None:
        return self._summary or None

    @property
    def summary_text(self) -> str:
        """The summary as a model is told it; empty without one."""
        return f"[CONVERSATION SUMMARY]\n{self._summary}\n[END SUMMARY]" if self._summary else ""

    @property
    def message_count(self) -> int:
        return len(self._messages)

    @property
    def summarized_message_count(self) -> int:
        return self._summarized

    def get_messages(self) -> list[Message]:
        """The summary as a system message, if there is one, and the recent messages."""
        head = [{"role": "system", "content": self.summary_text}] if self._summary else []
        return [*head, *self._messages]

    def get_messages_for_anthropic(self) -> list[Message]:
        """The same with the summary as a user's message: a system message has no place in that history."""
        return [{**one, "role": "user"} if one["role"] == "system" else one for one in self.get_messages()]

    # -- how much it is

    def get_token_usage(self) -> tuple[int, float]:
        """Tokens, estimated, and their share of the budget."""
        tokens = sum(self._tokens(message) for message in self.get_messages())
        return tokens, tokens / self.context_budget

    def get_stats(self) -> ContextStats:
        tokens, used = self.get_token_usage()
        return ContextStats(
            total_tokens=tokens,
            message_count=len(self._messages),
            summarized_message_count=self._summarized,
            has_summary=bool(self._summary),
            budget_used_percentage=used * 100,
            token_budget=self.context_budget,
        )

    def get_history_summary(self) -> str:
        """One line for people."""
        stats = self.get_stats()
        earlier = f", after a summary of {self._summarized} earlier ones" if self._summarized else ""
        return f"{stats.message_count} messages, about {stats.total_tokens} tokens{earlier}"

    def _tokens(self, message: Message) -> int:
        calls = message.get("tool_calls")
        text = text_of(message["content"]) + (json.dumps(calls, default=str) if calls else "")
        return self._counter.count_tokens(text) + _OVERHEAD

    # -- summarising

    def needs_summarization(self) -> bool:
        return self.get_token_usage()[1] > self.summarize_threshold and self._cut() > 0

    def check_and_summarize(self) -> bool:
        """Summarise where it is time to; whether that was done."""
        return self.needs_summarization() and self.summarize()

    def summarize(self) -> bool:
        """Summarise all but the recent messages now; whether that was done. A failure leaves everything as it was."""
        cut = self._cut()
        if cut == 0 or self._summarize is None:
            return False
        head = [{"role": "system", "content": self.summary_text}] if self._summary else []
        try:
            summary = self._summarize([*head, *self._messages[:cut]])
        except Exception:  # noqa: BLE001 - the caller's own function may raise anything, and only the summary is lost
            _log.warning("the conversation could not be summarised, and goes on as it is", exc_info=True)
            return False
        if not summary.strip():
            return False
        self._summary = summary
        self._summarized += cut
        del self._messages[:cut]
        return True

    def _cut(self) -> int:
        """How many of the oldest messages may go."""
        cut = max(0, len(self._messages) - self.min_recent_messages)
        while cut > 0 and self._messages[cut]["role"] == "tool":
            cut -= 1
        return cut
