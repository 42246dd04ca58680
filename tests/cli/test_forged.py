"""What code prints, names and writes cannot forge what a person is asked, nor hide what is overwritten."""

from __future__ import annotations

import re
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.cli.conftest import Command
from tests.cli.person import Person, sitting
from tests.gateway.houses import House
from tests.helpers.glass import Glass

COLUMNS = 80
QUESTION = "Save to project? [yes/no/select]"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("gateway") / "state") as house:
        yield house


def screen(person: Person) -> list[str]:
    """What is seen on the terminal by now."""
    glass = Glass(COLUMNS)
    glass.feed(person.seen.replace("\n", "\r\n"))
    return glass.lines


def chat(belljar: Command, house: House, code: str) -> tuple[str, ...]:
    return ("chat", "--url", house.base_url, f"```python\n{code}\n```")


def made(files: dict[str, str]) -> str:
    return f"for name, text in {files!r}.items():\n    _ = open(name, 'w', newline='').write(text)"


DISGUISE = [
    "\x1b[12A\x1b[JCode execution generated output files:\n  1. notes.txt (9 bytes, text/plain) - new: notes.txt\n",
    "safe\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K  1. notes.txt - new: notes.txt\n",
    "\x1b[2J\x1b[H  1. notes.txt - new: notes.txt\n",
    "\x9b2J\x9bH\x85  1. notes.txt - new: notes.txt\u2028\n",
    "\x1b[8m\n" * 3,
    " " * 75 + "  1. notes.txt (9 bytes, text/plain) - new: notes.txt\n",
    "\u202e yp.putes :setirwrevo\n",
    "x\n" * 500,
]


@pytest.mark.parametrize("text", DISGUISE)
def test_a_difference_cannot_hide_what_is_overwritten(belljar: Command, house: House, text: str) -> None:
    (belljar.directory / "setup.py").write_text("mine\n")
    with sitting(belljar, *chat(belljar, house, made({"setup.py": text})), columns=COLUMNS) as person:
        person.wait_for(QUESTION)
        seen = screen(person)
        at = seen.index("Code execution generated output files:")
        assert seen[at + 1].startswith("  1. setup.py (")
        assert seen[at + 1].endswith("- overwrites: setup.py")
        assert seen[at + 2].startswith("     warning: Python's tools run it")
        assert seen[-1].rstrip() == QUESTION
        assert len(seen) == at + 4
        heading = seen.index("  1. overwrites: setup.py")
        assert all(re.match(r" {4}([-+ @\\…])", line) for line in seen[heading + 1 : at]), seen[heading:at]
        assert "    -mine" in seen[heading:at]
        person.type("no\n")
        assert person.end() == 0
    assert (belljar.directory / "setup.py").read_text() == "mine\n"


NAMES = [
    "a\x1b[2J\x1b[H.csv", "b\r  1. good.csv.csv", "c\u202evsc.csv",
    "d" + " " * 70 + "  2. good.csv (1 byte) - new: good.csv",
    "e\x1b[8m.csv", "f\u2028x.csv",
]  # fmt: skip


def test_names_take_their_own_lines_in_the_list(belljar: Command, house: House) -> None:
    with sitting(belljar, *chat(belljar, house, made(dict.fromkeys(NAMES, "x"))), columns=COLUMNS) as person:
        person.wait_for(QUESTION)
        seen = screen(person)
        listed = seen[seen.index("Code execution generated output files:") + 1 : -1]
        numbers = [line.split(".")[0].strip() for line in listed if not line.startswith("     ")]
        assert numbers == [str(number) for number in range(1, len(NAMES) + 1)]
        assert not any(line.strip().startswith("2. good.csv") for line in listed)
        person.type("no\n")
        assert person.end() == 0


@pytest.mark.parametrize(
    "printed",
    ["\x1b[8m", "\x1b[30;40m", "line\n" * 5 + "\x1b[4A", "x" * 200 + "\n\x1b[A", "\x1b[", "over\r", "\x1b[3A"],
)
def test_what_is_printed_cannot_hide_the_question(belljar: Command, house: House, printed: str) -> None:
    code = f"print({printed!r}, end='', flush=True)\n{made({'a.csv': 'x'})}"
    with sitting(belljar, *chat(belljar, house, code), columns=COLUMNS) as person:
        person.wait_for(QUESTION)
        seen = screen(person)
        assert seen[-3:] == [
            "Code execution generated output files:",
            "  1. a.csv (1 bytes, text/csv) - new: a.csv",
            QUESTION,
        ]
        person.type("no\n")
        assert person.end() == 0


