"""`belljar chat` and `belljar models`, as a person at a terminal meets them; the gateway is real."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.person import PATIENCE, Person, sitting
from tests.gateway.houses import House, Scene

from belljar.testing import call

MAKES = "```python\n_ = open('made.csv', 'w').write('a,b\\n1,2\\n')\n_ = open('note.txt', 'w').write('hi\\n')\n```"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("gateway") / "state") as house:
        yield house


@contextmanager
def chatting(belljar: Command, house: House, *args: str) -> Iterator[Person]:
    with sitting(belljar, "chat", "--url", house.base_url, *args) as person:
        yield person


def saved(belljar: Command) -> dict[str, str]:
    found = [one for one in belljar.directory.rglob("*") if one.is_file()]
    return {str(one.relative_to(belljar.directory)): one.read_text() for one in found}


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- what is shown ----------------------------------------------------------------------------------------------------


def test_code_output_and_answer_come_as_they_are_made(belljar: Command, house: House) -> None:
    """The cell never ends, so what is seen was seen while it ran."""
    code = "```python\nimport time\nprint('first line', flush=True)\ntime.sleep(600)\n```"
    with chatting(belljar, house, code) as person:
        person.wait_for("── output ──\nfirst line")
        assert person.seen.index("── code ──\nimport time") < person.seen.index("── output ──")
        person.type("\x03")
        assert person.end() == 130


@pytest.fixture(scope="module")
def _scene() -> Iterator[Scene]:
    scene = Scene()
    with scene.server:
        yield scene


@pytest.fixture(scope="module")
def modelled(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway with a model that says what a test wrote down, as slowly as that wants."""
    home = tmp_path_factory.mktemp("modelled")
    settings = home / "config.toml"
    settings.write_text(f'[upstreams.lab]\nbase_url = "{_scene.server.base_url}"\n')
    with House(home / "state", "--config", str(settings)) as house:
        yield house


@pytest.fixture
def scene(_scene: Scene) -> Scene:
    _scene.play()
    _scene.server.abandoned.clear()
    return _scene


def test_the_answer_is_shown_while_it_is_written(belljar: Command, modelled: House, scene: Scene) -> None:
    go_on = threading.Event()
    scene.play([call("code_interpreter", code="print(6 * 7)")], ["Forty-", go_on, "two."])
    with chatting(belljar, modelled, "6 * 7?", "--model", "sim") as person:
        person.wait_for("Forty-")
        assert "two." not in person.seen
        assert person.seen.index("print(6 * 7)") < person.seen.index("── output ──\n42") < person.seen.index("Forty-")
        go_on.set()
        assert person.end() == 0
        assert "Forty-two." in person.seen


def test_the_answer_alone_is_on_standard_output(belljar: Command, house: House) -> None:
    ran = belljar("chat", "--url", house.base_url, "```python\nprint('from the cell')\n```")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("The code ran")
    assert ran.stdout.endswith("\n")
    assert "── code ──\nprint('from the cell')\n── output ──\nfrom the cell\n" in ran.stderr


def test_a_message_that_is_no_text_is_told(belljar: Command, house: House) -> None:
    (belljar.directory / "bytes").write_bytes(b"\xff\xfe")
    with (
        (belljar.directory / "bytes").open("rb") as given,
        belljar.start("chat", "-", "--url", house.base_url, stdin=given) as process,
    ):
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, "")
    assert "message: standard input is not UTF-8 text" in err


def test_a_message_may_come_from_standard_input(belljar: Command, house: House) -> None:
    ran = belljar("chat", "-", "--url", house.base_url, text="print(6 * 7)")
    assert (ran.returncode, "42" in ran.stdout) == (0, True)


