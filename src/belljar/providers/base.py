"""One conversation over any vendor: what all clients share, and what each has to bring."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal, Self, TypeAlias, TypeVar

from belljar.config import ApiSettings
from belljar.errors import ContextTooLong, Declined, InvalidRequest, ProviderError
from belljar.models import EFFORTS, Effort, ending, is_gpt5_model, nearest_effort
from belljar.providers.code_execution import told_apart
from belljar.providers.context_manager import BUDGET, ContextManager, Message, text_of
from belljar.providers.tool_converters import Tool, ToolCall, ToolObject, ToolResult, as_text, described_tools
from belljar.providers.types import AssistantResponse, ClientAnswer, ClientTurn, OnText
from belljar.providers.uploads import FileReference, readable
from belljar.providers.vendor_settings import model_for

__all__ = ["AssistantResponse", "BaseClient"]

Verbosity: TypeAlias = Literal["low", "medium", "high"]
VERBOSITIES: tuple[Verbosity, ...] = ("low", "medium", "high")

_SUMMARISE = (
    "You summarise conversations between a user and an assistant so that the assistant can go on from the summary "
    "alone. Keep every fact, name, number, path, decision, open question and result of a tool that may still matter. "
    "Answer with the summary and nothing else."
)
_log = logging.getLogger(__name__)
_T = TypeVar("_T", bound=str)


class BaseClient(ABC):
    """A conversation with a model.

    A request that fails leaves the conversation as it was before it, so that the same message can be sent again. One
    message goes after the other: a second that comes while one is under way is refused, whichever thread it is from.
    """

    provider: ClassVar[str]
    budget: ClassVar[int] = BUDGET
    summary_in_system: ClassVar[bool] = True
    """Whether a summary goes into the system prompt, or into the history."""

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[Tool | ToolObject] = (),
        system: str = "",
        settings: ApiSettings,
    ) -> None:
        self.tools = tools
        self.system = system
        self.max_tokens = settings.max_tokens
        self.parallel_tool_calls = settings.parallel_tool_calls
        self.context = ContextManager(
            summarize_fn=self._summarise,
            context_budget=settings.context_budget or self.budget,
            summarize_threshold=settings.summarize_threshold,
            min_recent_messages=settings.min_recent_messages,
        )
        self._model = model or model_for(self.provider, settings)
        self._wanted_effort: Effort | None = None
        self._verbosity: Verbosity | None = None
        self._system_context = ""
        self._code_execution = False
        self._close_sdk: Callable[[], object] | None = None
        """Where the SDK's client was made here, and goes with this one."""
        self._is_closed = False
        self._busy = Lock()
        self._warn_of_end()

    def close(self) -> None:
        """Close its connections, unless the SDK's client is the caller's own; files that it made are read before."""
        if not self._is_closed and self._close_sdk is not None:
            self._close_sdk()
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def tools(self) -> Sequence[Tool]:
        """What the model may call, as it is sent; `Tool[…]` objects may be given too."""
        return self._tools

    @tools.setter
    def tools(self, tools: Iterable[Tool | ToolObject]) -> None:
        self._tools = described_tools(tools)

    # -- talking

    def send_message(
        self,
        user_input: str,
        system_context: str | None = None,
        on_text: OnText | None = None,
        *,
        files: Iterable[str | Path | FileReference] = (),
        code_execution: bool = False,
    ) -> AssistantResponse:
        """Say something; with `on_text` the answer is also handed over piece by piece, as it comes.

        With `code_execution` the vendor runs the code that the model writes, and `files` are put where it finds them;
        without, the model reads them itself.
        """
        if not isinstance(user_input, str):
            raise InvalidRequest(
                f"user_input: is a {type(user_input).__name__}; say it as text, and give files by files=[…]",
                param="user_input",
            )
        with self._alone():
            waiting = self._waiting
            if waiting:
                named = ", ".join(call["id"] for call in waiting)
                raise InvalidRequest(
                    f"the model waits for the results of {named}; send them by send_tool_results, or clear_history()",
                    param="user_input",
                )
            references = tuple(
                one if isinstance(one, FileReference) else self._attach(readable(one), for_code=code_execution)
                for one in files
            )
            self._system_context = system_context or ""
            self._code_execution = code_execution
            message = {"role": "user", "content": user_input, "files": references, "for_code": code_execution}
            return self._converse(message, on_text)

    def send_tool_results(
        self,
        tool_results: Sequence[ToolResult],
        system_context: str | None = None,
        on_text: OnText | None = None,
    ) -> AssistantResponse:
        """Answer the tool calls of the last response, all of them."""
        with self._alone():
            wanted = {call["id"] for call in self._waiting}
            given = {result["tool_use_id"] for result in tool_results}
            if wanted != given:
                what = [f"{one} is not answered" for one in sorted(wanted - given)]
                what += [f"{one} was not asked for" for one in sorted(given - wanted)]
                raise InvalidRequest(f"tool_results: {', '.join(what)}; send one result a call", param="tool_results")
            if system_context is not None:
                self._system_context = system_context
            text = "\n".join(as_text(result["content"]) for result in tool_results)
            names = {call["id"]: call["name"] for call in self._waiting}
            results = [{**result, "name": names[result["tool_use_id"]]} for result in tool_results]
            return self._converse({"role": "tool", "content": text, "tool_results": results}, on_text)

    def clear_history(self) -> None:
        """Begin anew."""
        with self._alone():
            self.context.clear()
            self._break_chain()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two at once would read each other's answers; nobody waits, since on_text may be who asks."""
        if self._is_closed:
            raise InvalidRequest("this client was closed; make another with create_client")
        if not self._busy.acquire(blocking=False):
            raise InvalidRequest(
                "this conversation is busy with another message, from another thread or from its own on_text; make a "
                "client for each conversation that goes on at the same time"
            )
        try:
            yield
        finally:
            self._busy.release()

    # -- settings

    def get_model(self) -> str:
        return self._model

    def set_model(self, model: str) -> None:
        self._model = model
        self._warn_of_end()

    def _warn_of_end(self) -> None:
        if told := ending(self._model):
            _log.warning("%s", told)

    def set_reasoning_effort(self, effort: Effort) -> None:
        """How long the model may think; sent where the model takes it."""
        self._wanted_effort = _one_of("effort", effort, EFFORTS)
        if not self._takes_effort():
            _log.warning("%s takes no reasoning effort: it is left out", self.get_model())

    def set_verbosity(self, verbosity: Verbosity) -> None:
        """How much the model says; sent where the model takes it."""
        self._verbosity = _one_of("verbosity", verbosity, VERBOSITIES)
        if not self._takes_verbosity():
            _log.warning("%s takes no verbosity: it is left out", self.get_model())

    # -- telling

    def get_history_summary(self) -> str:
        return self.context.get_history_summary()

    def get_context_stats(self) -> dict[str, Any]:
        """Where the conversation stands. Effort and verbosity are in it only where they count."""
        stats = self.context.get_stats()
        told: dict[str, Any] = {
            "provider": self.provider,
            "model": self.get_model(),
            "is_gpt5_model": is_gpt5_model(self.get_model()),
            "message_count": stats.message_count,
            "has_response_chain": self._previous() is not None,
            "total_tokens": stats.total_tokens,
            "token_budget": stats.token_budget,
            "budget_used_percentage": stats.budget_used_percentage,
            "summarized_message_count": stats.summarized_message_count,
            "has_summary": stats.has_summary,
        }
        effort = self._effort()
        if effort is not None:
            told["reasoning_effort"] = effort
        if self._takes_verbosity():
            told["verbosity"] = self._verbosity or "medium"
        return told

    # -- what a client brings

    @abstractmethod
    def _ask(self, turn: ClientTurn) -> ClientAnswer:
        """Send one request; raises `ClientError`."""

    @abstractmethod
    def _upload(self, path: Path) -> FileReference:
        """Bring a file to the vendor."""

    def _attach(self, path: Path, *, for_code: bool) -> FileReference:
        """A file as it goes with a message."""
        return self._upload(path)

    def _takes_effort(self) -> bool:
        return False

    def _effort(self) -> Effort | None:
        """The effort to ask for: the one that was set, or what the model has nearest to it."""
        if self._wanted_effort is None or not self._takes_effort():
            return None
        return nearest_effort(self.get_model(), self._wanted_effort)

    def _takes_verbosity(self) -> bool:
        return False

    def _previous(self) -> str | None:
        """The response by which the vendor remembers the conversation; None where it does not."""
        return None

    def _unsent(self) -> list[Message]:
        """What the vendor does not have yet."""
        return self.context.recent if self.summary_in_system else self.context.get_messages_for_anthropic()

    def _break_chain(self) -> None:  # noqa: B027 - there is nothing to break where the vendor remembers nothing
        """The vendor is to forget the conversation."""

    def _note_answer(self, answer: ClientAnswer) -> None:  # noqa: B027
        """The answer is in the conversation now."""

    # -- one turn

    @property
    def _waiting(self) -> Sequence[ToolCall]:
        """The calls that the model waits for."""
        recent = self.context.recent
        return recent[-1].get("tool_calls", ()) if recent else ()

    def _converse(self, message: Message, on_text: OnText | None) -> AssistantResponse:
        self.context.add_messages([message])
        try:
            if self.context.check_and_summarize():
                self._break_chain()
            answer = self._recovering(on_text)
        except BaseException:
            self.context.drop_last()
            raise
        calls = list(answer.tool_calls)
        self.context.add_message("assistant", answer.text, tool_calls=calls, native=answer.native)
        self._note_answer(answer)
        return AssistantResponse(
            text=answer.text,
            tool_calls=calls,
            is_complete=answer.finish == "stop" and not calls,
            requires_action=bool(calls),
            code_executions=list(answer.executions),
            output_files=told_apart(answer.files),
            usage=answer.usage,
            finish_reason=answer.finish,
        )

    def _recovering(self, on_text: OnText | None) -> ClientAnswer:
        """Ask; once more where the history was at fault and can be mended, and nothing was said before that."""
        said = []

        def hear(text: str) -> None:
            said.append(True)
            if on_text is not None:
                on_text(text)

        try:
            return self._ask(self._turn(hear if on_text else None))
        except ProviderError as error:
            if said or not self._mend_history(error):
                raise
        return self._ask(self._turn(on_text))

    def _mend_history(self, error: ProviderError) -> bool:
        """Whether something was done about the history that makes it worth asking again."""
        chained = self._previous() is not None
        if isinstance(error, ContextTooLong):
            shorter = self.context.summarize() or chained
        else:
            shorter = chained and isinstance(error, Declined) and error.fault == "previous_response_not_found"
        if shorter:
            self._break_chain()
        return shorter

    def _turn(self, on_text: OnText | None) -> ClientTurn:
        summary = self.context.summary_text if self.summary_in_system else ""
        return ClientTurn(
            messages=self._unsent(),
            system="\n\n".join(filter(None, [self.system, self._system_context, summary])),
            tools=self.tools,
            code_execution=self._code_execution,
            on_text=on_text,
            previous=self._previous(),
        )

    def _summarise(self, messages: list[Message]) -> str:
        """By the model itself, in a request of its own."""
        said = "\n\n".join(f"{message['role'].upper()}: {_message_text(message)}" for message in messages)
        asked: Message = {"role": "user", "content": f"Summarise this conversation:\n\n{said}"}
        return self._ask(ClientTurn(messages=[asked], system=_SUMMARISE, keep=False)).text


def _message_text(message: Message) -> str:
    calls = "".join(f"\n(calls {call['name']} with {call['input']})" for call in message.get("tool_calls", ()))
    return f"{text_of(message['content'])}{calls}"


def _one_of(name: str, value: str, known: Sequence[_T]) -> _T:
    found = next((one for one in known if one == value), None)
    if found is None:
        raise InvalidRequest(f"{name}: {value!r} is not one of {', '.join(map(str, known))}", param=name)
    return found
