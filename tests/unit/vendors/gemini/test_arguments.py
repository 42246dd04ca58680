"""Arguments that come as values at paths are one JSON object, written as they come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.vendors.gemini.arguments import ArgumentWriter, Path, Scalar, read_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$.a", ("a",)),
        ("$.foo.bar[0].data", ("foo", "bar", 0, "data")),
        ("$['a b'][2]", ("a b", 2)),
        ('$["it\\"s"]', ('it"s',)),
        ("$.å-b_c", ("å-b_c",)),
    ],
)
def test_paths(text: str, path: Path) -> None:
    assert read_path(text) == path


@pytest.mark.parametrize("text", ["", "$", "a", "$.", "$..a", "$[0]", "$.a[", "$.a b]", "$.a[x]"])
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match="no path"):
        read_path(text)


def leaves(value: Any, at: Path = ()) -> list[tuple[Path, Scalar]]:
    if isinstance(value, dict):
        return [leaf for key, one in value.items() for leaf in leaves(one, (*at, key))]
    if isinstance(value, list):
        return [leaf for n, one in enumerate(value) for leaf in leaves(one, (*at, n))]
    return [(at, value)]


scalars = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, min_size=1, max_size=4) | st.dictionaries(st.text(), inner, min_size=1, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4), st.data())
def test_any_object_in_any_pieces(arguments: dict[str, Any], data: st.DataObject) -> None:
    writer = ArgumentWriter()
    text = ""
    for path, value in leaves(arguments):
        if isinstance(value, str):
            cuts = sorted(data.draw(st.lists(st.integers(0, len(value)), max_size=3)))
            starts = [0, *cuts]
            pieces = [value[start:end] for start, end in zip(starts, [*cuts, len(value)], strict=True)]
            closes = data.draw(st.booleans())
            for n, piece in enumerate(pieces):
                text += writer.write(path, piece, more=n < len(pieces) - 1 or not closes)
        else:
            text += writer.write(path, value, more=False)
    assert json.loads(text + writer.close()) == arguments


@pytest.mark.parametrize(
    "paths",
    [
        ["$.a", "$.a"],
        ["$.a.b", "$.c", "$.a.d"],
        ["$.a", "$.a.b"],
        ["$.a.b", "$.a"],
        ["$.a[1]"],
        ["$.a[0]", "$.a[2]"],
        ["$.a[0]", "$.a.b"],
    ],
)
def test_what_is_out_of_order(paths: list[str]) -> None:
    writer = ArgumentWriter()
    *before, last = map(read_path, paths)
    for path in before:
        writer.write(path, 1, more=False)
    with pytest.raises(ValueError, match="a value"):
        writer.write(last, 1, more=False)
