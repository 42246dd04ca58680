"""The page at /, in a real browser: what people do there, what they see, and what is then on the server and on disk."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.gateway.browser import Browser, Tab
from tests.gateway.houses import House, Scene
from tests.helpers.ports import free_port
from tests.helpers.programs import needed

from belljar.testing import LoopbackUpstream, Reply, call

SECRET = "kept outside the project"
CURVE = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);"
PNG_TEXT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PNG = base64.b64decode(PNG_TEXT)
Open = Callable[..., Tab]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def home(_scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway with a project; `home.state.parent / "project"` is it."""
    there = tmp_path_factory.mktemp("page")
    project = there / "project"
    (project / "data" / "deep").mkdir(parents=True)
    (project / "a.csv").write_text("a,b\n1,2\n")
    (project / "data" / "zwölf 報告.csv").write_text("x\n12\n")
    (project / "data" / "deep" / "b.csv").write_text("y\n")
    (project / ".hidden").write_text("h")
    (there / "secret.txt").write_text(SECRET)
    (project / "link.txt").symlink_to(there / "secret.txt")
    (project / "out").symlink_to(there)
    flags = ("--project", str(project), "--upstream", f"loop={_scene.server.base_url}")
    origins = {
        "BELLJAR_ALLOWED_ORIGINS": "http://elsewhere"
    }  # without a key, it answers to no other name that leads here
    with House(there / "state", *flags, environment=origins, preload=True) as house:
        yield house


@pytest.fixture
def project(home: House) -> Path:
    return home.state.parent / "project"


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def opened(browser: Browser, downloads: Path) -> Iterator[Open]:
    """Opens a page; at the end, no page has called anybody but its own gateway or done what its policy forbids."""
    tabs: list[tuple[Tab, str]] = []

    def open(house: House, *, ready: bool = True, host: str = "127.0.0.1", **look: Any) -> Tab:
        tab = browser.tab(downloads, **look)
        url = house.url.replace("127.0.0.1", host)
        tabs.append((tab, url))
        tab.open(url)
        if ready:
            tab.wait("!document.querySelector('#model').disabled")
        return tab

    yield open
    for tab, url in tabs:
        strangers = [address for address in tab.addresses() if not address.startswith(f"{url}/")]
        assert (tab.troubles(), strangers) == ([], [])
        tab.close()


