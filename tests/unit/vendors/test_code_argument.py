"""Code comes out of arguments exactly, as it is written, and also where the model got the arguments wrong."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import belljar
from belljar.vendors.code_argument import Arguments, CodeArgument
from belljar.vendors.partial_json import Members


def read(fragments: list[str]) -> tuple[str, str, Arguments]:
    """What was streamed, what was left, and the result."""
    argument = CodeArgument()
    streamed = "".join(argument.feed(fragment) for fragment in fragments)
    return streamed, argument.rest(), argument.result()


def pieces(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=12)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


# -- JSON --------------------------------------------------------------------------------------------------------------

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(["code", "python", "input", "requirements", "arguments", "language"]) | st.text(max_size=4)


@given(st.dictionaries(KEYS, VALUES, max_size=4), st.booleans(), st.sampled_from([None, 2]), st.data())
@example({"code": "\U0001f600 \\ud83d \\\\ \" ' \x00 \u2028"}, True, None, None)
@example({"a": ['"', "}", "\\"], "code": "x", "b": {"c": "]"}}, True, None, None)
def test_any_split_of_json_streams_the_code(
    arguments: dict[str, Any], ascii: bool, indent: int | None, data: st.DataObject | None
) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii, indent=indent)
    streamed, rest, result = read([*text] if data is None else pieces(text, data))
    assert (streamed, rest) == (result.code, "")
    code = arguments.get("code")
    if isinstance(code, str) and not code.lstrip().startswith(("`", "{")):
        assert result.code == code
        assert result.repaired is None


@given(st.text(), st.booleans())
def test_code_is_streamed_as_it_is_written(code: str, ascii: bool) -> None:
    """Not held back until the end: all but what could still change is out before the closing quote."""
    text = json.dumps({"code": f"x{code}"}, ensure_ascii=ascii)
    argument = CodeArgument()
    assert "".join(argument.feed(char) for char in text[:-2]) == f"x{code}"


@pytest.mark.parametrize("code", ["a\n" * 5000, "\\n" * 2001, "\U0001f600\t" * 1000])
def test_code_with_very_many_escapes(code: str) -> None:
    text = json.dumps({"other": [code], "code": code})
    assert read([text]) == (code, "", Arguments(code))
    assert read([text[:3333], text[3333:]]) == (code, "", Arguments(code))


def test_no_pattern_is_one_that_older_pythons_match_wrongly() -> None:
    """Possessive groups, before 3.11.5: strings were cut at their first escape."""
    sources = [path.read_text() for path in Path(belljar.__file__).parent.rglob("*.py")]
    assert len(sources) > 100
    assert not [found for source in sources for found in re.findall(r"\)[*+?]\+[^\n]*\"", source)]


@pytest.mark.parametrize(
    "text", ['{"code": "a\\ud83d', '{"code": "a\\ud83d\\ude0', '{"code": "a\\u00e', '{"code": "a\\']
)
def test_half_a_character_is_held_back(text: str) -> None:
    argument = CodeArgument()
    assert argument.feed(text) == "a"
    assert argument.rest() == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (r'{"code": "\ud83d"}', "\ufffd"),
        (r'{"code": "\ude00"}', "\ufffd"),
        (r'{"code": "\ud800 \udfff \ue000"}', "\ufffd \ufffd \ue000"),
        (r'{"code": "\ud83dx"}', "\ufffdx"),
        (r'{"code": "\ud83d\n"}', "\ufffd\n"),
        (r'{"code": "\ud83d\u0041"}', "\ufffdA"),
        (r'{"code": "\ud83d\ud83d\ude00"}', "\ufffd\U0001f600"),
        (r'{"c\u006fde": "x"}', "x"),
        ('{"code": "a", "code": "b"}', "a"),
        ('{"code": null, "code": "b"}', "b"),
        ('{"code": ""}', ""),
        ('{"code": "", "python": "x"}', ""),
        ('{"code": "  \\n"}', "  \n"),
        ('{"code": "{x}"}', "{x}"),
        ('{"code": "{\\"a\\": 1}"}', '{"a": 1}'),
        ("{}", ""),
        ('{"a": "x", "b": "y"}', ""),
        ('{"a": [{"code": "inner"}], "b": -1.5e3, "c": true}', ""),
        (r'{"a": {"b": "\"}\u00e9\\"}, "code": "x"}', "x"),
    ],
)
def test_corners_of_json(text: str, code: str) -> None:
    for fragments in ([text], [*text]):
        assert read(fragments) == (code, "", Arguments(code))


# -- what models get wrong ---------------------------------------------------------------------------------------------

CODE = "import os\nprint('hi')"
WRONG: list[tuple[str, str, str]] = [
    ('{"code": "import os\nprint(\'hi\')"}', CODE, "raw line breaks"),
    ('{"code": "import os\\nprint(\'hi\')",}', CODE, "a trailing comma"),
    ('{"code": "import os\\nprint(\'hi\')", "a": 1, }', CODE, "a trailing comma"),
    ('{"code": "import os\\nprint(\'hi\')"', CODE, "a missing end"),
    ('{"code": "import os\\nprint(\'hi\')', CODE, "a missing end"),
    ('{"code": "x", "a', "x", "a missing end"),
    ('{"code": "x", "a": [1, "', "x", "a missing end"),
    ("{'code': 'import os\\nprint(\\'hi\\')'}", CODE, "single quotes"),
    ("{'code': 'x',\n}", "x", "single quotes and a trailing comma"),
    ('{"code": "```python\\nimport os\\nprint(\'hi\')\\n```"}', CODE, "code fences"),
    ('{"code": "```\\nx"}', "x", "code fences"),
    ('```json\n{"code": "x"}\n```', "x", "code fences"),
    ("```python\nimport os\nprint('hi')\n```", CODE, "code fences and code instead of JSON"),
    ("```x```", "x", "code fences and code instead of JSON"),
    ('"{\\"code\\": \\"x\\"}"', "x", "JSON inside JSON"),
    ('{"code": "{\\"code\\": \\"x\\"}"}', "x", "JSON inside JSON"),
    ('"x = 1"', "x = 1", "JSON inside JSON and code instead of JSON"),
    (CODE, CODE, "code instead of JSON"),
    (" \n print(1)\n", "print(1)\n", "code instead of JSON"),
    ("'''doc'''\nx", "'''doc'''\nx", "code instead of JSON"),
    ("[1, 2]", "[1, 2]", "code instead of JSON"),
    ("{1: 2}", "{1: 2}", "code instead of JSON"),
    ("{x for x in y}", "{x for x in y}", "code instead of JSON"),
    ('{"a" "b"}', '{"a" "b"}', "code instead of JSON"),
    ('{"a": }', '{"a": }', "code instead of JSON"),
    ('{"co', '{"co', "code instead of JSON"),
    ("12", "12", "code instead of JSON"),
    ('{"python": "x"}', "x", "an argument named python"),
    ('{"input": "y", "source": "x"}', "x", "an argument named source"),
    ('{"language": "python", "query": "x"}', "x", "an argument named query"),
    ('{"query": "```\\nx\\n```"}', "x", "an argument named query"),
    ('{"script": "```\\nx\\n```"}', "x", "an argument named script and code fences"),
    ('{"code": ["import os", "print(\'hi\')"]}', CODE, "a list of lines"),
    ('["import os", "print(\'hi\')"]', CODE, "a list of lines"),
    ('{"arguments": {"code": "x"}}', "x", "arguments inside arguments"),
    ('{"name": "code_interpreter", "arguments": {"code": "x"}}', "x", "arguments inside arguments"),
    ('{"code": {"python": "x"}}', "x", "arguments inside arguments and an argument named python"),
    ('{"code": "x"} and that is it', "x", "words after the arguments"),
    ('{"code": "x",} </tool_call>', "x", "a trailing comma"),
    ('{"code": "print("hi")"}', 'print("hi")', "quotes that were not escaped"),
    ('{"code": "print("a", "b")"', 'print("a", "b")', "quotes that were not escaped"),
    ('{"code": """\nprint("hi")\n"""}', '\nprint("hi")\n', "triple quotes"),
    ('{"code": "x" + y}', "x", "JSON that is none"),
    ('{"code": "re.sub(\'\\d+\', s)"}', "re.sub('\\d+', s)", "JSON that is none"),
    ('{"code": "C:\\users", "a": 1}', "C:\\users", "JSON that is none"),
    ('{"code": "x", "a": None}', "x", "JSON that is none"),
]


@pytest.mark.parametrize(("text", "code", "repaired"), WRONG)
def test_what_is_put_right(text: str, code: str, repaired: str) -> None:
    for fragments in ([text], [*text], [text[:7], text[7:]]):
        streamed, rest, result = read(fragments)
        assert result == Arguments(code, (), repaired)
        assert streamed + rest == code


def test_what_is_wrong_is_still_streamed() -> None:
    for text in (CODE, '{"code": "import os\nprint(\'hi\')"', "{'code': 'import os\\nprint(\\'hi\\')'"):
        assert read([*text])[0] == CODE


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_no_arguments_at_all(text: str) -> None:
    assert read([text]) == ("", "", Arguments(""))


FRAGMENTS = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "'",
        ",",
        ":",
        "\\",
        "`",
        "code",
        '"code"',
        "'code'",
        '{"code":"',
        "```python",
        "\\u",
        "\\ud83d",
        "\\ude00",
        "d83",
        "print(1)",
        "python",
        "null",
        "\\n",
        "\\'",
        '"requirements"',
        '"""',
    ]
) | st.sampled_from(["\n", " ", "```python\n"])


