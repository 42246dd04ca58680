"""What a cell does and shows: the semantics of a notebook, in order and exact."""

from __future__ import annotations

import asyncio

import pytest

from belljar.sandbox.outputs import Display, Exit, Output, Result, Stderr, Stdout

from .conftest import Box, Boxes, needs

PNG = b"\x89PNG\r\n\x1a\n"


def plain(outputs: tuple[Output, ...]) -> list[object]:
    """Outputs without the exit; a display as its plain text, text in one piece however it was cut on the way."""
    seen: list[object] = []
    for output in outputs:
        match output, seen[-1:]:
            case (Stdout(text), [Stdout(before)]):
                seen[-1] = Stdout(before + text)
            case (Stderr(text), [Stderr(before)]):
                seen[-1] = Stderr(before + text)
            case (Exit(), _):
                pass
            case (Result() | Display(), _):
                seen.append((type(output).__name__, output.text))
            case _:
                seen.append(output)
    return seen


@needs("variables")
async def test_variables_live_on(box: Box) -> None:
    first = await box.run("x = 41\nimport math\ndef double(n): return 2 * n")
    assert first.outputs == (Exit("ok", seconds=first.exit.seconds),)
    assert (await box.run("double(x) + math.floor(1.5)")).text == "83"


async def test_the_last_expression_is_shown(box: Box) -> None:
    run = await box.run("'a'\n[1, 'b']")
    assert run.outputs == (Result({"text/plain": "[1, 'b']"}), run.exit)
    assert (run.exit.status, run.exit.text) == ("ok", "")
    assert 0 < run.exit.seconds < 30


@pytest.mark.parametrize("code", ["", "# nothing", "None", "x = 1", "1;", "pass", "def f(): 1"])
async def test_a_cell_without_a_value_shows_nothing(box: Box, code: str) -> None:
    run = await box.run(code)
    assert (run.outputs, run.exit.status, run.exit.text) == ((run.exit,), "ok", "")


async def test_a_table_is_plain_text_and_html(box: Box) -> None:
    run = await box.run("import pandas as pd\npd.DataFrame({'x': [1, 2], 'name': ['a', 'ü']})")
    assert run.text == "   x name\n0  1    a\n1  2    ü"
    assert run.result is not None
    assert run.result.html is not None
    assert "<td>ü</td>" in run.result.html
    assert set(run.result.data) == {"text/plain", "text/html"}


@needs("variables")
async def test_await_works_at_top_level(box: Box) -> None:
    run = await box.run("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    return 7\nx = await f()\nx")
    assert (run.text, run.stderr) == ("7", "")
    assert (await box.run("await asyncio.gather(f(), f())")).text == "[7, 7]"


@needs("variables")
async def test_tasks_go_on_in_later_cells(box: Box) -> None:
    await box.run("import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 'done'")
    await box.run("t = asyncio.create_task(f())")
    assert (await box.run("await t")).text == "'done'"


@needs("live")
async def test_figures_come_in_order_with_the_text_between(box: Box) -> None:
    run = await box.run(
        "import matplotlib.pyplot as plt\n"
        "print('before')\n"
        "plt.figure(figsize=(2, 1)); plt.plot([1, 2]); plt.show()\n"
        "print('between')\n"
        "plt.figure(figsize=(3, 1)); plt.plot([1, 2])\n"
        "plt.figure(figsize=(4, 1)); plt.plot([1, 2])\n"
        "print('after')\n"
        "'value'"
    )
    assert plain(run.outputs) == [
        Stdout("before\n"),
        ("Display", "<Figure size 200x100 with 1 Axes>"),
        Stdout("between\nafter\n"),
        ("Result", "'value'"),
        ("Display", "<Figure size 300x100 with 1 Axes>"),
        ("Display", "<Figure size 400x100 with 1 Axes>"),
    ]
    assert [image.png[:8] for image in run.images] == [PNG] * 3
    assert (await box.run("plt.get_fignums()")).text == "[]"


async def test_a_figure_is_shown_once(box: Box) -> None:
    run = await box.run("import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 4, 9])\nfig")
    assert run.result is not None
    assert [image.png for image in run.images] == [run.result.png]


async def test_what_was_drawn_before_an_exception_is_shown(box: Box) -> None:
    run = await box.run("import matplotlib.pyplot as plt\nplt.plot([1])\nprint('x')\n1 / 0")
    assert (len(run.images), run.stdout, run.exit.status) == (1, "x\n", "raised")


@needs("live")
async def test_display_comes_in_order(box: Box) -> None:
    run = await box.run("for i in range(100):\n    print(i)\n    display(i * 10)\nprint('end')")
    expected: list[object] = []
    for i in range(100):
        expected += [Stdout(f"{i}\n"), ("Display", f"{i * 10}")]
    assert plain(run.outputs) == [*expected, Stdout("end\n")]