@pytest.fixture(scope="module")
def house_tab(browser: Browser, home: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One page for all tests that only call its modules."""
    tab = browser.tab(tmp_path_factory.mktemp("none"))
    tab.open(home.url)
    yield tab
    tab.close()


@pytest.fixture
def tab(opened: Open, home: House) -> Tab:
    return opened(home)


def ask(tab: Tab, text: str, model: str = "sim") -> None:
    """Type and press Enter."""
    tab.choose("#model", model)
    tab.click("#message")
    tab.type(text)
    tab.press("Enter")


def answered(tab: Tab, turns: int = 1) -> None:
    """Wait until the last answer is complete."""
    tab.wait(f"document.querySelectorAll('.turn').length === {turns} && !document.querySelector('#send').hidden")


def state(tab: Tab) -> str | None:
    """How the first cell is doing; None before there is one."""
    found: str | None = tab.run("document.querySelector('.cell')?.dataset.state")
    return found


def eventually(found: Callable[[], Any]) -> Any:
    """What is found once something is."""
    deadline = time.monotonic() + 30
    while not (there := found()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return there


def value(tab: Tab) -> str:
    """What is typed and not sent."""
    return str(tab.run("document.querySelector('#message').value"))


def retype(tab: Tab, selector: str, text: str) -> None:
    """Something else, in place of what is there."""
    tab.click(selector)
    tab.run(f"document.querySelector({json.dumps(selector)}).select()")
    tab.type(text)


def of(name: str) -> str:
    """A selector for what belongs to a file of this name."""
    return f"[data-name={json.dumps(name, ensure_ascii=False)}]"


def files_sent(scene: Scene) -> str:
    return json.dumps(scene.asked[-1].json["messages"], ensure_ascii=False)


# -- code and answers ------------------------------------------------------------------------------------------------


def test_code_output_and_answer_are_shown(tab: Tab, scene: Scene) -> None:
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"
    scene.play(["Let me see. ", call("code_interpreter", code=code)], "It is **42**, as `7` is.")
    ask(tab, "What is six times seven?")
    answered(tab)
    assert tab.texts(".bubble") == ["What is six times seven?"]
    assert tab.text(".cell code") == code
    assert sorted(tab.text(".output").split()) == ["42", "err", "out"]
    assert tab.text(".output .stderr").strip() == "err"
    assert state(tab) == "ok"
    assert re.search(r"Finished in \d", tab.text(".cell .state"))
    assert tab.texts(".markdown") == ["Let me see.", "It is 42, as 7 is."]
    assert tab.texts(".markdown strong") == ["42"]


def test_everything_is_shown_while_it_happens(tab: Tab, scene: Scene) -> None:
    spoken, written = threading.Event(), threading.Event()
    code = "import time\nprint('on', flush=True)\ntime.sleep(600)"
    scene.play(["Well, ", spoken, "now: ", written, call("code_interpreter", code=code)])
    ask(tab, "Go")
    tab.see("Well,", ".markdown")
    assert "now" not in tab.text(".markdown")
    spoken.set()
    tab.see("now:", ".markdown")
    assert state(tab) is None
    written.set()
    tab.see("on", ".output")
    assert state(tab) == "running"
    tab.press("Escape")
    tab.see("Stopped.", ".trouble")
    answered(tab)
    assert state(tab) == "stopped"
    assert "on" in tab.text(".output")


def test_what_was_stopped_can_be_gone_on_with(tab: Tab, scene: Scene) -> None:
    ask(tab, "x = 20\nprint(x, flush=True)", "belljar")
    answered(tab)
    ask(tab, "import time\nprint('begun', flush=True)\ntime.sleep(600)", "belljar")
    tab.see("begun", ".turn:last-child .output")
    tab.click("#stop")
    tab.see("Stopped.", ".turn:last-child .trouble")
    ask(tab, "open('made.txt', 'w').write('still here')", "belljar")
    answered(tab, 3)
    tab.see("made.txt", ".turn:last-child .files")


def test_an_error_in_the_code(tab: Tab, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="1 / 0")], "That failed.")
    ask(tab, "Divide")
    answered(tab)
    assert state(tab) == "failed"
    assert "ZeroDivisionError" in tab.text(".output")
    assert "Raised an error" in tab.text(".cell .state")


def test_code_that_is_stopped_by_a_limit_says_which(tab: Tab, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="x = bytearray(3 << 30)\nx[:] = b'x' * len(x)")], "Too much.")
    ask(tab, "Fill it")
    answered(tab)
    assert state(tab) == "failed"
    assert "memory" in tab.text(".cell").lower()
    note = tab.text(".cell .notes")
    assert note.endswith("Ask for it in smaller pieces.")
    assert "memory_limit" not in note


def test_plots_are_shown_in_their_place(tab: Tab, scene: Scene) -> None:
    scene.play([call("code_interpreter", code=CURVE)], "There.")
    ask(tab, "Draw")
    answered(tab)
    tab.wait("document.querySelector('.cell figure img').naturalWidth > 100")
    tab.see("figure-1.png", ".files")


def test_progress_bars_overwrite_their_line(tab: Tab) -> None:
    code = (
        "import sys\nfor n in range(3):\n    sys.stdout.write(f'\\r\\x1b[32m{n} of 2\\x1b[0m')\nprint()\nprint('end')"
    )
    ask(tab, code, "belljar")
    answered(tab)
    assert tab.text(".output").split("\n")[:2] == ["2 of 2", "end"]


# -- going on ---------------------------------------------------------------------------------------------------------


def test_a_chat_goes_on_and_a_reload_keeps_it(tab: Tab) -> None:
    ask(tab, f"{CURVE}\nx = 41\nopen('x.txt', 'w').write('x')", "belljar")
    answered(tab)
    tab.see("x.txt", ".files")
    before = tab.texts(".turn")
    tab.reload()
    tab.see("x.txt", ".files")
    tab.wait("document.querySelector('.cell figure img')?.naturalWidth > 100")
    assert tab.texts(".turn") == before
    ask(tab, "x + 1", "belljar")
    answered(tab, 2)
    assert tab.text(".turn:last-child .output").strip() == "42"


def test_a_reload_does_not_stop_what_runs(tab: Tab, scene: Scene) -> None:
    go_on = threading.Event()
    scene.play([call("code_interpreter", code="print('once')")], ["It ", go_on, "goes on."])
    ask(tab, "Go")
    tab.see("It", ".markdown")
    tab.reload()
    tab.see("It", ".markdown")
    assert tab.shows("#stop")
    go_on.set()
    answered(tab)
    assert tab.texts(".markdown") == ["It goes on."]
    assert tab.text(".output").strip() == "once"


def test_the_link_to_the_message_leads_there_and_leaves_the_chat(tab: Tab) -> None:
    ask(tab, "x = 40", "belljar")
    answered(tab)
    chat, turns = tab.run("location.hash"), tab.texts(".turn")
    tab.run("document.getElementById('skip').focus()")
    tab.press("Enter")
    tab.wait("document.activeElement.id === 'message'")
    assert (tab.run("location.hash"), tab.texts(".turn")) == (chat, turns)


def test_chats_are_listed_and_can_be_deleted(tab: Tab, scene: Scene, home: House) -> None:
    scene.play("First.", "Second.")
    ask(tab, "The first chat")
    answered(tab)
    id = tab.run("JSON.parse(localStorage['belljar.chats'])[0].turns[0]")
    tab.click("#new")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    assert tab.shows("#welcome")
    ask(tab, "The second chat")
    answered(tab)
    assert tab.texts("#chats li") == ["The second chat", "The first chat"]
    tab.click("#chats a", "The first chat")
    tab.see("First.", "#thread")
    assert tab.texts(".bubble") == ["The first chat"]
    tab.run("document.querySelector('#chats li:has([aria-current]) button').focus()")
    tab.press("Enter")
    tab.click("dialog button.primary", "Delete")
    tab.wait("document.querySelectorAll('#chats li').length === 1")
    tab.wait("document.querySelector('#thread').innerText === ''")
    eventually(lambda: httpx2.get(f"{home.base_url}/responses/{id}").status_code == 404)


def test_keys(tab: Tab, scene: Scene) -> None:
    scene.play("Yes.")
    tab.click("#message")
    tab.type("one")
    tab.press("Enter", shift=True)
    tab.type("two")
    assert value(tab) == "one\ntwo"
    assert tab.texts(".turn") == []
    tab.choose("#model", "sim")
    tab.press("Enter")
    answered(tab)
    assert tab.texts(".bubble") == ["one\ntwo"]
    assert tab.run("document.activeElement.id") == "message"


# -- files in ---------------------------------------------------------------------------------------------------------


def test_files_are_picked_dropped_and_pasted(tab: Tab, scene: Scene, tmp_path: Path) -> None:
    names = ["zwölf.csv", "報告 1.xlsx", 'a "b" %41.txt']
    for name in names:
        (tmp_path / name).write_text(name)
    scene.play([call("code_interpreter", code="import os; print(*sorted(os.listdir()), sep='\\n')")], "Seen.")
    tab.pick("#picker", [tmp_path / names[0], tmp_path / names[1]])
    tab.drop([tmp_path / names[2]])
    tab.click("#message")
    tab.run(
        "(() => { const data = new DataTransfer(); data.items.add(new File(['p'], 'pasted.txt'));"
        "document.activeElement.dispatchEvent(new ClipboardEvent('paste', {clipboardData: data, bubbles: true})) })()"
    )
    tab.wait("document.querySelectorAll('.chip[data-state=ready]').length === 4")
    assert sorted(tab.texts(".chip .name")) == sorted([*names, "pasted.txt"])
    ask(tab, "Read them")
    answered(tab)
    assert tab.text(".output").strip().split("\n") == sorted([*names, "pasted.txt"])
    assert sorted(tab.texts(".asked .name")) == sorted([*names, "pasted.txt"])
    told = files_sent(scene)
    assert all(json.dumps(name, ensure_ascii=False)[1:-1] in told.replace("\\\\", "\\") for name in names[:2])
    tab.reload()
    tab.see("Seen.")
    assert sorted(tab.texts(".asked .name")) == sorted([*names, "pasted.txt"])


def shown(scene: Scene, turn: int = -1) -> list[str]:
    """The pictures that the model was given, as data URLs."""
    contents = [message["content"] for message in scene.asked[turn].json["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_pictures_are_shown_to_a_model_that_sees_and_code_has_them_too(tab: Tab, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "dot.PNG").write_bytes(PNG)
    (tmp_path / "drawn.svg").write_text("<svg/>")
    (tmp_path / "vast.png").write_bytes(PNG.ljust((5 << 20) + 1, b"\0"))
    tab.pick("#picker", [tmp_path / "dot.PNG", tmp_path / "drawn.svg", tmp_path / "vast.png"])
    tab.wait("document.querySelectorAll('.chip[data-state=ready]').length === 3")
    scene.play([call("code_interpreter", code="import os; print(*sorted(os.listdir()))")], "A dot.", "As I said.")
    ask(tab, "What is this?", model="llava")
    answered(tab)
    assert tab.text(".output").strip() == "dot.PNG drawn.svg vast.png"
    assert [shown(scene, turn) for turn in (0, 1)] == [[f"data:image/png;base64,{PNG_TEXT}"]] * 2
    assert "[The file 'dot.PNG' is at /mnt/data/dot.PNG]" in files_sent(scene)
    tab.reload()
    tab.see("A dot.")
    assert sorted(tab.texts(".asked .name")) == ["dot.PNG", "drawn.svg", "vast.png"]
    ask(tab, "Sure?", model="llava")
    answered(tab, 2)
    assert len(shown(scene)) == 1


def test_a_picture_is_told_of_where_the_model_does_not_see(tab: Tab, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PNG)
    tab.pick("#picker", [tmp_path / "dot.png"])
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    refused = Reply(status=400, body=b'{"error": {"message": "llava: image input is not enabled"}}')
    scene.play(refused, [call("code_interpreter", code="1 + 1")], "It is small.", "Still small.")
    ask(tab, "How large is it?", model="llava")
    answered(tab)
    assert tab.texts(".markdown") == ["It is small."]
    assert [len(shown(scene, turn)) for turn in range(3)] == [1, 0, 0]
    assert "'dot.png' cannot be shown to you as a picture; code can open it" in files_sent(scene)
    ask(tab, "And now?", model="sim")
    answered(tab, 2)
    assert tab.texts(".markdown") == ["It is small.", "Still small."]
    assert (len(scene.asked), shown(scene)) == (4, [])
    assert "'dot.png' cannot be shown to you" in files_sent(scene)


def test_large_files_are_asked_about_and_too_large_ones_never_sent(tab: Tab, tmp_path: Path) -> None:
    for name, size in (("large.bin", 101 << 20), ("huge.bin", 513 << 20)):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, size)
    tab.pick("#picker", [tmp_path / "large.bin", tmp_path / "huge.bin"])
    tab.see("513 MB is more than the 512 MB that this gateway takes", ".chip[data-state=refused]")
    tab.see("101 MB is large", ".chip[data-state=large]")
    tab.click("#message")
    tab.type("Read them")
    tab.press("Enter")
    tab.see("large.bin was not sent", "#notice")
    assert not [address for address in tab.addresses() if address.endswith("/v1/files")]
    tab.click(f".chip{of('large.bin')} .act button", "Send it")
    tab.wait("document.querySelector('.chip[data-state=ready]')?.innerText.includes('101 MB')")
    tab.click(f".chip{of('huge.bin')} > button")
    tab.wait("document.querySelectorAll('.chip').length === 1")
    assert value(tab) == "Read them"


def test_files_of_the_project_are_browsed_and_chosen(tab: Tab, scene: Scene) -> None:
    scene.play([call("code_interpreter", code="import os; print(*sorted(os.listdir()), sep='\\n')")], "Seen.")
    tab.click("#project")
    tab.see("a.csv", ".entries")
    names = set(tab.texts(".entries .name"))
    assert tab.texts(".entries .folder")[0] == "data"
    assert not names & {".hidden", "link.txt", "out"}
    tab.click("#hidden")
    tab.see(".hidden", ".entries")
    assert set(tab.texts(".entries .name")) == names | {".hidden"}
    assert "out" not in tab.texts(".entries .folder")
    tab.click(f".entries {of('a.csv')} label")
    tab.click(".entries .folder", "data")
    tab.click(f".entries {of('zwölf 報告.csv')} label")
    tab.click(".crumbs button", "project")
    tab.see("a.csv", ".entries")
    assert tab.run(f"document.querySelector(`.entries {of('a.csv')} input`).checked")
    tab.click("dialog button.primary", "Attach 2 files")
    tab.wait("document.querySelectorAll('.chip[data-state=ready]').length === 2")
    ask(tab, "Read them")
    answered(tab)
    assert tab.text(".output").strip().split("\n") == ["a.csv", "zwölf 報告.csv"]


# -- files out --------------------------------------------------------------------------------------------------------


def fetched(downloads: Path, name: str) -> bytes:
    """A file that the browser has downloaded, whole."""
    path = downloads / name
    deadline = time.monotonic() + 30
    while not path.exists() or list(downloads.glob("*.crdownload")):
        assert time.monotonic() < deadline, list(downloads.iterdir())
        time.sleep(0.02)
    return path.read_bytes()


def test_files_have_a_name_a_size_a_type_and_can_be_downloaded(tab: Tab, downloads: Path) -> None:
    ask(tab, "open('報告 1.bin', 'wb').write(bytes(range(256)) * 8)\nopen('t.csv', 'w').write('a,b\\n')", "belljar")
    answered(tab)
    tab.see("報告 1.bin", ".files")
    assert tab.text(f".files {of('報告 1.bin')}").split("\n") == [
        "報告 1.bin",
        "2.0 KB · application/octet-stream",
    ]
    assert tab.text(f".files {of('t.csv')}").split("\n") == ["t.csv", "4 bytes · text/csv"]
    tab.click('.files button[aria-label="Download 報告 1.bin"]')
    assert fetched(downloads, "報告 1.bin") == bytes(range(256)) * 8
    tab.click(".files .all button", "Download all")
    fetched(downloads, "files.zip")
    with zipfile.ZipFile(downloads / "files.zip") as archive:
        assert archive.testzip() is None
        assert {one: archive.read(one)[:4] for one in archive.namelist()} == {
            "報告 1.bin": b"\0\1\2\3", "t.csv": b"a,b\n",
        }  # fmt: skip


def test_links_into_the_sandbox_download(tab: Tab, scene: Scene, downloads: Path) -> None:
    code = "open('my report (1).txt', 'w').write('told')"
    scene.play([call("code_interpreter", code=code)], "See [the report](sandbox:/mnt/data/my report (1).txt).")
    ask(tab, "Write")
    answered(tab)
    assert tab.text(".markdown") == "See the report."
    tab.click(".markdown .link", "the report")
    assert fetched(downloads, "my report (1).txt") == b"told"


def test_nothing_is_saved_to_the_project_before_it_is_approved(tab: Tab, project: Path) -> None:
    (project / "old.txt").write_text("one\ntwo\n")
    ask(tab, "open('old.txt', 'w').write('one\\n2\\n')\nopen('fresh.txt', 'w').write('new')", "belljar")
    answered(tab)
    tab.click(".files .all button", "Save all to project")
    tab.see("Nothing is written", "dialog")
    row = f".proposals {of('old.txt')}"
    assert tab.text(f"{row} .badge") == "overwrites"
    assert "-two\n+2" in tab.text(f"{row} .diff")
    assert tab.text(f".proposals {of('fresh.txt')} .badge") == "new"
    assert ((project / "old.txt").read_text(), (project / "fresh.txt").exists()) == ("one\ntwo\n", False)
    tab.click("dialog button", "Don’t save")
    tab.wait("!document.querySelector('dialog')")
    assert ((project / "old.txt").read_text(), (project / "fresh.txt").exists()) == ("one\ntwo\n", False)

    tab.click(".files .all button", "Save all to project")
    tab.click(f"{row} input[type=checkbox]")
    tab.click("dialog button", "Save 1 file")
    tab.see("Saved 1 file", "dialog")
    assert ((project / "old.txt").read_text(), (project / "fresh.txt").read_text()) == ("one\ntwo\n", "new")
    tab.click("dialog button", "Close")


def test_what_runs_by_itself_cannot_be_saved_and_names_are_what_they_seem(tab: Tab, project: Path) -> None:
    (project / "setup.py").write_text("mine\n")
    code = (
        "import os\nos.mkdir('.git')\nfor name in ('.git/config', 'setup.py', 'c\\u202evsc.txt'):\n"
        "    _ = open(name, 'w').write('new\\u202e\\r-mine\\n')"
    )
    ask(tab, code, "belljar")
    answered(tab)
    tab.see("git runs commands", ".files .warning")
    tab.click(".files .all button", "Save all to project")
    tab.see("Nothing is written", "dialog")
    row = f".proposals {of('.git/config')}"
    assert tab.text(f"{row} .badge") == "not here"
    assert tab.run(f"document.querySelector({json.dumps(row + ' input')}).disabled")
    row = f".proposals {of('setup.py')}"
    assert tab.text(f"{row} .badge") == "overwrites"
    assert "Python" in tab.text(f"{row} .warning")
    assert tab.text(f"{row} .diff").splitlines()[-2:] == ["-mine", r"+new\u202e\r-mine"]
    assert r"c\u202evsc.txt" in tab.text(".proposals")
    assert not set(tab.text("dialog") + tab.text(".files")) & {"\u202e", "\r"}
    tab.click("dialog button", "Save 1 file")
    tab.see("Saved 1 file", "dialog")
    tab.click("dialog button", "Close")
    assert (project / "setup.py").read_bytes().decode() == "new\u202e\r-mine\n"
    assert not (project / ".git").exists()


def test_a_file_is_saved_under_another_name_but_not_elsewhere(tab: Tab, project: Path) -> None:
    ask(tab, "open('plan.txt', 'w').write('the plan')", "belljar")
    answered(tab)
    tab.click('.files button[aria-label="Save plan.txt to the project"]')
    for place, seen in (
        ("../plan.txt", "leads out of the project"),
        ("link.txt", "is a link"),
        ("out/plan.txt", "'out' is a link"),
    ):
        retype(tab, ".place", place)
        tab.press("Enter")
        tab.see(seen, ".proposals .error")
        assert tab.run("document.querySelector('dialog .primary').disabled")
    retype(tab, ".place", "notes/計画.txt")
    tab.press("Enter")
    tab.wait("document.querySelector('.badge').innerText === 'new'")
    tab.click("dialog button", "Save 1 file")
    tab.see("notes/計画.txt", "dialog .saved")
    assert (project / "notes" / "計画.txt").read_text() == "the plan"
    assert not (project.parent / "plan.txt").exists()


def test_a_place_named_while_the_one_before_is_looked_at_is_looked_at_too(tab: Tab, project: Path) -> None:
    ask(tab, "open('slow.txt', 'w').write('late')", "belljar")
    answered(tab)
    tab.click('.files button[aria-label="Save slow.txt to the project"]')
    tab.see("new", ".proposals .badge")
    tab.hold("propose$")
    retype(tab, ".place", "link.txt")
    tab.press("Enter")
    tab.held(1)
    retype(tab, ".place", "second.txt")
    tab.let_go(0)
    assert tab.run("document.querySelector('dialog .primary').disabled")
    tab.press("Enter")
    tab.held(2)
    tab.let_go(1)
    tab.wait("!document.querySelector('dialog .primary').disabled")
    assert tab.text(".proposals .badge") == "new"
    tab.click("dialog button", "Save 1 file")
    tab.see("second.txt", "dialog .saved")
    assert (project / "second.txt").read_text() == "late"


def test_what_changed_since_it_was_shown_is_asked_about_again(tab: Tab, project: Path) -> None:
    ask(tab, "open('late.txt', 'w').write('mine')", "belljar")
    answered(tab)
    tab.click('.files button[aria-label="Save late.txt to the project"]')
    tab.see("new", ".proposals")
    (project / "late.txt").write_text("somebody else's")
    tab.click("dialog button", "Save 1 file")
    tab.see("has changed since you were asked", "dialog")
    tab.wait("document.querySelector('.badge').innerText === 'overwrites'")
    assert (project / "late.txt").read_text() == "somebody else's"
    tab.click("dialog button", "Save 1 file")
    tab.see("overwritten", "dialog .saved")
    assert (project / "late.txt").read_text() == "mine"


# -- answers that come late -------------------------------------------------------------------------------------------


def proposed(tab: Tab, name: str) -> str:
    """Have code make a file; a selector for the button that saves it to the project."""
    ask(tab, f"open({name!r}, 'w').write('made')", "belljar")
    answered(tab)
    tab.see(name, ".files")
    return f'.files button[aria-label="Save {name} to the project"]'


def test_the_folder_that_was_opened_last_is_shown(tab: Tab) -> None:
    tab.click("#project")
    tab.see("a.csv", ".entries")
    tab.hold(r"belljar/project\?")
    tab.click(".entries .folder", "data")
    tab.held(1)
    tab.click(".crumbs button", "project")
    tab.held(2)
    tab.let_go(1)
    tab.let_go(0)
    assert tab.texts(".crumbs button") == ["project"]
    assert "a.csv" in tab.texts(".entries .name")
    tab.click(".entries .folder", "data")
    tab.held(3)
    tab.click("#hidden")
    tab.held(4)
    tab.let_go(3)
    tab.let_go(2, lost=True)
    assert tab.texts(".crumbs button") == ["project", "data"]
    assert tab.texts(".entries .name") == ["zwölf 報告.csv"]
    assert tab.text("dialog .hint[role=status]") == ""


def test_a_folder_that_cannot_be_opened_leaves_the_one_that_is_shown(tab: Tab) -> None:
    tab.click("#project")
    tab.see("a.csv", ".entries")
    tab.hold(r"belljar/project\?")
    tab.click(".entries .folder", "data")
    tab.held(1)
    tab.let_go(0, lost=True)
    assert "does not answer" in tab.text("dialog .hint[role=status]")
    tab.click("#hidden")
    tab.held(2)
    tab.let_go(1)
    assert tab.texts(".crumbs button") == ["project"]
    assert ".hidden" in tab.texts(".entries .name")


def test_a_save_is_asked_about_once_and_not_after_it_was_closed(tab: Tab) -> None:
    save = proposed(tab, "once.txt")
    tab.hold("propose$")
    tab.click(save)
    tab.held(1)
    tab.click(save)
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")
    tab.let_go(0)
    assert not tab.shows("dialog")
    tab.click(save)
    tab.held(2)
    tab.let_go(1)
    assert tab.texts(".proposals .name") == ["once.txt"]
    assert tab.run("held.length") == 2


def test_a_save_under_way_is_neither_changed_nor_made_twice(tab: Tab, project: Path) -> None:
    tab.click(proposed(tab, "twice.txt"))
    tab.see("new", ".proposals .badge")
    tab.hold("save$", sent=False)
    tab.click("dialog button", "Save 1 file")
    tab.held(1)
    for _ in range(2):
        tab.click(".proposals input[type=checkbox]")
    tab.click("dialog .primary")
    assert tab.run("held.length") == 1
    tab.click("dialog button", "Don’t save")
    tab.press("Escape")
    assert tab.shows("dialog .proposals")
    tab.let_go(0)
    tab.see("twice.txt", "dialog .saved")
    assert (project / "twice.txt").read_text() == "made"


def test_a_file_that_is_not_wanted_stays_so_when_its_place_was_looked_at(tab: Tab) -> None:
    tab.click(proposed(tab, "unwanted.txt"))
    tab.see("new", ".proposals .badge")
    tab.hold("propose$")
    retype(tab, ".place", "elsewhere.txt")
    tab.press("Enter")
    tab.held(1)
    tab.click(".proposals input[type=checkbox]")
    tab.held(2)  # the field was left
    tab.let_go(0)
    tab.let_go(1)
    assert not tab.run("document.querySelector('.proposals input[type=checkbox]').checked")
    assert tab.run("document.querySelector('dialog .primary').disabled")
    tab.click(".proposals input[type=checkbox]")
    assert tab.text("dialog .primary") == "Save 1 file"


def test_what_went_wrong_about_a_place_that_is_no_longer_named_is_not_told(tab: Tab) -> None:
    tab.click(proposed(tab, "named.txt"))
    tab.see("new", ".proposals .badge")
    tab.hold("propose$")
    for number, place in enumerate(("first.txt", "other.txt"), 1):
        retype(tab, ".place", place)
        tab.press("Enter")
        tab.held(number)
    tab.let_go(1)
    tab.let_go(0, lost=True)
    assert not tab.shows("dialog > .error")
    assert not tab.run("document.querySelector('dialog .primary').disabled")


def test_what_is_typed_before_the_page_is_ready_stays(tab: Tab, scene: Scene) -> None:
    tab.click("#message")
    tab.type("Kept, ")
    tab.hold("v1/models$", reloads=True)
    tab.reload()
    tab.held(1)
    tab.click("#new")
    tab.click("#message")
    tab.run("document.activeElement.setSelectionRange(99, 99)")
    tab.type("and more.")
    tab.press("Enter")
    assert tab.texts(".turn") == []
    tab.let_go(0)
    tab.wait("!document.querySelector('#model').disabled")
    assert value(tab) == "Kept, and more."
    scene.play("Sent.")
    ask(tab, "")
    answered(tab)
    assert tab.texts(".bubble") == ["Kept, and more."]


def test_whoever_goes_to_a_chat_before_the_page_is_ready_finds_its_draft(tab: Tab, scene: Scene) -> None:
    scene.play("One.")
    ask(tab, "First")
    answered(tab)
    tab.type("of the first")
    tab.click("#new")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    tab.hold("v1/models$", reloads=True)
    tab.reload()
    tab.held(1)
    tab.click("#message")
    tab.type("of a new one")
    tab.click("#chats a", "First")
    tab.wait("document.querySelector('#message').value === 'of the first'")
    tab.let_go(0)
    tab.see("One.", "#thread")
    assert value(tab) == "of the first"
    tab.click("#new")
    tab.wait("document.querySelector('#message').value === 'of a new one'")


def test_what_is_attached_before_the_page_is_ready_stays_and_hides_nothing(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "early.csv").write_text("e")
    tab.hold("v1/models$", reloads=True)
    tab.reload()
    tab.held(1)
    tab.let_go(0, lost=True)
    tab.see("The gateway does not answer", "#notice")
    tab.pick("#picker", [tmp_path / "early.csv"])
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    tab.click("#notice button", "Try again")
    tab.held(2)
    tab.let_go(1)
    tab.wait("!document.querySelector('#model').disabled")
    assert tab.texts(".chip .name") == ["early.csv"]
    assert not tab.shows("#notice")


def test_nothing_is_sent_into_a_chat_before_it_is_shown(tab: Tab, scene: Scene) -> None:
    scene.play("One.", "Two.")
    ask(tab, "First")
    answered(tab)
    tab.hold("v1/responses/", reloads=True)
    tab.reload()
    tab.held(2)
    ask(tab, "Second")
    assert (tab.texts(".turn"), value(tab)) == ([], "Second")
    assert tab.run("document.querySelector('#send').disabled")
    tab.let_go(0)
    tab.let_go(1)
    tab.see("One.", "#thread")
    tab.press("Enter")
    answered(tab, 2)
    assert tab.texts(".bubble") == ["First", "Second"]
    assert tab.texts(".markdown") == ["One.", "Two."]


def test_a_chat_that_is_left_at_once_has_its_answer(tab: Tab, scene: Scene) -> None:
    scene.play("Here it is.")
    tab.hold("v1/responses$")
    ask(tab, "Go")
    tab.held(1)
    tab.click("#new")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    tab.let_go(0)
    tab.wait("typeof JSON.parse(localStorage['belljar.chats'])[0].turns[0] === 'string'")
    assert tab.shows("#welcome")
    tab.click("#chats a", "Go")
    tab.see("Here it is.", "#thread")
    assert tab.texts(".trouble") == [""]


def test_a_chat_that_is_come_back_to_shows_the_answer_that_was_under_way(tab: Tab, scene: Scene) -> None:
    scene.play("Here it is.")
    tab.hold("v1/responses$")
    ask(tab, "Go")
    tab.held(1)
    tab.click("#new")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    tab.click("#chats a", "Go")
    tab.see("Go", "#thread")
    tab.click("#message")
    tab.type("Then")
    tab.let_go(0)
    tab.see("Here it is.", "#thread")
    answered(tab)
    assert (tab.texts(".trouble"), value(tab)) == ([""], "Then")


@pytest.mark.parametrize("early", [False, True])
def test_a_chat_is_deleted_with_the_answer_that_is_just_begun(tab: Tab, scene: Scene, home: House, early: bool) -> None:
    scene.play(["Well, ", threading.Event()])
    tab.hold("v1/responses$")
    ask(tab, "Go")
    tab.held(1)
    tab.run("document.querySelector('#chats li button').focus()")
    tab.press("Enter")
    tab.see("Delete this chat?", "dialog")
    if not early:
        tab.let_go(0)
        tab.see("Well,", ".markdown")
    tab.click("dialog button.primary", "Delete")
    tab.wait("document.querySelectorAll('#chats li').length === 0")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    if early:
        tab.let_go(0)
    deleted = eventually(lambda: [url for url in tab.addresses() if "/v1/responses/resp" in url])
    eventually(lambda: httpx2.get(deleted[-1].split("?")[0]).status_code == 404)
    assert tab.run("localStorage['belljar.chats']") == "[]"


def test_stopping_before_it_has_begun_waits_until_it_is_stopped(tab: Tab, scene: Scene) -> None:
    scene.play(["Well, ", threading.Event()])
    tab.run(
        "window.later = setTimeout; window.rings = [];"
        "window.setTimeout = (act, pause) => pause === 3000 ? rings.push(act) : later(act, pause); 0"
    )
    tab.hold("v1/responses(/[^/]+/cancel)?$", sent=False)
    ask(tab, "Go")
    tab.held(1)
    tab.press("Escape")
    tab.wait("rings.length === 1")
    tab.let_go(0)
    tab.held(2)
    tab.run("rings[0](); 0")
    tab.let_go(1)
    tab.see("Stopped.", ".trouble")
    answered(tab)


def test_what_could_not_be_stopped_is_not_taken_for_ended(tab: Tab, scene: Scene) -> None:
    go_on = threading.Event()
    scene.play(["Well, ", go_on, "there."])
    tab.hold("cancel$", sent=False)
    ask(tab, "Go")
    tab.see("Well,", ".markdown")
    tab.press("Escape")
    tab.held(1)
    tab.let_go(0, lost=True)
    tab.see("It could not be stopped.", ".trouble .error")
    tab.click(".trouble button", "Look again")
    go_on.set()
    tab.see("Well, there.", ".markdown")
    answered(tab)
    assert tab.texts(".trouble") == [""]


def test_a_file_that_is_not_there_leaves_what_can_be_done_about_the_answer(tab: Tab, scene: Scene) -> None:
    scene.play(["See [it](sandbox:/mnt/data/none.txt). ", threading.Event()])
    ask(tab, "Go")
    tab.see("See it", ".markdown")
    tab.press("Escape")
    tab.see("Stopped.", ".trouble")
    tab.click(".markdown .link", "it")
    tab.see("There is no file none.txt", ".turn .error")
    assert tab.texts(".trouble button") == ["Try again", "Change it"]


def test_a_file_on_its_way_stays_when_a_message_is_put_beside_it(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "slow.csv").write_text("s")
    tab.run(
        "window.ways = []; const direct = XMLHttpRequest.prototype.send;"
        "XMLHttpRequest.prototype.send = function (form) { ways.push(() => direct.call(this, form)) }; 0"
    )
    tab.pick("#picker", [tmp_path / "slow.csv"])
    tab.wait("ways.length === 1")
    tab.click("#samples button")
    assert value(tab)
    assert tab.texts(".chip .name") == ["slow.csv"]
    tab.click("#message")
    tab.press("Enter")
    tab.see("slow.csv is still on its way.", "#notice")
    tab.run("ways[0](); 0")
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    assert not tab.shows("#notice")


SCRIPTED = """(() => {
    const direct = fetch;
    window.asked = [];
    window.fetch = async (address, options) => {
        if (!/v1.responses/.test(address)) return direct(address, options);
        asked.push(address);
        if (/stream=true/.test(address) && asked.length === 2) return new Response("{}", { status: 503 });
        if (/cancel$/.test(address)) return new Promise(() => {});
        return new Response(new ReadableStream({ start: (out) => (window.out = out) }));
    };
    let number = 0;
    window.tell = (type, rest) => {
        const event = { type, sequence_number: number++, ...rest };
        out.enqueue(new TextEncoder().encode(`data: ${JSON.stringify(event)}\n\n`));
    };
})()"""
CREATED = "tell('response.created', { response: { id: 'resp_1', status: 'in_progress' } })"


def scripted(tab: Tab, script: str) -> None:
    """The gateway's events as the test tells them, dealt with when this returns."""
    tab.run(f"{script}; new Promise(done => setTimeout(done))")


def test_whoever_goes_elsewhere_as_the_answer_begins_gets_there(tab: Tab) -> None:
    tab.run(SCRIPTED)
    ask(tab, "Go")
    tab.wait("window.out !== undefined")
    scripted(tab, f"document.querySelector('#new').click(); {CREATED}")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    assert tab.shows("#welcome")
    assert tab.run("location.hash") == ""


def test_what_still_comes_while_it_is_stopped_does_not_hide_that(tab: Tab) -> None:
    tab.run(SCRIPTED)
    ask(tab, "Go")
    tab.wait("window.out !== undefined")
    scripted(tab, CREATED)
    tab.press("Escape")
    tab.see("Stopping …", ".waiting")
    item = "{ output_index: 0, item: { type: 'code_interpreter_call', code: '1', status: 'completed' } }"
    scripted(tab, f"tell('response.output_item.added', {item}); tell('response.output_item.done', {item})")
    assert tab.text(".waiting") == "Stopping …"


def test_a_cell_that_nobody_looks_at_counts_no_seconds(tab: Tab) -> None:
    tab.run(SCRIPTED)
    tab.run(
        "window.ticking = new Set(); const begin = setInterval, end = clearInterval;"
        "window.setInterval = (...all) => { const one = begin(...all); ticking.add(one); return one };"
        "window.clearInterval = (one) => { end(one); ticking.delete(one) }; 0"
    )
    ask(tab, "Go")
    tab.wait("window.out !== undefined")
    item = "{ output_index: 0, item: { type: 'code_interpreter_call', code: '1' } }"
    begun = "tell('response.code_interpreter_call.interpreting', { output_index: 0 })"
    scripted(tab, f"{CREATED}; tell('response.output_item.added', {item}); {begun}")
    assert tab.run("ticking.size") == 1
    tab.click("#new")
    tab.wait("ticking.size === 0")


def test_looking_again_goes_on_where_it_was(tab: Tab) -> None:
    tab.run(SCRIPTED)
    ask(tab, "Go")
    tab.wait("window.out !== undefined")
    message = "{ output_index: 0, item: { type: 'message', content: [] } }"
    delta = "tell('response.output_text.delta', { output_index: 0, content_index: 0, delta: 'Half' })"
    scripted(tab, f"{CREATED}; tell('response.output_item.added', {message}); {delta}")
    tab.see("Half", ".markdown")
    scripted(tab, "out.error(new TypeError('lost'))")
    tab.click(".trouble button", "Look again")
    tab.wait("asked.length === 3")
    assert tab.run("asked[2]").endswith("starting_after=2")


# -- what can go wrong ------------------------------------------------------------------------------------------------


def test_what_the_model_says_is_text_and_calls_nobody(tab: Tab, scene: Scene) -> None:
    nasty = (
        "<img src=x onerror='window.hurt = 1'><script>window.hurt = 2</script>\n\n"
        "[a](javascript:window.hurt=3) [b](data:text/html,hi) ![c](http://127.0.0.1:9/leak.png) [d](https://example.org/)"
        "\n\n```html\n<b onclick='x'>\n```\n\n| t |\n|---|\n| <i>cell</i> |"
    )
    scene.play([nasty])
    ask(tab, "<b>Say</b>")
    answered(tab)
    assert tab.texts(".bubble") == ["<b>Say</b>"]
    assert "<img src=x onerror='window.hurt = 1'>" in tab.text(".markdown")
    assert tab.texts(".markdown td") == ["<i>cell</i>"]
    hrefs = tab.run("[...document.querySelectorAll('.markdown a')].map(one => [one.href, one.rel])")
    kept = "noopener noreferrer"
    assert hrefs == [["http://127.0.0.1:9/leak.png", kept], ["https://example.org/", kept]]
    assert tab.run("document.querySelectorAll('.markdown :is(img, script, b, i)').length") == 0
    assert tab.run("window.hurt") is None


def test_an_error_is_told_and_nothing_is_lost(tab: Tab, scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "kept.csv").write_text("k")
    scene.play(Reply(status=400, body=b'{"error": {"message": "the model has the flu"}}'), "Better now.")
    tab.pick("#picker", [tmp_path / "kept.csv"])
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    ask(tab, "How are you?")
    tab.see("the model has the flu", ".trouble .error")
    tab.reload()
    tab.see("the model has the flu", ".trouble .error")
    tab.click(".trouble button", "Change it")
    tab.wait("document.querySelectorAll('.turn').length === 0")
    assert value(tab) == "How are you?"
    assert tab.texts(".chip .name") == ["kept.csv"]
    tab.click("#message")
    tab.press("Enter")
    answered(tab)
    assert tab.texts(".markdown") == ["Better now."]
    assert "kept.csv" in files_sent(scene)


def test_a_model_server_that_starts_later_is_in_the_list_after_another_look(opened: Open, tmp_path: Path) -> None:
    names = "[...document.querySelectorAll('#model option')].map((one) => one.value)"
    port = free_port()
    with House(tmp_path / "state", "--upstream", f"late=http://127.0.0.1:{port}/v1") as house:
        tab = opened(house)
        assert tab.run(names) == ["belljar"]
        tab.click("#message")
        tab.type("a draft")
        with LoopbackUpstream(models=["m", "n"], port=port):

            def looked() -> bool:
                tab.click("#look")
                tab.wait("!document.querySelector('#look').disabled")
                return bool(tab.run(names) == ["belljar", "m", "n"])

            eventually(looked)
            assert (tab.run("document.querySelector('#model').value"), value(tab)) == ("m", "a draft")
            assert tab.run("document.querySelector('#status').textContent") == "3 models are there."
            tab.choose("#model", "n")
            looked()
            assert tab.run("document.querySelector('#model').value") == "n"


def test_a_gateway_that_does_not_answer(tab: Tab, scene: Scene) -> None:
    scene.play("Here again.")
    away = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    tab.call("Network.emulateNetworkConditions", offline=True, **away)
    ask(tab, "Are you there?")
    tab.see("The gateway does not answer", ".trouble .error")
    tab.call("Network.emulateNetworkConditions", offline=False, **away)
    tab.reload()
    tab.see("This was not sent", ".trouble")
    assert tab.texts(".bubble") == ["Are you there?"]
    tab.choose("#model", "sim")
    tab.click(".trouble button", "Try again")
    tab.see("Here again.", ".markdown")
    answered(tab)
    assert tab.texts(".markdown") == ["Here again."]
    assert tab.texts(".bubble") == ["Are you there?"]


def test_a_gateway_that_dies_and_comes_back(opened: Open, scene: Scene, tmp_path: Path) -> None:
    flags = ("--port", str(free_port()), "--upstream", f"loop={scene.server.base_url}")
    with House(tmp_path / "state", *flags) as first:
        tab = opened(first)
        scene.play(["Half of ", threading.Event()], "All of it.")
        ask(tab, "Tell me")
        tab.see("Half of", ".markdown")
        first.kill()
        tab.see("The connection was lost", ".waiting")
    with House(tmp_path / "state", *flags):
        tab.see("The gateway was stopped before it was done", ".trouble .error")
        tab.click(".trouble button", "Try again")
        tab.see("All of it.", ".markdown")
        answered(tab)
        assert tab.texts(".markdown") == ["All of it."]


def test_what_is_typed_survives_a_reload(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("d")
    tab.pick("#picker", [tmp_path / "d.csv"])
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    tab.click("#message")
    tab.type("half a thou")
    tab.reload()
    tab.wait("document.querySelector('.chip[data-state=ready]') !== null")
    assert value(tab) == "half a thou"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# a *b*", '<h3 class="level1">a <em>b</em></h3>'),
        ("one\ntwo  \nthree", "<p>one\ntwo<br>three</p>"),
        ("**a** __b__ *c* _d_ ~~e~~ ***f***", None),
        ("snake_case_name 2 * 3 * 4 ** 2", "<p>snake_case_name 2 * 3 * 4 ** 2</p>"),
        ("`a` ``b ` c`` `<i>`", "<p><code>a</code> <code>b ` c</code> <code>&lt;i&gt;</code></p>"),
        (r"\*not\* \`code\`", "<p>*not* `code`</p>"),
        ("- a\n- b\n  1. c\n  2. d\n\ntext", "<ul><li>a</li><li>b<ol><li>c</li><li>d</li></ol></li></ul><p>text</p>"),
        ("3. a\n\n   b\n4. c", '<ol start="3"><li><p>a</p><p>b</p></li><li>c</li></ol>'),
        ("> a\n> - b", "<blockquote><p>a</p><ul><li>b</li></ul></blockquote>"),
        ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
        ("[x](javascript:y) [y](/z)", '<p><span title="javascript:y">x</span> <span title="/z">y</span></p>'),
        ("a | b\nnot a table", "<p>a | b\nnot a table</p>"),
        ("unclosed **a [b](c `d", "<p>unclosed **a [b](c `d</p>"),
        ("<b>&amp;</b>", "<p>&lt;b&gt;&amp;amp;&lt;/b&gt;</p>"),
    ],
)
def test_markdown(house_tab: Tab, text: str, html: str | None) -> None:
    if html is None:
        styles = (("a", "strong"), ("b", "strong"), ("c", "em"), ("d", "em"), ("e", "del"))
        html = " ".join(f"<{tag}>{letter}</{tag}>" for letter, tag in styles)
        html = f"<p>{html} <strong><em>f</em></strong></p>"
    for first in (0, len(text)):  # drawn as it comes, or at once: it is the same in the end
        script = f"""import('/web/prose.js').then(it => {{
            const shown = new it.Markdown({{}}), text = {json.dumps(text)};
            for (let at = {first}; at <= text.length; at += 1) shown.set(text.slice(0, at));
            return shown.element.innerHTML;
        }})"""
        assert house_tab.run(script) == html


