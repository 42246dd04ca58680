"""A call that was only written down is found; what is shown or explained is left alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from belljar.vendors import code_call
from belljar.vendors.chat.call_openings import Names, begins_call
from belljar.vendors.chat.call_repair import Written, WrittenCall, find_written_calls
from belljar.vendors.code_argument import Arguments, CodeArgument

CODE = Names(code_call.ALIASES, {})
WEATHER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "loose": {}, "odd": True},
}
BOTH = Names(code_call.ALIASES, {"get_weather": WEATHER, "patch": None, "any": {"properties": []}}, ["patch"])
HERMES = '<tool_call>\n{"name": "code_interpreter", "arguments": {"code": "print(1)"}}\n</tool_call>'
ROME = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
OSLO = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'

TWO = [("get_weather", {"city": "Rome"}), ("get_weather", {"city": "Oslo"})]


def arguments(written: Written | None) -> Arguments | None:
    """What the one call of the interpreter is to run."""
    if written is None:
        return None
    [call] = written.calls
    assert call.name == code_call.NAME
    argument = CodeArgument()
    argument.feed(call.arguments)
    return argument.result()


def code(text: str, names: Names = CODE, **how: bool) -> str | None:
    found = arguments(find_written_calls(text, names, **how))
    return None if found is None else found.code


def calls(text: str, **how: bool) -> list[tuple[str, Any]] | None:
    written = find_written_calls(text, BOTH, **how)
    return None if written is None else [(one.name, json.loads(one.arguments)) for one in written.calls]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("```python\nprint(1)\n```", "print(1)\n"),
        ("```py\nprint(1)\n```", "print(1)\n"),
        ("```tool_code\nprint(1)\n```", "print(1)\n"),
        ("Let me compute it:\n\n```python\nimport math\nprint(math.pi)\n```\n\n", "import math\nprint(math.pi)\n"),
        ("```python\nprint(1)", "print(1)"),
        ("```python title=x\n2 ** 10\n```", "2 ** 10\n"),
        ("```python\nfor i in range(3):\n    print(i)\n```", "for i in range(3):\n    print(i)\n"),
        ("```python\n!pip install x\nimport x\n```", "!pip install x\nimport x\n"),
        ("```python\nif True:\n    %time f()\n```", "if True:\n    %time f()\n"),
        ("```python\nawait f()\n```", "await f()\n"),
        ("```python\nprint('\\d')\n```", "print('\\d')\n"),
        ("```python\nprint('''```''')\n```", "print('''```''')\n"),
        ("```bash\npython - <<EOF\nprint(1)\nEOF\n```", "print(1)"),
        ("```sh\n$ python3 <<'PY'\nprint(1)\nprint(2)\nPY\n```", "print(1)\nprint(2)"),
        (HERMES, "print(1)"),
        (f"{HERMES}{HERMES}", "print(1)"),
        (f"I will run this.\n{HERMES}", "print(1)"),
        (f"{HERMES}\nThe result is 1.", "print(1)"),
        ('<tool_call>{"name": "python", "arguments": "{\\"code\\": \\"x\\"}"}', "x"),
        ('<tool_call>{"name": "python", "arguments": {"input": "x"}}</tool_call>', "x"),
        (
            "<tool_call><function=code_interpreter>\n<parameter=code>\nx = 1\nx\n</parameter>\n</function></tool_call>",
            "x = 1\nx",
        ),
        ("<function=python><parameter=code>x</parameter></function>", "x"),
        ('<invoke name="python">\n<parameter name="code">x</parameter>\n</invoke>', "x"),
        ('<function=code_interpreter>{"code": "x"}</function>', "x"),
        ('{"name": "code_interpreter", "arguments": {"code": "x"}}', "x"),
        ('{"name": "code_interpreter", "parameters": {"code": "x"}}', "x"),
        ('{"arguments": {"code": "x"}, "name": "code_interpreter"}', "x"),
        ('{"type": "function", "name": "code_interpreter", "parameters": {"code": "x"}}', "x"),
        ('{"id": "c", "type": "function", "function": {"name": "python", "arguments": "{\\"code\\":\\"x\\"}"}}', "x"),
        ('{"tool_calls": [{"function": {"name": "python", "arguments": {"code": "x"}}}]}', "x"),
        ('{"function": "python", "args": {"code": "x"}}', "x"),
        ('{"tool": "python", "tool_input": {"code": "x"}}', "x"),
        ('```json\n{"name": "code_interpreter", "arguments": {"code": "x"}}\n```', "x"),
        ('```\n{"name": "code_interpreter", "arguments": {"code": "x"}}\n```', "x"),
        ('```xml\n<tool_call>\n{"name": "python", "arguments": {"code": "x"}}\n</tool_call>\n```', "x"),
        ('```json\n{"name": "code_interpreter", "arguments": {"code": "x"}}\n```\nThis prints x.', "x"),
        ('<tools> {"name": "python", "arguments": {"code": "x"}} </tool', "x"),
        ('<function>\n{"name": "python", "arguments": {"code": "x"}}\n</function>', "x"),
        ('<function-call> {"name": "python", "arguments": {"code": "x"}}', "x"),
        ('<tool_call>[{"name": "python", "arguments": {"code": "x"}}]</tool_call>', "x"),
        ('<|tool_call|>[{"name": "python", "arguments": {"code": "x"}}]<|/tool_call|>', "x"),
        ('functools[{"name": "python", "arguments": {"code": "x"}}]', "x"),
        ('[TOOL_CALLS][{"name": "python", "arguments": {"code": "x"}}]', "x"),
        ('[TOOL_CALLS]python[ARGS]{"code": "x"}', "x"),
        ('[TOOL_CALLS]python{"code": "x"}', "x"),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>python\n```json\n"
            '{"code": "x"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            "x",
        ),
        ('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>python<｜tool▁sep｜>{"code": "x"}<｜tool▁call▁end｜>', "x"),
        ('>>>python\n{"code": "x"}', "x"),
        (">>>python\nprint(1)\n", "print(1)"),
        ("<|python_tag|>print(1)<|eom_id|>", "print(1)"),
        ('<|python_tag|>{"name": "python", "parameters": {"code": "x"}}', "x"),
        ('[code_interpreter(code="print(1)")]', "print(1)"),
        ("<tool_call>code_interpreter(code='x')</tool_call>", "x"),
        ('```tool_code\nprint(code_interpreter(code="x"))\n```', "x"),
        ('```python\ncode_interpreter(code="x")\n```', "x"),
        # JSON that is none, or not all of it
        ('```json\n{"name": "code_interpreter", "arguments": {"code": "a = 1\nprint(a)"}}\n```', "a = 1\nprint(a)"),
        ('{"name": "code_interpreter", "arguments": {"code": "x"}', "x"),
        ('{"name": "code_interpreter", "arguments": {"code": "print("x")"}}', 'print("x")'),
        ('<tool_call>\n{"name": "python", "arguments": {"code": """x = 1\nx"""}}\n</tool_call>', "x = 1\nx"),
    ],
)  # fmt: skip
def test_meant_to_be_run(text: str, meant: str) -> None:
    assert code(text) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The answer is 4.",
        "Use `print(1)`.",
        "```python\nprint(1)\n```\nThis prints 1.",
        "```python\nprint(1)\n```\n```python\nprint(2)\n```",
        "```python\nprint(1)\n```\n\n```\n1\n```",
        "```\nprint(1)\n```",
        "```javascript\nconsole.log(1)\n```",
        "```python\ndef add(a, b):\n    return a + b\n```",
        "```python\nimport os\nx: int = 1\ny = 2\n```",
        '```python\n"""Only words."""\n```',
        "```python\n# nothing\n```",
        "```python\nclass A:\n    pass\nasync def f(): ...\n```",
        "```python\nprint(1\n```",
        "```python\nprint('\x00')\n```",
        "```bash\nls -l\n```",
        "```bash\npip install x\npython - <<EOF\nprint(1)\nEOF\n```",
        "```json\n[1, 2]\n```",
        f"{'long explanation ' * 40}\n```python\nprint(1)\n```",
        f"{'long explanation ' * 40}\n{HERMES}",
        f"The form is `{HERMES.splitlines()[1]}`.",
        '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>',
        "<tool_call>not JSON</tool_call>",
        "<tool_call>[1]</tool_call>",
        "<tool_call>[]</tool_call>",
        "<tool_call><b>bold</b></tool_call>",
        "<function=get_weather><parameter=city>x</parameter></function>",
        "<function=python>x</function>",
        "<function=python><parameter=code>x",
        '{"name": "code_interpreter"}',
        '{"name": "code_interpreter", "arguments": {}}',
        '{"name": "code_interpreter", "arguments": null}',
        '{"name": "get_weather", "arguments": {"code": "x"}}',
        '{"name": "get_weather", "arguments": {"code": "x"',
        '[{"name": "python", "arguments": {"code": "x"}}, {"name": "other", "arguments": {}}]',
        '[{"name": "python", "arguments": {"code": "x"}}, 1]',
        '{"name": "python", "version": "3.11", "arguments": {"code": "x"}} is JSON.',
        '{"arguments": {"code": "x"}, "name": "python"} is JSON.',
        '{"name": "python", "arguments": {"code": ',
        '{"answer": 4}',
        '{"code": "x"}',
        '{"tool_calls": "none"}',
        '{"tool_calls": [1]}',
        '{"type": "object", "name": "python", "arguments": 1}!',
        '{"name" "python"}',
        '{"name": 1}!',
        "{x}",
        "[python]",
        "[code_interpreter(x)]",
        "[code_interpreter(code=x)]",
        "[code_interpreter(code={[]: 1})]",
        "[code_interpreter(code='x'), 1]",
        "[code_interpreter(code='x'); 1]",
        "[code_interpreter(code='x'",
        "> quoted",
        ">>> 1 + 1\n2",
        "functools is a module.",
        "`{}`",
    ],
)  # fmt: skip
def test_not_meant_to_be_run(text: str) -> None:
    assert code(text) is None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (f"```json\n{ROME}\n```", [("get_weather", {"city": "Rome"})]),
        (f"<tool_call>{ROME}</tool_call>\n<tool_call>{OSLO}</tool_call>", TWO),
        (f"[{ROME}, {OSLO}]", TWO),
        (f"{ROME}; {OSLO}", TWO),
        (f"{ROME}\n{HERMES}", [("get_weather", {"city": "Rome"}), ("code_interpreter", {"code": "print(1)"})]),
        ('[get_weather(city="Rome"), get_weather(city="Oslo")]', TWO),
        ('[get_weather(city="Rome", days=2)]', [("get_weather", {"city": "Rome", "days": 2})]),
        (
            "<function=get_weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n"
            "<parameter=loose>\n3\n</parameter>\n<parameter=odd>\n4\n</parameter>\n</function>",
            [("get_weather", {"city": "Rome", "days": 2, "loose": "3", "odd": "4"})],
        ),
        ("<function=get_weather><parameter=days>two</parameter></function>", [("get_weather", {"days": "two"})]),
        ("<function=any><parameter=x>1</parameter></function>", [("any", {"x": "1"})]),
        ('{"name": "get_weather", "arguments": "{\\"city\\": \\"Rome\\"}"}', [("get_weather", {"city": "Rome"})]),
        ("```tool_code\nget_weather(city='Rome')\n```", [("get_weather", {"city": "Rome"})]),
        ('{"name": "get_weather", "arguments": "Rome"}', None),
        ('{"name": "get_weather", "arguments": [1]}', None),
        ('{"name": "get_weather", "arguments": {"city": "\\ud800"}}', None),
        ('{"name": "patch", "arguments": {"input": "x"}}', [("patch", {"input": "x"})]),
    ],
)  # fmt: skip
def test_functions_of_the_callers_are_called_too(text: str, meant: Any) -> None:
    assert calls(text) == meant


def test_a_function_of_the_callers_hides_the_guess_of_its_name() -> None:
    mine = Names(code_call.ALIASES - {"python"}, {"python": None})
    assert find_written_calls('{"name": "python", "arguments": {"version": 3}}', mine) == Written(
        0, (WrittenCall("python", '{"version":3}'),), alone=True
    )


def test_without_the_interpreter_code_is_an_answer() -> None:
    without = Names((), {"get_weather": WEATHER})
    for text in ("```python\nprint(1)\n```", "<|python_tag|>print(1)", "```tool_code\nprint(1)\n```", ">>>python\n1"):
        assert find_written_calls(text, without) is None
    assert find_written_calls("```tool_code\nprint(get_weather(city='Rome'))\n```", without)


def test_the_requirements_of_a_call_count() -> None:
    call = {"name": "code_interpreter", "arguments": {"code": "import humanize", "requirements": ["humanize>=4"]}}
    found = arguments(find_written_calls(f"```json\n{json.dumps(call)}\n```", CODE))
    assert found == Arguments("import humanize", ("humanize>=4",))


def test_where_json_is_the_answer_only_a_tag_makes_a_call_of_it() -> None:
    for text in (ROME, f"```json\n{ROME}\n```", f"[{ROME}]"):
        assert calls(text, bare=False) is None
    assert calls(f"<tool_call>{ROME}</tool_call>", bare=False) == [("get_weather", {"city": "Rome"})]


def test_blocks_can_be_left_alone() -> None:
    assert code("```python\nprint(1)\n```", blocks=False) is None
    assert code("```tool_code\nprint(1)\n```", blocks=False) == "print(1)\n"
    assert code(HERMES, blocks=False) == "print(1)"


def test_what_is_repeated_without_end_is_called_once_and_no_more_than_sixteen_are_called() -> None:
    many = "".join(f'<tool_call>{{"name": "get_weather", "arguments": {{"days": {n}}}}}</tool_call>' for n in range(40))
    for text in (many, "[" + ",".join(ROME.replace("Rome", str(n)) for n in range(40)) + "]"):
        written = find_written_calls(text, BOTH)
        assert written is not None
        assert len(written.calls) == 16
    assert calls(ROME * 1000) == [("get_weather", {"city": "Rome"})]


@pytest.mark.parametrize("text", [HERMES, f"```json\n{ROME}\n```", f"[TOOL_CALLS][{ROME}]", "```tool_code\nx"])
def test_the_first_characters_tell(text: str) -> None:
    told = [begins_call(text[:end], BOTH) for end in range(len(text) + 1)]
    assert told == sorted(told, key=[None, True].index)
    assert told[0] is None
    assert told[-1] is True
    assert told.index(True) < 60


def test_what_is_not_told_within_some_characters_is_none() -> None:
    assert begins_call(" " * 299, CODE) is None
    assert begins_call(" " * 300 + HERMES, CODE) is False
    assert begins_call('{"id": "' + "x" * 400, CODE) is False
