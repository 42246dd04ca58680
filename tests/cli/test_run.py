"""`belljar run`, as a process: what it prints, what it leaves, how it ends."""

import base64
import contextlib
import json
import os
import pty
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests import traces
from tests.cli.conftest import ELSEWHERE, Command

FOREVER = "import time\nprint('up', flush=True)\ntime.sleep(600)"
DEAF = """
import time
told = False
while True:
    try:
        if not told:
            told = True
            print('up', flush=True)
        time.sleep(600)
    except BaseException:
        print('no', flush=True)
"""


def descendants(pid: int) -> dict[int, str]:
    """Every process below this one, with its time of start: a pid alone may be used again."""
    known: dict[int, list[str]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # gone meanwhile
            known[int(name)] = stat(int(name))
    found = {pid}
    while more := {child for child, fields in known.items() if int(fields[1]) in found} - found:
        found |= more
    return {one: known[one][19] for one in found - {pid}}


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def is_alive(pid: int, started: str) -> bool:
    try:
        return stat(pid)[19] == started and stat(pid)[0] not in "ZX"
    except OSError:
        return False


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# -- what it shows -------------------------------------------------------------------------------------------------


def test_prints_and_the_last_value(belljar: Command) -> None:
    ran = belljar("run", "--packages", "none", "-c", "print('héllo', end='')\n[1, 2]")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "héllo\n[1, 2]\n", "")


def test_the_data_stack_is_there(belljar: Command) -> None:
    ran = belljar("run", "-c", "import pandas as pd; pd.DataFrame({'x': [1, 2, 3]}).describe()")
    assert ran.returncode == 0
    assert "mean   2.0" in ran.stdout


def test_a_traceback_names_the_script(belljar: Command) -> None:
    (belljar.directory / "analysis.py").write_text("def half(x):\n    return 1 / x\n\nhalf(0)\n")
    ran = belljar("run", "--packages", "none", "analysis.py")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[:3] == [
        "Traceback (most recent call last):",
        '  File "analysis.py", line 4, in <module>',
        "    half(0)",
    ]
    assert ran.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_a_hint_follows_the_traceback(belljar: Command) -> None:
    ran = belljar("run", "--packages", "none", "-c", "import urllib.request as u; u.urlopen('http://example.com')")
    assert ran.returncode == 1
    assert ran.stderr.endswith("belljar: There is no network in here. Bring the data along: --file PATH.\n")


def test_standard_input_is_code(belljar: Command) -> None:
    ran = belljar("run", "--packages", "none", "-", text="print(6 * 7)")
    assert (ran.returncode, ran.stdout) == (0, "42\n")


def test_a_script_in_its_own_encoding(belljar: Command) -> None:
    (belljar.directory / "old.py").write_bytes("# coding: latin-1\nprint('é')".encode("latin-1"))
    assert belljar("run", "--packages", "none", "old.py").stdout == "é\n"


def test_output_comes_as_it_is_made_and_ctrl_c_interrupts(belljar: Command) -> None:
    code = (
        "try:\n    " + FOREVER.replace("\n", "\n    ") + "\nexcept KeyboardInterrupt:\n    print('tidied')\n    raise"
    )
    with belljar.start("run", "--packages", "none", "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"  # it has 600 s to go
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "tidied\n")
    assert err.count("KeyboardInterrupt") == 1
    assert err.endswith("belljar: Interrupted on request. The variables are kept.\n")


def test_ctrl_c_twice_ends_it_at_once(belljar: Command) -> None:
    with belljar.start("run", "--packages", "none", "-c", DEAF) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "no\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "belljar: interrupted\n")