@needs("guest")
async def test_mime_bundles_arrive_whole(box: Box) -> None:
    forms: dict[str, str | bytes] = {
        "text/plain": "p",
        "text/html": "<b>ü</b>",
        "image/png": bytes(range(256)),
        "application/json": '{"a": 1}',
    }
    run = await box.run(f"display({forms!r}, raw=True)\nfrom IPython.display import HTML\nHTML('<i>x</i>')")
    assert run.displays == (Display(forms),)
    assert run.result is not None
    assert run.result.html == "<i>x</i>"


@needs("live")
async def test_a_large_display_arrives_whole_even_before_a_crash(box: Box) -> None:
    run = await box.run("display({'image/png': bytes(5_000_000)}, raw=True)\nimport os; os._exit(3)")
    assert [len(shown.png or b"") for shown in run.displays] == [5_000_000]
    assert (run.exit.reason, run.exit.code) == ("exited", 3)


@needs("variables")
async def test_a_traceback_shows_the_cells_lines_and_hides_ours(box: Box) -> None:
    await box.run("def outer(n):\n    return inner(n)\n")
    run = await box.run("def inner(n):\n    return 1 / n\n\nouter(0)")
    assert run.error is not None
    assert (run.error.type, run.error.message) == ("ZeroDivisionError", "division by zero")
    lines = [line for line in run.error.traceback.splitlines() if set(line) - set(" ^~")]
    assert lines == [
        "Traceback (most recent call last):",
        '  File "<cell 2>", line 4, in <module>',
        "    outer(0)",
        '  File "<cell 1>", line 2, in outer',
        "    return inner(n)",
        '  File "<cell 2>", line 2, in inner',
        "    return 1 / n",
        "ZeroDivisionError: division by zero",
    ]
    assert run.exit == Exit("raised", "ZeroDivisionError: division by zero", error=run.error, seconds=run.exit.seconds)


@pytest.mark.parametrize(
    "code",
    [
        "import json\njson.loads('{')",
        "display(1 / 0)",
        "import asyncio\nasync def f(): raise OSError('x')\nawait f()",
        "import zzz_missing",
        "input()",
        "%nothing",
        "raise ExceptionGroup('g', [ValueError(1)])",
        "def f(): f()\nf()",
        "class A:\n    def __repr__(self): raise ValueError\nstr(A())",
        "(",
    ],
)
async def test_no_traceback_shows_our_own_code(box: Box, code: str) -> None:
    run = await box.run(code)
    assert run.exit.status == "raised"
    assert run.error is not None
    assert run.error.type in run.error.traceback
    for ours in ("/opt/belljar", "belljar/sandbox", "guest"):
        assert ours not in run.error.traceback


async def test_warnings_and_logging_go_to_stderr(box: Box) -> None:
    run = await box.run(
        "import logging, sys, warnings\n"
        "warnings.warn('careful')\n"
        "logging.warning('logged')\n"
        "print('printed', file=sys.stderr)"
    )
    assert run.stderr == (
        "<cell 1>:2: UserWarning: careful\n  warnings.warn('careful')\nWARNING:root:logged\nprinted\n"
    )
    assert run.stdout == ""


@needs("guest")
async def test_input_says_what_to_do_instead(box: Box) -> None:
    run = await box.run("input('Your name? ')")
    assert run.error is not None
    assert run.error.type == "EOFError"
    assert "no one to type" in run.exit.text
    assert (await box.run("import sys; sys.stdin.read()")).text == "''"


async def test_threads_work(box: Box) -> None:
    run = await box.run(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    squares = list(pool.map(lambda n: n * n, range(20)))\nsum(squares)"
    )
    assert (run.text, run.stderr) == ("2470", "")


async def test_subprocesses_work_and_print_in_order(box: Box) -> None:
    run = await box.run(
        "import subprocess, sys\n"
        "print('one')\n"
        "subprocess.run(['echo', 'two'])\n"
        "print('three')\n"
        "subprocess.run([sys.executable, '-c', 'import numpy; print(numpy.arange(3).sum())'])\n"
        "subprocess.check_output('cat', input=b'in')"
    )
    assert (run.stdout, run.stderr, run.text) == ("one\ntwo\nthree\n3\n", "", "b'in'")