def test_a_file_is_there_for_the_code_and_gone_afterwards(belljar: Command, house: House) -> None:
    (belljar.directory / "data.csv").write_text("a,b\n1,2\n")
    ran = belljar("chat", "print(open('data.csv').read())", "--file", "data.csv", "--url", house.base_url)
    assert ran.returncode == 0, ran.stderr
    assert "a,b\n1,2" in ran.stdout
    with urllib.request.urlopen(f"{house.base_url}/files", timeout=30) as listed:
        assert "data.csv" not in [one["filename"] for one in json.load(listed)["data"]]


@pytest.mark.parametrize(
    ("code", "end", "remedy"),
    [
        ("print('before', flush=True)\n1/0", "ZeroDivisionError: division by zero\n", ""),
        ("print('before', flush=True)\nimport nowhere_to_be_found", "Name it in `requirements`, and call again.\n",
         "belljar: Tell the model to install it: it can name packages in its call.\n"),
        ("print('before', flush=True)\nraise MemoryError", "Work on smaller pieces.\n",
         "belljar: Ask for it in smaller pieces, or give it more: --memory TIER.\n"),
    ],
)  # fmt: skip
def test_how_code_ended_is_shown_after_what_it_printed(
    belljar: Command, house: House, code: str, end: str, remedy: str
) -> None:
    ran = belljar("chat", f"```python\n{code}\n```", "--url", house.base_url)
    assert ran.returncode == 1
    shown, _, after = ran.stderr.partition("── output ──\n")[2].partition("──\n")
    assert shown.startswith("before\nTraceback")
    assert shown.endswith(end)
    assert after == remedy


def test_more_memory_can_be_asked_for(belljar: Command, house: House) -> None:
    code = "import os; s = os.statvfs('.'); print(s.f_blocks * s.f_frsize >> 20)"
    for flags, mebibytes in (([], 512), (["--memory", "4g"], 2048)):
        ran = belljar("chat", code, "--url", house.base_url, *flags)
        assert (ran.returncode, f"{mebibytes}\n" in ran.stderr) == (0, True), ran.stderr


def test_the_address_that_a_gateway_shows_will_do(belljar: Command, house: House) -> None:
    assert belljar("chat", "6 * 7", "--url", house.url).returncode == 0


def test_a_large_file_is_sent_and_how_far_it_is_shown(belljar: Command, house: House) -> None:
    with (belljar.directory / "large.bin").open("wb") as large:
        large.truncate(101 << 20)
    with chatting(belljar, house, "import os; os.path.getsize('large.bin')", "--file", "large.bin") as person:
        assert person.end() == 0, person.seen
        assert "\r\x1b[Ksending large.bin: 100 % of 101.0 MB\r\x1b[K" in person.seen
        assert str(101 << 20) in person.seen


def test_a_file_that_the_gateway_does_not_take_is_told_once(belljar: Command, tmp_path: Path) -> None:
    (belljar.directory / "large.bin").write_bytes(bytes(2000))
    with House(tmp_path / "state", environment={"BELLJAR_LARGEST_UPLOAD": "1k"}) as small:
        ran = belljar("chat", "1 + 1", "--url", small.base_url, "--file", "large.bin")
    assert ran.returncode == 1
    assert ran.stderr.count("was not uploaded") == 1
    assert "belljar: large.bin was not uploaded: the gateway finds the file too large" in ran.stderr


def test_what_the_code_prints_cannot_drive_the_terminal(belljar: Command, house: House) -> None:
    with chatting(belljar, house, "print('\\x1b]0;title\\x07')") as person:
        assert person.end() == 0
        assert "\x1b]0;" not in person.seen
        assert "\\x1b]0;title" in person.seen


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_ctrl_c_stops_the_code_too(belljar: Command, house: House) -> None:
    (belljar.directory / "data.csv").write_text("a")
    code = "```python\nimport time\nprint('up', flush=True)\ntime.sleep(600)\n```"
    with belljar.start("chat", code, "--file", "data.csv", "--url", house.base_url, session=True) as process:
        assert process.stderr is not None
        shown = ""
        while not shown.endswith("up\n"):
            shown += process.stderr.read(1) or pytest.fail(shown)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "interrupted" in err
    deadline = time.monotonic() + PATIENCE
    while running(house):
        assert time.monotonic() < deadline, "the code runs on"
        time.sleep(0.05)
    with urllib.request.urlopen(f"{house.base_url}/files", timeout=30) as listed:
        assert json.load(listed)["data"] == []


