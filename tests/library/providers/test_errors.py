"""Every failure under its code, with a word to the user, in its place in our tree, with the SDK's own as its cause."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import errors as google_errors
from google.genai.types import HttpOptions
from tests.library.providers.replay import Replay, Reply, recorded
from tests.library.providers.wires import claude_refused, gemini_refused, message, refused, responded, streamed

from belljar import errors
from belljar.config import ApiSettings
from belljar.providers import AnthropicError, ClientError, GeminiError, OpenAIError, create_client, handle_openai_error
from belljar.providers.failures import CODES, code_of
from belljar.vendors.errors import fault

Make = Callable[..., Any]

SCHEMA = "Invalid schema for function 'run': 'required' is required to be supplied and to be an array."
OPENAI: list[tuple[Reply, type[Exception], str, type[errors.ProviderError], str]] = [
    (refused(401, code="invalid_api_key"), openai.AuthenticationError, "AUTH_ERROR", errors.BadKey, "Invalid API key"),
    (refused(403, "no"), openai.PermissionDeniedError, "AUTH_ERROR", errors.BadKey, "Invalid API key"),
    (
        refused(429, code="rate_limit_exceeded", type="requests"),
        openai.RateLimitError,
        "RATE_LIMIT",
        errors.RateLimited,
        "Rate limited",
    ),
    (
        refused(429, "Limit 30000", code="rate_limit_exceeded", type="tokens"),
        openai.RateLimitError,
        "TOKEN_RATE_LIMIT",
        errors.RateLimited,
        "Token rate limited",
    ),
    (
        refused(429, "Rate limit reached on tokens per min (TPM)"),
        openai.RateLimitError,
        "TOKEN_RATE_LIMIT",
        errors.RateLimited,
        "Token rate limited",
    ),
    (
        refused(429, x_ratelimit_remaining_tokens="0"),
        openai.RateLimitError,
        "TOKEN_RATE_LIMIT",
        errors.RateLimited,
        "Token rate limited",
    ),
    (
        Reply(recorded("openai/openai-error.1.json"), status=429),
        openai.RateLimitError,
        "QUOTA_EXCEEDED",
        errors.QuotaExceeded,
        "Quota exceeded",
    ),
    (
        refused(400, "The requested model 'x' does not exist.", code="model_not_found", param="model"),
        openai.BadRequestError,
        "INVALID_MODEL",
        errors.Declined,
        "Invalid model name",
    ),
    (
        refused(404, "The model `x` does not exist or you do not have access to it.", code="model_not_found"),
        openai.NotFoundError,
        "INVALID_MODEL",
        errors.Declined,
        "Invalid model name",
    ),
    (
        refused(400, "too long", code="context_length_exceeded"),
        openai.BadRequestError,
        "CONTEXT_LENGTH_EXCEEDED",
        errors.ContextTooLong,
        "Conversation too long",
    ),
    (
        refused(400, SCHEMA, code="invalid_function_parameters", param="tools[0].parameters"),
        openai.BadRequestError,
        "INVALID_SCHEMA",
        errors.Declined,
        "Invalid function schema",
    ),
    (
        refused(400, code="content_policy_violation"),
        openai.BadRequestError,
        "CONTENT_POLICY",
        errors.Filtered,
        "Content policy violation",
    ),
    (
        refused(400, "below minimum", code="decimal_below_min_value", param="temperature"),
        openai.BadRequestError,
        "BAD_REQUEST",
        errors.Declined,
        "Bad request",
    ),
    (refused(422), openai.UnprocessableEntityError, "BAD_REQUEST", errors.Declined, "Bad request"),
    (
        refused(503, type="server_error"),
        openai.InternalServerError,
        "SERVER_OVERLOADED",
        errors.Unreachable,
        "Servers overloaded",
    ),
    (
        refused(500, code="server_is_overloaded", type="server_error"),
        openai.InternalServerError,
        "SERVER_OVERLOADED",
        errors.Unreachable,
        "Servers overloaded",
    ),
    (refused(504), openai.InternalServerError, "TIMEOUT", errors.Unreachable, "Request timed out"),
    (refused(500, type="server_error"), openai.InternalServerError, "API_ERROR", errors.ProviderError, "Server error"),
    (Reply({}, status=404), openai.NotFoundError, "API_ERROR", errors.ProviderError, "Server error"),
]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("reply", "cause", "code", "kind", "words"),
    OPENAI,
    ids=[f"{one[2]}-{one[0].status}-{n}" for n, one in enumerate(OPENAI)],
)
def test_each_row_of_the_table(
    server: Replay,
    make: Make,
    streaming: bool,
    reply: Reply,
    cause: type[Exception],
    code: str,
    kind: type[errors.ProviderError],
    words: str,
) -> None:
    server.play(reply)
    with pytest.raises(OpenAIError) as caught:
        make().send_message("x", on_text=print if streaming else None)
    error = caught.value
    assert error.error_code == code
    assert isinstance(error, kind)
    assert (error.status, error.retryable) == (kind.status, kind.retryable)
    assert error.user_message.startswith(words)
    assert isinstance(error.__cause__, cause)
    assert error.original_error is error.__cause__
    assert handle_openai_error(error) is error


def test_every_code_of_the_founding_table_is_there() -> None:
    assert set(CODES) == {
        "AUTH_ERROR", "RATE_LIMIT", "TOKEN_RATE_LIMIT", "QUOTA_EXCEEDED", "CONNECTION_ERROR", "TIMEOUT",
        "INVALID_MODEL", "CONTEXT_LENGTH_EXCEEDED", "INVALID_SCHEMA", "CONTENT_POLICY", "BAD_REQUEST",
        "SERVER_OVERLOADED", "API_ERROR", "UNKNOWN_ERROR",
    }  # fmt: skip


@pytest.mark.parametrize("provider", ["openai", "xai", "belljar", "lm_studio", "anthropic", "gemini"])
def test_nobody_listens(provider: str, http: httpx2.Client) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        sdk: Any = openai.OpenAI(base_url=url, api_key="k", max_retries=0, http_client=http)
        if provider == "anthropic":
            sdk = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, http_client=http)
        elif provider == "gemini":
            sdk = genai.Client(api_key="k", http_options=HttpOptions(base_url=url, httpx_client=http))
        client = create_client(provider, client=sdk, model="m", settings=ApiSettings())
        for on_text in (None, print):
            with pytest.raises(ClientError) as caught:
                client.send_message("x", on_text=on_text)
            assert caught.value.error_code == "CONNECTION_ERROR"
            assert isinstance(caught.value, errors.Unreachable)
            assert isinstance(caught.value.__cause__, openai.APIError | anthropic.APIError | httpx2.TransportError)


@pytest.mark.parametrize("provider", ["openai", "lm_studio", "anthropic", "gemini"])
def test_nobody_answers(server: Replay, provider: str, plain: Any) -> None:
    """Before the first byte, and told apart from a broken connection."""
    until = threading.Event()
    server.play(Reply({}, until=until))
    with httpx2.Client(verify=plain, timeout=0.2) as http:
        sdk: Any = openai.OpenAI(base_url=server.url, api_key="k", max_retries=0, timeout=0.2, http_client=http)
        if provider == "anthropic":
            sdk = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0, timeout=0.2, http_client=http)
        elif provider == "gemini":
            options = HttpOptions(base_url=server.url, timeout=200, httpx_client=http)
            sdk = genai.Client(api_key="k", http_options=options)
        client = create_client(provider, client=sdk, model="m", settings=ApiSettings())
        try:
            with pytest.raises(ClientError) as caught:
                client.send_message("x")
        finally:
            until.set()
    assert caught.value.error_code == "TIMEOUT"
    assert caught.value.user_message.startswith("Request timed out")


def test_a_pause_that_is_asked_for_is_told(server: Replay, make: Make) -> None:
    server.play(refused(429, retry_after="7"))
    with pytest.raises(errors.RateLimited) as caught:
        make().send_message("x")
    assert caught.value.after == 7.0


def test_a_fault_names_its_field(server: Replay, make: Make) -> None:
    server.play(refused(400, "Missing", code="missing_required_parameter", param="input[0].arguments"))
    with pytest.raises(errors.Declined) as caught:
        make().send_message("x")
    assert (caught.value.param, caught.value.fault) == ("input[0].arguments", "missing_required_parameter")


@pytest.mark.parametrize("nested", [True, False])
def test_an_error_inside_the_stream(server: Replay, make: Make, nested: bool) -> None:
    """As the vendor sends it, and as its own specification says."""
    error = {"code": "rate_limit_exceeded", "message": "Slow down", "param": None}
    event = {"type": "error", "sequence_number": 1, "error": {"type": "tokens", **error}} if nested else None
    server.play(Reply(events=[event or {"type": "error", "sequence_number": 1, **error}]))
    with pytest.raises(OpenAIError) as caught:
        make().send_message("x", on_text=print)
    assert caught.value.error_code == ("TOKEN_RATE_LIMIT" if nested else "RATE_LIMIT")


def test_a_recorded_failure(server: Replay, make: Make) -> None:
    server.play(Reply(events=recorded("openai/openai-error.1.chunks.txt")))
    with pytest.raises(OpenAIError) as caught:
        make().send_message("x", on_text=print)
    assert caught.value.error_code == "QUOTA_EXCEEDED"


def test_what_is_not_the_sdks_is_unknown() -> None:
    cause = ValueError("odd")
    error = handle_openai_error(cause)
    assert (error.error_code, error.user_message, error.original_error) == ("UNKNOWN_ERROR", "Unknown error.", cause)
    assert str(error) == "Unknown error. (ValueError: odd)"
    assert handle_openai_error(error) is error
    assert isinstance(handle_openai_error(AnthropicError.of("RATE_LIMIT")), errors.RateLimited)


def test_the_founding_constructor() -> None:
    error = OpenAIError("it broke", "API_ERROR", None)
    assert (error.error_code, str(error).endswith("(it broke)")) == ("API_ERROR", True)


def test_an_error_can_be_carried_to_another_process() -> None:
    error = OpenAIError.of("RATE_LIMIT", "slow", None, errors.RateLimited("slow", after=3))
    copied = pickle.loads(pickle.dumps(error))
    assert isinstance(copied, OpenAIError)
    assert isinstance(copied, errors.RateLimited)
    assert (copied.error_code, copied.after, str(copied)) == (error.error_code, 3, str(error))


def test_the_kind_that_the_vendors_words_told_is_carried_too() -> None:
    loading = fault(503, {}, b'{"error":{"message":"Loading model"}}', "x")
    copied = pickle.loads(pickle.dumps(OpenAIError.of(code_of(loading), str(loading), None, loading)))
    assert isinstance(copied, errors.Loading)
    assert (copied.reason, copied.after) == ("SERVER_OVERLOADED", 5.0)


def test_every_error_of_our_tree_has_a_code() -> None:
    kinds: dict[errors.ProviderError, str] = {
        errors.DeadlinePassed("x"): "TIMEOUT",
        errors.Garbled("x"): "API_ERROR",
        errors.Unreachable("x"): "CONNECTION_ERROR",
        errors.RateLimited("x"): "RATE_LIMIT",
        errors.QuotaExceeded("x"): "QUOTA_EXCEEDED",
        errors.Declined("x"): "BAD_REQUEST",
        errors.Filtered("x"): "CONTENT_POLICY",
    }
    for error, code in kinds.items():
        assert code_of(error) == code
    assert code_of(fault(529, {}, b"", "x")) == "SERVER_OVERLOADED"


def test_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider, variable in {
        "openai": "OPENAI_API_KEY",
        "anthropic": "ANTHROPIC_API_KEY",
        "gemini": "GEMINI_API_KEY",
        "xai": "XAI_API_KEY",
    }.items():
        with pytest.raises(errors.BadKey, match=f"set {variable} to one") as caught:
            create_client(provider, settings=ApiSettings())
        assert isinstance(caught.value, ClientError)
        assert caught.value.error_code == "AUTH_ERROR"


# -- the other vendors ------------------------------------------------------------------------------------------------

ANTHROPIC = [
    (claude_refused(401, "authentication_error"), "AUTH_ERROR", anthropic.AuthenticationError),
    (claude_refused(403, "permission_error"), "AUTH_ERROR", anthropic.PermissionDeniedError),
    (claude_refused(402, "billing_error"), "QUOTA_EXCEEDED", anthropic.APIStatusError),
    (claude_refused(404, "not_found_error", "model: x"), "INVALID_MODEL", anthropic.NotFoundError),
    (claude_refused(413, "request_too_large"), "CONTEXT_LENGTH_EXCEEDED", anthropic.APIStatusError),
    (
        claude_refused(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "CONTEXT_LENGTH_EXCEEDED",
        anthropic.BadRequestError,
    ),
    (
        claude_refused(400, "invalid_request_error", "tools.0.custom.input_schema: JSON schema is invalid"),
        "INVALID_SCHEMA",
        anthropic.BadRequestError,
    ),
    (claude_refused(400, "invalid_request_error", "max_tokens"), "BAD_REQUEST", anthropic.BadRequestError),
    (claude_refused(429, "rate_limit_error"), "RATE_LIMIT", anthropic.RateLimitError),
    (
        claude_refused(429, "rate_limit_error", anthropic_ratelimit_tokens_remaining="0"),
        "TOKEN_RATE_LIMIT",
        anthropic.RateLimitError,
    ),
    (claude_refused(500, "api_error"), "API_ERROR", anthropic.InternalServerError),
    (claude_refused(504, "timeout_error"), "TIMEOUT", anthropic.APIStatusError),
    (claude_refused(529, "overloaded_error"), "SERVER_OVERLOADED", anthropic.APIStatusError),
]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(("reply", "code", "cause"), ANTHROPIC, ids=[f"{one[1]}-{one[0].status}" for one in ANTHROPIC])
def test_anthropic(
    server: Replay, make: Make, streaming: bool, reply: Reply, code: str, cause: type[Exception]
) -> None:
    server.play(reply)
    with pytest.raises(AnthropicError) as caught:
        make("anthropic").send_message("x", on_text=print if streaming else None)
    assert caught.value.error_code == caught.value.reason == code
    kind = errors.RateLimited if reply.status == 529 else CODES[code][0]  # the fault decides, and this one passes
    assert isinstance(caught.value, kind)
    assert isinstance(caught.value.__cause__, cause)


def test_anthropic_inside_a_stream(server: Replay, make: Make) -> None:
    server.play(Reply(events=[{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]))
    with pytest.raises(AnthropicError) as caught:
        make("anthropic").send_message("x", on_text=print)
    assert caught.value.error_code == "SERVER_OVERLOADED"


def violated(quota: str) -> list[Any]:
    return [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}]


GEMINI = [
    (gemini_refused(401, "UNAUTHENTICATED"), "AUTH_ERROR"),
    (gemini_refused(403, "PERMISSION_DENIED"), "AUTH_ERROR"),
    (gemini_refused(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "AUTH_ERROR"),
    (Reply(recorded("gemini/google-429-retry-info.json"), status=429), "RATE_LIMIT"),
    (
        gemini_refused(429, "RESOURCE_EXHAUSTED", details=violated("GenerateContentInputTokensPerModelPerMinute")),
        "TOKEN_RATE_LIMIT",
    ),
    (gemini_refused(429, "RESOURCE_EXHAUSTED", details=violated("GenerateRequestsPerDay")), "QUOTA_EXCEEDED"),
    (gemini_refused(404, "NOT_FOUND", "models/x is not found for API version v1"), "INVALID_MODEL"),
    (
        gemini_refused(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens (8)."),
        "CONTEXT_LENGTH_EXCEEDED",
    ),
    (
        gemini_refused(400, "INVALID_ARGUMENT", "tools[0].function_declarations[0].parameters: bad"),
        "INVALID_SCHEMA",
    ),
    (gemini_refused(400, "INVALID_ARGUMENT", "bad"), "BAD_REQUEST"),
    (gemini_refused(500, "INTERNAL"), "API_ERROR"),
    (gemini_refused(503, "UNAVAILABLE"), "SERVER_OVERLOADED"),
    (gemini_refused(504, "DEADLINE_EXCEEDED"), "TIMEOUT"),
    (Reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}), "CONTENT_POLICY"),
    (Reply({"candidates": [{"finishReason": "SAFETY"}]}), "CONTENT_POLICY"),
    (Reply({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}), "API_ERROR"),
]


@pytest.mark.parametrize(("reply", "code"), GEMINI, ids=[f"{one[1]}-{n}" for n, one in enumerate(GEMINI)])
def test_gemini(server: Replay, make: Make, reply: Reply, code: str) -> None:
    server.play(reply)
    with pytest.raises(GeminiError) as caught:
        make("gemini").send_message("x")
    assert caught.value.error_code == code
    assert isinstance(caught.value, CODES[code][0])
    if reply.status >= 400:
        assert isinstance(caught.value.__cause__, google_errors.APIError)


def test_gemini_while_streaming(server: Replay, make: Make) -> None:
    server.play(gemini_refused(503, "UNAVAILABLE"))
    with pytest.raises(GeminiError) as caught:
        make("gemini").send_message("x", on_text=print)
    assert caught.value.error_code == "SERVER_OVERLOADED"


@pytest.mark.parametrize(
    ("provider", "words", "code"),
    [
        ("lm_studio", "The number of tokens to keep is greater than the context length", "CONTEXT_LENGTH_EXCEEDED"),
        ("vllm", "This model's maximum context length is 4096 tokens.", "CONTEXT_LENGTH_EXCEEDED"),
        ("ollama", 'model "x" not found, try pulling it first', "INVALID_MODEL"),
        ("ollama", "bad", "BAD_REQUEST"),
    ],
)  # fmt: skip
def test_local_servers_have_only_words(server: Replay, make: Make, provider: str, words: str, code: str) -> None:
    server.play(Reply({"error": words}, status=400))
    with pytest.raises(ClientError) as caught:
        make(provider, model="m").send_message("x")
    assert caught.value.error_code == code


def test_a_client_goes_on_after_an_error(server: Replay, make: Make) -> None:
    client = make()
    server.play(refused(500), streamed("resp_1", "a"), responded("resp_2", message("b")))
    with pytest.raises(OpenAIError):
        client.send_message("x")
    assert client.send_message("x", on_text=lambda piece: None).text == "a"
    assert client.send_message("y").text == "b"


def told(status: int, content: bytes, *, body: object, code: str | None = None) -> openai.APIStatusError:
    """As a program raises it that has the SDK's exceptions and not its answers."""
    answer = httpx2.Response(status, content=content, request=httpx2.Request("POST", "http://x"))
    error = openai.APIStatusError("it said no", response=answer, body=body)
    if code is not None:
        error.code = code
    return error