@needs("variables")
@pytest.mark.parametrize(
    "code",
    [
        "import multiprocessing as mp\nwith mp.Pool(2) as pool:\n    out = pool.map(square, range(5))\nout",
        "from concurrent.futures import ProcessPoolExecutor\n"
        "with ProcessPoolExecutor(2) as pool:\n    out = list(pool.map(square, range(5)))\nout",
        "import multiprocessing as mp\nq = mp.Queue()\n"
        "p = mp.Process(target=lambda: q.put([square(n) for n in range(5)]))\np.start(); out = q.get(); p.join()\nout",
    ],
    ids=["Pool", "ProcessPoolExecutor", "Process"],
)
async def test_multiprocessing_works(box: Box, code: str) -> None:
    await box.run("def square(n): return n * n")
    run = await box.run(code)
    assert (run.text, run.stderr) == ("[0, 1, 4, 9, 16]", "")


@needs("guest")
@pytest.mark.parametrize(
    "line", ["%pip install requests", "!pip install -q requests", "!python -m pip install requests"]
)
async def test_pip_install_is_answered(box: Box, line: str) -> None:
    run = await box.run(line)
    assert run.ok
    assert "cannot be installed from inside" in run.stdout
    assert run.exit.limit == "packages"


@needs("guest")
async def test_shell_lines_work(box: Box) -> None:
    await box.files.write("a b.txt", b"x")
    run = await box.run("!ls\nnames = !ls -1\nnames")
    assert (run.stdout, run.text) == ("a b.txt\n", "['a b.txt']")


@needs("guest")
async def test_an_unknown_module_tells_what_is_there_and_how_to_add(box: Box) -> None:
    run = await box.run("import no_such_module_here")
    assert run.error is not None
    hint = run.error.traceback.partition("Hint: ")[2]
    assert hint.startswith("'no_such_module_here' is not installed in this sandbox. Installed: ")
    assert {"matplotlib", "numpy", "pandas", "scipy"} <= set(
        hint.partition("Installed: ")[2].partition(".")[0].split(", ")
    )
    assert run.exit.limit == "packages"


@needs("environments")
async def test_the_bare_environment_says_so(boxes: Boxes) -> None:
    async with boxes(packages="none") as box:
        run = await box.run("import numpy")
        assert run.error is not None
        assert "Only the standard library is there." in run.error.traceback
        assert (await box.run("import json; json.dumps([1])")).text == "'[1]'"


@needs("guest")
async def test_output_that_is_not_utf8_survives(box: Box) -> None:
    code = "import os\nos.write(1, b'a\\xff\\xc3\\xa9\\xe2\\x82')\nprint('\\ud800', 'ü')\n!printf '\\377'"
    run = await box.run(code)
    assert run.stdout == "a\\xffé\\xe2\\x82\\ud800 ü\n\\xff"


async def test_a_character_cut_in_two_comes_out_whole(box: Box) -> None:
    run = await box.run(
        "import os, time\nfor byte in 'aé€𝄞'.encode():\n    os.write(1, bytes([byte])); time.sleep(0.005)"
    )
    assert run.stdout == "aé€𝄞"


@needs("live")
async def test_text_is_streamed_while_the_cell_runs(box: Box) -> None:
    seen: list[Output] = []
    async for output in box.stream(
        "import os, sys, time\nsys.stdout.write('ready')\nwhile not os.path.exists('go'): time.sleep(0.01)"
    ):
        seen.append(output)
        if output == Stdout("ready"):
            await box.files.write("go", b"")
    assert seen[0] == Stdout("ready")
    assert isinstance(seen[-1], Exit)
    assert seen[-1].ok


@needs("variables")
async def test_a_thread_that_prints_after_the_cell_shows_up_in_the_next(box: Box) -> None:
    await box.run(
        "import threading\ngo, done = threading.Event(), threading.Event()\n"
        "def late():\n    go.wait(); print('late'); done.set()\nthreading.Thread(target=late).start()"
    )
    run = await box.run("go.set(); done.wait(20)")
    assert (run.stdout, run.text) == ("late\n", "True")
    await box.run("t = threading.Timer(0.05, print, ['later']); t.start()")
    await asyncio.sleep(0.01)
    assert (await box.run("t.join()")).stdout == "later\n"


async def test_a_large_cell_arrives_whole(box: Box) -> None:
    text = "ä" * 3_000_000
    assert (await box.run(f"x = {text!r}\nlen(x), set(x)")).text == "(3000000, {'ä'})"


async def test_a_cell_with_odd_characters_is_run_as_it_is(box: Box) -> None:
    run = await box.run("x = 'a\\ud800'\r\nprint(ascii('\u2028𝄞\ud800'))\r\nx")
    assert run.stdout == "'\\u2028\\U0001d11e\\ud800'\n" or run.exit.status == "raised"
    assert (await box.run("1")).text == "1"


async def test_cells_are_numbered_and_numpy_differs_between_sandboxes(boxes: Boxes) -> None:
    async with boxes() as one, boxes() as other:
        code = "import numpy, random; (random.random(), numpy.random.rand())"
        assert len({(await box.run(code)).text for box in (one, other)}) == 2
