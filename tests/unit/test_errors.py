"""The tree of errors keeps its promises: stable codes, valid statuses, and a drawing that shows every branch."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest

from belljar import errors
from belljar.errors import BelljarError


def tree(root: type[BelljarError] = BelljarError) -> Iterator[type[BelljarError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


TREE = list(tree())


@pytest.mark.parametrize("error", TREE, ids=lambda e: e.__name__)
def test_every_error_says_what_it_is(error: type[BelljarError]) -> None:
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code)
    assert 400 <= error.status <= 599
    assert error.retryable in (True, False, None)
    assert error.__doc__


def test_codes_are_unique() -> None:
    assert [code for code, n in Counter(error.code for error in TREE).items() if n > 1] == []


def test_the_drawing_shows_the_tree_and_nothing_else() -> None:
    drawing = (errors.__doc__ or "").split("\n\n")[1]
    assert sorted(re.findall(r"\b[A-Z]\w+", drawing)) == sorted(error.__name__ for error in TREE)


def test_every_error_is_defined_in_the_tree() -> None:
    defined = {e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)}
    assert defined == set(TREE)


def test_an_error_carries_its_message_and_its_class_attributes() -> None:
    error = errors.InvalidRequest("memory: use 1g, 4g, 16g or 64g", param="memory")
    assert (str(error), error.param, error.status) == ("memory: use 1g, 4g, 16g or 64g", "memory", 400)
