"""The query of an address: read strictly, every refusal names its parameter."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

from belljar.errors import InvalidRequest
from belljar.wire import error_messages

_MOST_FIELDS = 100
_WHOLE = re.compile(r"-?[0-9]{1,15}")


class Query:
    """Names to values; the last of several wins, `all` gives each."""

    def __init__(self, given: bytes) -> None:
        try:
            self._pairs = parse_qsl(
                given.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
            )
        except ValueError:
            raise InvalidRequest("The query string is not percent-encoded UTF-8 of at most 100 parameters.") from None
        for name, value in self._pairs:
            if "\0" in value:
                raise error_messages.has_nul(name)
        self._last = dict(self._pairs)

    def get(self, name: str) -> str | None:
        return self._last.get(name)

    def all(self, name: str) -> list[str]:
        """Every value of `name` or `name[]`."""
        return [value for key, value in self._pairs if key in (name, f"{name}[]")]

    def flag(self, name: str) -> bool:
        value = self._last.get(name, "false")
        if value.lower() not in ("true", "false"):
            raise error_messages.not_one_of(name, value, ("true", "false"))
        return value.lower() == "true"

    def whole(self, name: str, default: int, *, least: int, most: int | None = None) -> int:
        text = self._last.get(name)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text):
            raise error_messages.wrong_type(name, ["an integer"], text)
        value = int(text)
        if value < least:
            raise error_messages.out_of_range(name, value, least, decimal=False)
        if most is not None and value > most:
            raise error_messages.out_of_range(name, value, most, decimal=False)
        return value
