"""Every exception we raise, as one tree, split by who has to act.

BelljarError                 .code .status .retryable
├── CallerError              change the request        InvalidRequest · NotFound · ContainerExpired · TooLarge
│                                                      Unauthenticated · Forbidden · OverQuota · StorageExceeded
│                                                      PromptValidationError · InvalidContainer · ToolValidationError
│                                                      DeadlineExceededError · BudgetExceededError
│                                                      TurnLimitExceededError
├── OperatorError            change the installation   BadSettings · CannotConfine · StoreUnavailable
├── ProviderError            the model's side          BadKey · RateLimited · QuotaExceeded · ContextTooLong · Filtered
│                                                      Declined · Unreachable · Loading · Garbled · DeadlinePassed
│                                                      OutputFiltered · OutputParseError · CompactionError
├── SandboxError             isolation or capacity     NoneFree · Lost · Fenced · HeldElsewhere · Refused
│                                                      ContainerExpiredError
├── WorkspaceError           the caller's files        WorkspaceSecurityError · WorkspaceBudgetExceededError
│                                                      WorkspaceConflictError
└── PromptEvaluationError    which prompt, and when    always together with one of the kinds above

`code` is stable and machine-readable, `status` is the HTTP status the gateway answers with, and `retryable`
says whether the same call may succeed later (`None`: cannot be told safely). What model-written code does
wrong is not here: that is a value, `belljar.sandbox.outputs.Exit`.

All of them can be imported from `belljar` too, whose `__init__` names each.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias


class BelljarError(Exception):
    """The root: catch this to catch everything Belljar raises on purpose."""

    code: ClassVar[str] = "belljar_error"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool | None] = None


class CallerError(BelljarError):
    """The request is at fault; the same request fails again."""

    code = "caller_error"
    status = 400
    retryable = False


class InvalidRequest(CallerError):
    """A field has a value that cannot be used; `param` names it, `fault` is the finer code that OpenAI's wire has."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None, fault: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.fault = fault


class NotFound(CallerError):
    """The named thing does not exist; `param` is the wire's name for what named it, where it has one."""

    code = "not_found"
    status = 404

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class ContainerExpired(CallerError):
    """The named container was idle for too long."""

    code = "container_expired"


class TooLarge(CallerError):
    """More bytes than the limit allows."""

    code = "too_large"
    status = 413


class Unauthenticated(CallerError):
    """No key, or one that we do not know."""

    code = "unauthenticated"
    status = 401


class Forbidden(CallerError):
    """The caller may not do this."""

    code = "forbidden"
    status = 403


class OverQuota(CallerError):
    """The caller has used up what its key allows; `after` is when to come again, in seconds."""

    code = "over_quota"
    status = 429
    retryable = True

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class StorageExceeded(CallerError):
    """The caller stores as many bytes as its key may: waiting makes no room."""

    code = "insufficient_quota"
    status = 429


class PromptValidationError(CallerError):
    """A tool, a section or a prompt is declared in a way that cannot work."""

    code = "prompt_invalid"


class InvalidContainer(PromptValidationError, AssertionError):
    """A tool's container is not one of its forms; also an AssertionError, which the tool's contract promises."""

    code = "invalid_container"


class ToolValidationError(CallerError):
    """A tool's arguments do not fit its parameters; handlers may raise it to say so themselves."""

    code = "tool_arguments"


class DeadlineExceededError(CallerError):
    """The caller's deadline has passed."""

    code = "deadline_exceeded"
    status = 504


class BudgetExceededError(CallerError):
    """The caller's budget is spent; `exceeded_dimension` is the limit's name."""

    code = "budget_exceeded"

    def __init__(self, message: str, *, budget: object, consumed: object, exceeded_dimension: str) -> None:
        super().__init__(message)
        self.budget = budget
        self.consumed = consumed
        self.exceeded_dimension = exceeded_dimension


class TurnLimitExceededError(CallerError):
    """The model was asked as often as the caller allows, and wants to go on."""

    code = "turn_limit_exceeded"


class OperatorError(BelljarError):
    """The installation or its settings are at fault."""

    code = "operator_error"
    retryable = False


class BadSettings(OperatorError):
    """A setting is unknown, contradictory or names something that is not installed."""

    code = "bad_settings"


class CannotConfine(OperatorError):
    """This host cannot give the isolation we promise; the message says what is missing and the remedy."""

    code = "cannot_confine"
    status = 503


class StoreUnavailable(OperatorError):
    """The database or the bucket does not answer; `after` is when to come again, in seconds."""

    code = "store_unavailable"
    status = 503
    retryable = True

    def __init__(self, message: str, *, after: float = 5.0) -> None:
        super().__init__(message)
        self.after = after


