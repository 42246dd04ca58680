"""A stand-in for `IPython.display`, which models import by habit."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from urllib.parse import urlparse

from . import private_builtins

private_builtins.protect(globals())


class _Shown:
    """Something that is shown in one form."""

    _binary = False

    def __init__(self, data: object = None, url: str | None = None, filename: str | None = None, **_: object) -> None:
        self.data = data if data is not None else _read(filename, self._binary)
        self.url = url

    def __repr__(self) -> str:
        return f"<IPython.display.{type(self).__name__} object>"


class HTML(_Shown):
    def _repr_html_(self) -> object:
        return self.data


class Markdown(_Shown):
    def _repr_markdown_(self) -> object:
        return self.data


class Latex(_Shown):
    def _repr_latex_(self) -> object:
        return self.data


class SVG(_Shown):
    def _repr_svg_(self) -> object:
        return self.data


class JSON(_Shown):
    def _repr_json_(self) -> object:
        return self.data


class Image(_Shown):
    """An image from bytes or from a file; there is no network to fetch one from."""

    _binary = True

    def __init__(self, data: object = None, url: str | None = None, filename: str | None = None, **_: object) -> None:
        if isinstance(data, str | os.PathLike):
            filename = os.fspath(data)
            data = None
        if url or (filename and urlparse(filename).scheme in ("http", "https")):
            raise OSError("an image cannot be fetched: the sandbox has no network access")
        super().__init__(data, filename=filename)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        data = self.data
        if not isinstance(data, bytes):
            return {}
        for start, mime in ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif")):
            if data.startswith(start):
                return {mime: data}
        return {}


def _read(filename: str | None, binary: bool) -> object:
    if filename is None:
        return None
    if binary:
        with open(filename, "rb") as file:
            return file.read()
    with open(filename, encoding="utf-8") as file:
        return file.read()


def ipython(display: Callable[..., None]) -> dict[str, Callable[[ModuleType], None]]:
    """The modules, by name, each as a function that fills it."""

    def clear_output(wait: bool = False) -> None:
        """Nothing: what was shown stays shown."""

    def fill_display(module: ModuleType) -> None:
        names = {kind.__name__: kind for kind in (HTML, Image, JSON, Latex, Markdown, SVG)}
        vars(module).update(names, display=display, clear_output=clear_output)

    def fill_package(module: ModuleType) -> None:
        vars(module).update(__version__="9.0.0", version_info=(9, 0, 0), get_ipython=lambda: None, display=display)

    return {
        "IPython": fill_package,
        "IPython.display": fill_display,
        "IPython.core": lambda module: None,
        "IPython.core.display": fill_display,
    }
