"""A value that fits a JSON schema, as small as it goes: arguments and answers of a model that does not think."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from belljar.wire.items import Json

_DEEPEST = 32
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


def sample(schema: Mapping[str, Json], text: str) -> Json:
    """A value for the schema; `text` is what strings say, as far as they may."""
    return _Sampler(schema, text).value(schema, 0)


class _Sampler:
    def __init__(self, root: Mapping[str, Json], text: str) -> None:
        self._root = root
        self._text = text

    def value(self, schema: Json, depth: int) -> Json:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return None
        schema = self._merged(schema, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), Sequence) and schema["enum"]:
            return schema["enum"][0]
        for choice in ("anyOf", "oneOf"):
            if options := schema.get(choice):
                return self.value(self._simplest(options, depth), depth + 1)
        match _type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(_whole(schema, "minItems"))]
            case "string":
                return self._string(schema)
            case "integer":
                return int(_number(schema, 1))
            case "number":
                return _number(schema, 0)
            case "boolean":
                return True
        return None

    def _merged(self, schema: Mapping[str, Json], depth: int) -> dict[str, Json]:
        """The schema with what it refers to and all of `allOf` in one."""
        merged = dict(schema)
        others = [self._referred(merged.pop("$ref"))] if "$ref" in merged else []
        others += merged.pop("allOf", ())
        for other in others:
            if isinstance(other, Mapping) and depth < _DEEPEST:
                for key, value in self._merged(other, depth + 1).items():
                    if key == "properties":
                        merged[key] = {**value, **merged.get(key, {})}
                    elif key == "required":
                        merged[key] = [*merged.get(key, ()), *value]
                    else:
                        merged.setdefault(key, value)
        return merged

    def _referred(self, reference: Json) -> Json:
        found: Json = self._root
        for name in str(reference).removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _simplest(self, options: Sequence[Json], depth: int) -> Json:
        """The first option, or one that ends: a tree must stop growing."""
        return options[0] if depth < 4 else next((one for one in options if _type(one) == "null"), options[-1])

    def _object(self, schema: Mapping[str, Json], depth: int) -> dict[str, Json]:
        properties = schema.get("properties") or {}
        return {name: self.value(properties.get(name, {}), depth + 1) for name in schema.get("required") or ()}

    def _string(self, schema: Mapping[str, Json]) -> str:
        text = _FORMATS.get(str(schema.get("format")), self._text)
        text = text.ljust(_whole(schema, "minLength"), ".")
        return text[: _whole(schema, "maxLength")] if "maxLength" in schema else text


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


def _whole(schema: Mapping[str, Json], key: str) -> int:
    value = schema.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _number(schema: Mapping[str, Json], step: int) -> float:
    """The number nearest to 0 from above that the bounds allow."""
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    multiple = schema.get("multipleOf")
    number: float = 0
    if least is not None:
        number = max(number, least)
    if above is not None and number <= above:
        number = above + (step or 0.5)
    if most is not None:
        number = min(number, most)
    if below is not None and number >= below:
        number = below - (step or 0.5)
    return -(-number // multiple) * multiple if multiple else number
