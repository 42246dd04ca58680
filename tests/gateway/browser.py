"""A real browser, driven over its own protocol: what people do on a page, and what they then see."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest
from tests.helpers.programs import needed
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--remote-debugging-port=0",
    "--hide-scrollbars", "--disable-extensions", "--mute-audio", "--host-resolver-rules=MAP elsewhere 127.0.0.1",
    "--disable-features=SpareRendererForSitePerProcess,BackForwardCache",  # processes and pages that nobody asks for
)  # fmt: skip
PATIENCE = 30.0
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), " ": (32, " ")}
SHIFT = 8
HOLDING = """(() => {
    const direct = fetch, wanted = new RegExp(%s), sent = %s;
    window.held = [];
    window.fetch = async (address, options) => {
        if (!wanted.test(address)) return direct(address, options);
        const turn = () => new Promise((go, fail) => {
            held.push({ go, fail: () => fail(new TypeError("held back, and lost")) });
            options?.signal?.addEventListener("abort", () => fail(options.signal.reason));
        });
        if (!sent) await turn();
        const told = await direct(address, options);
        if (!sent) return told;
        if (!/event-stream/.test(told.headers.get("content-type"))) {
            const text = await told.text();  // so that nothing is left to wait for once it is let go
            told.json = async () => JSON.parse(text);
        }
        await turn();
        return told;
    };
})()"""


class Browser:
    """One process for many tabs; each tab has storage of its own, as another user's would."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="belljar-browser-"))
        self._spare: list[tuple[str, str]] = []
        """Contexts and targets of tabs that were closed, as good as new: a new one takes a second of the processor."""

    def __enter__(self) -> Self:
        program = needed(*NAMES)
        # A container's root cannot make the browser's own sandbox; only our own page is ever opened in it.
        flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
        self._process = subprocess.Popen(
            [program, *flags, f"--user-data-dir={self._home}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(self._home)},  # what it makes there it leaves behind when told to end
        )
        told = self._home / "DevToolsActivePort"
        deadline = time.monotonic() + PATIENCE
        while not (told.exists() and "\n" in told.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                pytest.fail("the browser did not start; run: sh scripts/programs")
            time.sleep(0.05)
        port, path = told.read_text().split("\n")[:2]
        self._wire = Wire(f"ws://127.0.0.1:{port}{path}")
        return self

    def tab(self, downloads: Path, *, width: int = 1200, height: int = 800, dark: bool = False) -> Tab:
        context, target = self._spare.pop() if self._spare else self._make()
        self._wire.call(
            "Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads), browserContextId=context
        )
        session = self._wire.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(
            self._wire,
            session,
            lambda clean: self._take_back(context, target, clean),
            width=width,
            height=height,
            dark=dark,
        )

    def _make(self) -> tuple[str, str]:
        context = self._wire.call("Target.createBrowserContext")["browserContextId"]
        return context, self._wire.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]

    def _take_back(self, context: str, target: str, clean: bool) -> None:
        if clean:
            self._spare.append((context, target))
        else:
            self._wire.call("Target.disposeBrowserContext", browserContextId=context)

    def __exit__(self, *error: object) -> None:
        if hasattr(self, "_wire"):
            self._wire.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)


class Wire:
    """Commands and their answers; what happens meanwhile is kept for those who ask."""

    def __init__(self, address: str) -> None:
        self._socket: ClientConnection = connect(address, max_size=None, compression=None)
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, *, session: str | None = None, **params: object) -> Any:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        self._socket.send(json.dumps(asked | ({"sessionId": session} if session else {})))
        while True:
            told = json.loads(self._socket.recv(PATIENCE * 2))
            if "id" not in told:
                self.events.append(told)
            elif told["id"] == self._number:
                assert "error" not in told, f"{method}: {told['error']}"
                return told["result"]

    def close(self) -> None:
        self._socket.close()


