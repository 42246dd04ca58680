"""Bodies become requests; nulls are defaults, and every mistake is named in OpenAI's words."""

import json
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import input_token_count_params, response_compact_params, response_create_params

from belljar.errors import InvalidRequest
from belljar.wire import codec, reading
from belljar.wire.extras import RequestExtras
from belljar.wire.items import InputText, Message
from belljar.wire.requests import CompactRequest, CreateContainer, CreateResponse, ExpiresAfter, StreamOptions
from belljar.wire.responses import Reasoner, TextConfig, TextFormat
from belljar.wire.tools import NetworkPolicy

RECORDINGS = Path(__file__).parents[2] / "recordings/openai"
HI = (Message(role="user", content=(InputText(text="hi"),)),)
SCHEMA = {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}

Wrong = Callable[..., tuple[str | None, str | None, str]]


def recorded() -> list[Any]:
    """Real requests to /responses and what became of them."""
    found = []
    for file in sorted(RECORDINGS.glob("*.yaml")):
        for n, exchange in enumerate(yaml.safe_load(file.read_text())["interactions"]):
            request = exchange["request"]
            if request["method"] == "POST" and "/responses" in request["uri"]:
                found.append(pytest.param(request, exchange["response"], id=f"{file.stem}-{n}"))
    return found


# -- JSON -------------------------------------------------------------------------------------------------------------


def test_an_object_is_read() -> None:
    assert reading.read_json(b'{"a": 1, "b": ["\xc3\xa4", "\\u0000", 1e3, 18446744073709551616], "a": 2}') == {
        "a": 2,
        "b": ["ä", "\0", 1000.0, 18446744073709551616],
    }


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "is empty"),
        (b"{", "not valid JSON"),
        (b"{} {}", "not valid JSON"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b'{"a": "\xff"}', "not valid JSON"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b'{"a": NaN}', "not valid JSON"),
        (b'{"a": Infinity}', "not valid JSON"),
        (b'{"a": 1e999}', "not valid JSON"),
        (b'{"a": ' + b"1" * 5000 + b"}", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}", "nested too deep"),
        (b'{"a": ' + b'{"a":' * 200 + b"1" + b"}" * 201, "nested too deep"),
        (b'{"a": ' + b"[" * 100_000, "nested too deep"),
        (b'{"a": [' + b"[]," * 200_000 + b"[]]}", "at most 200000"),
        (b'{"a": ["",' + b'"\\",",' * 200_000 + b'""]}', "at most 200000"),
    ],
)
def test_what_is_no_object_is_refused_in_a_plain_sentence(body: bytes, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        reading.read_json(body)
    assert (caught.value.param, caught.value.fault) == (None, None)


@pytest.mark.parametrize(
    "text", [",[{" * 200_000, '\\",' * 200_000, '"' * 400_000 + ",", "\\" * 300_001 + ',"[' * 100_000]
)
def test_what_stands_in_a_string_is_no_value(text: str) -> None:
    """Wherever the text is cut to be looked at in pieces."""
    for shift in range(3):
        data = {"a": ["x" * shift + text]}
        assert reading.read_json(json.dumps(data).encode()) == data


@given(st.lists(st.text(alphabet='"\\,[{a'), max_size=8), st.integers(1, 9), st.integers(1, 30))
def test_values_are_counted_whatever_stands_in_strings(texts: list[str], piece: int, most: int) -> None:
    data = {"a": texts}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_PIECE", piece)
        patch.setattr(codec, "MOST_VALUES", most)
        many = codec._has_many(json.dumps(data).encode())
    assert many == (2 + max(0, len(texts) - 1) >= most)  # each after a bracket or a comma


def test_many_brackets_are_not_depth() -> None:
    data = {"text": "[" * 1000, "wide": [[]] * 1000, "deep": json.loads("[" * 199 + "]" * 199)}
    assert reading.read_json(json.dumps(data).encode()) == data


def test_what_is_read_can_be_written_again_inside_an_answer() -> None:
    data = reading.read_json(b'{"a": ' + b"[" * 199 + b"]" * 199 + b"}")
    assert msgspec.json.encode([[[[[[[[data]]]]]]]])


# -- responses --------------------------------------------------------------------------------------------------------


def test_the_least() -> None:
    assert reading.read_response({"model": "m", "input": "hi"}) == CreateResponse(model="m", input=HI)


def test_everything() -> None:
    read = reading.read_response(
        {
            "model": "m",
            "input": "hi",
            "instructions": "be kind",
            "previous_response_id": "resp_1",
            "store": True,
            "stream": True,
            "stream_options": {"include_obfuscation": False},
            "background": True,
            "include": ["code_interpreter_call.outputs"],
            "parallel_tool_calls": False,
            "max_tool_calls": 3,
            "max_output_tokens": 16,
            "temperature": 2,
            "top_p": 0.5,
            "top_logprobs": 20,
            "text": {"format": SCHEMA | {"strict": None}, "verbosity": "low"},
            "reasoning": {"effort": "xhigh", "summary": "auto", "context": "all_turns"},
            "truncation": "auto",
            "context_management": [{"type": "compaction", "compact_threshold": 1000}],
            "metadata": {"k" * 64: "v" * 512},
            "prompt_cache_key": "k",
            "prompt_cache_options": {"mode": "explicit"},
            "prompt_cache_retention": "24h",
            "service_tier": "flex",
            "safety_identifier": "s" * 128,
            "user": "u",
            "stop": "END",
            "seed": 7,
            "presence_penalty": 1,
            "frequency_penalty": -1,
            "logit_bias": {"5": 10},
            "top_k": 40,
            "min_p": 0.1,
            "repetition_penalty": 1.1,
            "chat_template_kwargs": {"enable_thinking": False},
            "belljar": {"executor": "provider"},
            "client_metadata": {"x": 1},
            "access_programs": {},
            "image": {},
            "moderation": None,
        }
    )
    assert msgspec.structs.asdict(read) | {"context_management": None} == {
        "model": "m",
        "input": HI,
        "instructions": "be kind",
        "previous_response_id": "resp_1",
        "conversation": None,
        "store": True,
        "stream": True,
        "stream_options": StreamOptions(include_obfuscation=False),
        "background": True,
        "include": ("code_interpreter_call.outputs",),
        "tools": (),
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_tool_calls": 3,
        "max_output_tokens": 16,
        "temperature": 2.0,
        "top_p": 0.5,
        "top_logprobs": 20,
        "text": TextConfig(
            format=TextFormat(type="json_schema", name="answer", schema={"type": "object"}, strict=None),
            verbosity="low",
        ),
        "reasoning": Reasoner(effort="xhigh", summary="auto", context="all_turns"),
        "truncation": "auto",
        "context_management": None,
        "metadata": {"k" * 64: "v" * 512},
        "prompt": None,
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "explicit"},
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "safety_identifier": "s" * 128,
        "user": "u",
        "stop": "END",
        "seed": 7,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "logit_bias": {"5": 10.0},
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.1,
        "chat_template_kwargs": {"enable_thinking": False},
        "belljar": RequestExtras(executor="provider"),
    }
    assert [one.compact_threshold for one in read.context_management] == [1000]


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_by_its_id_or_as_an_object(conversation: object) -> None:
    read = reading.read_response({"model": "m", "conversation": conversation})
    assert (read.conversation, read.input) == ("conv_1", ())


