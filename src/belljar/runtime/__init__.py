"""Sessions, events, deadlines and budgets of the library."""

from belljar.runtime.budget import Budget, BudgetTracker
from belljar.runtime.deadline import Deadline
from belljar.runtime.dispatcher import Dispatcher, DispatchResult, HandlerFailure, InProcessDispatcher
from belljar.runtime.events import CompactionFailed, PromptExecuted, PromptRendered, TokenUsage, ToolInvoked
from belljar.runtime.session import Session, SessionProtocol, SliceAccessor, Subscription
from belljar.runtime.slices import (
    Reducer,
    ReducerContext,
    SlicePolicy,
    Snapshot,
    append_all,
    replace_latest,
    replace_latest_by,
    upsert_by,
)
from belljar.runtime.throttle import ThrottlePolicy
from belljar.runtime.transaction import Snapshotable, Transaction, transaction

__all__ = [
    "Budget",
    "BudgetTracker",
    "CompactionFailed",
    "Deadline",
    "DispatchResult",
    "Dispatcher",
    "HandlerFailure",
    "InProcessDispatcher",
    "PromptExecuted",
    "PromptRendered",
    "Reducer",
    "ReducerContext",
    "Session",
    "SessionProtocol",
    "SliceAccessor",
    "SlicePolicy",
    "Snapshot",
    "Snapshotable",
    "Subscription",
    "ThrottlePolicy",
    "TokenUsage",
    "ToolInvoked",
    "Transaction",
    "append_all",
    "replace_latest",
    "replace_latest_by",
    "transaction",
    "upsert_by",
]