class ProviderError(BelljarError):
    """The model's side failed; `reason` is which of the library's codes it is, where the provider's words tell."""

    code = "provider_error"
    status = 502
    reason: str | None = None
    """Such as `TOKEN_RATE_LIMIT`, a kind of `RateLimited`: `belljar.providers.failures.CODES` has them all."""
    after: float | None = None
    """When to come again, in seconds, where the provider said so."""
    again: bool | None = None
    """Whether the answer itself tells that asking again may help: by its header, or as a failure inside the server."""


class BadKey(ProviderError):
    """The provider refused the key."""

    code = "bad_key"
    status = 401
    retryable = False


class RateLimited(ProviderError):
    """The provider asks us to slow down."""

    code = "rate_limited"
    status = 429
    retryable = True

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class QuotaExceeded(ProviderError):
    """The account has nothing left to spend."""

    code = "quota_exceeded"
    status = 429
    retryable = False


class ContextTooLong(ProviderError):
    """The conversation does not fit the model."""

    code = "context_too_long"
    status = 400
    retryable = False


class Filtered(ProviderError):
    """The provider's content filter refused."""

    code = "filtered"
    status = 400
    retryable = False


class OutputFiltered(Filtered, AssertionError):
    """The answer that was asked for was held back; also an AssertionError, which the adapter's contract promises."""

    code = "output_filtered"


class Declined(ProviderError):
    """The provider finds fault with the request; `param` and `fault` are its words for where and what."""

    code = "declined"
    status = 400
    retryable = False

    def __init__(self, message: str, *, param: str | None = None, fault: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.fault = fault


class Unreachable(ProviderError):
    """No connection, or it broke or timed out."""

    code = "unreachable"
    retryable = True


class Loading(Unreachable):
    """The server is there and loads its model; `after` is when to come again, in seconds."""

    code = "model_loading"
    status = 503

    def __init__(self, message: str, *, after: float = 5.0) -> None:
        super().__init__(message)
        self.after = after


class Garbled(ProviderError):
    """The provider answered something that is not its own wire."""

    code = "garbled"


class DeadlinePassed(ProviderError):
    """The whole response took longer than it may."""

    code = "deadline_passed"
    status = 504
    retryable = False


class OutputParseError(ProviderError):
    """The model's answer is not the structured output that was asked for."""

    code = "output_unparsable"


class CompactionError(ProviderError):
    """The server did not compact a conversation; `token_count` is what it held, where that is known."""

    code = "compaction_failed"

    def __init__(self, message: str, *, token_count: int, original_error: Exception) -> None:
        super().__init__(message)
        self.token_count = token_count
        self.original_error = original_error


class SandboxError(BelljarError):
    """Isolation or capacity, not the code that ran."""

    code = "sandbox_error"
    status = 503


class NoneFree(SandboxError):
    """The configured number of sandboxes is in use; `most` is that number, where it is known."""

    code = "none_free"
    retryable = True

    def __init__(self, message: str, *, most: int | None = None) -> None:
        super().__init__(message)
        self.most = most


class Lost(SandboxError):
    """The sandbox is gone; nothing more can be run in it."""

    code = "sandbox_lost"
    status = 502
    retryable = True


class Fenced(Lost):
    """Another gateway has what this one was working on; nothing of it can be changed from here any more."""

    code = "fenced"
    status = 409


class HeldElsewhere(SandboxError):
    """Another gateway has what is asked for, `gateway_id`; the request is passed on to it where that can be."""

    code = "held_elsewhere"
    retryable = True

    def __init__(self, message: str, *, gateway_id: str = "") -> None:
        super().__init__(message)
        self.gateway_id = gateway_id


class Refused(SandboxError):
    """The sandbox could not be made as asked."""

    code = "sandbox_refused"


class ContainerExpiredError(SandboxError):
    """A container has expired or is gone, and another could not be put in its place."""

    code = "container_not_replaced"
    retryable = True

    def __init__(self, message: str, *, container_id: str, original_error: Exception) -> None:
        super().__init__(message)
        self.container_id = container_id
        self.original_error = original_error


class WorkspaceError(BelljarError):
    """The caller's files are at fault."""

    code = "workspace_error"
    status = 400
    retryable = False


class WorkspaceSecurityError(WorkspaceError):
    """A path leads out of its root, or is something other than a plain file."""

    code = "workspace_security"


class WorkspaceConflictError(WorkspaceError):
    """Something else is in a file's place, and nothing says that it may be overwritten."""

    code = "workspace_conflict"
    status = 409


class WorkspaceBudgetExceededError(WorkspaceError):
    """More bytes or files than the budget allows."""

    code = "workspace_budget_exceeded"
    status = 413


Phase: TypeAlias = Literal["request", "response", "tool", "budget"]


class PromptEvaluationError(BelljarError):
    """An evaluation failed. What is raised is always of another kind too, such as `RateLimited`, and caused by that."""

    code = "prompt_evaluation"
    prompt_name: str
    phase: Phase
    provider_payload: object
    """What the provider answered; None where it did not."""
    attempts: int
    """How often the provider was asked in the turn that failed."""


WinkError = BelljarError