def running(house: House) -> float:
    """Requests that the gateway is still answering, without the one that asks."""
    with urllib.request.urlopen(f"{house.url}/metrics", timeout=30) as answer:
        told = answer.read().decode()
    found = re.search(r"^belljar_http_requests_in_flight (\S+)$", told, re.M)
    assert found, told
    return float(found[1]) - 1


def test_ctrl_c_while_the_model_writes_hangs_up_on_it(belljar: Command, modelled: House, scene: Scene) -> None:
    scene.play(["Let me think", 600.0])
    with chatting(belljar, modelled, "x", "--model", "sim") as person:
        person.wait_for("Let me think").type("\x03")
        assert person.end() == 130
        assert "Traceback" not in person.seen
    assert scene.server.abandoned.wait(PATIENCE), "the model writes on"


@pytest.mark.parametrize("before", ["", "rename 1 other.csv\n", "select\n", "perhaps\n"])
def test_ctrl_c_at_the_question_saves_nothing(belljar: Command, house: House, before: str) -> None:
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?")
        if before:
            person.type(before).wait_for({"s": "Which numbers?", "r": "new: other.csv", "p": "answer yes"}[before[0]])
        person.type("\x03")
        assert person.end() == 130
        assert "Traceback" not in person.seen
    assert saved(belljar) == {}


# -- approval ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        ("yes\n", {"made.csv", "note.txt"}),
        ("no\n", set()),
        ("\x04", set()),
        ("select 2\n", {"note.txt"}),
        ("perhaps\n1\n", {"made.csv"}),
        ("rename 1 sub/other.csv\nyes\n", {"sub/other.csv", "note.txt"}),
        ("rename 1 ../out.csv\nyes\n", {"made.csv", "note.txt"}),
        ("select\n1,2\n", {"made.csv", "note.txt"}),
        ("select 3\nselect 1\n", {"made.csv"}),
        ("select\n\nno\n", set()),
        ("rename 9 a.csv\nrename 2 b.txt\nselect 2\n", {"b.txt"}),
        ("rename 1 note.txt\nno\n", set()),
        ("rename 1 note.txt\nyes\n", {"made.csv", "note.txt"}),
        ("rename 1 note.txt\nrename 2 other.txt\nrename 1 note.txt\nyes\n", {"note.txt", "other.txt"}),
        ("rename 1 note.txt/inside.csv\nyes\n", {"made.csv", "note.txt"}),
        ("rename 1 /tmp/out.csv\nselect 1\n", {"made.csv"}),
        ("rename 1 .git/config\nselect 1\n", {"made.csv"}),
        ("rename 1 sub/\nrename 1\nrename\nselect 1\n", {"made.csv"}),
        ("\n\nyes\n", {"made.csv", "note.txt"}),
        ("yes 1\nno 2\nselect 2\n", {"note.txt"}),
        ("select\n\n\n\x04", set()),
        ("\udcff\udcfe\n\n2\n", {"note.txt"}),
    ],
)
def test_only_what_is_agreed_to_is_saved(belljar: Command, house: House, answer: str, names: set[str]) -> None:
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project? [yes/no/select]")
        assert "1. made.csv (8 bytes, text/csv) - new: made.csv" in person.seen
        assert saved(belljar) == {}
        person.type(answer)
        assert person.end() == 0, person.seen
    assert set(saved(belljar)) == names


def test_a_name_that_a_directory_has_is_asked_for_again(belljar: Command, house: House) -> None:
    (belljar.directory / "folder").mkdir()
    (belljar.directory / "link.csv").symlink_to("/etc/passwd")
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?").type("rename 1 folder\n").wait_for("'folder' is no plain file")
        person.type("rename 1 link.csv\n").wait_for("'link.csv' is a link")
        person.type("rename 1 folder/made.csv\nselect 1\n")
        assert person.end() == 0, person.seen
    assert (belljar.directory / "folder/made.csv").read_text() == "a,b\n1,2\n"


