"""What is shown of values: every form that they offer, bounded, and never a broken cell."""

from __future__ import annotations

from .conftest import Driver

RICH = """
class Rich:
    def _repr_html_(self): return '<b>x</b>'
    def _repr_png_(self): return b'\\x89PNG'
    def _repr_svg_(self): return '<svg/>'
    def _repr_markdown_(self): return '**x**'
    def _repr_latex_(self): return '$x$', {'meta': 1}
    def _repr_json_(self): return {'a': [1]}
    def _repr_jpeg_(self): return b'jpeg'
    def __repr__(self): return 'rich'
"""


def test_every_form(guest: Driver) -> None:
    assert guest.ok(RICH + "Rich()").results == [
        {
            "text/plain": "rich",
            "text/html": "<b>x</b>",
            "image/png": b"\x89PNG",
            "image/svg+xml": "<svg/>",
            "text/markdown": "**x**",
            "text/latex": "$x$",
            "application/json": '{"a": [1]}',
        }
    ]


def test_a_class_is_not_its_instance(guest: Driver) -> None:
    assert guest.ok(RICH + "Rich").results == [{"text/plain": "<class '__main__.Rich'>"}]


def test_mime_bundles(guest: Driver) -> None:
    code = """
class M:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'text/plain': 'm', 'image/png': 'iVBORw==', 'application/x+json': {'k': 1}}, {'text/plain': {}}
M()
"""
    assert guest.ok(code).results == [{"text/plain": "m", "image/png": b"\x89PNG", "application/x+json": '{"k": 1}'}]


def test_broken_forms(guest: Driver) -> None:
    code = """
class B:
    def _repr_html_(self): raise ValueError('html')
    def _repr_mimebundle_(self, **_): return 5
    def __repr__(self): raise RuntimeError('no repr')
x = 7
B()
"""
    assert guest.ok(code).results == [{"text/plain": "<B object; its repr failed: RuntimeError: no repr>"}]
    assert guest.ok("x").result == "7"


def test_display_comes_in_order_after_what_was_printed(guest: Driver) -> None:
    ran = guest.ok("print('a'); display(1, 'two'); print('b')\n3")
    assert ran.displays == [{"text/plain": "1"}, {"text/plain": "'two'"}]
    assert (ran.stdout, ran.result) == ("a\nb\n", "3")


def test_display_from_threads(guest: Driver) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    list(pool.map(lambda i: display('x' * 50_000 + str(i)), range(64)))
"""
    shown = [str(d["text/plain"]) for d in guest.ok(code).displays]
    assert sorted(shown) == sorted(repr("x" * 50_000 + str(i)) for i in range(64))


def test_long_text_is_cut(guest: Driver) -> None:
    text = guest.ok("'x' * 3_000_000").result
    assert len(text) < 1_100_000
    assert text.endswith("more characters are not shown]")


def test_too_large_forms_are_left_out(guest: Driver) -> None:
    code = "class H:\n    def _repr_html_(self): return 'x' * 5_000_000\n    def __repr__(self): return 'h'\nH()"
    (bundle,) = guest.ok(code).results
    assert list(bundle) == ["text/plain"]
    assert bundle["text/plain"] == "h\n[text/html of 5000000 bytes is too large to be shown]"


def test_a_frame_is_never_too_large(guest: Driver) -> None:
    code = """
class Huge:
    def _repr_mimebundle_(self, **_):
        return {f'text/x-{i}': chr(0x1f600) * 1_000_000 for i in range(6)} | {'text/plain': 'huge'}
Huge()
"""
    assert guest.ok(code).result == "huge\n[the rest was too large to be shown]"


def test_lone_surrogates(guest: Driver) -> None:
    assert guest.ok("class S:\n    def __repr__(self): return chr(0xd800)\nS()").result == "\ud800"
    assert guest.ok("print(chr(0xd800))").stdout == "\\ud800\n"


def test_ipython_stand_in(guest: Driver, tmp_path: object) -> None:
    ran = guest.ok(
        "from IPython.display import display, HTML, Image, Markdown, SVG, JSON, clear_output\n"
        "clear_output(wait=True)\n"
        "open('i.png', 'wb').write(b'\\x89PNG...');\n"
        "display(HTML('<i>'), Markdown('# m'), SVG('<svg/>'), JSON({'a': 1}), Image('i.png'), Image(b'\\xff\\xd8'))\n"
        "display({'text/plain': 'raw'}, raw=True)\n"
        "import IPython; IPython.get_ipython()"
    )
    forms = [[key for key in shown if key != "text/plain"] for shown in ran.displays]
    assert forms == [["text/html"], ["text/markdown"], ["image/svg+xml"], ["application/json"], ["image/png"],
                     ["image/jpeg"], []]  # fmt: skip
    assert ran.displays[4]["image/png"] == b"\x89PNG..."
    assert ran.displays[-1] == {"text/plain": "raw"}


def test_an_installed_ipython_is_left_alone(guest: Driver) -> None:
    guest.ok("import os; os.mkdir('IPython'); open('IPython/__init__.py', 'w').write('real = 1')")
    assert guest.ok("import IPython; IPython.real").result == "1"


def test_tables_are_wide(guest: Driver) -> None:
    ran = guest.ok("import pandas as pd\npd.DataFrame({f'column_{i}': [i * 1000] for i in range(12)})")
    (bundle,) = ran.results
    assert "..." not in str(bundle["text/plain"])
    assert max(map(len, str(bundle["text/plain"]).splitlines())) > 100
    assert "<table" in str(bundle["text/html"])


def test_pillow_images(guest: Driver) -> None:
    (bundle,) = guest.ok("from PIL import Image\nImage.new('RGB', (4, 4))").results
    assert bytes(bundle["image/png"]).startswith(b"\x89PNG")  # type: ignore[arg-type]
    assert "image/jpeg" not in bundle
