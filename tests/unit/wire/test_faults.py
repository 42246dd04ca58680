"""Every error of ours has a status, a type and a code that the official clients understand."""

import json
from collections.abc import Iterator

import httpx2
import openai
import pytest

from belljar import errors
from belljar.errors import BelljarError
from belljar.wire import faults
from belljar.wire.faults import Fault

WRONG = "invalid_request_error"
TABLE: dict[type[BelljarError], tuple[int, str, str | None, type[openai.APIStatusError]]] = {
    errors.BelljarError: (500, "server_error", "belljar_error", openai.InternalServerError),
    errors.CallerError: (400, WRONG, None, openai.BadRequestError),
    errors.InvalidRequest: (400, WRONG, None, openai.BadRequestError),
    errors.NotFound: (404, WRONG, None, openai.NotFoundError),
    errors.ContainerExpired: (400, WRONG, None, openai.BadRequestError),
    errors.TooLarge: (413, WRONG, None, openai.APIStatusError),
    errors.Unauthenticated: (401, WRONG, "invalid_api_key", openai.AuthenticationError),
    errors.Forbidden: (403, WRONG, None, openai.PermissionDeniedError),
    errors.OverQuota: (429, "rate_limit_error", "rate_limit_exceeded", openai.RateLimitError),
    errors.StorageExceeded: (429, "insufficient_quota", "insufficient_quota", openai.RateLimitError),
    errors.OperatorError: (500, "server_error", "operator_error", openai.InternalServerError),
    errors.BadSettings: (500, "server_error", "bad_settings", openai.InternalServerError),
    errors.CannotConfine: (503, "server_error", "cannot_confine", openai.InternalServerError),
    errors.StoreUnavailable: (503, "server_error", "store_unavailable", openai.InternalServerError),
    errors.ProviderError: (502, "server_error", "provider_error", openai.InternalServerError),
    errors.BadKey: (502, "server_error", "upstream_bad_key", openai.InternalServerError),
    errors.RateLimited: (429, "rate_limit_error", "rate_limit_exceeded", openai.RateLimitError),
    errors.QuotaExceeded: (429, "insufficient_quota", "insufficient_quota", openai.RateLimitError),
    errors.ContextTooLong: (400, WRONG, "context_length_exceeded", openai.BadRequestError),
    errors.Filtered: (400, WRONG, "content_filter", openai.BadRequestError),
    errors.Declined: (400, WRONG, None, openai.BadRequestError),
    errors.Unreachable: (502, "server_error", "unreachable", openai.InternalServerError),
    errors.Loading: (503, "server_error", "model_loading", openai.InternalServerError),
    errors.Garbled: (502, "server_error", "garbled", openai.InternalServerError),
    errors.DeadlinePassed: (504, "server_error", "deadline_passed", openai.InternalServerError),
    errors.SandboxError: (503, "server_error", "sandbox_error", openai.InternalServerError),
    errors.NoneFree: (503, "server_error", "none_free", openai.InternalServerError),
    errors.Lost: (502, "server_error", "sandbox_lost", openai.InternalServerError),
    errors.Fenced: (409, "server_error", "fenced", openai.ConflictError),
    errors.HeldElsewhere: (503, "server_error", "held_elsewhere", openai.InternalServerError),
    errors.Refused: (503, "server_error", "sandbox_refused", openai.InternalServerError),
    errors.WorkspaceError: (400, WRONG, "workspace_error", openai.BadRequestError),
    errors.WorkspaceSecurityError: (400, WRONG, "workspace_security", openai.BadRequestError),
    errors.WorkspaceBudgetExceededError: (413, WRONG, "workspace_budget_exceeded", openai.APIStatusError),
    errors.WorkspaceConflictError: (409, WRONG, "workspace_conflict", openai.ConflictError),
}

