"""A conversation made short by the server: when to ask for it, what is kept in the session, and how it is replayed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from belljar.adapters.openai.config import CompactionConfig
from belljar.adapters.sdk import options
from belljar.errors import CompactionError, InvalidRequest
from belljar.prompt.frozen import FrozenDataclass
from belljar.providers import handle_openai_error
from belljar.runtime import Deadline, SessionProtocol

if TYPE_CHECKING:
    from openai import OpenAI

Item: TypeAlias = dict[str, Any]


@FrozenDataclass()
class CompactionState:
    """A slice of the session: the newest is what counts."""

    encrypted_items: tuple[Item, ...] = ()
    """Sealed items that stand for all that was compacted so far."""
    last_compaction_tokens: int = 0
    """What the conversation held when it was last compacted."""
    compaction_count: int = 0


@FrozenDataclass()
class CompactionOwed:
    """A slice of the session: what could not be compacted when its evaluation ended. The next one tries again."""

    items: tuple[Item, ...] = ()
    tokens: int = 0


def inject(state: CompactionState, messages: Iterable[Item]) -> list[Item]:
    """The sealed items first, then the messages; items that are among the messages already stay where they are."""
    given = list(messages)
    there = {_name(message) for message in given if message.get("type") == "compaction"}
    return [*(item for item in state.encrypted_items if _name(item) not in there), *given]


def advance(state: CompactionState, output: Iterable[Item], tokens: int) -> CompactionState:
    """After a pass whose input held the items so far: those of its output stand for them too."""
    sealed = {_name(item): item for item in output if item.get("type") == "compaction"}
    return CompactionState(tuple(sealed.values()), tokens, state.compaction_count + 1)


def _name(item: Item) -> str:
    """Which item it is: by its id, or by its seal where the server gives none."""
    return str(item.get("id") or item.get("encrypted_content"))


class CompactionManager:
    """Asks for compaction, and keeps what it gives in the session.

    >>> manager = CompactionManager(client, config, session, model="gpt-5.2")    # doctest: +SKIP
    >>> messages = manager.inject_encrypted_items(messages)                      # doctest: +SKIP
    >>> response = client.responses.create(model="gpt-5.2", input=messages)      # doctest: +SKIP
    >>> if manager.should_compact(response.usage.total_tokens):                  # doctest: +SKIP
    ...     messages = manager.compact(messages)
    """

    def __init__(
        self, client: OpenAI, config: CompactionConfig, session: SessionProtocol, *, model: str | None = None
    ) -> None:
        self._client = client
        self._config = config
        self._session = session
        self._model = model
        self._tokens = 0
        """What the conversation was last said to hold."""

    @property
    def state(self) -> CompactionState:
        return self._session[CompactionState].latest() or CompactionState()

    @property
    def owed(self) -> CompactionOwed:
        return self._session[CompactionOwed].latest() or CompactionOwed()

    def owe(self, messages: list[Item]) -> None:
        """Leave them to a later evaluation in the session, with what was left before."""
        self._session[CompactionOwed].seed(CompactionOwed((*self.owed.items, *messages), self._tokens))

    def catch_up(self, *, deadline: Deadline | None = None) -> None:
        """Compact what was left."""
        owed = self.owed
        self._tokens = owed.tokens
        self.compact(list(owed.items), deadline=deadline)
        self.forget()

    def forget(self) -> None:
        """Let go of what was left."""
        self._session[CompactionOwed].clear()

    def should_compact(self, current_tokens: int) -> bool:
        """Whether a conversation of this many tokens is past the threshold."""
        self._tokens = current_tokens
        return self._config.enabled and current_tokens > self._config.threshold_tokens

    def inject_encrypted_items(self, messages: list[Item]) -> list[Item]:
        """The messages with what was compacted before them, once; for each request."""
        return inject(self.state, messages)

    def compact(self, messages: list[Item], *, deadline: Deadline | None = None) -> list[Item]:
        """The conversation that takes the place of the messages: the user's own, and a sealed item for the rest.

        What was compacted before goes into it, whether or not it is among the messages. CompactionError where the
        server fails: the session and the messages are then as they were.
        """
        if self._model is None:
            raise InvalidRequest(
                "CompactionManager.model: is None, and the server asks which model is to summarise; pass model=…",
                param="model",
                fault="missing_required_parameter",
            )
        from openai import OpenAIError

        try:
            whole: Any = self.inject_encrypted_items(messages)
            client = self._client
            if deadline is not None:
                client = client.with_options(**options(client.timeout, deadline))
            answer = client.responses.with_raw_response.compact(model=self._model, input=whole)
            made = json.loads(answer.content)
            output: list[Item] = made["output"]
        except (OpenAIError, ValueError, KeyError, TypeError) as error:
            raise CompactionError(
                f"the conversation was not compacted at {self._tokens} tokens: {error}",
                token_count=self._tokens,
                original_error=error,
            ) from (handle_openai_error(error) if isinstance(error, OpenAIError) else error)
        tokens = self._tokens or (made.get("usage") or {}).get("input_tokens") or 0
        self._session[CompactionState].seed(advance(self.state, output, tokens))
        return output