@given(st.lists(FRAGMENTS | st.text(max_size=3), max_size=16).map("".join), st.data())
@example('{"code": "`', None)
@example('{"code": " {', None)
def test_whatever_comes_the_pieces_make_the_result(text: str, data: st.DataObject | None) -> None:
    streamed, rest, result = read([*text] if data is None else pieces(text, data))
    assert streamed + rest == result.code


@pytest.mark.parametrize("text", ['{"a":' * 20_000, "[" * 20_000, '{"code": "' * 1000])
def test_depth_does_no_harm(text: str) -> None:
    streamed, rest, result = read([text])
    assert streamed + rest == result.code


@pytest.mark.parametrize(
    ("start", "part", "end"),
    [
        ("", '"a":{},', ""),
        ("", "'a':{x},", ""),
        ("", '"a":"b",', ""),
        ('"a":[', "[],", "]"),
        ('"a":[', '"",', "]"),
    ],
)
def test_an_object_is_followed_only_so_far(start: str, part: str, end: str) -> None:
    """Each part costs time on the event loop, and no call has thousands."""
    members = Members("code")
    text = '{"code": "1", ' + start + part * 15_000 + end + "}"
    assert members.feed(text) == "1"
    members.finish()
    assert (members.end, members.broken) == (None, False)
    streamed, rest, result = read([text])
    assert (streamed, rest, result.code) == ("1", "", "1")


