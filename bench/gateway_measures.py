"""What is measured of the gateway, each beside its floor in the same minutes."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from belljar.gateway.upstream.http_response import HttpResponse
from belljar.gateway.upstream.loopback import LoopbackClient
from bench.processes import descendants, footprint, spent
from bench.table import Row, ms, number, p95

_HERE = Path(__file__).resolve().parent
_PROMPT = "Summarise the quarterly figures in the attached table and say which region grew fastest. " * 3
_MB = 1 << 20


class Ground:
    """The processes that are measured: the model server alone, the relay, the gateway."""

    def __init__(self, quick: bool, stack: ExitStack) -> None:
        self._quick = quick
        self.model = stack.enter_context(_process([sys.executable, str(_HERE / "model_server.py")]))
        self.relay = stack.enter_context(_process([sys.executable, str(_HERE / "relay.py"), f"{self.model.url}/v1"]))
        state = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "state"
        flags = ["--upstream", f"sim={self.model.url}/v1", "--state-dir", str(state)]
        self.gateway = stack.enter_context(_gateway(flags))

    def times(self, full: int, quick: int) -> int:
        return quick if self._quick else full


class Subject:
    """A server under measurement."""

    def __init__(self, name: str, process: subprocess.Popen[str], port: int) -> None:
        self.name = name
        self.pid = process.pid
        self.url = f"http://127.0.0.1:{port}"
        self.started = 0.0


@contextmanager
def _process(line: Sequence[str]) -> Iterator[Subject]:
    """A process that says its port, and ends with its standard input."""
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield Subject(Path(line[1]).stem, process, int(process.stdout.readline()))
        finally:
            process.stdin.close()
            process.terminate()


@contextmanager
def _gateway(flags: Sequence[str]) -> Iterator[Subject]:
    line = [sys.executable, "-m", "belljar.cli", "serve", "--json", "--port", "0", "--no-discover", *flags]
    began = time.perf_counter()
    with subprocess.Popen([*line, "--log-level", "warning"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(json.loads(process.stdout.readline())["url"].rpartition(":")[2])
            subject = Subject("gateway", process, port)
            urllib.request.urlopen(f"{subject.url}/healthz").read()
            subject.started = time.perf_counter() - began
            while _status(f"{subject.url}/readyz") != 200:
                time.sleep(0.05)
            yield subject
        finally:
            process.terminate()


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


# -- asking -----------------------------------------------------------------------------------------------------------


def _request(script: str, *, chat: bool = False, stream: bool = False, **more: Any) -> tuple[str, bytes]:
    text = f"{_PROMPT}[[{script}]]"
    if chat:
        body = {"model": "sim", "messages": [{"role": "user", "content": text}], "stream": stream, **more}
        return "/v1/chat/completions", json.dumps(body, separators=(",", ":")).encode()
    return "/v1/responses", json.dumps({"model": "sim", "input": text, "stream": stream, **more}).encode()


async def _begin(client: LoopbackClient, subject: Subject, request: tuple[str, bytes]) -> HttpResponse:
    path, body = request
    return await client.send("POST", subject.url + path, {"content-type": "application/json"}, body, timeout=60)


async def _ask(client: LoopbackClient, subject: Subject, request: tuple[str, bytes]) -> tuple[bytes, float]:
    """The whole answer, and when its first bytes came."""
    answer = await _begin(client, subject, request)
    parts: list[bytes] = []
    first = 0.0
    while data := await answer.read():
        first = first or time.perf_counter()
        parts.append(data)
    whole = b"".join(parts)
    if answer.status != 200:
        raise RuntimeError(f"{subject.name} answered {answer.status}: {whole[:300]!r}")
    return whole, first


def _flood(
    subject: Subject, request: tuple[str, bytes], at_once: int, each: int, *, warm: int = 5
) -> tuple[list[float], float, float]:
    """Seconds of every call, of all together, and of processor time a call."""

    async def main() -> tuple[list[float], float, float]:
        client = LoopbackClient()
        taken: list[float] = []

        async def worker(times: int, into: list[float]) -> None:
            for _ in range(times):
                began = time.perf_counter()
                await _ask(client, subject, request)
                into.append(time.perf_counter() - began)

        await asyncio.gather(*(worker(warm, []) for _ in range(at_once)))
        cpu, began = spent(subject.pid), time.perf_counter()
        await asyncio.gather(*(worker(each, taken) for _ in range(at_once)))
        seconds, used = time.perf_counter() - began, spent(subject.pid) - cpu
        await client.close()
        return taken, seconds, used / (at_once * each)

    return asyncio.run(main())


# -- the measures -----------------------------------------------------------------------------------------------------


def latency(ground: Ground) -> list[Row]:
    """One call at a time: what the gateway adds to the model server's own answer."""
    found: dict[str, list[float]] = {"direct": [], "relay": [], "ours": []}
    for _ in range(ground.times(10, 2)):
        found["direct"] += _flood(ground.model, _request("n=64", chat=True), 1, 50)[0]
        found["relay"] += _flood(ground.relay, _request("n=64", chat=True), 1, 50)[0]
        found["ours"] += _flood(ground.gateway, _request("n=64"), 1, 50)[0]
    direct, relay, ours = (median(found[name]) for name in ("direct", "relay", "ours"))
    return [
        Row(
            "latency",
            "added to a call, one at a time",
            (ours - direct) * 1e3,
            ratio=(ours - direct) / (relay - direct),
            against=f"added by the relay, {number((relay - direct) * 1e3)} ms",
            n=len(found["ours"]),
            note=f"p95 of the whole {number(p95(found['ours']))}; the model server alone {number(direct * 1e3)}",
        )
    ]