def test_the_end_of_the_input_says_what_it_means(belljar: Command, house: House) -> None:
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?").type("\x04")
        assert person.end() == 0
        assert person.seen.endswith("\nnothing is saved\n")


def test_what_would_change_is_shown(belljar: Command, house: House) -> None:
    (belljar.directory / "made.csv").write_text("a,b\n9,2\n")
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?")
        assert "overwrites: made.csv" in person.seen
        assert "    -9,2\n    +1,2\n" in person.seen
        person.type("yes\n")
        assert person.end() == 0
        assert "overwrote" in person.seen
    assert saved(belljar)["made.csv"] == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("no\n", {"made.csv": "mine\n"}),
        ("\x04", {"made.csv": "mine\n"}),
        ("select 2\n", {"made.csv": "mine\n", "note.txt": "hi\n"}),
        ("select 1\n", {"made.csv": "a,b\n1,2\n"}),
        ("rename 1 new.csv\nselect 1\n", {"made.csv": "mine\n", "new.csv": "a,b\n1,2\n"}),
    ],
)
def test_what_is_there_stays_unless_that_is_agreed_to(
    belljar: Command, house: House, answer: str, left: dict[str, str]
) -> None:
    (belljar.directory / "made.csv").write_text("mine\n")
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?").type(answer)
        assert person.end() == 0, person.seen
    assert saved(belljar) == left


def test_a_new_name_is_looked_at_before_it_is_taken(belljar: Command, house: House) -> None:
    """Renamed onto another file, what would change there is shown before the question is put again."""
    (belljar.directory / "mine.csv").write_text("a,b\n7,7\n")
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?").type("rename 1 mine.csv\n").wait_for("    -7,7\n    +1,2\n")
        person.wait_for("- overwrites: mine.csv")
        assert saved(belljar) == {"mine.csv": "a,b\n7,7\n"}
        person.type("yes\n")
        assert person.end() == 0
    assert saved(belljar) == {"mine.csv": "a,b\n1,2\n", "note.txt": "hi\n"}


def test_a_long_difference_is_cut_short(belljar: Command, house: House) -> None:
    (belljar.directory / "made.csv").write_text("old\n" * 100)
    with chatting(belljar, house, MAKES) as person:
        person.wait_for("Save to project?")
        assert "lines more of made.csv" in person.seen
        assert person.seen.count("-old\n") < 41
        person.type("no\n")
        assert person.end() == 0


def test_all_files_as_one_archive(belljar: Command, house: House) -> None:
    with chatting(belljar, house, MAKES, "--zip", "all.zip") as person:
        person.wait_for("Save to project?")
        assert "application/zip) - new: all.zip" in person.seen
        assert "made.csv (" not in person.seen
        person.type("yes\n")
        assert person.end() == 0, person.seen
    with zipfile.ZipFile(belljar.directory / "all.zip") as archive:
        assert archive.read("made.csv") == b"a,b\n1,2\n"
        assert set(archive.namelist()) == {"made.csv", "note.txt"}


TWICE = (
    "```python\nimport os\nos.makedirs('a/deep'); os.mkdir('b')\n"
    "for at in ('a', 'b', 'a/deep'):\n    print(at, file=open(f'{at}/r.csv', 'w'))\n```"
)
"""Files of one name in several directories."""


