"""Make the smallest value that fits a JSON schema: arguments and answers of the built-in model.

A schema of a hundred bytes can ask for a value of gigabytes, for one without an end, or for the same work twice over at
each of a hundred levels. So what was found for a part of it is remembered, and the value and the work are bounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from belljar.wire.items import Json

LONGEST = 256 * 1024
"""Characters of a value, as JSON."""
DEEPEST = 64
"""Levels of a value."""
_LEVELS = (4, 8, 16, 32, DEEPEST)
"""Tried in turn: the schema of a tree has small values and large ones."""
STEPS = 50_000
"""Parts of a schema that are looked at: a tenth of a second."""
_ANY: Mapping[str, Json] = {}
_LARGEST = 10**300
"""Of numbers that are no integers."""
_FORMATS = {
    "date": "2024-01-01",
    "date-time": "2024-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}

_Sized: TypeAlias = tuple[Json, int]
"""A value, and its length as JSON: at least that."""


class Unfit(Exception):
    """The schema has no value, or none within the bounds; `why` says what of it, `path` where."""

    def __init__(self, why: str, *path: str | int) -> None:
        super().__init__(why)
        self.why = why
        self.path = path

    def __str__(self) -> str:
        where = "".join(f"/{str(name).replace('~', '~0').replace('/', '~1')}" for name in self.path)
        return f"{self.why} (at '#{where if len(where) <= 100 else where[:100] + '…'}')"

    def below(self, *path: str | int) -> Unfit:
        """The same, seen from further up."""
        return type(self)(self.why, *path, *self.path)


class _Deep(Unfit):
    """Fewer levels than the value needs."""


def sample(schema: Mapping[str, Json], text: str) -> Json:
    """A value for the schema; `text` is what strings say, as far as they may. Raises `Unfit`."""
    merger = _Merger(schema)
    for levels in _LEVELS[:-1]:
        try:
            return _Sampler(merger, text, levels).value(schema, 0)[0]
        except _Deep:
            pass
    return _Sampler(merger, text, DEEPEST).value(schema, 0)[0]


class _Merger:
    """Schemas with what they refer to, each looked up once; and the count of what was looked at."""

    def __init__(self, root: Mapping[str, Json]) -> None:
        self._root = root
        self._merged: dict[int, Mapping[str, Json]] = {}
        self._lengths: dict[int, int] = {}
        self._steps = 0

    def step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > STEPS:
            raise Unfit(f"it has more to look at than {STEPS} parts")

    def length(self, value: Json) -> int:
        """Of a value that the schema itself has, as JSON."""
        found = self._lengths.get(id(value))
        if found is None:
            found = self._lengths[id(value)] = len(json.dumps(value, ensure_ascii=False))
            self.step(found // 64)
        return found

    def whole(self, schema: Mapping[str, Json]) -> Mapping[str, Json]:
        """The schema with what it refers to and all of `allOf` in one."""
        if "$ref" not in schema and "allOf" not in schema:
            return schema
        found = self._merged.get(id(schema))
        if found is None:
            found = self._merged[id(schema)] = self._merge(schema)
        return found

    def _merge(self, schema: Mapping[str, Json]) -> Mapping[str, Json]:
        whole: dict[str, Json] = {}
        properties: dict[str, Json] = {}
        required: list[Json] = []
        for part in self._parts(schema):
            own, names = _map(part, "properties"), _list(part, "required")
            self.step(len(part) + len(own) + len(names))
            properties |= {name: one for name, one in own.items() if name not in properties}
            required += names
            for key, value in part.items():
                whole.setdefault(key, value)
        whole.update({key: value for key, value in (("properties", properties), ("required", required)) if value})
        return whole

    def _parts(self, schema: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
        """The schema and all that it points at, each once: what comes first counts most."""
        waiting: list[Json] = [schema]
        seen: set[int] = set()
        while waiting:
            part = waiting.pop()
            self.step()
            if isinstance(part, Mapping) and id(part) not in seen:
                seen.add(id(part))
                yield part
                waiting += reversed(_list(part, "allOf"))
                if "$ref" in part:
                    waiting.append(self._resolve_reference(part["$ref"]))

    def _resolve_reference(self, reference: Json) -> Json:
        found: Json = self._root
        for name in str(reference).removeprefix("#").split("/")[1:]:
            self.step(1 + len(name) // 64)
            name = name.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(name)
            elif isinstance(found, list) and name.isascii() and name.isdecimal() and len(name) < 10:
                found = found[int(name)] if int(name) < len(found) else None
            else:
                return None
        return found


class _Sampler:
    def __init__(self, merger: _Merger, text: str, levels: int) -> None:
        self._merger = merger
        self._text = text
        self._levels = levels
        self._known: dict[tuple[int, int], _Sized | Unfit] = {}

    def value(self, schema: Json, depth: int) -> _Sized:
        """Found once for each part of the schema on each level."""
        if not isinstance(schema, Mapping):
            return None, 4
        self._merger.step()
        known = self._known.get((id(schema), depth))
        if known is None:
            try:
                known = self._value(schema, depth)
            except Unfit as error:
                known = error
            self._known[id(schema), depth] = known
        if isinstance(known, Unfit):
            raise known.with_traceback(None)
        return known

    def _value(self, schema: Mapping[str, Json], depth: int) -> _Sized:
        if depth > self._levels:
            raise _Deep(f"its values have more than {DEEPEST} levels, or no end")
        schema = self._merger.whole(schema)
        if "const" in schema:
            return self._measure_value(schema["const"], "const")
        if choices := _list(schema, "enum"):
            return self._measure_value(choices[0], "enum", 0)
        for choice in ("anyOf", "oneOf"):
            if options := _list(schema, choice):
                return self._choose_first(choice, options, depth)
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._string(schema)
            case "integer":
                return _measure_number(_number(schema, whole=True))
            case "number":
                return _measure_number(_number(schema, whole=False))
            case "boolean":
                return True, 4
        return None, 4

    def _measure_value(self, value: Json, *place: str | int) -> _Sized:
        return value, _add(0, self._merger.length(value), *place)

    def _choose_first(self, choice: str, options: Sequence[Json], depth: int) -> _Sized:
        """The first option that has a value."""
        failed: list[Unfit] = []
        for at, option in enumerate(options):
            try:
                return self.value(option, depth + 1)
            except Unfit as error:
                failed.append(error.below(choice, at))
        deep = [error for error in failed if isinstance(error, _Deep)]
        raise (deep or failed)[0]

    def _array(self, schema: Mapping[str, Json], depth: int) -> _Sized:
        count = _count(schema, "minItems")
        if count * 2 > LONGEST:
            raise _too_long(f"'minItems' is {_brief(count)}", "minItems")
        if count > 1 and schema.get("uniqueItems") is True:
            raise Unfit("its items are to differ ('uniqueItems'), and I have one of a kind", "uniqueItems")
        items, size = list[Json](), 2
        for at, one in enumerate(_list(schema, "prefixItems")[:count]):
            item, length = self._part(one, depth, "prefixItems", at)
            items.append(item)
            size = _add(size, length + 2, "prefixItems", at)
        if (left := count - len(items)) > 0:
            item, length = self._part(schema.get("items", _ANY), depth, "items")
            size = _add(size, (length + 2) * left, "items")
            items += [item] * left
        return items, size

    def _object(self, schema: Mapping[str, Json], depth: int) -> _Sized:
        properties, more = _map(schema, "properties"), schema.get("additionalProperties", _ANY)
        self._merger.step(len(_list(schema, "required")) + len(properties))
        made, size = dict[str, Json](), 2
        for name in _names(schema, properties):
            place = ("properties", name) if name in properties else ("required",)
            made[name], length = self._part(properties.get(name, more), depth, *place)
            size = _add(size, len(name) + length + 6, *place)
        return made, size

    def _part(self, schema: Json, depth: int, *place: str | int) -> _Sized:
        try:
            return self.value(schema, depth + 1)
        except Unfit as error:
            raise error.below(*place) from None

    def _string(self, schema: Mapping[str, Json]) -> _Sized:
        if "pattern" in schema:
            raise Unfit("I write no text to a 'pattern'", "pattern")
        least = _count(schema, "minLength")
        if least > LONGEST:
            raise _too_long(f"'minLength' is {_brief(least)}", "minLength")
        text = _FORMATS.get(str(schema.get("format")), self._text).ljust(least, ".")
        text = text[: _count(schema, "maxLength")] if "maxLength" in schema else text
        return text, _add(2, len(text))


def _names(schema: Mapping[str, Json], properties: Mapping[str, Json]) -> Iterable[str]:
    """Those that are required, and as many more as there are to be at least."""
    names = dict.fromkeys(name for name in _list(schema, "required") if isinstance(name, str))
    least = _count(schema, "minProperties")
    if least * 6 > LONGEST:
        raise _too_long(f"'minProperties' is {_brief(least)}", "minProperties")
    others = (*properties, *(f"property{n}" for n in range(least)))
    for name in others if len(names) < least else ():
        names.setdefault(name)
        if len(names) == least:
            break
    return names


def _measure_number(number: int | float) -> _Sized:
    return number, len(repr(number))


def _add(size: int, more: int, *place: str | int) -> int:
    if size + more > LONGEST:
        raise _too_long("there", *place)
    return size + more


def _brief(count: int) -> str:
    return str(count) if count < 10**30 else f"{float(count):g}" if count < _LARGEST else "beyond counting"


def _too_long(what: str, *place: str | int) -> Unfit:
    return Unfit(f"{what}: its value would be longer than {LONGEST} characters", *place)


def _type(schema: Json) -> str:
    """The schema's type, the first that is not null of several, guessed from its keys where it has none."""
    said = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(said, str):
        return said
    if isinstance(said, Sequence) and said:
        return next((str(one) for one in said if one != "null"), "null")
    if not isinstance(schema, Mapping):
        return "null"
    return "object" if "properties" in schema or "required" in schema else "array" if "items" in schema else "string"