class Tab:
    """A page, and a user in front of it."""

    def __init__(
        self, wire: Wire, session: str, give_back: Callable[[bool], None], *, width: int, height: int, dark: bool
    ) -> None:
        self._wire = wire
        self._session = session
        self._give_back = give_back
        self._origins: set[str] = set()
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def call(self, method: str, **params: object) -> Any:
        return self._wire.call(method, session=self._session, **params)

    def close(self) -> None:
        """All that was stored, emulated or added goes with it; after a page that failed, the whole tab does."""
        clean = bool(self.run("/^http/.test(location.protocol) && (sessionStorage.clear(), true)"))
        if clean:
            self.call("Page.navigate", url="about:blank")
            self.wait("location.href === 'about:blank'")
            for origin in self._origins:
                self.call("Storage.clearDataForOrigin", origin=origin, storageTypes="all")
        self._wire.call("Target.detachFromTarget", sessionId=self._session)
        self._wire.events = [event for event in self._wire.events if event.get("sessionId") != self._session]
        self._give_back(clean)

    # -- going --------------------------------------------------------------------------------------------------------

    def open(self, address: str) -> None:
        self._origins.add("/".join(address.split("/")[:3]))
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def reload(self) -> None:
        self.run("window.before = true")
        self.call("Page.reload")
        self.wait("!window.before && document.readyState === 'complete'")

    # -- seeing -------------------------------------------------------------------------------------------------------

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, f"{script}: {told['exceptionDetails']}"
        return told["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression once there is one; a page that is just being left has none."""
        deadline = time.monotonic() + PATIENCE
        while True:
            told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
            value = told["result"].get("value")
            if value and "exceptionDetails" not in told:
                return value
            assert time.monotonic() < deadline, f"never came: {script}\n{self.run('document.body.innerText')}"
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """What is shown there, once it is there."""
        self.wait(f"document.querySelector({json.dumps(selector)}) !== null")
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def texts(self, selector: str) -> list[str]:
        shown: list[str] = self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText)")
        return shown

    def see(self, text: str, selector: str = "body") -> None:
        """Wait until a text is shown."""
        where = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"({where}?.innerText ?? '').includes({json.dumps(text)})")

    def shows(self, selector: str) -> bool:
        """Whether it is there to be seen."""
        return bool(self.run(f"document.querySelector({json.dumps(selector)})?.checkVisibility() ?? false"))

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def troubles(self) -> list[str]:
        """What the browser complained about: exceptions, refused scripts, whatever breaks the page's policy."""
        found = []
        for event in self._mine():
            match event["method"], event["params"]:
                case "Runtime.exceptionThrown", params:
                    found.append(str(params["exceptionDetails"].get("exception", params)))
                case "Log.entryAdded", {"entry": {"level": "error", "source": source, "text": text}}:
                    if source != "network":
                        found.append(text)
        return found

    def addresses(self) -> list[str]:
        """All that the page asked for, but for what it holds itself."""
        asked = [
            one["params"]["request"]["url"] for one in self._mine() if one["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]

    def _mine(self) -> list[dict[str, Any]]:
        self.run("0")
        return [event for event in self._wire.events if event.get("sessionId") == self._session]

    # -- answers that are late ----------------------------------------------------------------------------------------

    def hold(self, address: str, *, sent: bool = True, reloads: bool = False) -> None:
        """Hold back what comes from addresses that match, or, if not `sent`, what goes there."""
        script = HOLDING % (json.dumps(address), json.dumps(sent))
        if reloads:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=script)
        else:
            self.run(script)

    def held(self, number: int) -> None:
        """Wait until so many have been held back."""
        self.wait(f"window.held?.length >= {number}")

    def let_go(self, number: int, *, lost: bool = False) -> None:
        """Let the page have one, or hear that there is none; it has dealt with it when this returns."""
        self.run(f"held[{number}].{'fail' if lost else 'go'}(); new Promise(done => setTimeout(done))")

    # -- doing --------------------------------------------------------------------------------------------------------

    def click(self, selector: str, text: str | None = None) -> None:
        """Click on the middle of what a selector finds, or of the one that shows this text."""
        wanted = "true" if text is None else f"one.innerText.trim() === {json.dumps(text)}"
        found = f"[...document.querySelectorAll({json.dumps(selector)})].find(one => one.checkVisibility() && {wanted})"
        self.wait(f"{found} !== undefined")
        x, y = self.run(
            f"(() => {{ const one = {found}; one.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            "const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2] })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text: str) -> None:
        """Where the cursor is."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        code, text = KEYS[key]
        told: dict[str, Any] = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        told["modifiers"] = SHIFT if shift else 0
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **told)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def choose(self, selector: str, value: str) -> None:
        """An option of a list."""
        one = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"[...{one}.options].some(option => option.value === {json.dumps(value)})")
        self.run(f"{one}.value = {json.dumps(value)}; {one}.dispatchEvent(new Event('change', {{bubbles: true}}))")

    def pick(self, selector: str, paths: Sequence[Path]) -> None:
        """Files, as the dialog of the system would give them."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def drop(self, paths: Sequence[Path]) -> None:
        """Files, out of a window of the system onto the page."""
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=400, y=400, data=data)