def test_files_of_one_name_are_listed_and_saved_where_the_code_put_them(belljar: Command, house: House) -> None:
    with chatting(belljar, house, TWICE) as person:
        person.wait_for("Save to project?")
        for n, path in enumerate(("a/r.csv", "b/r.csv", "a/deep/r.csv"), 1):
            assert f"{n}. {path} ({len(path) - 5} bytes, text/csv) - new: {path}" in person.seen
        person.type("select 1 3\n")
        assert person.end() == 0, person.seen
    assert saved(belljar) == {"a/r.csv": "a\n", "a/deep/r.csv": "a/deep\n"}
    ran = belljar("chat", TWICE, "--yes", "--json", "--out", "out", "--url", house.base_url)
    assert ran.returncode == 0
    told = [(one["filename"], Path(one["saved"])) for one in lines(ran.stdout) if one["output"] == "file"]
    assert [name for name, _ in told] == ["a/r.csv", "b/r.csv", "a/deep/r.csv"]
    assert [path.read_text() for _, path in told] == ["a\n", "b\n", "a/deep\n"]
    assert [path.relative_to(belljar.directory / "out") for _, path in told] == [Path(name) for name, _ in told]


def test_files_of_one_name_are_in_the_archive_with_their_directories(belljar: Command, house: House) -> None:
    ran = belljar("chat", TWICE, "--yes", "--zip", "all.zip", "--url", house.base_url)
    assert ran.returncode == 0, ran.stderr
    with zipfile.ZipFile(belljar.directory / "all.zip") as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    assert found == {"a/r.csv": b"a\n", "b/r.csv": b"b\n", "a/deep/r.csv": b"a/deep\n"}


def test_a_link_among_the_directories_is_not_followed(
    belljar: Command, house: House, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (belljar.directory / "a").symlink_to(outside)
    ran = belljar("chat", TWICE, "--yes", "--url", house.base_url)
    assert ran.returncode == 1
    assert ran.stderr.count("'a' is a link or no directory; choose another place") == 2
    assert list(outside.iterdir()) == []
    assert (belljar.directory / "b" / "r.csv").read_text() == "b\n"


FIGURES = (
    "```python\nimport matplotlib.pyplot as plt\nfor n in range(2):\n    plt.figure(); plt.plot([n, 1])\n"
    "_ = open('figure-1.png', 'w').write('mine')\n```"
)


def test_figures_that_were_only_shown_are_saved_as_the_page_names_them(belljar: Command, house: House) -> None:
    (belljar.directory / "out").mkdir()
    (belljar.directory / "out" / "figure-2.png").write_text("there before")
    ran = belljar("chat", FIGURES, "--yes", "--json", "--out", "out", "--url", house.base_url)
    assert ran.returncode == 0
    told = [json.loads(line) for line in ran.stdout.splitlines()]
    names = [one["filename"] for one in told if one["output"] == "file"]
    assert sorted(names) == ["figure-1.png", "figure-3.png", "figure-4.png"]
    saved = {path.name: path.read_bytes()[:12] for path in (belljar.directory / "out").iterdir()}
    assert saved.pop("figure-1.png") == b"mine"
    assert saved.pop("figure-2.png") == b"there before"
    assert [saved[name][:4] for name in ("figure-3.png", "figure-4.png")] == [b"\x89PNG"] * 2
    assert len(saved) == 2
    ran = belljar("chat", FIGURES, "--yes", "--zip", "all.zip", "--url", house.base_url)
    assert ran.returncode == 0
    with zipfile.ZipFile(belljar.directory / "all.zip") as archive:
        assert sorted(archive.namelist()) == ["figure-1.png", "figure-2.png", "figure-3.png"]


def test_yes_saves_without_asking_into_the_directory_named(belljar: Command, house: House) -> None:
    ran = belljar("chat", MAKES, "--yes", "--out", "results/new", "--url", house.base_url)
    assert ran.returncode == 0, ran.stderr
    assert set(saved(belljar)) == {"results/new/made.csv", "results/new/note.txt"}


@pytest.mark.parametrize("flags", [[], ["--no-save"]])
def test_nobody_to_ask_means_no(belljar: Command, house: House, flags: list[str]) -> None:
    ran = belljar("chat", MAKES, "--url", house.base_url, *flags)
    assert ran.returncode == 0
    assert "1. made.csv" in ran.stderr
    assert ("--yes" in ran.stderr) == (not flags)
    assert saved(belljar) == {}


def test_a_link_in_the_way_is_not_followed(
    belljar: Command, house: House, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "mine.txt"
    outside.write_text("mine")
    (belljar.directory / "note.txt").symlink_to(outside)
    ran = belljar("chat", MAKES, "--yes", "--url", house.base_url)
    assert ran.returncode == 1
    assert "'note.txt' is a link" in ran.stderr
    assert outside.read_text() == "mine"
    assert (belljar.directory / "made.csv").exists()


# -- how it ends ------------------------------------------------------------------------------------------------------


def test_code_that_fails_ends_with_1(belljar: Command, house: House) -> None:
    ran = belljar("chat", "1/0", "--url", house.base_url)
    assert ran.returncode == 1
    assert "ZeroDivisionError" in ran.stdout


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--out", "a.csv"], "--out: 'a.csv' cannot be made: File exists"),
        (["--out", "a.csv/below"], "--out: 'a.csv/below' cannot be made: Not a directory"),
        (["--out", "/proc/no/such"], "--out: '/proc/no/such' cannot be made"),
        (["--out", "x" * 300], "cannot be made: File name too long"),
        (["--zip", "../out.zip"], "--zip: '../out.zip': it leads out"),
        (["--zip", "/tmp/out.zip"], "--zip: '/tmp/out.zip': it is not a path below"),
        (["--zip", ""], "--zip: '': it names no file"),
        (["--zip", "folder"], "--zip: 'folder' is no plain file"),
        (["--zip", ".git/config"], "--zip: '.git/config'"),
        (["--zip", "a.csv", "--yes"], "--zip: 'a.csv' is there already; to overwrite it: --overwrite"),
        (["--zip", "../out.zip", "--out", "new"], "--zip: '../out.zip': it leads out"),
    ],
)
def test_where_nothing_can_be_saved_the_model_is_not_asked(
    belljar: Command, modelled: House, scene: Scene, args: list[str], word: str
) -> None:
    (belljar.directory / "a.csv").write_text("a")
    (belljar.directory / "folder").mkdir()
    scene.play("Never.")
    ran = belljar("chat", "x", "--url", modelled.base_url, "--model", "sim", *args)
    assert (ran.returncode, ran.stdout) == (2, ""), ran.stderr
    assert word in ran.stderr
    assert (scene.asked, scene.left) == ([], 1)