def _list(schema: Mapping[str, Json], key: str) -> list[Json]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _map(schema: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    value = schema.get(key)
    return value if isinstance(value, Mapping) else _ANY


def _count(schema: Mapping[str, Json], key: str) -> int:
    value = schema.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value > 0 else 0


def _exact(schema: Mapping[str, Json], key: str) -> Fraction | None:
    """A bound, as it is written in decimals; of a large one what it stands for."""
    value = schema.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Fraction(value if value == int(value) else repr(value))


def _number(schema: Mapping[str, Json], *, whole: bool) -> int | float:
    """The number nearest to 0 from above that the bounds allow."""
    least, above = _exact(schema, "minimum"), _exact(schema, "exclusiveMinimum")
    most, below = _exact(schema, "maximum"), _exact(schema, "exclusiveMaximum")
    step = _exact(schema, "multipleOf")
    step = abs(step) if step else None
    low = max((one for one in (least, above) if one is not None), default=None)
    high = min((one for one in (most, below) if one is not None), default=None)

    def fits(one: Fraction) -> bool:
        return (
            (least is None or one >= least)
            and (above is None or one > above)
            and (most is None or one <= most)
            and (below is None or one < below)
            and (step is None or (one / step).denominator == 1)
            and (not whole or one.denominator == 1)
        )

    if step is not None and whole:
        step = Fraction(step.numerator)  # the least whole multiple of a fraction in its lowest terms
    for one in _near(low, high, step or (Fraction(1) if whole else None)):
        if fits(one) and (one.denominator == 1 or fits(Fraction(repr(float(one))))):
            return one.numerator if one.denominator == 1 else float(one)
    raise Unfit(f"no {'integer' if whole else 'number'} is within its bounds")


def _near(low: Fraction | None, high: Fraction | None, step: Fraction | None) -> Iterator[Fraction]:
    """0, and numbers at the bounds: multiples of `step` where there is one."""
    yield Fraction(0)
    if step is not None:
        for bound, way in ((low, step), (high, -step)):
            if bound is not None:
                at = math.ceil(bound / way) * way
                yield from (at, at + way)
        return
    half = Fraction(1, 2)
    for bound, way in ((low, half), (high, -half)):
        if bound is not None:
            yield from (bound, bound + way, bound + 2 * way)
    if low is not None and high is not None and max(abs(low), abs(high)) < _LARGEST:
        yield (low + high) / 2
