"""The shortest way to ask what is wrong with a request."""

from collections.abc import Callable
from typing import Any

import pytest

from belljar.errors import InvalidRequest
from belljar.wire.reading import read_response


@pytest.fixture
def wrong() -> Callable[..., tuple[str | None, str | None, str]]:
    """Param, code and sentence of the fault of a request, given what it says beside a model and an input."""

    def ask(**said: Any) -> tuple[str | None, str | None, str]:
        with pytest.raises(InvalidRequest) as caught:
            read_response({"model": "m", "input": "hi"} | said)
        return caught.value.param, caught.value.fault, str(caught.value)

    return ask