def test_a_terminal_is_not_given_orders(belljar: Command) -> None:
    """Colours pass; a title, or text put on the clipboard, is shown instead of obeyed."""
    ours, theirs = pty.openpty()
    code = r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[?1049h', end='')"
    with belljar.start("run", "--packages", "none", "-c", code, stdout=theirs) as process:
        os.close(theirs)
        process.communicate(timeout=60)
        seen = os.read(ours, 4096)
    os.close(ours)
    assert seen == b"\x1b[31mred\x1b[0m \\x1b]0;title\x07 \\x1b[?1049h"
    assert "\x1b]0;title" in belljar("run", "--packages", "none", "-c", code).stdout  # a pipe gets every byte


# -- how it ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "options", "status", "said"),
    [
        ("import sys; sys.exit(0)", (), 0, ""),
        ("import sys; sys.exit(7)", (), 7, ""),
        ("import sys; sys.exit('bye')", (), 1, "bye"),
        ("import sys; sys.exit(300)", (), 1, ""),
        ("1 / 0", (), 1, "ZeroDivisionError"),
        ("def", (), 1, "SyntaxError"),
        ("import os; os._exit(9)", (), 9, "exit code 9"),
        ("import time; time.sleep(600)", ("--timeout", "0.5"), 124, "give it longer: --timeout S."),
        ("import ctypes; ctypes.string_at(0)", (), 139, "segmentation fault"),
    ],
)
def test_exit_codes(belljar: Command, code: str, options: tuple[str, ...], status: int, said: str) -> None:
    ran = belljar("run", "--packages", "none", *options, "-c", code)
    assert ran.returncode == status
    assert said in ran.stderr
    assert bool(said) == bool(ran.stderr)


LOADING = """
import os, signal, sys
class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "belljar.cli.doctor":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressed())
"""


def test_ctrl_c_while_it_loads(belljar: Command) -> None:
    ran = belljar.python(LOADING + "from belljar.cli import main\nsys.exit(main())", "run", "-c", "1")
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "belljar: interrupted\n")