def test_an_out_that_is_not_needed_is_not_made(belljar: Command, house: House) -> None:
    ran = belljar("chat", "1 + 1", "--url", house.base_url, "--out", "not/there/yet")
    assert (ran.returncode, (belljar.directory / "not").exists()) == (0, False)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["x", "--file", "missing.csv"], "missing.csv"),
        ([" "], "empty"),
        (["x", "--provider", "nobody"], "nobody"),
        (["x", "--key-file", "missing.key"], "missing.key"),
        (["x", "--key-file", "."], "--key-file: '.' cannot be read: Is a directory"),
        (["x", "--url", "localhost:8787/v1"], "--url: 'localhost:8787/v1' is not an address; write http://"),
        (["x", "--url", "http://[::1/v1"], "--url: 'http://[::1/v1' is not an address"),
        (["x", "--url", "http://host:none/v1"], "--url: 'http://host:none/v1' is not an address"),
        (["x", "--memory", "3g"], "--memory: invalid choice: '3g'"),
        (["x", "--provider", "gemini", "--memory", "4g"], "--memory: gemini has no such choice"),
        (["x", "--yes", "--no-save"], "not allowed"),
        (["x", "--overwrite"], "add --yes"),
        (["x", "--provider", "lm_studio", "--model", "m", "--file", "a.csv"], "Files API"),
    ],
)
def test_a_wrong_command_ends_with_2(belljar: Command, args: list[str], word: str) -> None:
    (belljar.directory / "a.csv").write_text("a")
    ran = belljar("chat", *args)
    assert ran.returncode == 2, ran.stderr
    assert word in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_gateway_no_key_end_with_3_and_the_remedy(belljar: Command) -> None:
    ran = belljar("chat", "x", "--url", "http://127.0.0.1:9/v1")
    assert (ran.returncode, "belljar serve" in ran.stderr) == (3, True)
    ran = belljar("chat", "x", "--provider", "openai")
    assert (ran.returncode, "OPENAI_API_KEY" in ran.stderr) == (3, True)


