"""Dispatch events to their subscribers at once and in order; one subscriber's failure does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import iscoroutinefunction
from threading import RLock
from typing import Protocol, TypeAlias, TypeVar

E = TypeVar("E")
EventHandler: TypeAlias = Callable[..., object]


@dataclass(frozen=True, slots=True)
class HandlerFailure:
    handler: EventHandler
    error: Exception

    def __str__(self) -> str:
        return f"{getattr(self.handler, '__qualname__', self.handler)}: {self.error}"


@dataclass(frozen=True, slots=True)
class DispatchResult:
    """Who was told, and who failed."""

    event: object
    handlers_invoked: tuple[EventHandler, ...] = ()
    errors: tuple[HandlerFailure, ...] = ()

    @property
    def handled_count(self) -> int:
        return len(self.handlers_invoked)

    @property
    def ok(self) -> bool:
        return not self.errors

    def raise_if_errors(self) -> None:
        if self.errors:
            raise ExceptionGroup(
                f"{len(self.errors)} of {self.handled_count} handlers of {type(self.event).__name__} failed",
                [failure.error for failure in self.errors],
            )


class Dispatcher(Protocol):
    def subscribe(self, event_type: type[E], handler: Callable[[E], object]) -> None: ...

    def unsubscribe(self, event_type: type[E], handler: Callable[[E], object]) -> bool: ...

    def dispatch(self, event: object) -> DispatchResult: ...


def check_not_coroutine(callback: Callable[..., object] | None, where: str) -> None:
    """TypeError for a coroutine function: whoever calls it waits for nothing, so that it would never run."""
    if any(map(iscoroutinefunction, (callback, getattr(callback, "__call__", None)))):  # noqa: B004 - an object's own
        raise TypeError(f"{where}: {callback!r} is a coroutine function, and nothing here awaits it; pass a plain one")


class InProcessDispatcher:
    """Subscribers of exactly the event's type are called, in the caller's thread."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._handlers: dict[type, tuple[EventHandler, ...]] = {}

    def subscribe(self, event_type: type[E], handler: Callable[[E], object]) -> None:
        check_not_coroutine(handler, f"subscribe({event_type.__name__}, …)")
        with self._lock:
            self._handlers[event_type] = (*self._handlers.get(event_type, ()), handler)

    def unsubscribe(self, event_type: type[E], handler: Callable[[E], object]) -> bool:
        """Whether it was subscribed."""
        with self._lock:
            handlers = list(self._handlers.get(event_type, ()))
            if handler not in handlers:
                return False
            handlers.remove(handler)
            self._handlers[event_type] = tuple(handlers)
            return True

    def dispatch(self, event: object) -> DispatchResult:
        with self._lock:
            handlers = self._handlers.get(type(event), ())
        return DispatchResult(event, handlers, call_handlers(handlers, event))


def call_handlers(handlers: tuple[EventHandler, ...], event: object) -> tuple[HandlerFailure, ...]:
    """Call each; gather what they raise."""
    failures = []
    for handler in handlers:
        try:
            handler(event)
        except Exception as error:  # noqa: BLE001 - subscribers are other people's code, and all of them must hear
            failures.append(HandlerFailure(handler, error))
    return tuple(failures)