def test_null_is_the_default_of_every_parameter_of_the_sdk() -> None:
    names = set(typing.get_type_hints(response_create_params.ResponseCreateParamsStreaming)) - {"model", "input"}
    assert len(names) > 25
    data = {"model": "m", "input": "hi"} | dict.fromkeys(names)
    assert reading.read_response(data) == CreateResponse(model="m", input=HI)


@pytest.mark.parametrize(("request_", "response"), recorded())
def test_real_requests(request_: dict[str, Any], response: dict[str, Any]) -> None:
    read = reading.read_compact if request_["uri"].endswith("/compact") else reading.read_response
    body = request_["parsed_body"]
    if response["status"]["code"] == 200:
        asked = read(body)
        assert asked.model == body["model"]
        assert len(asked.input) == len(body["input"])
    else:
        with pytest.raises(InvalidRequest) as caught:
            read(body)
        error = response["parsed_body"]["error"]
        assert (str(caught.value), caught.value.param, caught.value.fault) == (
            error["message"],
            error["param"],
            error["code"],
        )


@pytest.mark.parametrize(
    ("said", "param", "code", "message"),
    [
        ({"model": None}, "model", "missing_required_parameter", "Missing required parameter: 'model'."),
        (
            {"model": ""},
            "model",
            "empty_string",
            "Invalid 'model': empty string. Expected a string with minimum length 1, but got an empty string instead.",
        ),
        (
            {"model": 1},
            "model",
            "invalid_type",
            "Invalid type for 'model': expected a string, but got an integer instead.",
        ),
        ({"system": "x"}, "system", "unknown_parameter", "Unknown parameter: 'system'."),
        ({"messages": None}, "messages", "unknown_parameter", "Unknown parameter: 'messages'."),
        (
            {"input": 1},
            "input",
            "invalid_type",
            "Invalid type for 'input': expected one of a string or array of objects, but got an integer instead.",
        ),
        (
            {"input": None},
            "input",
            "missing_required_parameter",
            "Missing required parameter: 'input'. Send it, or go on from 'previous_response_id' or 'conversation'.",
        ),
        (
            {"input": []},
            "input",
            "missing_required_parameter",
            "Missing required parameter: 'input'. Send it, or go on from 'previous_response_id' or 'conversation'.",
        ),
        (
            {"input": "x" * 10_485_761},
            "input",
            "string_above_max_length",
            "Invalid 'input': string too long. Expected a string with maximum length 10485760,"
            " but got a string with length 10485761 instead.",
        ),
        (
            {"temperature": -1},
            "temperature",
            "decimal_below_min_value",
            "Invalid 'temperature': decimal below minimum value. Expected a value >= 0, but got -1 instead.",
        ),
        (
            {"temperature": 2.5},
            "temperature",
            "decimal_above_max_value",
            "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5 instead.",
        ),
        (
            {"temperature": "0.7"},
            "temperature",
            "invalid_type",
            "Invalid type for 'temperature': expected a decimal, but got a string instead.",
        ),
        (
            {"temperature": True},
            "temperature",
            "invalid_type",
            "Invalid type for 'temperature': expected a decimal, but got a boolean instead.",
        ),
        (
            {"top_p": 1.01},
            "top_p",
            "decimal_above_max_value",
            "Invalid 'top_p': decimal above maximum value. Expected a value <= 1, but got 1.01 instead.",
        ),
        (
            {"top_logprobs": 21},
            "top_logprobs",
            "integer_above_max_value",
            "Invalid 'top_logprobs': integer above maximum value. Expected a value <= 20, but got 21 instead.",
        ),
        (
            {"top_logprobs": 1.0},
            "top_logprobs",
            "invalid_type",
            "Invalid type for 'top_logprobs': expected an integer, but got a decimal instead.",
        ),
        (
            {"max_output_tokens": 0},
            "max_output_tokens",
            "integer_below_min_value",
            "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 0 instead.",
        ),
        (
            {"max_output_tokens": True},
            "max_output_tokens",
            "invalid_type",
            "Invalid type for 'max_output_tokens': expected an integer, but got a boolean instead.",
        ),
        (
            {"max_tool_calls": 0},
            "max_tool_calls",
            "integer_below_min_value",
            "Invalid 'max_tool_calls': integer below minimum value. Expected a value >= 1, but got 0 instead.",
        ),
        (
            {"store": "yes"},
            "store",
            "invalid_type",
            "Invalid type for 'store': expected a boolean, but got a string instead.",
        ),
        (
            {"tools": {}},
            "tools",
            "invalid_type",
            "Invalid type for 'tools': expected an array of objects, but got an object instead.",
        ),
        (
            {"include": ["file_search_call.results", "all"]},
            "include[1]",
            "invalid_value",
            "Invalid value: 'all'. Supported values are: 'code_interpreter_call.outputs',"
            " 'computer_call_output.output.image_url', 'file_search_call.results', 'message.input_image.image_url',"
            " 'message.output_text.logprobs', 'reasoning.encrypted_content', 'web_search_call.action.sources',"
            " and 'web_search_call.results'.",
        ),
        (
            {"include": "all"},
            "include",
            "invalid_type",
            "Invalid type for 'include': expected an array of strings, but got a string instead.",
        ),
        (
            {"truncation": "some"},
            "truncation",
            "invalid_value",
            "Invalid value: 'some'. Supported values are: 'auto' and 'disabled'.",
        ),
        (
            {"truncation": "x" * 1000},
            "truncation",
            "invalid_value",
            f"Invalid value: '{'x' * 100}…'. Supported values are: 'auto' and 'disabled'.",
        ),
        (
            {"reasoning": {"effort": 5}},
            "reasoning.effort",
            "invalid_type",
            "Invalid type for 'reasoning.effort': expected a string, but got an integer instead.",
        ),
        (
            {"text": {"verbosity": "loud"}},
            "text.verbosity",
            "invalid_value",
            "Invalid value: 'loud'. Supported values are: 'high', 'low', and 'medium'.",
        ),
        (
            {"text": {"format": {"type": "json_schema", "schema": {}}}},
            "text.format.name",
            "missing_required_parameter",
            "Missing required parameter: 'text.format.name'.",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "n"}}},
            "text.format.schema",
            "missing_required_parameter",
            "Missing required parameter: 'text.format.schema'.",
        ),
        (
            {"text": {"format": SCHEMA | {"name": "no good\n"}}},
            "text.format.name",
            "invalid_value",
            "Invalid 'text.format.name': string does not match pattern."
            " Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.",
        ),
        (
            {"metadata": {str(n): "" for n in range(17)}},
            "metadata",
            "object_above_max_properties",
            "Invalid 'metadata': too many properties."
            " Expected an object with at most 16 properties, but got an object with 17 properties instead.",
        ),
        (
            {"metadata": {"k" * 65: ""}},
            f"metadata.{'k' * 65}",
            "string_above_max_length",
            f"Invalid property name in 'metadata': '{'k' * 65}' is too long."
            " Expected a string with maximum length 64, but got a string with length 65 instead.",
        ),
        (
            {"metadata": {"k": "v" * 513}},
            "metadata.k",
            "string_above_max_length",
            "Invalid 'metadata.k': string too long."
            " Expected a string with maximum length 512, but got a string with length 513 instead.",
        ),
        (
            {"metadata": {"k": None}},
            "metadata.k",
            "invalid_type",
            "Invalid type for 'metadata.k': expected a string, but got null instead.",
        ),
        (
            {"context_management": [{"type": "compaction", "compact_threshold": 999}]},
            "context_management[0].compact_threshold",
            "integer_below_min_value",
            "Invalid 'context_management[0].compact_threshold': integer below minimum value."
            " Expected a value >= 1000, but got 999 instead.",
        ),
        (
            {"context_management": [{"type": "other"}]},
            "context_management[0].type",
            "invalid_value",
            "Invalid value: 'other'. Supported values are: 'compaction'.",
        ),
        (
            {"conversation": 3},
            "conversation",
            "invalid_type",
            "Invalid type for 'conversation': expected one of a string or object, but got an integer instead.",
        ),
        (
            {"conversation": {}},
            "conversation.id",
            "missing_required_parameter",
            "Missing required parameter: 'conversation.id'.",
        ),
        (
            {"conversation": "conv_1", "previous_response_id": "resp_1"},
            "conversation",
            "mutually_exclusive_parameters",
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Send only one of them.",
        ),
        (
            {"stream_options": {}},
            "stream_options",
            None,
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        ),
        (
            {"background": True, "store": False},
            "background",
            "invalid_value",
            "Invalid 'background': a background response is fetched later and so must be stored."
            " Leave 'store' out or set it to true.",
        ),
        (
            {"prompt": {"id": "pmpt_1"}},
            "prompt",
            "unsupported_parameter",
            "Unsupported parameter: 'prompt' is not supported by this server."
            " It keeps no stored prompts: send the text as 'instructions' and 'input'.",
        ),
        (
            {"safety_identifier": "s" * 129},
            "safety_identifier",
            "string_above_max_length",
            "Invalid 'safety_identifier': string too long."
            " Expected a string with maximum length 128, but got a string with length 129 instead.",
        ),
    ],
)
def test_what_is_wrong(wrong: Wrong, said: dict[str, Any], param: str, code: str | None, message: str) -> None:
    assert wrong(**said) == (param, code, message)


