"""Whether a class of ours is what a founding document declares: names, parameters, defaults, annotations."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any


def differences(declared: ast.ClassDef, ours: type, names: Mapping[str, Any], known: Mapping[str, str]) -> list[str]:
    """What is not as declared. `known` has annotations that are ours on purpose, by `Class.member` or `….parameter`."""
    return [*_bases(declared, ours, names), *_members(declared, ours, known)]


def _bases(declared: ast.ClassDef, ours: type, names: Mapping[str, Any]) -> Iterator[str]:
    for base in declared.bases:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        if names[name] not in ours.__mro__:
            yield f"{declared.name}: is no {name}"


def _members(declared: ast.ClassDef, ours: type, known: Mapping[str, str]) -> Iterator[str]:
    frozen = any("FrozenDataclass" in ast.unparse(one) for one in declared.decorator_list)
    if frozen and not (dataclasses.is_dataclass(ours) and ours.__dataclass_params__.frozen):  # type: ignore[attr-defined]
        yield f"{declared.name}: is no frozen dataclass"
    for member in declared.body:
        if isinstance(member, ast.AnnAssign):
            yield from _field(declared.name, member, ours, known, frozen)
        elif isinstance(member, ast.FunctionDef):
            yield from _function(declared.name, member, ours, known)


def _field(owner: str, declared: ast.AnnAssign, ours: type, known: Mapping[str, str], frozen: bool) -> Iterator[str]:
    name = ast.unparse(declared.target)
    where = f"{owner}.{name}"
    if not frozen:  # what instances have, which no class tells: the errors' own test makes one
        return
    fields = {field.name: field for field in dataclasses.fields(ours)}
    if name not in fields:
        yield f"{where}: is missing"
        return
    yield from _annotation(where, declared.annotation, fields[name].type, known)
    default = dataclasses.MISSING if declared.value is None else ast.literal_eval(declared.value)
    if fields[name].default != default:
        yield f"{where}: its default is {fields[name].default!r}, not {default!r}"


def _function(owner: str, declared: ast.FunctionDef, ours: type, known: Mapping[str, str]) -> Iterator[str]:
    where = f"{owner}.{declared.name}"
    found = inspect.getattr_static(ours, declared.name, None)
    if any(ast.unparse(one) == "property" for one in declared.decorator_list):
        if not isinstance(found, property):
            yield f"{where}: is no property"
            return
        found = found.fget
    found = getattr(found, "__wrapped__", found)
    if not inspect.isfunction(found):
        yield f"{where}: is missing"
        return
    signature = inspect.signature(found)
    yield from _parameters(where, declared.args, signature, known)
    if declared.returns is not None:
        yield from _annotation(f"{where}()", declared.returns, signature.return_annotation, known)


def _parameters(
    where: str, declared: ast.arguments, ours: inspect.Signature, known: Mapping[str, str]
) -> Iterator[str]:
    theirs = [
        *zip(
            declared.args, [*([None] * (len(declared.args) - len(declared.defaults))), *declared.defaults], strict=True
        ),
        *zip(declared.kwonlyargs, declared.kw_defaults, strict=True),
    ]
    positional = [one.arg for one in declared.args]
    if [*ours.parameters][: len(positional)] != positional:
        yield f"{where}: its positional parameters are {[*ours.parameters]}, not {positional}"
    for argument, default in theirs:
        mine = ours.parameters.get(argument.arg)
        if mine is None:
            yield f"{where}: has no {argument.arg}"
            continue
        if default is not None and mine.default != ast.literal_eval(default):  # one more is no harm
            yield f"{where}.{argument.arg}: its default is {mine.default!r}, not {ast.unparse(default)}"
        if argument.annotation is not None:
            yield from _annotation(f"{where}.{argument.arg}", argument.annotation, mine.annotation, known)
    named = {argument.arg for argument, _ in theirs}
    for name, mine in ours.parameters.items():
        if (
            name not in named
            and mine.default is mine.empty
            and mine.kind not in (mine.VAR_POSITIONAL, mine.VAR_KEYWORD)
        ):
            yield f"{where}: wants {name}, which nobody gives it"


def _annotation(where: str, declared: ast.expr, ours: object, known: Mapping[str, str]) -> Iterator[str]:
    written = ours if isinstance(ours, str) else getattr(ours, "__name__", str(ours))
    plain = written.replace("builtins.", "").replace("openai.", "")  # a module's name does not matter
    mine = ast.unparse(ast.parse(plain, mode="eval")) if ours is not inspect.Signature.empty else "nothing"
    wanted = known.get(where, ast.unparse(declared))
    if mine != wanted:
        yield f"{where}: is annotated {mine}, not {wanted}"


def calls(code: str, names: Mapping[str, Any]) -> list[str]:
    """What is wrong with the calls of an example that leaves out its arguments: names, and keywords, are checked."""
    wrong: list[str] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = names.get(node.func.id)
            if called is None:
                wrong.append(f"{node.func.id}: is missing")
                continue
            parameters = inspect.signature(called).parameters
            wrong += [f"{node.func.id}: has no {one.arg}" for one in node.keywords if one.arg not in parameters]
    return wrong
