"""The Python in a message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.builtin_model.code_blocks import LONGEST, find_cells, is_python


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Run this:\n```python\nx = 1\n```\nplease", ("x = 1\n",)),
        ("```py\nx\n```", ("x\n",)),
        ("```Python\nx\n```", ("x\n",)),
        ("```\nnot really python\n```", ("not really python\n",)),
        ("~~~python\nx\n~~~", ("x\n",)),
        ("```python title=a.py\nx\n```", ("x\n",)),
        ("``` python\nx\n```", ("x\n",)),
        ("```python\nx = 1", ("x = 1",)),
        ("```python\na\n```\ntext\n```py\nb\n```", ("a\n", "b\n")),
        ("````python\nprint('''\n```\n''')\n````", ("print('''\n```\n''')\n",)),
        ("1. so:\n   ```python\n   if x:\n       y()\n   ```", ("if x:\n    y()\n",)),
        ("```json\n{}\n```", ()),
        ("```json\n{}\n```\n```python\nx\n```", ("x\n",)),
        ("```python\n\n```", ()),
        ("```python\r\nx = 1\r\n```", ("x = 1\r\n",)),
        ("Use `print()` to print.", ()),
        ("print('hi')", ("print('hi')",)),
        ("", ()),
        ("   ", ()),
    ],
)
def test_cells(message: str, found: tuple[str, ...]) -> None:
    assert find_cells(message) == found


@pytest.mark.parametrize(
    "text",
    [
        "2 + 2",
        "42",
        "x = 3",
        "x: int = 3",
        "import os",
        "from os import path",
        "print('hello')",
        "df.shape",
        "df['a']",
        "[1, 2]",
        "{}",
        "a == b",
        "f'{x}'",
        "x += 1",
        "for x in y:\n    pass",
        "def f():\n    pass",
        "lambda: x",
        "await f()",
        "async with a() as b:\n    pass",
        "del x",
        "!pip install humanize",
        "%timeit sum(x)",
        "%%time\nsum(x)",
        "x = 1\n!ls\nprint(x)",
        "# a comment\nx = 1",
        "'\\d'.join(x)",
    ],
)
def test_python(text: str) -> None:
    assert is_python(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "thanks",
        "Hello, world",
        "not now",
        "you and me",
        "yes or no",
        "why is this",
        "it is not in there",
        "well-known",
        "yes/no",
        "pass",
        "continue",
        "break",
        "return home",
        "global warming",
        "raise hell",
        "assert yourself",
        "note: this",
        "ok; thanks",
        "go\nthere",
        "True",
        "None",
        "...",
        "'quoted'",
        "hello!",
        "What is 2 + 2?",
        "plot the data",
        "print hello",
        "# only a comment",
        "x = = 1",
        "\0",
        "(" * 5000,
        "x = 1 # " + "." * LONGEST,
    ],
)
def test_prose(text: str) -> None:
    assert not is_python(text)


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(cell.strip() for cell in find_cells(text))


@given(st.text(alphabet=st.characters(exclude_characters="`\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")))
def test_what_is_fenced_comes_out_as_it_went_in(code: str) -> None:
    assert find_cells(f"so:\n```python\n{code}\n```\nplease") == ((f"{code}\n",) if code.strip() else ())