def test_events_are_the_same_however_their_bytes_are_split(house_tab: Tab) -> None:
    frames = 'event: a\ndata: {"text": "zwölf 報告"}\n\n: ping\n\ndata: {"n": 2}\n\ndata: [DONE]\n\ndata: {"n": 3}\n\n'
    script = """import('/web/events.js').then(async it => {
        const bytes = new TextEncoder().encode(%s), told = [];
        for (const size of [1, 2, 3, 7, bytes.length]) {
            const body = new ReadableStream({start(out) {
                for (let at = 0; at < bytes.length; at += size) out.enqueue(bytes.slice(at, at + size));
                out.close();
            }});
            const seen = [];
            for await (const event of it.events(body)) seen.push(event);
            told.push(seen);
        }
        return told;
    })"""
    assert house_tab.run(script % json.dumps(frames)) == [[{"text": "zwölf 報告"}, {"n": 2}]] * 5


# -- keys, programs, looks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packages", ["data", "none"])
def test_what_a_new_chat_suggests_works_with_what_is_installed(tmp_path: Path, opened: Open, packages: str) -> None:
    with House(tmp_path / "state", "--packages", packages) as house:
        tab = opened(house)
        titles = tab.texts("#samples strong")
        assert titles == ["Draw a curve"] * (packages == "data") + ["Make a table", "Watch it count"]
        for title in titles:
            tab.click("#new")
            tab.click("#samples strong", title)
            tab.click("#message")
            tab.press("Enter")
            answered(tab)
            assert "Error" not in tab.text(".turn")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, str]]:
    house = House(tmp_path_factory.mktemp("guarded") / "state")
    key = house.keys("add", "ada")["key"]
    with house:
        yield house, key


