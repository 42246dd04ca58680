"""Session: state by type, changed only by events, watched by observers, rolled back as one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, is_dataclass
from datetime import datetime
from functools import partial
from threading import RLock
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import UUID, uuid4

from belljar.runtime.dispatcher import (
    Dispatcher,
    DispatchResult,
    EventHandler,
    HandlerFailure,
    InProcessDispatcher,
    check_not_coroutine,
)
from belljar.runtime.events import CompactionFailed, PromptExecuted, PromptRendered, ToolInvoked, now
from belljar.runtime.journal import Change, Journal, keep_journal, note, without
from belljar.runtime.slices import Reducer, ReducerContext, SlicePolicy, Snapshot, Values, append_all

T = TypeVar("T")
_Report: TypeAlias = PromptRendered | ToolInvoked | PromptExecuted | CompactionFailed
_REPORTS: tuple[type[_Report], ...] = (PromptRendered, ToolInvoked, PromptExecuted, CompactionFailed)
_log = logging.getLogger(__name__)


class SessionProtocol(Protocol):
    """What tools and adapters use of a session."""

    @property
    def session_id(self) -> UUID: ...

    @property
    def dispatcher(self) -> Dispatcher: ...

    def __getitem__(self, slice_type: type[T]) -> SliceAccessor[T]: ...

    def dispatch(self, event: object) -> DispatchResult: ...

    def accept(self, event: ToolInvoked) -> DispatchResult: ...

    def snapshot(self, *, tag: str | None = None) -> Snapshot: ...

    def restore(self, snapshot: Snapshot, *, preserve_logs: bool = True) -> None: ...

    def undoable(self) -> AbstractContextManager[Callable[[], None]]: ...


@dataclass(frozen=True, slots=True)
class Subscription:
    unsubscribe: Callable[[], bool]
    """Whether it was still on."""


@dataclass(frozen=True, slots=True)
class _Registration:
    slice_type: type
    reducer: Reducer


class Session:
    """State by type: `session[Plan].latest()`.

    An event goes to the reducers registered for its type; without any, it is appended to the slice of that type.
    What prompts and tools report over the dispatcher under this session's id is taken in too, as are the values that
    tools and prompts give. Threads may share a session.
    """

    def __init__(
        self,
        *,
        bus: Dispatcher | None = None,
        dispatcher: Dispatcher | None = None,
        parent: Session | None = None,
        session_id: UUID | None = None,
        created_at: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        if bus is not None and dispatcher is not None and bus is not dispatcher:
            raise ValueError("Session: bus and dispatcher are two names of one thing; pass one of them")
        given = dispatcher if bus is None else bus
        self.dispatcher: Dispatcher = InProcessDispatcher() if given is None else given
        self.session_id = session_id or uuid4()
        self.created_at = created_at or now()
        self.tags: Mapping[str, str] = MappingProxyType(dict(tags or {}))
        self.parent = parent
        self._children: tuple[Session, ...] = ()
        self._lock = RLock()
        self._slices: dict[type, Values] = {}
        self._policies: dict[type, SlicePolicy] = dict.fromkeys(_REPORTS, SlicePolicy.LOG)
        self._registrations: dict[type, tuple[_Registration, ...]] = {}
        self._observers: dict[type, tuple[Callable[[Any, Any], object], ...]] = {}
        self._accepted: set[UUID] = set()
        if parent is not None:
            with parent._lock:
                parent._children = (*parent._children, self)
        for report in _REPORTS:
            self.dispatcher.subscribe(report, self._receive_event)

    @property
    def bus(self) -> Dispatcher:
        return self.dispatcher

    @property
    def children(self) -> tuple[Session, ...]:
        return self._children

    def __getitem__(self, slice_type: type[T]) -> SliceAccessor[T]:
        return SliceAccessor(self, slice_type)

    def dispatch(self, event: object) -> DispatchResult:
        """Reduce. A reducer that raises is logged, its slice stays as it was, and the others go on."""
        return self._reduce_events([event], whole=False)

    def accept(self, event: ToolInvoked) -> DispatchResult:
        """Take in an event and its values before it is told to others; nothing of it where a reducer raises.

        When it then comes over the dispatcher, it is not taken in again.
        """
        result = self._reduce_events([event, *_values(event)], whole=True)
        if result.ok:
            with self._lock:
                self._accepted.add(event.event_id)
        return result

    def observe(self, slice_type: type[T], observer: Callable[[tuple[T, ...], tuple[T, ...]], object]) -> Subscription:
        """Call `observer(old, new)` after each change, outside the session's lock."""
        check_not_coroutine(observer, f"observe({slice_type.__name__}, …)")
        with self._lock:
            self._observers[slice_type] = (*self._observers.get(slice_type, ()), observer)
        return Subscription(partial(self._unobserve, slice_type, observer))

    def reset(self) -> None:
        """Empty every slice; registrations and observers stay."""
        with self._lock:
            changed: dict[type, Change] = {slice_type: (old, ()) for slice_type, old in self._slices.items()}
            self._set(changed)
        self._tell(changed)

    def snapshot(self, *, tag: str | None = None) -> Snapshot:
        with self._lock:
            return Snapshot(MappingProxyType(dict(self._slices)), MappingProxyType(dict(self._policies)), now(), tag)

    def restore(self, snapshot: Snapshot, *, preserve_logs: bool = True) -> None:
        """Slices that the snapshot does not know become empty; logs stay as they are now unless told otherwise."""
        with self._lock:
            changed = {
                slice_type: (self._slices.get(slice_type, ()), snapshot.slices.get(slice_type, ()))
                for slice_type in {*self._slices, *snapshot.slices}
                if not (preserve_logs and self._is_log(slice_type))
            }
            self._set(changed)
        self._tell(changed)

    @contextmanager
    def undoable(self) -> Iterator[Callable[[], None]]:
        """Gives a function that undoes what was changed in here, but for logs. What others change meanwhile stays."""
        with keep_journal(self) as journal:
            yield partial(self._undo, journal)

    # -- for SliceAccessor ---------------------------------------------------------------------------------------------

    def _all(self, slice_type: type) -> Values:
        with self._lock:
            return self._slices.get(slice_type, ())

    def _change(self, slice_type: type, change: Callable[[Values], Values]) -> None:
        with self._lock:
            old = self._slices.get(slice_type, ())
            changed = {slice_type: (old, change(old))}
            self._set(changed)
        self._tell(changed)

    def _register(self, slice_type: type, event_type: type, reducer: Reducer, policy: SlicePolicy | None) -> None:
        check_not_coroutine(reducer, f"register({event_type.__name__}, …)")
        with self._lock:
            registered = self._registrations.get(event_type, ())
            self._registrations[event_type] = (*registered, _Registration(slice_type, reducer))
            if policy is not None:
                self._policies[slice_type] = policy

    # -- inside --------------------------------------------------------------------------------------------------------

    def _set(self, changed: Mapping[type, Change]) -> None:
        self._slices.update({slice_type: new for slice_type, (_, new) in changed.items()})
        note(self, changed)

    def _undo(self, journal: Journal) -> None:
        with self._lock:
            now = {slice_type: self._slices[slice_type] for slice_type in journal.changes}
            changed = {
                slice_type: (now[slice_type], without(changes, now[slice_type]))
                for slice_type, changes in journal.changes.items()
                if not self._is_log(slice_type)
            }
            self._set(changed)
        self._tell(changed)

    def _is_log(self, slice_type: type) -> bool:
        return self._policies.get(slice_type) is SlicePolicy.LOG

    def _find_reducers(self, event_type: type) -> tuple[_Registration, ...]:
        return self._registrations.get(event_type) or (_Registration(event_type, append_all),)

    def _reduce_events(self, events: list[object], *, whole: bool) -> DispatchResult:
        """`whole`: all of them, or where a reducer raises none."""
        invoked: list[EventHandler] = []
        failures: list[HandlerFailure] = []
        changed: dict[type, Change] = {}
        with self._lock:
            slices = dict(self._slices)
            for event in events:
                for registration in self._find_reducers(type(event)):
                    invoked.append(registration.reducer)
                    old = slices.get(registration.slice_type, ())
                    try:
                        new = tuple(registration.reducer(old, event, context=ReducerContext(self)))
                    except Exception as error:  # noqa: BLE001 - reducers are other people's code
                        _log.exception("a reducer of %s failed", type(event).__name__)
                        failures.append(HandlerFailure(registration.reducer, error))
                        continue
                    slices[registration.slice_type] = new
                    changed[registration.slice_type] = (changed.get(registration.slice_type, (old,))[0], new)
            if failures and whole:
                changed = {}
            self._set(changed)
        self._tell(changed)
        return DispatchResult(events[0], tuple(invoked), tuple(failures))

    def _receive_event(self, event: _Report) -> None:
        if event.session_id != self.session_id:
            return
        with self._lock:
            if event.event_id in self._accepted:
                self._accepted.remove(event.event_id)
                return
        results = [self.dispatch(event)]
        results += [self.dispatch(value) for value in _values(event)]
        failures = [failure.error for result in results for failure in result.errors]
        if failures:
            raise ExceptionGroup(f"reducers of {type(event).__name__} failed", failures)

    def _unobserve(self, slice_type: type, observer: Callable[[Any, Any], object]) -> bool:
        with self._lock:
            observers = list(self._observers.get(slice_type, ()))
            if observer not in observers:
                return False
            observers.remove(observer)
            self._observers[slice_type] = tuple(observers)
            return True

    def _tell(self, changed: Mapping[type, Change]) -> None:
        for slice_type, (old, new) in changed.items():
            if old == new:
                continue
            for observer in self._observers.get(slice_type, ()):
                try:
                    observer(old, new)
                except Exception:  # noqa: BLE001 - observers are other people's code
                    _log.exception("an observer of %s failed", slice_type.__name__)


