"""A call that was only written down is found; code that is shown is left alone."""

import pytest

from belljar.dialects.repair import fenced_call

HERMES = '<tool_call>\n{"name": "code_interpreter", "arguments": {"code": "print(1)"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "code"),
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
        (f"I will run this.\n{HERMES}", "print(1)"),
        ('<tool_call>{"name": "python", "arguments": "{\\"code\\": \\"x\\"}"}', "x"),
        ('<tool_call>{"name": "python", "arguments": {"input": "x"}}</tool_call>', "x"),
        (
            "<tool_call><function=code_interpreter>\n<parameter=code>\nx = 1\nx\n</parameter>\n</function></tool_call>",
            "x = 1\nx",
        ),
        ("<function=python><parameter=code>x</parameter></function>", "x"),
        ('{"name": "code_interpreter", "arguments": {"code": "x"}}', "x"),
        ('{"name": "code_interpreter", "parameters": {"code": "x"}}', "x"),
        ('{"type": "function", "function": {"name": "python", "arguments": "{\\"code\\":\\"x\\"}"}}', "x"),
        ('```json\n{"name": "code_interpreter", "arguments": {"code": "x"}}\n```', "x"),
    ],
)
def test_meant_to_be_run(text: str, code: str) -> None:
    assert fenced_call(text) == code


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
        f"{HERMES}{HERMES}",
        '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>',
        "<tool_call>not JSON</tool_call>",
        "<tool_call>[1]</tool_call>",
        "<function=get_weather><parameter=city>x</parameter></function>",
        '{"name": "code_interpreter"}',
        '{"name": "code_interpreter", "arguments": {}}',
        '{"name": "get_weather", "arguments": {"code": "x"}}',
        '{"answer": 4}',
        '{"code": "x"}',
        "{x}",
    ],
)
def test_not_meant_to_be_run(text: str) -> None:
    assert fenced_call(text) is None
