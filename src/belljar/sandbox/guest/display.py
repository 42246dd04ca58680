"""Turn displayed values into MIME bundles, and send them as frames."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import TypeAlias

from . import figures, frames, private_builtins
from .channel import Channel
from .streams import Streams
from .tracebacks import message_of, name_of

private_builtins.protect(globals())

Bundle: TypeAlias = dict[str, str | bytes]

_SHORT = 4096
_TEXT_LIMIT = 1024 * 1024
_BLOB_LIMIT = 16 * 1024 * 1024
_METHODS = (
    ("_repr_html_", "text/html"),
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_json_", "application/json"),
    ("_repr_png_", "image/png"),
    ("_repr_jpeg_", "image/jpeg"),
)
_BINARY = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")
_PLAIN = frozenset({bool, bytes, complex, dict, float, int, list, set, str, tuple})
"""Types that have no form but the plain one; no need to look."""
_dumps = json.dumps


class DisplaySender:
    """Sends what a cell shows to the host."""

    def __init__(self, channel: Channel, streams: Streams) -> None:
        self._channel = channel
        self._streams = streams
        self._figures: list[object] = []
        self._held = ""

    def display(self, *values: object, raw: bool = False, **_options: object) -> None:
        """Show values, as a notebook does. With `raw`, the values are MIME bundles already."""
        for value in values:
            bundle = _clean(value) if raw and isinstance(value, Mapping) else self._bundle(value)
            self._send(frames.DISPLAY, bundle)
            self._channel.settle()

    def result(self, value: object) -> None:
        """Show the value of the last expression; unless figures follow, it waits for the frame that ends the cell.

        A short plain one goes in that frame itself.
        """
        figures_follow = figures.any_open()
        if type(value) in _PLAIN and self._channel.open and not figures_follow:
            text = plain(value)
            if len(text) <= _SHORT:
                self._held = text
                return
        self._send(frames.RESULT, self._bundle(value), at_once=figures_follow)

    def take_held(self) -> str:
        """The result that goes in the frame that ends the cell; empty if there is none."""
        held, self._held = self._held, ""
        return held

    def show_figures(self) -> None:
        """Show the open figures in order and close them."""
        for figure in figures.take_open():
            # A figure that was handed to display() is shown again only if it was drawn on since.
            if not any(figure is shown for shown in self._figures) or figures.is_stale(figure):
                self.display(figure)

    def forget(self) -> None:
        """The cell is over: what it showed need not be remembered."""
        self._figures.clear()

    def _bundle(self, value: object) -> Bundle:
        if type(value) in _PLAIN:
            return {"text/plain": plain(value)}
        if figures.is_figure(value):
            self._figures.append(value)
            return figures.bundle(value)
        return bundle_of(value)

    def _send(self, kind: int, bundle: Bundle, *, at_once: bool = True) -> None:
        if at_once:
            self._streams.flush()
        if not self._channel.open:  # a forked child has only the pipes
            self._streams.stdout.write(f"{bundle.get('text/plain', '')!s}\n")
        elif not self._channel.send_bundle(kind, _drop_too_large(bundle), at_once=at_once):
            text = bundle.get("text/plain", "")
            plain = text[:_TEXT_LIMIT] if isinstance(text, str) else ""
            self._channel.send_bundle(kind, {"text/plain": f"{plain}\n[the rest was too large to be shown]"})


def bundle_of(value: object) -> Bundle:
    """A value in every form that it offers."""
    kind = type(value)
    bundle: Bundle = {}
    if getattr(kind, "_repr_mimebundle_", None) is not None:
        forms = _call(value, "_repr_mimebundle_", include=None, exclude=None)
        bundle = _clean(forms) if isinstance(forms, Mapping) else {}
    for name, mime in _METHODS:
        if getattr(kind, name, None) is None or mime in bundle:
            continue
        if mime == "image/jpeg" and "image/png" in bundle:
            continue
        form = _form(mime, _call(value, name))
        if form is not None:
            bundle[mime] = form
    if "text/plain" not in bundle:
        bundle["text/plain"] = plain(value)
    return bundle


def plain(value: object) -> str:
    """The repr, or why there is none."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - the repr is the cell's own
        return f"<{type(value).__name__} object; its repr failed: {name_of(type(error))}: {message_of(error)}>"


def _call(value: object, name: str, **options: object) -> object:
    """A rich form; none if the object cannot make it, as the plain one is there anyway."""
    try:
        data = getattr(value, name)(**options)
    except Exception:  # noqa: BLE001 - the method is the cell's own
        return None
    return data[0] if isinstance(data, tuple) and data else data  # the rest is metadata


def _clean(data: Mapping[object, object]) -> Bundle:
    forms = {mime: _form(mime, form) for mime, form in data.items() if isinstance(mime, str)}
    return {mime: form for mime, form in forms.items() if form is not None}


def _form(mime: str, data: object) -> str | bytes | None:
    """One form as it travels: binary as bytes, everything else as text."""
    if data is None:
        return None
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    try:
        if isinstance(data, str):
            return b64decode(data) if mime in _BINARY else str(data)
        return _dumps(data)
    except (TypeError, ValueError, RecursionError):
        return None


def _drop_too_large(bundle: Bundle) -> Bundle:
    """The bundle without what is too large, which the plain text tells instead."""
    kept = {mime: data for mime, data in bundle.items() if len(data) <= _limit(data)}
    text = bundle.get("text/plain", "")
    for mime, data in bundle.items():
        if mime in kept:
            continue
        if data is text:
            text = f"{data[:_TEXT_LIMIT]!s}\n[{len(data) - _TEXT_LIMIT} more characters are not shown]"
        else:
            text = f"{text!s}\n[{mime} of {len(data)} bytes is too large to be shown]"
    if len(kept) < len(bundle):
        kept["text/plain"] = text
    return kept


def _limit(data: str | bytes) -> int:
    return _TEXT_LIMIT if isinstance(data, str) else _BLOB_LIMIT