class SliceAccessor(Generic[T]):
    """The values of one type in a session, oldest first."""

    def __init__(self, session: Session, slice_type: type[T]) -> None:
        self._session = session
        self._type = slice_type

    def all(self) -> tuple[T, ...]:
        return self._session._all(self._type)

    def latest(self) -> T | None:
        values = self.all()
        return values[-1] if values else None

    def where(self, predicate: Callable[[T], bool]) -> tuple[T, ...]:
        return tuple(value for value in self.all() if predicate(value))

    def seed(self, values: T | Iterable[T]) -> None:
        """Set the slice, past all reducers."""
        whole: Values = (values,) if isinstance(values, self._type) else tuple(values)  # type: ignore[arg-type]
        self._session._change(self._type, lambda _: whole)

    def clear(self, predicate: Callable[[T], bool] | None = None) -> None:
        """Drop the values that the predicate names, or all."""
        self._session._change(
            self._type, lambda old: () if predicate is None else tuple(v for v in old if not predicate(v))
        )

    def append(self, value: T) -> None:
        """Dispatch the value as an event of its own type."""
        self._session.dispatch(value)

    def register(self, event_type: type, reducer: Reducer, *, policy: SlicePolicy | None = None) -> None:
        """Let events of a type change this slice. They are no longer kept under their own type, unless registered."""
        self._session._register(self._type, event_type, reducer, policy)


def _values(event: _Report) -> list[object]:
    """What a tool or a prompt gave: dataclasses, each of which has its own slice."""
    match event:
        case PromptRendered() | CompactionFailed():
            return []
        case ToolInvoked():
            given = event.result.value if event.result.success else None
        case PromptExecuted():
            given = event.result.output
    values = list(given) if isinstance(given, list | tuple) else [given]
    return [value for value in values if is_dataclass(value) and not isinstance(value, type)]