# -- the others -------------------------------------------------------------------------------------------------------


def test_a_request_to_compact() -> None:
    names = set(typing.get_type_hints(response_compact_params.ResponseCompactParams)) - {"model", "input"}
    data = {"model": "m", "input": "hi"} | dict.fromkeys(names)
    assert reading.read_compact(data) == CompactRequest(model="m", input=HI)
    command_line = {"tools": [], "parallel_tool_calls": True, "reasoning": {"effort": "low"}, "text": {}}
    assert reading.read_compact(data | command_line) == CompactRequest(model="m", input=HI)
    assert reading.read_compact(
        {"model": "m", "previous_response_id": "resp_1", "instructions": "short", "prompt_cache_key": "k"}
    ) == CompactRequest(model="m", previous_response_id="resp_1", instructions="short", prompt_cache_key="k")


@pytest.mark.parametrize(
    ("said", "param", "code"),
    [
        ({}, "model", "missing_required_parameter"),
        ({"model": "m"}, "input", "missing_required_parameter"),
        ({"model": "m", "input": "hi", "conversation": "conv_1"}, "conversation", "unknown_parameter"),
        ({"model": "m", "input": "hi", "prompt_cache_key": "k" * 65}, "prompt_cache_key", "string_above_max_length"),
    ],
)
def test_what_is_wrong_with_a_request_to_compact(said: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reading.read_compact(said)
    assert (caught.value.param, caught.value.fault) == (param, code)


def test_a_request_to_count() -> None:
    names = set(typing.get_type_hints(input_token_count_params.InputTokenCountParams)) - {"model", "input"}
    data = {"model": "m", "input": "hi", "instructions": "be kind"} | dict.fromkeys(names - {"instructions"})
    assert reading.read_input_tokens(data) == CreateResponse(model="m", input=HI, instructions="be kind")


@pytest.mark.parametrize("name", ["temperature", "stream", "store", "max_output_tokens", "system"])
def test_a_request_to_count_says_nothing_of_the_answer(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reading.read_input_tokens({"model": "m", "input": "hi", name: None})
    assert (caught.value.param, caught.value.fault) == (name, "unknown_parameter")


def test_a_container() -> None:
    assert reading.read_container({"name": "n", "memory_limit": None, "skills": []}) == CreateContainer(name="n")
    assert reading.read_container(
        {
            "name": "n",
            "memory_limit": "64g",
            "expires_after": {"anchor": "last_active_at", "minutes": 20},
            "file_ids": ["file-1"],
            "network_policy": {"type": "allowlist", "allowed_domains": ["pypi.org"]},
        }
    ) == CreateContainer(
        name="n",
        memory_limit="64g",
        expires_after=ExpiresAfter(anchor="last_active_at", minutes=20),
        file_ids=("file-1",),
        network_policy=NetworkPolicy(type="allowlist", allowed_domains=("pypi.org",)),
    )


@pytest.mark.parametrize(
    ("said", "param", "code", "message"),
    [
        ({"name": None}, "name", "missing_required_parameter", "Missing required parameter: 'name'."),
        ({"memory": "1g"}, "memory", "unknown_parameter", "Unknown parameter: 'memory'."),
        (
            {"memory_limit": "8g"},
            "memory_limit",
            "invalid_value",
            "Invalid value: '8g'. Supported values are: '1g', '4g', '16g', and '64g'.",
        ),
        (
            {"expires_after": {"anchor": "last_active_at"}},
            "expires_after.minutes",
            "missing_required_parameter",
            "Missing required parameter: 'expires_after.minutes'.",
        ),
        (
            {"expires_after": {"anchor": "last_active_at", "minutes": 600_000}},
            "expires_after.minutes",
            "integer_above_max_value",
            "Invalid 'expires_after.minutes': integer above maximum value."
            " Expected a value <= 525600, but got 600000 instead.",
        ),
        (
            {"file_ids": [1]},
            "file_ids[0]",
            "invalid_type",
            "Invalid type for 'file_ids[0]': expected a string, but got an integer instead.",
        ),
        (
            {"network_policy": {"type": "allowlist"}},
            "network_policy.allowed_domains",
            "missing_required_parameter",
            "Missing required parameter: 'network_policy.allowed_domains'.",
        ),
        (
            {"skills": [{"type": "skill_reference"}]},
            "skills",
            "unsupported_parameter",
            "Unsupported parameter: 'skills' is not supported by this server."
            " Upload what the code needs as files instead.",
        ),
    ],
)
def test_what_is_wrong_with_a_container(said: dict[str, Any], param: str, code: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reading.read_container({"name": "n"} | said)
    assert (caught.value.param, caught.value.fault, str(caught.value)) == (param, code, message)


def test_a_name_with_a_nul_in_it_is_refused_before_any_store_sees_it() -> None:
    with pytest.raises(InvalidRequest) as caught:
        reading.read_container({"name": "a\0b"})
    told = (caught.value.param, caught.value.fault, str(caught.value))
    assert told == ("name", "invalid_value", "Invalid 'name': a NUL character is not text.")


def test_metadata() -> None:
    assert reading.read_metadata(None) == {}
    assert reading.read_metadata({"a": "b"}) == {"a": "b"}
    with pytest.raises(InvalidRequest) as caught:
        reading.read_metadata({"a": 1})
    assert caught.value.param == "metadata.a"
