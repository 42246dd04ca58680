"""The faces of Belljar that know vendors, asked alike: what each puts on the wire, and what it makes of a fault."""

from __future__ import annotations

import math
import ssl
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self, TypeAlias, cast

import anthropic
import httpx2
import msgspec
import openai
from google import genai
from google.genai.types import HttpOptions
from tests.library.adapters.evaluation.replies import prompt
from tests.parity.server import MODELS, VENDORS, Sent, Vendors

from belljar import errors
from belljar.adapters.claude_agent_sdk import ClaudeAgentSDKAdapter, ClaudeAgentSDKModelConfig
from belljar.adapters.openai import OpenAIAdapter, OpenAIModelConfig
from belljar.adapters.openai.conversation import build_text_format
from belljar.config import ApiSettings
from belljar.files.registry import FACTORIES
from belljar.openai import OpenAI as Inside
from belljar.prompt import Tool
from belljar.prompt.structured import text_format
from belljar.providers import create_client
from belljar.providers.tool_converters import convert_tools_for_openai
from belljar.runtime import Session, ThrottlePolicy

Face: TypeAlias = Literal["gateway", "client", "adapter", "files"]

FACES: Mapping[str, tuple[Face, ...]] = MappingProxyType(
    {
        "openai": ("gateway", "client", "adapter", "files"),
        "anthropic": ("gateway", "client", "adapter", "files"),
        "gemini": ("gateway", "client", "files"),
        "xai": ("gateway", "client", "files"),
        "lm_studio": ("gateway", "client"),
        "ollama": ("gateway", "client"),
        "vllm": ("gateway", "client"),
    }
)
"""Where each vendor is known."""
DIALECTS = MappingProxyType({"openai": "openai", "anthropic": "anthropic", "gemini": "gemini", "xai": "xai"})
KEY = "sk-parity-0123456789"
ONCE = ThrottlePolicy(max_attempts=1)
WORDS = "## 1. Task (task)\n\nDo it."
"""What every face says; it is how an adapter writes its prompt."""
LONG = 1_000
"""Tokens of an answer: each face has a default of its own, so all are told."""


@dataclass(frozen=True, kw_only=True)
class Asking:
    """One turn, in words that all faces have. What a face cannot be told is left to a row that leaves the face out."""

    model: str = ""
    effort: str | None = None
    verbosity: str | None = None
    system: str = ""
    tool: Tool[Any, Any] | None = None
    parallel: bool = True
    long: int = LONG
    code: bool = False
    """The vendor runs code."""
    files: tuple[Path, ...] = ()
    streamed: bool = False
    form: type | None = None
    """What the answer is to be."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Members that the Responses API and the adapters' settings call alike."""


@dataclass(frozen=True)
class Seen:
    """What a fault has become."""

    kind: str
    """The class in our tree of errors."""
    reason: str | None
    """One of the codes of the library; None where the face does not tell one."""
    final: bool
    """It says that asking again is of no use."""
    after: int | None = None
    """Whole seconds after which to ask again."""


@dataclass(frozen=True)
class Outcome:
    sent: list[Sent]
    seen: Seen | None


_KINDS = {
    "rate_limit_exceeded": "RateLimited",
    "insufficient_quota": "QuotaExceeded",
    "context_length_exceeded": "ContextTooLong",
    "content_filter": "Filtered",
    "upstream_bad_key": "BadKey",
    "unreachable": "Unreachable",
    "model_loading": "Loading",
    "garbled": "Garbled",
    "provider_error": "ProviderError",
}
"""Codes on the gateway's own wire, each of one class."""


