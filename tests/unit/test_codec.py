"""What the sandbox server and its client say to each other comes back as it was said."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar import errors
from belljar.sandbox import codec
from belljar.sandbox.base import GIB, Cell, FileInfo, Limits, Spec
from belljar.sandbox.outputs import Display, Error, Exit, FileChanged, Output, Reason, Result, Stderr, Stdout
from belljar.sandbox.packages import Installed

TEXT = st.text(st.characters(codec=None, categories=None))
"""Every code point, lone surrogates too: they stand for bytes in the names of files."""
TIMES = st.floats(0, 1e10)
BUNDLES = st.dictionaries(TEXT, TEXT | st.binary())
OUTPUTS = st.one_of(
    st.builds(Stdout, TEXT),
    st.builds(Stderr, TEXT),
    st.builds(Display, BUNDLES),
    st.builds(Result, BUNDLES),
    st.builds(FileChanged, TEXT, st.integers(0, 1 << 60), TIMES, TEXT, st.sampled_from(("created", "modified"))),
    st.builds(
        Exit,
        st.sampled_from(("ok", "raised", "timed_out", "killed")),
        TEXT,
        TEXT,
        st.none() | st.sampled_from(get_args(Reason)),
        st.none() | st.builds(Error, TEXT, TEXT, TEXT),
        st.none() | st.integers(-(1 << 31), 1 << 31),
        st.booleans(),
        TIMES,
    ),
)
SIZES = st.integers(1, 1 << 50)
POSITIVE = st.floats(0, 1e6, exclude_min=True)
LIMITS = st.builds(
    Limits,
    memory=st.integers(64 << 20, 1 << 50),
    cpus=st.none() | POSITIVE,
    cpu_time=st.none() | POSITIVE,
    idle_cpu_time=st.none() | POSITIVE,
    timeout=st.none() | POSITIVE,
    processes=st.integers(4, 1 << 20),
    open_files=st.integers(16, 1 << 20),
    file_size=st.none() | SIZES,
    disk=SIZES,
    scratch=SIZES,
    output=SIZES,
    output_total=SIZES,
    display=SIZES,
    grace=st.floats(0, 1e6),
)
SPECS = st.builds(Spec, LIMITS, st.sampled_from(("auto", "data", "none")), st.lists(TEXT).map(tuple))


def sent(told: codec.Told) -> codec.Told:
    """As it arrives: one line of ASCII."""
    line = codec.encode_line(told)
    assert line.isascii()
    assert line.endswith(b"\n")
    assert b"\n" not in line[:-1]
    return codec.decode_line(line)


@given(OUTPUTS)
def test_outputs(output: Output) -> None:
    assert codec.decode_output(sent(codec.encode_output(output))) == output


@given(SPECS)
def test_specs(spec: Spec) -> None:
    assert codec.decode_spec(sent(codec.encode_spec(spec))) == spec


@given(st.builds(Cell, TEXT, st.none() | POSITIVE))
def test_cells(cell: Cell) -> None:
    assert codec.decode_cell(sent(codec.encode_cell(cell))) == cell


@given(st.builds(FileInfo, TEXT, st.integers(0), TIMES, TEXT))
def test_files(info: FileInfo) -> None:
    assert codec.decode_file(sent(codec.encode_file(info))) == info


@given(st.builds(Installed, TEXT, TEXT))
def test_packages(package: Installed) -> None:
    assert codec.decode_package(sent(codec.encode_package(package))) == package


ERRORS = [
    errors.InvalidRequest("m", param="name"),
    errors.InvalidRequest("m"),
    errors.NotFound("m", param="p"),
    *(
        kind("m")
        for kind in (
            errors.TooLarge, errors.Unauthenticated, errors.Forbidden, errors.BadSettings, errors.CannotConfine,
            errors.NoneFree, errors.Lost, errors.Refused, errors.SandboxError, errors.WorkspaceSecurityError,
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.code}-{getattr(error, 'param', None)}")
def test_errors(error: errors.BelljarError) -> None:
    again = codec.decode_error(sent(codec.encode_error(error)))
    assert type(again) is type(error)
    assert str(again) == "m"
    assert getattr(again, "param", None) == getattr(error, "param", None)


@pytest.mark.parametrize("code", ["of_tomorrow", None, 3])
def test_an_error_of_another_version_is_a_refusal(code: object) -> None:
    again = codec.decode_error({"code": code, "message": "why"})
    assert type(again) is errors.Refused
    assert str(again) == "why"


def test_what_is_left_out_has_its_default() -> None:
    assert codec.decode_spec({}) == Spec()
    assert codec.decode_spec({"limits": {"memory": 4 * GIB, "timeout": None}}) == Spec(
        replace(Limits(), memory=4 * GIB, timeout=None)
    )
    assert codec.decode_cell({"code": ""}) == Cell("")


def test_every_limit_is_told_and_checked() -> None:
    """A field that is added to `Limits` must not be dropped on the way."""
    names = {one.name for one in fields(Limits)}
    assert set(codec.encode_spec(Spec())["limits"]) == names  # type: ignore[call-overload]
    for name in names:
        wrong: object
        for wrong in ("1", True, [], -1, 1e300):
            with pytest.raises(errors.InvalidRequest, match=rf"limits\.{name}: .* is not a .*number") as raised:
                codec.decode_spec({"limits": {name: wrong}})
            assert raised.value.param == f"limits.{name}"


@pytest.mark.parametrize(
    ("told", "param", "says"),
    [
        ({"limit": {}}, "limit", "there is no such field; known are limits, packages, requirements"),
        ({"limits": {"mem": 1}}, "limits.mem", "limits.mem: there is no such field; known are limits.memory"),
        ({"limits": []}, "limits", "limits: [] is not an object"),
        ({"limits": None}, "limits", "limits: None is not an object"),
        ({"limits": {"memory": None}}, "limits.memory", "limits.memory: None is not a whole number"),
        ({"limits": {"memory": 1024}}, "limits.memory", "limits.memory: 1024 is not a whole number from 67108864"),
        ({"limits": {"memory": 1.5e9}}, "limits.memory", "limits.memory: 1500000000.0 is not a whole number"),
        ({"limits": {"timeout": 0}}, "limits.timeout", "limits.timeout: 0 is not a number above 0"),
        ({"packages": "all"}, "packages", "packages: 'all' is not an environment; use one of auto, data, none"),
        ({"packages": None}, "packages", "packages: None is not"),
        ({"requirements": "rich"}, "requirements", "requirements: 'rich' is not a list of texts"),
        ({"requirements": [1]}, "requirements", "requirements: [1] is not a list of texts"),
    ],
)
def test_a_wrong_spec_names_the_field_the_value_and_the_remedy(told: Any, param: str, says: str) -> None:
    with pytest.raises(errors.InvalidRequest) as raised:
        codec.decode_spec(told)
    assert says in str(raised.value)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("told", "param"),
    [
        ({}, "code"),
        ({"code": 3}, "code"),
        ({"code": None}, "code"),
        ({"code": "1", "timeout": -1}, "timeout"),
        ({"code": "1", "timeout": "3"}, "timeout"),
        ({"code": "1", "time": 3}, "time"),
    ],
)
def test_a_wrong_cell_names_the_field(told: Any, param: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=rf"^{param}: ") as raised:
        codec.decode_cell(told)
    assert raised.value.param == param


@pytest.mark.parametrize("body", [b"{", b"[]", b"3", b'{"a": NaN}', b"\xff", b"[" * 100_000, b"1" * 5000])
def test_a_body_that_is_not_an_object_is_the_callers_fault(body: bytes) -> None:
    with pytest.raises(errors.InvalidRequest, match=r"^body: "):
        codec.decode_request(body)


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b"<html>", b'{"a": NaN}', b"\xff", b"[" * 100_000])
def test_an_answer_that_is_not_an_object_is_the_servers_fault(line: bytes) -> None:
    with pytest.raises(errors.Lost, match="cannot be read"):
        codec.decode_line(line)


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"type": "novel"},
        {"type": []},
        {"type": "stdout"},
        {"type": "stdout", "text": 3},
        {"type": "display", "data": []},
        {"type": "display", "data": {"image/png": {"base64": "!"}}},
        {"type": "display", "data": {"image/png": {"base64": "é"}}},
        {"type": "display", "data": {"image/png": None}},
        {"type": "file_changed", "name": "a", "size": True, "modified": 1, "mime": "", "change": "created"},
        {"type": "file_changed", "name": "a", "size": 1, "modified": 1, "mime": "", "change": []},
        {"type": "exit", "status": "fine"},
        {**codec.encode_output(Exit("ok")), "error": "x"},
        {**codec.encode_output(Exit("ok")), "kept": 1},
    ],
)
def test_an_output_that_is_none_is_the_servers_fault(told: codec.Told) -> None:
    with pytest.raises(errors.Lost, match="cannot be read"):
        codec.decode_output(told)


def test_an_empty_body_says_nothing() -> None:
    assert codec.decode_request(b" \n") == {}


def test_bytes_are_told_as_base64() -> None:
    """The shape that is agreed, rather than one that we alone can read."""
    told = codec.encode_output(Display({"text/plain": "x", "image/png": b"\x89PNG"}))
    assert told == {"type": "display", "data": {"text/plain": "x", "image/png": {"base64": "iVBORw=="}}}
    assert json.loads(codec.encode_line(told)) == told


# -- who holds a sandbox ----------------------------------------------------------------------------------------------

TERMS = st.builds(codec.Terms, st.integers(1, 1 << 53), st.floats(0, 86_400), st.floats(0, 3600)) | st.builds(
    codec.Terms, wait=st.floats(0, 3600)
)


@given(TERMS, SPECS)
def test_terms(terms: codec.Terms, spec: Spec) -> None:
    told = json.loads(codec.encode_json({**codec.encode_spec(spec), **codec.encode_terms(terms)}))
    assert codec.decode_terms(told) == terms
    assert codec.decode_spec(told) == spec


def test_terms_that_are_left_out() -> None:
    assert codec.decode_terms({}) == codec.Terms()
    assert codec.decode_terms({"epoch": 3}) == codec.Terms(3, codec.USUAL_KEEP)


@given(LIMITS, st.lists(st.builds(FileInfo, TEXT, st.integers(0, 1 << 60), TIMES, TEXT)), st.integers(0, 1 << 40))
def test_states(limits: Limits, files: list[FileInfo], count: int) -> None:
    state = codec.State("sbx_1", count, count + 1, limits, tuple(files))
    told = json.loads(codec.encode_json(codec.encode_state(state)))
    assert codec.decode_state(told) == state
    told["limits"]["of a newer server"] = 1
    assert codec.decode_state(told) == state


@pytest.mark.parametrize("wrong", [{"cells": "1"}, {"files": None}, {"limits": {"memory": 1}}, {"interpreter": True}])
def test_states_that_cannot_be_read(wrong: dict[str, object]) -> None:
    told = {**codec.encode_state(codec.State("sbx_1", 1, 1, Limits(), ())), **wrong}
    with pytest.raises(errors.Lost):
        codec.decode_state(told)
