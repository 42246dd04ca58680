"""The checker: compares what clients were told with what every gateway answers afterwards and what the store holds.

It knows nothing of how gateways work. By the numbers of the design:

I1 one driver: of one container, every cell found all that acknowledged cells before it had left, in one order.
I2 acknowledged is there: responses, files, uploads, items and deletions, at every gateway, byte for byte.
I3 nothing invented: what is there was asked for by somebody, and is there once.
I4 every response in the background ends, and then stays as it is.
I5 a stream joined from any gateways has no gap, no repetition, no change, and one end.
I6 variables are those that the cells before left, or the loss was told.
I7 at rest nothing is left that nobody accounts for.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import aiohttp
import asyncpg
from tests.consistency.clients import INCLUDE, LAST, digest, find_cell
from tests.consistency.deployment import GATEWAYS, PATIENCE, Deployment
from tests.consistency.journal import Entry, Journal

_EMPTY = (
    "containers", "container_files", "container_versions", "responses", "events", "conversations", "items", "files",
)  # fmt: skip

_CLOCKS = 200.0
"""Seconds by which nothing may be off, where the clock of one gateway is by more."""


class Checker:
    def __init__(self, deployment: Deployment, journal: Journal, session: aiohttp.ClientSession) -> None:
        self._deployment = deployment
        self._journal = journal
        self._session = session
        self.broken: list[str] = []

    def _say(self, invariant: str, what: str, *entries: Entry) -> None:
        named = " ".join(f"#{one.number}" for one in entries)
        self.broken.append(f"{invariant}: {what} {named}")

    async def check(self) -> list[str]:
        """All that is not as it must be."""
        self._check_refusals()
        self._check_cells()
        self._check_events()
        await self._check_files()
        await self._check_uploads()
        await self._check_responses()
        await self._check_items()
        await self._check_listed()
        return self.broken

    # -- by the journal alone -----------------------------------------------------------------------------------------

    def _check_refusals(self) -> None:
        """What is refused for good must be refused for a reason."""
        dropped = {one.asked["container"]: one.number for one in self._journal.all("drop")}
        for one in self._journal.entries:
            if one.status == 500:
                self._say("I0", f"{one.kind} broke: {one.told}", one)
            if isinstance(one.told, dict) and abs(one.told.get("created_at", one.at) - one.at) > _CLOCKS:
                self._say("I0", f"{one.kind} goes by the clock of its gateway: {one.told['created_at']}", one)
            if one.outcome != "refused" or one.status == 429:
                continue
            if dropped.get(one.asked.get("container"), 1 << 60) < one.number:
                continue
            if one.kind == "cancel" and one.status == 400:  # it was over, or an earlier try did it
                continue
            self._say("I2", f"{one.kind} was refused: {one.status} {one.told}", one)

    def _check_cells(self) -> None:
        cells: dict[str, list[tuple[Entry, dict[str, Any]]]] = defaultdict(list)
        unknown: set[str] = set()
        before: dict[str, str] = {}
        """The container of a response."""
        for one in self._journal.all("cell", "chained"):
            told = find_cell(one.told) if one.outcome == "told" else None
            if told is None:
                unknown.add(one.asked["token"])
                continue
            cells[told["container"]].append((one, told))
            before[one.told["id"]] = told["container"]
            if one.asked["container"] not in (None, told["container"]):
                self._say("I2", f"ran in {told['container']} and not in {one.asked['container']}", one)
            if before.get(one.asked["previous"] or "", told["container"]) != told["container"]:
                self._say("I2", "the chain went on in another container", one)
        for container, ran in cells.items():
            self._check_order(container, ran, unknown)
            self._check_variables(container, ran, unknown)
        self._last = {container: max((told["log"] for _, told in ran), key=len) for container, ran in cells.items()}
        self._unknown_cells = unknown

    def _check_order(self, container: str, ran: list[tuple[Entry, dict[str, Any]]], unknown: set[str]) -> None:
        tokens = {one.asked["token"] for one, _ in ran}
        in_order = sorted(ran, key=lambda pair: len(pair[1]["log"]))
        for (one, told), (two, later) in itertools.pairwise(in_order):
            if later["log"][: len(told["log"])] != told["log"]:
                self._say("I1", f"{container} was forked: {told['log']} and {later['log']}", one, two)
        for one, told in ran:
            log = told["log"]
            if log[-1] != one.asked["token"]:
                self._say("I1", f"{container} had another driver: {log}", one)
            if len({*log}) != len(log) or not {*log} <= tokens | unknown:
                self._say("I3", f"{container} has what nobody wrote, or twice: {log}", one)
            missing = [two.asked["token"] for two, _ in ran if two.ended < one.began and two.asked["token"] not in log]
            if missing:
                self._say("I2", f"{container} has lost what cells wrote: {missing}", one)

    def _check_variables(self, container: str, ran: list[tuple[Entry, dict[str, Any]]], unknown: set[str]) -> None:
        """In the order in which they ran, which is that of the log."""
        known: list[str] = []
        for one, told in sorted(ran, key=lambda pair: len(pair[1]["log"])):
            seen, own = told["seen"], one.asked["token"]
            goes_on = seen[: len(known)] == known and seen[-1] == own
            # The loss was told to a cell whose caller never heard of it: that cell was the first.
            told_of_loss = (told["healed"] and seen == [own]) or (seen[0] in unknown and seen[-1] == own)
            if not (goes_on or told_of_loss):
                self._say("I6", f"{container} had the variables {known}, then {seen}, healed: {told['healed']}", one)
            if goes_on and told["healed"] and known:
                self._say("I6", f"{container} told of a loss that was none", one)
            known = seen

    def _check_events(self) -> None:
        self._streams: dict[str, dict[int, tuple[str, str]]] = {}
        for one in self._journal.all("follow"):
            stream = self._streams.setdefault(one.asked["response"], {})
            self._add_events(stream, one.asked["after"], one.told or [], one)
        for id, stream in self._streams.items():
            if [*sorted(stream)] != [*range(len(stream))]:
                self._say("I5", f"the stream of {id} has gaps: {sorted(stream)}")

    def _add_events(
        self, stream: dict[int, tuple[str, str]], after: int, events: Sequence[Sequence[Any]], *entries: Entry
    ) -> None:
        for place, (number, kind, content) in enumerate(events, after + 1):
            if number != place:
                self._say("I5", f"event {place} was to come, and {number} came", *entries)
            if stream.setdefault(number, (kind, content)) != (kind, content):
                self._say("I5", f"event {number} was {stream[number]} and is {kind, content}", *entries)

    # -- by asking ----------------------------------------------------------------------------------------------------

    async def _get(self, gateway: int, path: str) -> tuple[int, bytes]:
        async with self._session.get(f"{self._deployment.urls[gateway]}{path}") as answer:
            return answer.status, await answer.read()

    async def _get_everywhere(self, path: str) -> list[tuple[int, bytes]]:
        return await asyncio.gather(*(self._get(number, path) for number in range(GATEWAYS)))

    async def _list(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        join = "&" if "?" in path else "?"
        while True:
            after = f"&after={found[-1]['id']}" if found else ""
            status, data = await self._get(len(found) % GATEWAYS, f"{path}{join}limit=100{after}")
            assert status == 200, data
            page = json.loads(data)
            found += page["data"]
            if not page["has_more"]:
                return found

    async def _check_files(self) -> None:
        """Of containers: what was put and deleted, and what cells left."""
        dropped = self._check_deleted("drop", "container", "/v1/containers/{}")
        for container in await dropped:
            self._last.pop(container, None)
        expected: dict[str, dict[str, set[str | None]]] = defaultdict(lambda: defaultdict(lambda: {None}))
        for one in self._journal.all("put", "unput", "read", "cell"):
            here = expected[one.asked["container"]]
            if one.kind in ("put", "unput") and one.outcome != "refused":
                new = one.asked.get("digest")
                old = here[one.asked["name"]]
                here[one.asked["name"]] = {new} if one.outcome == "told" else old | {new}
            elif one.kind == "read" and one.outcome == "told" and one.told not in here[one.asked["name"]]:
                self._say("I2", f"{one.asked['name']} was read with other bytes", one)
            elif one.kind == "cell" and one.outcome == "told" and (told := find_cell(one.told)) is not None:
                for name, may in here.items():
                    mine = f"f-c{one.client}s"
                    if name.startswith(mine) and told["files"].get(name) not in may:
                        self._say("I2", f"{name} was not in {one.asked['container']} as it was put", one)
        gone = {one.asked["container"] for one in self._journal.all("drop")}
        for container in {*expected, *self._last} - gone:
            await self._check_workspace(container, expected[container])

    async def _check_workspace(self, container: str, expected: dict[str, set[str | None]]) -> None:
        found = {one["path"].removeprefix("/mnt/data/"): one["id"] for one in await self._list(
            f"/v1/containers/{container}/files")}  # fmt: skip
        for name, may in expected.items():
            contents = [None] * GATEWAYS if name not in found else await self._read_all(container, found[name])
            if {*contents} - may or len({*contents}) != 1:
                self._say("I2", f"{name} of {container} is {contents}, and should be of {may}")
        if not {*found} <= {*expected, "log"}:
            self._say("I3", f"{container} has files that nobody put: {ids_of(found, expected)}")
        if container in self._last:
            answers = await self._get_everywhere(f"/v1/containers/{container}/files/{found.get('log')}/content")
            last = self._last[container]
            for status, data in answers:
                log = data.decode().split() if status == 200 else []
                if log[: len(last)] != last or not {*log[len(last) :]} <= self._unknown_cells:
                    self._say("I2", f"the log of {container} is {log}, and was told to be {last}")

    async def _read_all(self, container: str, id: str) -> list[str | None]:
        answers = await self._get_everywhere(f"/v1/containers/{container}/files/{id}/content")
        return [digest(data) if status == 200 else None for status, data in answers]

    async def _check_deleted(self, kind: str, of: str, path: str) -> set[str]:
        """Whatever was deleted is gone at all; the ids of what may be."""
        for one in self._journal.all(kind):
            if one.outcome == "told":
                for status, data in await self._get_everywhere(path.format(one.asked[of])):
                    if status != 404:
                        self._say("I2", f"{one.asked[of]} was deleted, and is there: {status} {data[:200]!r}", one)
        return {one.asked[of] for one in self._journal.all(kind)}

    async def _check_uploads(self) -> None:
        gone = {one.asked["name"]: one for one in self._journal.all("unload")}
        for one in self._journal.all("upload"):
            if one.outcome != "told":
                continue
            ended = gone.get(one.asked["name"])
            answers = await self._get_everywhere(f"/v1/files/{one.told['id']}/content")
            there = {digest(data) if status == 200 else None for status, data in answers}
            may = {one.asked["digest"]} if ended is None or ended.outcome == "refused" else {None}
            if ended is not None and ended.outcome == "unknown":
                may |= {one.asked["digest"]}
            if len(there) != 1 or there - may:
                self._say("I2", f"the upload {one.asked['name']} is not as it was told", one)

    async def _check_responses(self) -> None:
        maybe = await self._check_deleted("delete", "response", "/v1/responses/{}")
        for one in self._journal.all("cell", "chained"):
            if one.outcome == "told" and one.told["id"] not in maybe:
                for status, data in await self._get_everywhere(f"/v1/responses/{one.told['id']}?{INCLUDE}"):
                    if status != 200 or json.loads(data)["output"] != one.told["output"]:
                        self._say("I2", f"{one.told['id']} is not as it was told: {status} {data[:300]!r}", one)
        for one in self._journal.all("begin"):
            if one.outcome == "told" and one.told["id"] not in maybe:
                await self._check_background(one)

    async def _check_background(self, one: Entry) -> None:
        id = one.told["id"]
        async with asyncio.timeout(PATIENCE):
            while await self._runs(id):  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.2)
        answers = await self._get_everywhere(f"/v1/responses/{id}")
        status = json.loads(answers[0][1])["status"]
        if len({*answers}) != 1:
            self._say("I4", f"{id} is not the same everywhere: {answers}", one)
        for cancelled in self._journal.all("cancel"):
            if cancelled.asked["response"] == id and cancelled.outcome == "told" and status != "cancelled":
                self._say("I4", f"{id} was cancelled and is {status}", one, cancelled)
        for answer in await self._get_everywhere(f"/v1/responses/{id}?stream=true"):
            frames = [line for line in answer[1].split(b"\n") if line.startswith(b"data: {")]
            events = [(json.loads(line[6:]), digest(line + b"\n")) for line in frames]
            told = [(event["sequence_number"], event["type"], content) for event, content in events]
            self._add_events(self._streams.setdefault(id, {}), -1, told, one)
            last = [kind for _, kind, _ in told if kind in LAST]
            if len(last) != 1 or told[-1][1] not in LAST:
                self._say("I5", f"the stream of {id} ends {len(last)} times: {[kind for _, kind, _ in told][-3:]}", one)
            elif last[0] != ("response.incomplete" if status == "cancelled" else f"response.{status}"):
                self._say("I5", f"the stream of {id} ends with {last[0]}, and it is {status}", one)

    async def _runs(self, id: str) -> bool:
        return json.loads((await self._get(0, f"/v1/responses/{id}"))[1])["status"] in ("queued", "in_progress")

    async def _check_items(self) -> None:
        sent: dict[str, list[Entry]] = defaultdict(list)
        for one in self._journal.all("item"):
            sent[one.asked["conversation"]].append(one)
        for conversation, entries in sent.items():
            items = await self._list(f"/v1/conversations/{conversation}/items?order=asc")
            found = [one["content"][0]["text"] for one in items]
            sure = [one.asked["token"] for one in entries if one.outcome == "told"]
            if [one for one in found if one in sure] != sure:
                self._say("I2", f"{conversation} has the items {found}, and was told to have {sure}")
            if not {*found} <= {one.asked["token"] for one in entries} or len({*found}) != len(found):
                self._say("I3", f"{conversation} has items that nobody added, or twice: {found}")

    # -- by the store -------------------------------------------------------------------------------------------------

    async def _query(self, sql: str) -> list[Any]:
        connection = await asyncpg.connect(self._deployment.postgres.address(self._deployment.database))
        try:
            return [*await connection.fetch(sql)]
        finally:
            await connection.close()

    async def _check_listed(self) -> None:
        """Every row was asked for, once."""
        named = {one.asked["name"] for one in self._journal.all("create")}
        autos = {one.asked["token"] for one in self._journal.all("chained", "begin")}
        containers = await self._list("/v1/containers")
        counted = Counter(one["name"] for one in containers)
        many = counted.pop("auto", 0)
        if many > len(autos) or not {*counted} <= named or max(counted.values(), default=0) > 1:
            self._say("I3", f"containers that nobody made: {counted}, {many} auto of at most {len(autos)}")
        uploads = Counter(one["filename"] for one in await self._list("/v1/files"))
        sent = {one.asked["name"] for one in self._journal.all("upload")}
        if not {*uploads} <= sent or max(uploads.values(), default=0) > 1:
            self._say("I3", f"files that nobody uploaded: {uploads}")
        tokens = {one.asked["token"] for one in self._journal.all("cell", "chained", "begin")}
        rows = await self._query("SELECT body, status FROM belljar.responses")
        kept = Counter(json.loads(body)["metadata"]["token"] for body, _ in rows)
        if not {*kept} <= tokens or max(kept.values(), default=0) > 1:
            self._say("I3", f"responses that nobody asked for, or twice: {kept - Counter(tokens)}")
        if unfinished := [status for _, status in rows if status in ("queued", "in_progress")]:
            self._say("I4", f"{len(unfinished)} responses have not ended")

    async def clear(self) -> list[str]:
        """Delete all that there is, each at another gateway; what is left then that nobody accounts for."""
        self.broken = []
        rows = [id for [id] in await self._query("SELECT id FROM belljar.responses")]
        paths = [f"/v1/responses/{id}" for id in rows]
        paths += [f"/v1/containers/{one['id']}" for one in await self._list("/v1/containers")]
        paths += [f"/v1/files/{one['id']}" for one in await self._list("/v1/files")]
        conversations = {one.asked["conversation"] for one in self._journal.all("item")}
        paths += [f"/v1/conversations/{id}" for id in sorted(conversations)]
        for number, path in enumerate(paths):
            async with self._session.delete(f"{self._deployment.urls[number % GATEWAYS]}{path}") as answer:
                if answer.status != 200:
                    self._say("I7", f"{path} could not be deleted: {answer.status} {await answer.text()}")
        for table in _EMPTY:
            if table != "conversations":  # of those whose answer was lost nobody knows the id
                [[count]] = await self._query(f"SELECT count(*) FROM belljar.{table}")
                if count:
                    self._say("I7", f"{count} rows of {table} are left")
        gateways = await self._query("SELECT id FROM belljar.gateways WHERE until > clock_timestamp()")
        if len(gateways) != GATEWAYS:
            self._say("I7", f"there are {len(gateways)} gateways")
        await self._check_sandboxes()
        return self.broken

    async def _check_sandboxes(self) -> None:
        """No container is left, so nobody may hold one; those that nobody holds end by themselves."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while held := [one for one in await self._deployment.list_sandboxes() if one["held"]]:
            if asyncio.get_running_loop().time() > deadline:
                return self._say("I7", f"sandboxes are held for no container: {held}")
            await asyncio.sleep(0.1)


def ids_of(found: dict[str, str], expected: dict[str, set[str | None]]) -> list[str]:
    return sorted({*found} - {*expected, "log"})
