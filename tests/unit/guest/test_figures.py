"""Figures: all of them, in order, once, whether or not the cell calls show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Driver, Ran


def pngs(ran: Ran) -> list[bytes]:
    shown = [bundle["image/png"] for bundle in ran.displays]
    assert all(isinstance(png, bytes) and png.startswith(b"\x89PNG") for png in shown)
    return [png for png in shown if isinstance(png, bytes)]


@pytest.fixture
def plotting(start: Callable[..., Driver]) -> Driver:
    return start(preload=["matplotlib.pyplot"])


def test_figures_without_show(plotting: Driver) -> None:
    plotting.ok("import matplotlib.pyplot as plt")
    ran = plotting.ok("for n in (3, 1, 2):\n    plt.figure(n, figsize=(n, 1)); plt.plot([1, 2]);")
    assert [d["text/plain"] for d in ran.displays] == [f"<Figure size {n}00x100 with 1 Axes>" for n in (1, 2, 3)]
    assert len(pngs(ran)) == 3
    assert plotting.ok("plt.get_fignums()").result == "[]"
    assert (ran.stdout, ran.stderr) == ("", "")


@pytest.mark.parametrize("before", ["", "import matplotlib; matplotlib.use('Agg')", "%matplotlib inline"])
def test_show_shows_now_and_closes(guest: Driver, before: str) -> None:
    ran = guest.ok(
        f"{before}\nimport matplotlib.pyplot as plt\n"
        "for i in range(3):\n    plt.plot([1, i]); plt.show(); print(plt.get_fignums())\n"
        "plt.gcf()\nplt.tight_layout()"
    )
    assert len(pngs(ran)) == 3
    assert (ran.stdout, ran.stderr) == ("[]\n" * 3, "")


def test_a_preloaded_matplotlib(start: Callable[..., Driver]) -> None:
    guest = start(preload=["matplotlib.pyplot", "pandas"])
    ran = guest.ok("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show(); 1")
    assert len(pngs(ran)) == 1
    assert ran.result == "1"


def test_a_figure_as_result_is_shown_once(plotting: Driver) -> None:
    ran = plotting.ok("import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1]);\nfig")
    assert ran.displays == []
    assert ran.result == "<Figure size 640x480 with 1 Axes>"
    assert isinstance(ran.results[0]["image/png"], bytes)
    again = plotting.ok("fig")
    assert isinstance(again.results[0]["image/png"], bytes)


def test_a_displayed_figure_is_shown_again_only_if_changed(plotting: Driver) -> None:
    code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1]); display(fig)"
    assert len(pngs(plotting.ok(code))) == 1
    assert len(pngs(plotting.ok(code + "; ax.set_title('more');"))) == 2


def test_figures_of_a_cell_that_raises(plotting: Driver) -> None:
    ran = plotting.run("import matplotlib.pyplot as plt\nplt.plot([1]); 1 / 0")
    assert ran.error["type"] == "ZeroDivisionError"
    assert len(pngs(ran)) == 1


def test_a_figure_that_cannot_be_drawn(plotting: Driver) -> None:
    ran = plotting.ok("import matplotlib.pyplot as plt\nplt.title('$\\\\frac{$'); x = 1")
    assert "cannot be drawn" in str(ran.displays[0]["text/plain"])
    assert plotting.ok("x").result == "1"


def test_saving_works_as_usual(plotting: Driver) -> None:
    ran = plotting.ok(
        "import matplotlib.pyplot as plt, os\nplt.plot([1]); plt.savefig('a.png'); os.path.getsize('a.png') > 999"
    )
    assert ran.result == "True"


def test_a_huge_figure_is_scaled_down(plotting: Driver) -> None:
    ran = plotting.ok("import matplotlib.pyplot as plt\nplt.figure(figsize=(60, 60), dpi=300); plt.plot([1]);")
    (png,) = pngs(ran)
    width, height = int.from_bytes(png[16:20]), int.from_bytes(png[20:24])
    assert 1_000_000 < width * height <= 17_000_000