LIBRARY: set[type[BelljarError]] = {
    errors.PromptValidationError,
    errors.InvalidContainer,
    errors.ToolValidationError,
    errors.DeadlineExceededError,
    errors.BudgetExceededError,
    errors.TurnLimitExceededError,
    errors.OutputParseError,
    errors.OutputFiltered,
    errors.PromptEvaluationError,
    errors.CompactionError,
    errors.ContainerExpiredError,
}
"""Raised in the caller's own process; no gateway answers with them."""


def tree(root: type[BelljarError] = BelljarError) -> Iterator[type[BelljarError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def raised(fault: Fault) -> tuple[openai.APIStatusError, bool]:
    """What the SDK makes of the answer, and whether it would ask again."""
    request = httpx2.Request("POST", "http://127.0.0.1/v1/responses")
    headers = [(b"content-type", b"application/json"), *fault.headers()]
    response = httpx2.Response(fault.status, headers=headers, content=faults.body(fault), request=request)
    with openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1") as client:
        return client._make_status_error_from_response(response), client._should_retry(response)


def test_the_table_is_the_tree() -> None:
    assert set(TABLE) | LIBRARY == set(tree())


@pytest.mark.parametrize("kind", list(TABLE), ids=lambda kind: kind.__name__)
def test_every_error(kind: type[BelljarError]) -> None:
    status, type_, code, exception = TABLE[kind]
    fault = faults.of(kind("what happened"))
    assert (fault.status, fault.type, fault.code) == (status, type_, code)
    assert fault.message.endswith("what happened")
    error, again = raised(fault)
    assert (type(error), error.type, error.code, error.param) == (exception, type_, code, fault.param)
    assert error.message == f"Error code: {status} - {fault.message}"
    assert not (again and kind.retryable is False)
    assert again or kind.retryable is not True


def test_params_and_codes_of_the_wire() -> None:
    asked = faults.of(errors.InvalidRequest("no", param="tools[0].container", fault="missing_required_parameter"))
    assert (asked.param, asked.code) == ("tools[0].container", "missing_required_parameter")
    declined = faults.of(errors.Declined("no", param="temperature", fault="unsupported_value"))
    assert (declined.param, declined.code) == ("temperature", "unsupported_value")
    assert faults.of(errors.ContextTooLong("no")).param == "input"
    assert faults.of(errors.NotFound("No such File object: file-1", param="id")).param == "id"
    assert faults.of(errors.NotFound("no")).param is None


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (errors.OverQuota("no", after=0.2), b"1"),
        (errors.OverQuota("no", after=0), b"1"),
        (errors.OverQuota("no", after=59.1), b"60"),
        (errors.OverQuota("no"), b"5"),
        (errors.RateLimited("no"), b"5"),
        (errors.QuotaExceeded("no"), b"60"),
        (errors.RateLimited("no", after=7), b"7"),
        (errors.NoneFree("no"), b"5"),
        (errors.Unreachable("no"), None),
        (errors.Loading("no"), b"5"),
        (errors.Loading("no", after=20), b"20"),
    ],
)
def test_when_to_come_again(error: BelljarError, after: bytes | None) -> None:
    assert dict(faults.of(error).headers()).get(b"retry-after") == after


def test_the_operators_key_is_not_the_callers() -> None:
    fault = faults.of(errors.BadKey("openai: 401 Incorrect API key provided: sk-…1234"))
    assert fault.message.startswith("The model's provider refused the key that this server has for it")
    assert fault.message.endswith("openai: 401 Incorrect API key provided: sk-…1234")


def test_a_stranger_tells_nothing_but_the_request_id() -> None:
    fault = faults.unexpected("req_1")
    assert (fault.status, fault.type, fault.param, fault.code) == (500, "server_error", None, None)
    assert "req_1" in fault.message


def test_the_body_has_all_four_keys_and_bears_any_message() -> None:
    fault = Fault(status=400, type=WRONG, message='"a"\n\udcff')
    assert json.loads(faults.body(fault)) == {
        "error": {"message": '"a"\n?', "type": WRONG, "param": None, "code": None}
    }