def test_a_key_is_asked_for_where_the_server_asks(
    guarded: tuple[House, str], opened: Open, downloads: Path, tab: Tab
) -> None:
    assert not tab.shows("dialog")
    house, key = guarded
    mine = opened(house, ready=False)
    mine.see("You didn't provide an API key", "dialog")
    mine.click("#key")
    mine.type("wrong")
    mine.press("Enter")
    mine.see("Incorrect API key", "dialog")
    mine.click("#key")
    mine.type(key)
    mine.press("Enter")
    ask(mine, "open('mine.txt', 'w').write('mine')", "belljar")
    answered(mine)
    assert not mine.shows("#project")
    mine.click('.files button[aria-label="Download mine.txt"]')
    assert fetched(downloads, "mine.txt") == b"mine"
    mine.reload()
    mine.see("mine.txt", ".files")


def test_the_programs_that_it_shows_work_as_they_stand(tab: Tab) -> None:
    tab.choose("#model", "belljar")
    tab.click("#api")
    python = tab.text("#python code")
    ran = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "[1, 1, 2, 6, 24, 120, 720, 5040]" in ran.stdout
    needed("curl")
    curl = tab.text("#curl code")
    done = subprocess.run(["sh", "-c", curl], capture_output=True, text=True, timeout=60, check=True)
    assert r'"logs":"42\n"' in done.stdout
    tab.press("Escape")
    tab.wait("!document.querySelector('dialog')")