IN_THE_BODY = [
    (told(429, b"", body={"message": "no", "code": "insufficient_quota"}), "QUOTA_EXCEEDED"),
    (told(429, b"", body={"error": {"message": "no", "code": "insufficient_quota"}}), "QUOTA_EXCEEDED"),
    (told(429, b"", body=None, code="insufficient_quota"), "QUOTA_EXCEEDED"),
    (told(400, b"<html>", body="<html>", code="context_length_exceeded"), "CONTEXT_LENGTH_EXCEEDED"),
    (told(400, b"", body={"message": "no", "code": None}, code="content_policy_violation"), "CONTENT_POLICY"),
    (told(400, b"", body="Your prompt is too long"), "CONTEXT_LENGTH_EXCEEDED"),
    (told(400, b"", body=[{"error": {"message": "no", "code": "model_not_found"}}]), "INVALID_MODEL"),
    (told(400, b"", body={"detail": "unknown model"}), "INVALID_MODEL"),
    (told(400, b"", body={"message": object()}), "BAD_REQUEST"),
    (told(503, b"<html>busy</html>", body="<html>busy</html>"), "SERVER_OVERLOADED"),
]


@pytest.mark.parametrize(("error", "code"), IN_THE_BODY, ids=range(len(IN_THE_BODY)))
def test_what_the_exception_has_counts_where_the_answer_is_empty(error: openai.APIStatusError, code: str) -> None:
    meant = handle_openai_error(error)
    assert (meant.error_code, meant.original_error) == (code, error)
    assert "<html>" not in str(meant)


def test_an_error_of_a_stream_by_its_code() -> None:
    error = openai.APIError("no", request=httpx2.Request("POST", "http://x"), body=None)
    error.code = "rate_limit_exceeded"
    assert handle_openai_error(error).error_code == "RATE_LIMIT"


def test_a_filter_that_the_sdk_itself_reports() -> None:
    assert handle_openai_error(openai.ContentFilterFinishReasonError()).error_code == "CONTENT_POLICY"


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "vllm"])
@pytest.mark.parametrize(("status", "told"), [(401, "refused the key (401)"), (404, "is base_url right?")])
def test_a_remedy_is_one_for_who_has_the_client(
    provider: str, status: int, told: str, server: Replay, make: Callable[..., Any]
) -> None:
    server.play(Reply({"error": {"message": "no"}}, status=status))
    with pytest.raises(errors.ProviderError) as caught:
        make(provider, model="m").send_message("x")
    assert told in str(caught.value)
    assert "upstream" not in str(caught.value)