def requests(ground: Ground) -> list[Row]:
    """64 calls in flight."""
    ours, theirs, cpu, least = [], [], [], []
    each = ground.times(25, 6)
    for _ in range(ground.times(5, 1)):
        _, seconds, used = _flood(ground.relay, _request("n=64", chat=True), 64, each)
        theirs.append(64 * each / seconds)
        least.append(used * 1e6)
        _, seconds, used = _flood(ground.gateway, _request("n=64"), 64, each)
        ours.append(64 * each / seconds)
        cpu.append(used * 1e6)
    n = len(ours) * 64 * each
    return [
        _row("requests", "calls a second, 64 in flight", "/s", ours, theirs, n),
        _row("request-cpu", "processor time of a call, kept in the store", "us", cpu, least, n),
    ]


def _row(name: str, what: str, unit: str, ours: Sequence[float], relay: Sequence[float], n: int, note: str = "") -> Row:
    """Ours beside the relay's."""
    floor = median(relay)
    return Row(name, what, median(ours), unit, median(ours) / floor, f"relay, {number(floor)} {unit}", n, note)


def slow(ground: Ground) -> list[Row]:
    """64 calls in flight on a model of 400 ms: what is added to those."""
    each = ground.times(8, 2)
    before = 0.4
    theirs = p95(_flood(ground.relay, _request(f"n=64 before={before}", chat=True), 64, each, warm=1)[0]) - before * 1e3
    ours = p95(_flood(ground.gateway, _request(f"n=64 before={before}"), 64, each, warm=1)[0]) - before * 1e3
    against = f"added by the relay, {number(theirs)} ms"
    what = "added to a call on a model of 400 ms, 64 in flight, p95"
    return [Row("slow", what, ours, "ms", ours / theirs, against, 64 * each)]


def streams(ground: Ground) -> list[Row]:
    """1 and 8 streams of 2,000 tokens as fast as they go, and 32 of 100 tokens at 20 ms."""
    tokens, each = 2000, ground.times(8, 2)
    asked, relayed = _request(f"n={tokens}", stream=True), _request(f"n={tokens}", chat=True, stream=True)
    rates: dict[tuple[str, int], list[float]] = {}
    cpu: dict[str, list[float]] = {"relay": [], "gateway": []}
    for _ in range(ground.times(5, 1)):
        for at_once in (1, 8):
            for subject, request in ((ground.relay, relayed), (ground.gateway, asked)):
                _, seconds, used = _flood(subject, request, at_once, each, warm=1)
                rates.setdefault((subject.name, at_once), []).append(at_once * each * tokens / seconds)
                if at_once == 8:
                    cpu[subject.name].append(used / tokens * 1e6)
    lost = asyncio.run(_lost(ground, tokens))
    rows = [
        _row(name, what, "/s", ours := rates["gateway", n], rates["relay", n], len(ours) * n * each * tokens, note)
        for name, what, n, note in (
            ("events-one", "events a second, 1 stream", 1, ""),
            ("events", "events a second, 8 streams", 8, f"lost {lost}"),
        )
    ]
    events = len(cpu["gateway"]) * 8 * each * tokens
    rows.append(_row("burst-cpu", "processor time of one of them", "us", cpu["gateway"], cpu["relay"], events))
    rows += _paced_rows(ground)
    return rows