class Faces:
    """All of them on one server, which stays for as long as this is entered."""

    def __init__(self, vendors: Vendors) -> None:
        self.vendors = vendors
        self._sdks: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        # No address here is encrypted, and reading the machine's certificates takes longer than a test.
        plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._http = self._stack.enter_context(httpx2.Client(verify=plain))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def ask(self, face: Face, vendor: str, asking: Asking | None = None) -> Outcome:
        """One turn, or one look at a file where the face is that of files."""
        asking = asking or Asking()
        self.vendors.sent.clear()
        seen = None
        try:
            match face:
                case "gateway":
                    self._ask_gateway(vendor, asking)
                case "client":
                    self._ask_client(vendor, asking)
                case "adapter":
                    self._ask_adapter(vendor, asking)
                case "files":
                    files = cast(Any, FACTORIES[vendor])(client=self._sdk(vendor), attempts=1)
                    files.file_metadata("files/1" if vendor == "gemini" else "file_1")
        except errors.BelljarError as error:
            seen = _of_library(error)
        except openai.APIError as error:
            seen = _of_gateway(error)
        except _Failed as error:
            seen = Seen(_KINDS.get(error.code or "", f"failed {error.code}"), None, final=False)
        return Outcome(list(self.vendors.sent), seen)

    # -- the gateway

    @cached_property
    def gateway(self) -> openai.OpenAI:
        upstreams = {
            name: {"base_url": self.vendors.base_url(name), "dialect": DIALECTS.get(name, "chat"), "api_key": KEY}
            for name in VENDORS
        }
        inside = Inside.local(upstreams=upstreams, discover=False, log_level="error")
        return self._stack.enter_context(inside).with_options(max_retries=0)

    def _ask_gateway(self, vendor: str, asking: Asking) -> None:
        said: Any = WORDS
        if asking.files:
            parts = [self._part(path, asking.code) for path in asking.files]
            said = [{"role": "user", "content": [*parts, {"type": "input_text", "text": WORDS}]}]
        body: dict[str, Any] = {
            "model": f"{vendor}/{asking.model or MODELS[vendor]}",
            "input": said,
            "store": False,
            "max_output_tokens": asking.long,
            "parallel_tool_calls": asking.parallel,
            **asking.more,
        }
        tools = [] if asking.tool is None else [_function(asking.tool, vendor)]
        if asking.code:
            container = {"type": "auto"}
            tools.append({"type": "code_interpreter", "container": container})
            body["extra_body"] = {"belljar": {"executor": "provider"}}
        if tools:
            body["tools"] = tools
        if asking.system:
            body["instructions"] = asking.system
        if asking.effort:
            body["reasoning"] = {"effort": asking.effort}
        text: dict[str, Any] = {} if asking.form is None else {"format": _format(asking.form)}
        if asking.verbosity:
            text["verbosity"] = asking.verbosity
        if text:
            body["text"] = text
        if not asking.streamed:
            answer = self.gateway.responses.create(**body)
            _check(answer)
            return
        for event in self.gateway.responses.create(stream=True, **body):
            if event.type in ("response.failed", "response.completed", "response.incomplete"):
                _check(event.response)

    def _part(self, path: Path, code: bool) -> dict[str, Any]:
        """A file in a message; a picture is seen, unless it is for code."""
        id = self.gateway.files.create(file=path, purpose="user_data").id
        return {"type": "input_image" if path.suffix == ".png" and not code else "input_file", "file_id": id}

    # -- the library

    def _sdk(self, vendor: str) -> Any:
        if vendor not in self._sdks:
            self._sdks[vendor] = self._made(vendor)
        return self._sdks[vendor]

    def _made(self, vendor: str) -> Any:
        match vendor:
            case "anthropic":
                return anthropic.Anthropic(
                    base_url=self.vendors.root(vendor), api_key=KEY, max_retries=0, http_client=self._http
                )
            case "gemini":
                options = HttpOptions(base_url=self.vendors.root(vendor), httpx_client=self._http)
                return genai.Client(api_key=KEY, vertexai=False, http_options=options)
            case _:
                return openai.OpenAI(
                    base_url=self.vendors.base_url(vendor), api_key=KEY, max_retries=0, http_client=self._http
                )

    def _ask_client(self, vendor: str, asking: Asking) -> None:
        settings = ApiSettings(max_tokens=asking.long, parallel_tool_calls=asking.parallel)
        client = create_client(
            vendor,
            model=asking.model or MODELS[vendor],
            tools=[] if asking.tool is None else [asking.tool],
            system=asking.system,
            client=self._sdk(vendor),
            settings=settings,
        )
        if asking.effort:
            client.set_reasoning_effort(asking.effort)  # type: ignore[arg-type]
        if asking.verbosity:
            client.set_verbosity(asking.verbosity)  # type: ignore[arg-type]
        on_text = (lambda text: None) if asking.streamed else None
        client.send_message(WORDS, on_text=on_text, files=asking.files, code_execution=asking.code)

    def _ask_adapter(self, vendor: str, asking: Asking) -> None:
        members: dict[str, Any] = {"max_tokens": asking.long, **asking.more}
        if asking.effort:
            members["reasoning_effort"] = asking.effort
        model = asking.model or MODELS[vendor]
        adapter: OpenAIAdapter | ClaudeAgentSDKAdapter
        if vendor == "anthropic":
            adapter = ClaudeAgentSDKAdapter(
                model=model,
                client=self._sdk(vendor),
                model_config=ClaudeAgentSDKModelConfig(**members),
                code_execution=asking.code,
                throttle=ONCE,
            )
        else:
            if asking.verbosity:
                members["verbosity"] = asking.verbosity
            config = OpenAIModelConfig(parallel_tool_calls=asking.parallel, **members)
            adapter = OpenAIAdapter(model=model, client=self._sdk(vendor), model_config=config, throttle=ONCE)
        tools = [] if asking.tool is None else [asking.tool]
        on_text = (lambda text: None) if asking.streamed else None
        with suppress(errors.OutputParseError):  # what is answered here is no form
            adapter.evaluate(prompt(*tools, output=asking.form), session=Session(), on_text=on_text)


def _format(form: type) -> dict[str, Any]:
    """As an adapter asks OpenAI for it, strict where the schema can be."""
    asked = text_format(prompt(output=form).render(), "a-prompt")
    assert asked is not None
    built: dict[str, Any] = msgspec.to_builtins(build_text_format(asked))
    return built


def _function(tool: Tool[Any, Any], vendor: str) -> dict[str, Any]:
    """As the library itself tells it. It asks the vendors of the Responses API alone to be strict about arguments."""
    [written] = convert_tools_for_openai([tool.definition], strict=vendor in ("openai", "xai"))
    return written


class _Failed(Exception):
    """A response of the gateway's that says that it failed."""

    def __init__(self, code: str | None) -> None:
        self.code = code


def _check(response: Any) -> None:
    if response.error is not None:
        raise _Failed(response.error.code)


def _of_library(error: errors.BelljarError) -> Seen:
    kind = next(one for one in type(error).__mro__ if one.__module__ == errors.__name__)
    if issubclass(kind, errors.OutputFiltered):  # an adapter's word for it, which its contract promises
        kind = errors.Filtered
    reason = getattr(error, "reason", None) or getattr(error, "error_code", None)
    after = getattr(error, "after", None)
    return Seen(kind.__name__, reason, error.retryable is False, None if after is None else math.ceil(after))


def _of_gateway(error: openai.APIError) -> Seen:
    code = error.code or ""
    kind = _KINDS.get(code) or ("Declined" if error.type == "invalid_request_error" else f"{error.type} {code}")
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    after = headers.get("retry-after")
    return Seen(kind, None, headers.get("x-should-retry") == "false", None if after is None else int(after))
