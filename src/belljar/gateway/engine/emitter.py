"""One response as a stream of events: numbers, indexes and snapshots, from the first to the last. No I/O."""

from __future__ import annotations

from typing import Literal

from msgspec import structs

from belljar.gateway.engine.open_items import MESSAGE, TEXT, Cite
from belljar.gateway.engine.output import Output
from belljar.gateway.engine.turn import Turn
from belljar.gateway.engine.turn_rules import TurnRules
from belljar.wire import events, ids
from belljar.wire.events import ErrorDetail, Event
from belljar.wire.extras import Ignored, LeftContainer, ResponseExtras
from belljar.wire.items import OutputItem
from belljar.wire.responses import IncompleteDetails, Response, ResponseError, Usage

_KINDS = {"rate_limit_error": "rate_limit_exceeded", "invalid_request_error": "invalid_prompt"}
"""A response's own error has a closed list of codes; the finer one is in the event before."""
_CODES = frozenset(["context_length_exceeded", "insufficient_quota"])
"""But these are told on the real wire, and Codex looks for them there: it would ask again for anything else."""


class Emitter:
    """One response. What its model says comes by way of `turn`, one after the other.

    `cite` finds the citations of a text, `live` is for callers who take events of ours.
    """

    def __init__(
        self,
        start: Response,
        *,
        include: frozenset[str] = frozenset(),
        cite: Cite = lambda text, last: (),
        live: bool = True,
    ) -> None:
        self._start = start
        self._output = Output(start.id, include=include, cite=cite, live=live)

    @property
    def items(self) -> tuple[OutputItem, ...]:
        """The finished ones with everything in them, as they are kept."""
        return self._output.list_items()

    def note_ignored(self, *ignored: Ignored) -> None:
        """Tell the caller, from the next snapshot on, what of the request has no effect."""
        if not ignored:
            return
        extras = self._start.belljar or ResponseExtras()
        self._set_extras(structs.replace(extras, ignored=(*extras.ignored, *ignored)))

    def set_container(self, container: LeftContainer) -> None:
        """Tell the caller how the container is left."""
        self._set_extras(structs.replace(self._start.belljar or ResponseExtras(), container=container))

    def _set_extras(self, extras: ResponseExtras) -> None:
        self._start = structs.replace(self._start, belljar=extras)

    def begin(self, *, queued: bool = False) -> list[Event]:
        self._put(events.Created, self._start)
        if queued:
            self._put(events.Queued, structs.replace(self._start, status="queued"))
        self._put(events.InProgress, structs.replace(self._start, status="in_progress"))
        return self._output.line.take()

    def begin_turn(self, rules: TurnRules) -> Turn:
        """The model is asked, for the first time or again."""
        return Turn(self._output, rules)

    def next_id(self, kind: ids.Kind) -> str:
        """The id that the next item will have."""
        return self._output.next_id(kind)

    def add(self, item: OutputItem) -> list[Event]:
        """An item of our own making."""
        self._output.add(item)
        return self._output.line.take()

    def cite_rest(self) -> list[Event]:
        """A message of our own making, empty: it carries the citations when the model said nothing."""
        message = self._output.open(MESSAGE)
        message.begin_part(TEXT)
        self._output.close(message, "completed", last=True)
        return self._output.line.take()

    def complete(self, now: int, usage: Usage | None) -> list[Event]:
        """The model is done: nothing is open but what its vendor forgot to end."""
        final = structs.replace(self._start, status="completed", completed_at=now, usage=usage or Usage())
        return self._end(events.Completed, final)

    def cut(
        self, reason: Literal["max_output_tokens", "content_filter", "max_messages"], usage: Usage | None
    ) -> list[Event]:
        """The answer stops short; what is open stays so, marked."""
        details = IncompleteDetails(reason=reason)
        final = structs.replace(self._start, status="incomplete", incomplete_details=details, usage=usage or Usage())
        return self._end(events.Incomplete, final)

    def fail(self, detail: ErrorDetail, usage: Usage | None) -> list[Event]:
        """It broke off: what is open is closed first, so that nobody waits for the rest of it."""
        code = detail.code if detail.code in _CODES else _KINDS.get(detail.type, "server_error")
        error = ResponseError(code=code, message=detail.message)
        final = structs.replace(self._start, status="failed", error=error, usage=usage)
        return self._end(events.Failed, final, detail)

    def cancel(self, usage: Usage | None) -> list[Event]:
        """Called off. OpenAI's streams have no event of that name: the last one says that the answer is incomplete."""
        final = structs.replace(self._start, status="cancelled", usage=usage or Usage())
        return self._end(events.Incomplete, final)

    def _end(self, kind: type[Event], final: Response, detail: ErrorDetail | None = None) -> list[Event]:
        self._output.close_all()
        if detail is not None:
            self._output.line.put(events.ErrorEvent, {"error": detail})
        self._put(kind, structs.replace(final, output=self._output.show_items()))
        return self._output.line.take()

    def _put(self, kind: type[Event], response: Response) -> None:
        self._output.line.put(kind, {"response": response})