def test_too_much_memory(belljar: Command) -> None:
    code = "x = [bytes(1 << 20) * 2 for _ in range(4000)]"
    ran = belljar("run", "--packages", "none", "--memory", "128m", "-c", code)
    if ran.returncode == 1:  # where no control group counts, the allocation fails instead
        assert "MemoryError\nbelljar: The memory limit of 128 MiB was reached" in ran.stderr
    else:
        assert (ran.returncode, "128 MiB of memory" in ran.stderr) == (137, True)
    assert ran.stderr.endswith("Work on smaller pieces, or give it more: --memory SIZE.\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-c", "1", "--memory", "lots"), "memory: 'lots' is not a size"),
        (("-c", "1", "--require", "../x"), "--require: '../x' is not a plain name"),
        (("-c", "1", "--cpus", "0"), "--cpus: 0.0 is not a number above 0"),
        (("-c", "1", "--disk", "x"), "--disk: 'x' is not a size"),
        (("-c", "1", "--memory", "1k"), "--memory: '1k' is below the minimum of 64m; for example 512m"),
        (("-c", "1", "--timeout", "-3"), "timeout: '-3' is not a number of seconds above 0, or none"),
        (("-c", "1", "--cpus", "0"), "cpus: 0.0 is not a number above 0"),
        (("-c", "1", "--file", "nowhere.csv"), "'nowhere.csv': there is no such file"),
        (("-c", "1", "--file", "/"), "'/' is a directory; name the files in it"),
        (("-c", "1", "--file", "here=../out"), "'../out' does not name a file under /mnt/data"),
        (("-c", "1", "--file", "here", "--file", "there/here"), "would both be 'here'"),
        (("-c", "1", "--out", "here"), "--out: 'here' cannot be made"),
        (("-c", "1", "--overwrite"), "--overwrite: there is no directory to overwrite in; name it: --out DIR"),
        (("nowhere.py",), "'nowhere.py': there is no such file"),
        (("here",), "script: here is not Python source"),
        (("here", "-c", "1"), "give a script or -c CODE, not both"),
        ((), "what shall I run?"),
    ],
)
def test_a_wrong_command_is_explained_in_one_line(belljar: Command, args: tuple[str, ...], said: str) -> None:
    (belljar.directory / "there").mkdir()
    for name in ("here", "there/here"):
        (belljar.directory / name).write_bytes(b"\xff\xfe\x00")
    ran = belljar("run", "--packages", "none", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("belljar: error: ")
    assert ran.stderr.count("\n") == 1
    assert said in ran.stderr


def test_wrong_settings_are_the_operators(belljar: Command) -> None:
    belljar.environment["BELLJAR_WARM"] = "many"
    ran = belljar("run", "-c", "1")
    assert ran.returncode == 3
    assert ran.stderr == (
        "belljar: error: warm: 'many' is not a whole number, 0 or more (environment variable BELLJAR_WARM); "
        "change it or leave it out\n"
    )


@pytest.mark.parametrize(("platform", "name"), [("darwin", "macOS"), ("win32", "Windows"), ("freebsd14", "freebsd14")])
def test_elsewhere_it_refuses_and_says_what_to_do(belljar: Command, platform: str, name: str) -> None:
    elsewhere = ELSEWHERE.format(platform=platform)
    ran = belljar.python(
        elsewhere + "from belljar.cli import main\nsys.exit(main())", "run", "-c", "1", "--out", "made"
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"belljar: error: this host cannot confine code ({name}, ")
    assert "sandbox server on" in ran.stderr
    assert not (belljar.directory / "made").exists()


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_the_library_refuses_too(belljar: Command, platform: str) -> None:
    code = """
from belljar import AsyncSandbox, Sandbox
from belljar.errors import CannotConfine

async def enter():
    async with AsyncSandbox():
        pass

try:
    with Sandbox():
        pass
except CannotConfine as error:
    print(error)
try:
    asyncio.run(enter())
except CannotConfine as error:
    print(error)
"""
    ran = belljar.python(ELSEWHERE.format(platform=platform) + code)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("this host cannot confine code") == 2


def test_a_reader_that_leaves_ends_it(belljar: Command) -> None:
    code = "while True: print('x' * 1000)"
    with belljar.start("run", "--packages", "none", "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)])
def test_nothing_is_left_behind(belljar: Command, number: int, status: int) -> None:
    code = "import os\nif os.fork() == 0: os.setsid()\n" + FOREVER
    with belljar.start("run", "--packages", "none", "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        below = descendants(process.pid)
        assert len(below) >= 3  # the launcher, the jail's first process, and what it holds
        process.send_signal(number)
        assert process.wait(60) == status
    while any(is_alive(*one) for one in below.items()):
        time.sleep(0.01)  # the kernel is at it; the test's own time limit ends this
    while traces.cgroups(process.pid):
        time.sleep(0.01)


def test_nothing_is_left_behind_after_a_good_end(belljar: Command) -> None:
    with belljar.start("run", "--packages", "none", "-c", "1") as process:
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not traces.cgroups(process.pid)
    assert list(belljar.directory.iterdir()) == []


# -- files ---------------------------------------------------------------------------------------------------------

NAMES = ["plain.txt", "-rf", "--out", "報告 1.csv", "a=b.csv", "x" * 255, " spaces ", "sub/dir/ü.bin"]


def test_files_go_in_and_come_out_exactly(belljar: Command) -> None:
    inputs, out = belljar.directory / "in", belljar.directory / "out"
    args = []
    for number, name in enumerate(NAMES):
        path = inputs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number, 255, 0]) * number)
        args += ["--file", f"{path}={name}"] if "/" in name else ["--file", str(path)]
    code = """
import os
for folder, _, names in list(os.walk('.')):
    for name in names:
        with open(os.path.join(folder, name), 'rb') as file, open(os.path.join(folder, name)[:-1] + 'Z', 'wb') as copy:
            copy.write(file.read())
"""
    ran = belljar("run", "--packages", "none", *args, "--out", "out", "-c", code)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr
    made = {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert made == {name[:-1] + "Z": bytes([number, 255, 0]) * number for number, name in enumerate(NAMES)}


def test_a_file_may_have_another_name_inside(belljar: Command) -> None:
    (belljar.directory / "2025.csv").write_text("a\n1\n")
    ran = belljar(
        "run", "--packages", "none", "--file", "2025.csv=data/input.csv", "-c", "open('data/input.csv').read()"
    )
    assert ran.stdout == "'a\\n1\\n'\n"


def test_only_what_the_run_made_is_written(belljar: Command) -> None:
    out = belljar.directory / "out"
    out.mkdir()
    for name in ("kept.txt", "changed.txt", "input.txt"):
        (out / name).write_text("old")
    (belljar.directory / "input.txt").write_text("in")
    (belljar.directory / "grown.txt").write_text("in")
    code = "open('changed.txt', 'w').write('new'); open('grown.txt', 'a').write('+')"
    options = ("--file", "input.txt", "--file", "grown.txt", "--out", "out", "--overwrite")
    ran = belljar("run", "--packages", "none", *options, "-c", code)
    assert ran.returncode == 0
    texts = {path.name: path.read_text() for path in out.iterdir()}
    assert texts == {"kept.txt": "old", "changed.txt": "new", "input.txt": "old", "grown.txt": "in+"}


def test_nothing_is_written_outside_of_out(belljar: Command) -> None:
    """Neither along links that the code makes nor along those it finds."""
    out, elsewhere = belljar.directory / "out", belljar.directory / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    (out / "folder").symlink_to(elsewhere)
    (out / "file").symlink_to(elsewhere / "file")
    code = """
import os
os.mkdir('folder')
open('folder/bad', 'w').write('x')
open('file', 'w').write('new')
os.symlink('/etc/passwd', 'link')
os.symlink('..', 'up')
os.mkfifo('pipe')
"""
    for options in ((), ("--overwrite",)):
        ran = belljar("run", "--packages", "none", "--out", "out", *options, "-c", code)
        assert ran.returncode == 3
        assert "out/folder/bad' could not be saved" in ran.stderr
        assert [(path.name, path.read_text()) for path in elsewhere.iterdir()] == [("file", "mine")]
        assert (out / "file").is_symlink() == (not options)
    assert (out / "file").read_text() == "new"
    assert not (out / "file").is_symlink()
    assert {path.name for path in out.iterdir()} == {"file", "folder"}


def test_without_out_it_says_what_there_would_be(belljar: Command) -> None:
    ran = belljar("run", "--packages", "none", "-c", "open('a b.txt', 'w').write('x' * 2048); open('c', 'w').write('')")
    assert (ran.returncode, ran.stdout) == (0, "0\n")
    assert ran.stderr == "belljar: it made a b.txt (2 KiB), c (0 bytes); to keep: --out DIR\n"


def test_figures_are_saved_beside_the_files(belljar: Command) -> None:
    code = "import matplotlib.pyplot as plt\nfor i in 1, 2:\n    plt.figure()\n    plt.plot([i])\n"
    ran = belljar("run", "--out", "out", "-c", code + "open('figure-1.png', 'w').write('mine');")
    assert ran.returncode == 0, ran.stderr
    out = belljar.directory / "out"
    assert (out / "figure-1.png").read_text() == "mine"
    assert all((out / f"figure-{n}.png").read_bytes().startswith(b"\x89PNG") for n in (2, 3))
    assert "it drew 2 figures" in belljar("run", "-c", code).stderr


# -- JSON ----------------------------------------------------------------------------------------------------------


def test_json_has_a_line_for_each_output(belljar: Command) -> None:
    code = (
        "import sys, matplotlib.pyplot as plt\nprint('out')\nprint('err', file=sys.stderr)\nplt.plot([1])\nplt.show()\n"
        "open('ü.txt', 'w').write('hi')\n"
    )
    ran = belljar("run", "--json", "--out", "out", "-c", code)
    told = lines(ran.stdout)
    assert ran.returncode == 0
    assert {"output": "stdout", "text": "out\n"} in told
    assert {"output": "stderr", "text": "err\n"} in told
    [figure] = [one for one in told if one["output"] == "display"]
    assert figure["base64"] == ["image/png"]
    assert base64.b64decode(figure["data"]["image/png"]) == (belljar.directory / "out/figure-1.png").read_bytes()
    [file] = [one for one in told if one["output"] == "file"]
    assert file.keys() == {"output", "name", "size", "modified", "type", "change", "saved"}
    assert (file["name"], file["size"], file["type"]) == ("ü.txt", 2, "text/plain")
    assert (file["change"], file["saved"]) == ("created", "out/ü.txt")
    [result] = [one for one in told if one["output"] == "result"]
    assert result == {"output": "result", "data": {"text/plain": "2"}, "base64": []}
    assert told[-1].keys() == {
        "output", "status", "text", "hint", "reason", "error", "code", "kept", "seconds", "limit", "remedy",
        "exit_code",
    }  # fmt: skip
    assert (told[-1]["output"], told[-1]["status"], told[-1]["exit_code"]) == ("exit", "ok", 0)


def test_json_tells_errors_too(belljar: Command) -> None:
    ran = belljar("run", "--json", "--packages", "none", "-c", "1 / 0")
    end = lines(ran.stdout)[-1]
    assert (ran.returncode, end["exit_code"], end["status"], ran.stderr) == (1, 1, "raised", "")
    assert end["error"]["type"] == "ZeroDivisionError"
    ran = belljar("run", "--json", "-c", "1", "--memory", "lots")
    [fault] = lines(ran.stdout)
    assert (ran.returncode, fault["output"], fault["code"]) == (2, "error", "invalid_request")


# -- the command itself --------------------------------------------------------------------------------------------


def test_alone_it_prints_help(belljar: Command) -> None:
    ran = belljar()
    assert ran.returncode == 0
    assert "belljar run" in ran.stdout


@pytest.mark.parametrize("command", ["run", "doctor", "packages"])
def test_every_command_has_help_with_examples(belljar: Command, command: str) -> None:
    ran = belljar(command, "--help")
    assert ran.returncode == 0
    assert f"examples:\n  belljar {command}" in ran.stdout


def test_version(belljar: Command) -> None:
    import belljar as package

    assert belljar("--version").stdout == f"belljar {package.__version__}\n"


def test_help_is_light(belljar: Command) -> None:
    code = "import sys\nfrom belljar.cli import main\ntry: main(['--help'])\nexcept SystemExit: print(*sys.modules)"
    loaded = belljar.python(code).stdout.split("\n")[-2].split()
    assert "belljar.cli" in loaded
    assert [
        n for n in loaded if n.startswith(("belljar.sandbox", "asyncio", "subprocess", "packaging", "ctypes"))
    ] == []


def test_the_packages_are_data(belljar: Command) -> None:
    ran = belljar("packages", "--json")
    assert ran.returncode == 0
    assert all(one.keys() == {"name", "version"} for one in json.loads(ran.stdout))
    plain = belljar("packages").stdout.split()
    assert plain == [text for one in json.loads(ran.stdout) for text in (one["name"], one["version"])]


def test_an_unknown_option_is_a_wrong_command(belljar: Command) -> None:
    ran = belljar("run", "--tmeout", "3", "-c", "1")
    assert ran.returncode == 2
    assert "--tmeout" in ran.stderr


def test_a_full_disk_is_told(belljar: Command) -> None:
    with (
        open("/dev/full", "w") as full,
        belljar.start("run", "--packages", "none", "-c", "print(1)", stdout=full) as process,
    ):
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (3, "belljar: error: No space left on device\n")