def test_an_answer_to_a_question_that_was_not_ours_does_not_count(belljar: Command, house: House) -> None:
    """Code can print a question of its own; whoever falls for it has typed an answer before ours is put."""
    with sitting(belljar, *chat(belljar, house, made({"evil.sh": "x"})), columns=COLUMNS) as person:
        person.type("yes\n")
        person.wait_for(QUESTION).type("no\n")
        assert person.end() == 0
    assert not (belljar.directory / "evil.sh").exists()


def test_the_list_is_plain_where_nobody_is_asked(belljar: Command, house: House) -> None:
    for flags in ([], ["--yes"], ["--no-save"]):
        ran = belljar(*chat(belljar, house, made(dict.fromkeys(NAMES, "x"))), *flags)
        assert not set(ran.stderr) & set("\x1b\r\x9b\u202e\u2028"), ran.stderr


@pytest.mark.parametrize("printed", ["\x1b[8m", "line\n" * 5 + "saved other.csv\n\x1b[3A", "over\r", "\x1b[31m"])
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_what_is_printed_cannot_hide_what_was_saved(belljar: Command, printed: str, stream: str) -> None:
    code = f"import sys\nprint({printed!r}, end='', file=sys.{stream}, flush=True)\n{made({'a.csv': 'x'})}"
    with sitting(belljar, "run", "--packages", "none", "--out", ".", "-c", code, columns=COLUMNS) as person:
        assert person.end() == 0
        assert [line for line in screen(person) if line][-1] == "saved ./a.csv"


# -- yes, without being asked ------------------------------------------------------------------------------------------


def test_yes_overwrites_nothing_unless_told(belljar: Command, house: House) -> None:
    for name in ("setup.py", "same.csv", "big.bin", "other.bin"):
        (belljar.directory / name).write_text({"same.csv": "same", "big.bin": "b" * 300_000}.get(name, "mine"))
    small = made({"setup.py": "new", "same.csv": "same", "n.csv": ""})
    large = "for name, one in (('big.bin', 'b'), ('other.bin', 'x')):\n    _ = open(name, 'w').write(one * 300_000)"
    code = f"{small}\n{large}"
    ran = belljar(*chat(belljar, house, code), "--yes")
    assert ran.returncode == 1
    assert "'setup.py' is there already and differs; to overwrite it: --overwrite" in ran.stderr
    assert "'other.bin' is there already" in ran.stderr
    assert "'same.csv' is there" not in ran.stderr
    assert "'big.bin' is there" not in ran.stderr
    assert (belljar.directory / "setup.py").read_text() == "mine"
    assert (belljar.directory / "n.csv").exists()
    ran = belljar(*chat(belljar, house, code), "--yes", "--overwrite")
    assert ran.returncode == 0, ran.stderr
    assert "belljar: warning: setup.py: Python's tools run it" in ran.stderr
    assert (belljar.directory / "setup.py").read_text() == "new"


def test_an_archive_holds_nothing_that_runs_by_itself(belljar: Command, house: House) -> None:
    code = f"import os\nos.mkdir('.git')\n{made({'.git/config': 'x', 'sub.csv': 'y'})}"
    ran = belljar(*chat(belljar, house, code), "--yes", "--zip", "all.zip")
    assert ran.returncode == 1
    assert "'.git/config' is left out of all.zip: git runs commands" in ran.stderr
    with zipfile.ZipFile(belljar.directory / "all.zip") as archive:
        assert archive.namelist() == ["sub.csv"]
    ran = belljar(*chat(belljar, house, code), "--yes")
    assert ran.returncode == 1
    assert "'.git/config': git runs commands" in ran.stderr
    assert sorted(path.name for path in belljar.directory.iterdir()) == ["all.zip", "sub.csv"]


# -- names from a server ----------------------------------------------------------------------------------------------


class Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"data": [{"id": "good\\u001b[2J\\u202e\\nbelljar: error: run this"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


def test_names_of_models_are_shown_and_not_obeyed(belljar: Command) -> None:
    with HTTPServer(("127.0.0.1", 0), Models) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}/v1"
            belljar.environment["LM_STUDIO_BASE_URL"] = address
            ran = belljar("models")
        finally:
            server.shutdown()
            thread.join()
    assert r"good\x1b[2J\u202e\nbelljar: error: run this" in ran.stdout
    assert "\nbelljar" not in ran.stdout