def test_a_gateway_with_keys(belljar: Command, tmp_path: Path) -> None:
    state = tmp_path / "keyed" / "state"
    with House(state) as house:
        key = house.keys("add", "me")["key"]
    with House(state) as house:
        assert belljar("chat", "x", "--url", house.base_url).returncode == 3
        (belljar.directory / "key").write_text(f"{key}\n")
        assert belljar("chat", "print(1)", "--url", house.base_url, "--key-file", "key").returncode == 0


# -- for programs -----------------------------------------------------------------------------------------------------


def test_json_lines(belljar: Command, house: House) -> None:
    ran = belljar("chat", f"{MAKES}\n```python\nprint('x')\n```", "--json", "--yes", "--url", house.base_url)
    assert ran.returncode == 0
    told = lines(ran.stdout)
    kinds = [one["output"] for one in told]
    assert kinds[0] == "code"
    assert {"output": "stdout", "text": "x\n"} in told
    assert "".join(one["text"] for one in told if one["output"] == "text").startswith("The code ran")
    files = {one["filename"]: one for one in told if one["output"] == "file"}
    assert (files["made.csv"]["size"], files["made.csv"]["mimeType"]) == (8, "text/csv")
    assert Path(files["made.csv"]["saved"]).read_text() == "a,b\n1,2\n"
    assert told[-1] == {"output": "exit", "exit_code": 0}


def test_json_saves_nothing_unasked(belljar: Command, house: House) -> None:
    told = lines(belljar("chat", MAKES, "--json", "--url", house.base_url).stdout)
    assert [one["saved"] for one in told if one["output"] == "file"] == [None, None]
    assert saved(belljar) == {}


def test_an_error_as_json(belljar: Command) -> None:
    ran = belljar("chat", "x", "--json", "--url", "http://127.0.0.1:9/v1")
    assert lines(ran.stdout)[-1]["code"] == "unreachable"


def test_a_reader_that_leaves_ends_it(belljar: Command, house: House) -> None:
    with belljar.start("chat", "print('x' * 10)", "--json", "--url", house.base_url) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=PATIENCE) == 141


def test_help_has_examples_and_codes(belljar: Command) -> None:
    ran = belljar("chat", "--help")
    assert ran.returncode == 0
    for word in ("examples:", "exit codes:", "--yes", "--no-save", "130"):
        assert word in ran.stdout


# -- belljar models ---------------------------------------------------------------------------------------------------


def test_models_says_what_is_usable_and_why_the_rest_is_not(belljar: Command, house: House) -> None:
    port = house.url.rpartition(":")[2]
    belljar.environment |= {"BELLJAR_PORT": port, "ANTHROPIC_API_KEY": "k"}
    ran = belljar("models", "--json")
    assert ran.returncode == 0, ran.stderr
    found = {one["provider"]: one for one in json.loads(ran.stdout)}
    assert (found["belljar"]["usable"], found["belljar"]["models"]) == (True, ["belljar"])
    assert found["anthropic"]["usable"]
    assert found["anthropic"]["models"][0].startswith("claude-")
    assert not found["openai"]["usable"]
    assert "OPENAI_API_KEY" in found["openai"]["why"]
    shown = belljar("models").stdout
    assert "✓ belljar" in shown
    assert "✗ openai" in shown


def test_models_without_a_gateway_says_how_to_start_one(belljar: Command) -> None:
    belljar.environment["BELLJAR_PORT"] = "9"
    assert "start one: belljar serve" in belljar("models").stdout