def _paced_rows(ground: Ground) -> list[Row]:
    gap, count = 0.02, 100
    lags, cpu = asyncio.run(_paced(ground.gateway, _request(f"n={count} delay={gap}", stream=True), b'"delta":"w', gap))
    _, least = asyncio.run(_paced(ground.relay, _request(f"n={count} delay={gap}", chat=True, stream=True), b'"w', gap))
    return [
        Row("lag", "a token behind its time, 32 paced streams, p95", p95(lags), "ms", n=len(lags)),
        _row("event-cpu", "processor time of a paced event", "us", [cpu * 1e6], [least * 1e6], len(lags)),
    ]


async def _lost(ground: Ground, tokens: int) -> int:
    client = LoopbackClient()
    answer, _ = await _ask(client, ground.gateway, _request(f"n={tokens}", stream=True))
    await client.close()
    return tokens - answer.count(b"event: response.output_text.delta\n")


async def _paced(subject: Subject, request: tuple[str, bytes], mark: bytes, gap: float) -> tuple[list[float], float]:
    """How late each token of 32 streams was against its own schedule, and the processor time of one."""
    client = LoopbackClient()

    async def one() -> list[float]:
        answer = await _begin(client, subject, request)
        came: list[float] = []
        while data := await answer.read():
            came += [time.perf_counter()] * data.count(mark)
        base = min(at - number * gap for number, at in enumerate(came))
        return [at - number * gap - base for number, at in enumerate(came)]

    cpu = spent(subject.pid)
    found = await asyncio.gather(*(one() for _ in range(32)))
    used = spent(subject.pid) - cpu
    await client.close()
    lags = [lag for lags in found for lag in lags]
    return lags, used / len(lags)


def chain(ground: Ground) -> list[Row]:
    """Fifty turns by previous_response_id."""
    turns = 50

    async def one() -> list[float]:
        client, before, taken = LoopbackClient(), None, []
        for turn in range(turns):
            more: dict[str, Any] = {} if before is None else {"previous_response_id": before}
            began = time.perf_counter()
            answer, _ = await _ask(client, ground.gateway, _request(f"n=200 turn={turn}", **more))
            taken.append(time.perf_counter() - began)
            before = json.loads(answer)["id"]
        await client.close()
        return taken

    runs = [asyncio.run(one()) for _ in range(ground.times(5, 1))]
    first = median([seconds for run in runs for seconds in run[1:6]])
    last = median([seconds for run in runs for seconds in run[-5:]])
    early = f"the first turns, {number(first * 1e3)} ms"
    return [
        Row("chain-turn", "a turn with 50 before it", last * 1e3, "ms", last / first, early, len(runs) * 5),
        Row("chain-step", "added by each further turn", (last - first) / (turns - 6) * 1e6, "us", n=len(runs)),
    ]


def code(ground: Ground) -> list[Row]:
    """Model, code in a sandbox, model; each in a new container, then in one container."""
    tools = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    fresh: list[float] = []
    held: list[float] = []
    first: list[float] = []
    shown: list[float] = []

    async def main() -> None:
        client = LoopbackClient()
        began = time.perf_counter()
        answer, _ = await _ask(client, ground.gateway, _request("n=16 code=1", tools=tools))
        container = next(item for item in json.loads(answer)["output"] if "container_id" in item)["container_id"]
        same = [{"type": "code_interpreter", "container": container}]
        for _ in range(ground.times(40, 5)):
            for into, chosen in ((fresh, tools), (held, same)):
                began = time.perf_counter()
                await _ask(client, ground.gateway, _request("n=16 code=1", tools=chosen))
                into.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
        for _ in range(ground.times(5, 1)):
            began = time.perf_counter()
            stream = await _begin(client, ground.gateway, _request("n=16 code=1 before=0.3", tools=same, stream=True))
            seen = b""
            while data := await stream.read():
                if not seen:
                    first.append(time.perf_counter() - began)
                if b"call_code.delta" not in seen and b"call_code.delta" in seen + data:
                    shown.append(time.perf_counter() - began)
                seen += data
        await client.close()

    asyncio.run(main())
    timed = {
        "code": ("model, code, model: a new container each", fresh),
        "code-held": ("the same in a container that is there", held),
        "first-event": ("first event of a stream, model of 300 ms", first),
        "first-code": ("first piece of code, model of 300 ms", shown),
    }
    return [
        Row(name, what, ms(taken), "ms", n=len(taken), note=f"p95 {number(p95(taken))}")
        for name, (what, taken) in timed.items()
    ]


