"""Turn every open matplotlib figure into an image; `plt.show()` shows it at once.

Costs nothing until matplotlib is imported. Works on the plain Agg backend, so that `matplotlib.use("Agg")`, which
models like to write, changes nothing.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import private_builtins
from .tracebacks import message_of, name_of

private_builtins.protect(globals())

_modules = sys.modules
_MOST_PIXELS = 16_000_000


def any_open() -> bool:
    helpers = _modules.get("matplotlib._pylab_helpers")
    return helpers is not None and bool(helpers.Gcf.figs)


def take_open() -> list[object]:
    """The open figures in order of their numbers, which are closed by this."""
    helpers = _modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return []
    managers = sorted(helpers.Gcf.get_all_fig_managers(), key=lambda manager: manager.num)
    taken = [manager.canvas.figure for manager in managers]
    helpers.Gcf.destroy_all()
    return [figure for figure in taken if not _is_blank(figure)]


def is_figure(value: object) -> bool:
    module = _modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def is_stale(figure: Any) -> bool:
    """Whether something was drawn since the figure was last shown."""
    return bool(figure.stale)


def bundle(figure: Any) -> dict[str, str | bytes]:
    """A figure as PNG, or why it cannot be one."""
    try:
        return {"text/plain": repr(figure), "image/png": _png(figure)}
    except Exception as error:  # noqa: BLE001 - artists are the cell's own
        return {"text/plain": f"<Figure that cannot be drawn: {name_of(type(error))}: {message_of(error)}>"}


def attach(agg: ModuleType, show: Callable[[], None]) -> None:
    """Let `plt.show()` on this backend call `show`."""
    base: Any = agg.FigureCanvasAgg.manager_class

    class Manager(base):  # type: ignore[misc]
        @classmethod
        def pyplot_show(cls, *, block: bool | None = None) -> None:
            show()

    agg.FigureCanvasAgg.manager_class = Manager


def choose(matplotlib: Any) -> None:
    """Take the backend without looking for a screen first."""
    matplotlib.rcParams["backend"] = "agg"


def use() -> None:
    """If a backend was chosen before `attach`, choose it again."""
    pyplot = _modules.get("matplotlib.pyplot")
    if pyplot is not None and pyplot._backend_mod is not None:
        pyplot.switch_backend("agg")


def draw_once() -> None:
    """Draw and forget one figure, so that all that drawing needs is loaded."""
    pyplot = _modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    figure, axes = pyplot.subplots()
    axes.plot([0, 1], label="a")
    axes.set_title("Title")
    axes.legend()
    _png(figure)
    pyplot.close(figure)
    # Open fonts do not outlive a fork: matplotlib closes them in the child, which is work for every one of them.
    fonts = getattr(_modules.get("matplotlib.font_manager"), "_get_font", None)
    if fonts is not None:
        fonts.cache_clear()


def _png(figure: Any) -> bytes:
    width, height = figure.get_size_inches()
    dpi = min(float(figure.dpi), (_MOST_PIXELS / max(width * height, 1e-9)) ** 0.5)
    image = io.BytesIO()
    figure.savefig(
        image,
        format="png",
        dpi=dpi,
        bbox_inches="tight",
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
    )
    figure.stale = False
    return image.getvalue()


def _is_blank(figure: Any) -> bool:
    """Whether nothing was ever put on it: `plt.gcf()` after `plt.show()` leaves such figures behind."""
    return len(figure.get_children()) <= 1