def test_it_works_where_the_browser_does_not_trust_the_connection(opened: Open, home: House) -> None:
    """Over plain HTTP from another machine, browsers leave out a part of what pages may use."""
    tab = opened(home, host="elsewhere")
    assert tab.run("isSecureContext") is False
    ask(tab, "print('here')", "belljar")
    answered(tab)
    assert tab.text(".output").strip() == "here"


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone_by_day_and_night(opened: Open, home: House, dark: bool) -> None:
    tab = opened(home, width=390, height=844, dark=dark)
    ask(tab, f"{CURVE}\nprint('wide ' * 100)\nopen('a_rather_long_name_of_a_file.csv', 'w').write('x')", "belljar")
    answered(tab)
    tab.see("a_rather_long_name", ".files")
    assert tab.run("document.documentElement.scrollWidth") <= 390
    red = int(re.findall(r"\d+", tab.run("getComputedStyle(document.body).backgroundColor"))[0])
    assert (red < 60) is dark
    assert not tab.shows("#chats")
    tab.click("#menu")
    tab.wait("document.querySelector('#chats').checkVisibility()")


def test_everything_that_can_be_used_has_a_name(tab: Tab) -> None:
    ask(tab, f"{CURVE}\nopen('n.txt', 'w').write('n')", "belljar")
    answered(tab)
    tab.see("n.txt", ".files")
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "textbox", "combobox", "checkbox", "image", "dialog", "region"}
    used = [node for node in tree if not node["ignored"] and node.get("role", {}).get("value") in roles]
    assert len(used) > 15
    assert [node["role"]["value"] for node in used if not node.get("name", {}).get("value", "").strip()] == []


def test_the_end_stays_in_view_and_a_chat_is_named_by_its_first_words(tab: Tab) -> None:
    ask(tab, f"```python\n{CURVE}\nprint('line\\n' * 80)\n```", model="belljar")
    answered(tab)
    tab.wait("document.querySelector('.cell figure img').naturalWidth > 100")
    tab.see("figure-1.png", ".files")
    tab.wait("scrollY > 0 && document.documentElement.scrollHeight - innerHeight - scrollY < 2")
    assert tab.texts("#chats li") == [CURVE.split("\n")[0]]