def test_the_whole_is_read_once() -> None:
    argument = CodeArgument()
    argument.feed('{"code": "1", "a": {x}')
    assert argument.result() is argument.result()
    argument.feed(', "requirements": ["six"]}')
    assert argument.result().requirements == ("six",)


def test_blank_code_takes_no_longer_than_other_code() -> None:
    def take(piece: str) -> float:
        argument = CodeArgument()
        argument.feed('{"code": "')
        begun = time.thread_time()
        for _ in range(100_000):
            argument.feed(piece)
        return time.thread_time() - begun

    assert take("    ") < 10 * take("abcd")  # forty times, where all that came before is looked at again


@pytest.mark.parametrize("depth", [4, 300, 990])
def test_arguments_in_arguments_have_an_end(depth: int) -> None:
    text = '{"arguments":' * depth + '{"code": "1"}' + "}" * depth
    _, _, result = read([text])
    assert result.code in ("", text)


def test_json_in_json_in_json_has_an_end() -> None:
    text = "x"
    for _ in range(9):
        text = json.dumps({"code": text})
    assert read([text])[2].repaired == "JSON inside JSON"
    for _ in range(9):
        text = json.dumps(text)
    streamed, rest, result = read([text])
    assert streamed + rest == result.code


# -- requirements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "requirements"),
    [
        ('["numpy", " pandas>=2 ", "", 3]', ("numpy", "pandas>=2")),
        ('"numpy"', ("numpy",)),
        ('"numpy pandas"', ("numpy", "pandas")),
        ('"numpy, pandas >= 2"', ("numpy", "pandas >= 2")),
        ('"pandas >= 2"', ("pandas >= 2",)),
        ('"numpy\\npandas"', ("numpy", "pandas")),
        ("null", ()),
        ("{}", ()),
        ("[]", ()),
    ],
)
def test_requirements(given: str, requirements: tuple[str, ...]) -> None:
    for text in (f'{{"code": "x", "requirements": {given}}}', f'{{"requirements": {given}, "code": "x"}}'):
        assert read([text])[2] == Arguments("x", requirements)


@pytest.mark.parametrize(
    "text",
    [
        "{'code': 'x', 'requirements': ['a', 'b']}",
        '{"code": "x", "requirements": ["a", "b"],}',
        '{"code": "x", "requirements": ["a", "b",]}',
        '{"code": "x", "requirements": ["a", "b"]',
        '{"arguments": {"code": "x", "requirements": ["a", "b"]}}',
        '{"requirements": ["a", "b"], "python": "x"}',
        '{"requirements": ["a", "b"], "code": ["x"]}',
        '{"requirements": ["a", "b"], "other": "x"}',
        '{"code": "{\\"code\\": \\"x\\", \\"requirements\\": [\\"a\\", \\"b\\"]}"}',
    ],
)
def test_requirements_of_arguments_that_were_put_right(text: str) -> None:
    result = read([text])[2]
    assert (result.code, result.requirements) == ("x", ("a", "b"))
    assert result.repaired


def test_requirements_after_quotes_that_were_not_escaped() -> None:
    result = read(['{"code": "print("x")", "requirements": ["a", "b"]}'])[2]
    assert result == Arguments('print("x")', ("a", "b"), "quotes that were not escaped")
