"""`Tool[Params, Result]` at run time: a class that keeps its type arguments."""

from __future__ import annotations

import types
from typing import Any, ClassVar, TypeVar


class Specialised:
    """Goes before `Generic` among the bases of a class whose instances need their type arguments.

    `typing` tells an instance its arguments only after `__init__`, too late to check anything against them.
    """

    type_arguments: ClassVar[tuple[Any, ...] | None] = None
    """None: made without brackets."""

    def __class_getitem__(cls, arguments: Any) -> Any:
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        wanted = len(getattr(cls, "__parameters__", ()))
        if len(given) != wanted:
            raise TypeError(f"{cls.__name__}[…] takes {wanted} type arguments and got {len(given)}")
        if any(_open(argument) for argument in given):  # the base of another generic class
            return super().__class_getitem__(arguments)  # type: ignore[misc]
        named = ", ".join(getattr(argument, "__name__", str(argument)) for argument in given)
        members = {"type_arguments": given, "__module__": cls.__module__, "__doc__": cls.__doc__}
        return types.new_class(
            f"{cls.__name__}[{named}]", (cls,), exec_body=lambda namespace: namespace.update(members)
        )


def _open(argument: Any) -> bool:
    return isinstance(argument, TypeVar) or (not isinstance(argument, type) and bool(_parameters(argument)))


def _parameters(argument: Any) -> tuple[Any, ...]:
    return getattr(argument, "__parameters__", ())