def files(ground: Ground) -> list[Row]:
    """96 MB up and down through /v1/files, beside a plain copy of as much."""
    size = 96 * _MB
    up, down, copied, meanwhile = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        source.write_bytes(os.urandom(_MB) * 96)
        before = _rss(ground.gateway.pid)
        for _ in range(ground.times(5, 2)):
            copied.append(_clocked(functools.partial(_copy, source, target)))
            with _asking(f"{ground.gateway.url}/v1/models") as taken:
                began = time.perf_counter()
                id = _upload(ground.gateway, source)
                up.append(time.perf_counter() - began)
                url = f"{ground.gateway.url}/v1/files/{id}"
                down.append(_clocked(functools.partial(_drain, f"{url}/content")))
            meanwhile.append(max(taken) * 1e3)
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE")).read()
        grown = max(0.0, _rss(ground.gateway.pid) - before)
    speed = [size / _MB / median(taken) for taken in (up, down, copied)]
    against = f"a copy with fdatasync, {number(speed[2])} MB/s"
    return [
        Row("upload", "96 MB to /v1/files", speed[0], "MB/s", speed[0] / speed[2], against, len(up)),
        Row("download", "96 MB from /v1/files", speed[1], "MB/s", speed[1] / speed[2], against, len(down)),
        Row("meanwhile", "the slowest of the other requests then", median(meanwhile), "ms", n=len(meanwhile)),
        Row("file-memory", "memory that the gateway grew by meanwhile", grown, "MB", n=len(up)),
    ]


@contextmanager
def _asking(url: str) -> Iterator[list[float]]:
    """Meanwhile somebody else asks, every 10 ms; how long each answer took."""
    taken: list[float] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.01):
            taken.append(_clocked(functools.partial(_drain, url)))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        while data := reading.read(_MB):
            writing.write(data)
        writing.flush()
        os.fdatasync(writing.fileno())


def _upload(subject: Subject, source: Path) -> str:
    head = (
        b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="data.bin"\r\n\r\n'
    )
    tail = b"\r\n--b--\r\n"
    size = len(head) + source.stat().st_size + len(tail)
    headers = {"content-type": "multipart/form-data; boundary=b", "content-length": str(size)}

    def body() -> Iterator[bytes]:
        yield head
        with source.open("rb") as reading:
            while data := reading.read(_MB):
                yield data
        yield tail

    request = urllib.request.Request(f"{subject.url}/v1/files", data=body(), headers=headers)
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["id"])


def _drain(url: str) -> None:
    with urllib.request.urlopen(url) as answer:
        while answer.read(_MB):
            pass


def _clocked(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _rss(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def life(ground: Ground) -> list[Row]:
    """Start-up and memory."""
    starts = [ground.gateway.started]
    for _ in range(ground.times(4, 0)):
        with tempfile.TemporaryDirectory() as folder, _gateway(["--state-dir", f"{folder}/state"]) as one:
            starts.append(one.started)
    with tempfile.TemporaryDirectory() as folder, _gateway(["--state-dir", f"{folder}/state"]) as one:
        idle = _rss(one.pid)
        below = sum(footprint(process) for process in descendants(one.pid)) / _MB
    return [
        Row("start", "from nothing to the first answer", median(starts), "s", n=len(starts)),
        Row("memory", "of the gateway's process, idle", idle, "MB", n=1),
        Row("memory-load", "the same after the other measures", _rss(ground.gateway.pid), "MB", n=1),
        Row("memory-jail", "own pages of the jail and two warm boxes, data stack imported", below, "MB", n=1),
    ]


MEASURES: dict[str, Callable[[Ground], list[Row]]] = {
    "latency": latency,
    "requests": requests,
    "slow": slow,
    "streams": streams,
    "chain": chain,
    "code": code,
    "files": files,
    "life": life,
}
