"""One suite over every Files API: the gateway's is real, the vendors' are their SDKs and servers of their shapes."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anthropic
import openai
import pytest
from google import genai
from tests.contract import vendors
from tests.contract.vendors import NOW, Reply, Vendor, sdk
from tests.gateway.houses import CODE, House

from belljar.errors import BadKey, InvalidRequest, NotFound, ProviderError, RateLimited, TooLarge, Unreachable
from belljar.files import AnthropicFiles, FilesApiProvider, GatewayFiles, GeminiFiles, OpenAIFiles, XAIFiles
from belljar.files.base import FilesApi

MIB = 1 << 20
VENDORS = {
    "openai": (OpenAIFiles, vendors.OpenAI),
    "anthropic": (AnthropicFiles, vendors.Anthropic),
    "gemini": (GeminiFiles, vendors.Gemini),
    "xai": (XAIFiles, vendors.XAI),
}
TAKES_LIFETIMES = ("openai", "anthropic", "xai", "belljar")


@dataclass
class Under:
    """A Files API under test."""

    files: FilesApi
    make: Callable[[str, bytes], tuple[str, str | None]]
    """A file that code has made: its id and its container's."""
    server: Vendor | None = None
    slept: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.files.provider


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with House(tmp_path_factory.mktemp("gateway") / "state") as house:
        yield house


@contextmanager
def serving(name: str) -> Iterator[Under]:
    kind, server = VENDORS[name]
    slept: list[float] = []
    with server() as running, sdk(name, running.url) as client:
        yield Under(kind(client, sleep=slept.append), running.make, running, slept)


@pytest.fixture
def vendor(request: pytest.FixtureRequest) -> Iterator[Under]:
    with serving(request.param) as under:
        yield under


@pytest.fixture
def gateway(house: House) -> Iterator[Under]:
    with GatewayFiles(base_url=house.base_url) as files:

        def make(name: str, data: bytes) -> tuple[str, str | None]:
            code = f"```python\n_ = open({name!r}, 'wb').write({data!r})\n```"
            answer = cast(Any, files.client).responses.create(model="belljar", tools=CODE, input=code)
            cited = answer.output[-1].content[0].annotations[0]
            return cited.file_id, cited.container_id

        yield Under(files, make)


@pytest.fixture(params=[*VENDORS, "belljar"])
def under(request: pytest.FixtureRequest) -> Iterator[Under]:
    if request.param == "belljar":
        yield request.getfixturevalue("gateway")
        return
    with serving(request.param) as under:
        yield under


each_vendor = pytest.mark.parametrize("vendor", VENDORS, indirect=True)


def written(name: str, data: bytes) -> Path:
    path = Path(name)
    path.write_bytes(data)
    return path


# -- every one --------------------------------------------------------------------------------------------------------


def test_it_is_a_files_api(under: Under) -> None:
    assert isinstance(under.files, FilesApiProvider)


@pytest.mark.parametrize("name", ["data.csv", "報告 1.csv"])
def test_a_file_goes_up_and_is_known(under: Under, name: str) -> None:
    sent = under.files.upload_file(written(name, b"a,b\n1,2\n"))
    assert (sent.filename, sent.size, sent.mime_type) == (name, 8, "text/csv")
    known = under.files.file_metadata(sent.file_id)
    assert (known.file_id, known.filename, known.size) == (sent.file_id, name, 8)
    assert known.created_at is not None
    assert sent.file_id in [one.file_id for one in under.files.list_files()]


def test_a_path_may_be_a_text(under: Under) -> None:
    written("data.csv", b"a")
    assert under.files.upload_file("data.csv").size == 1


def test_a_deleted_file_is_gone(under: Under) -> None:
    sent = under.files.upload_file(written("data.csv", b"a"))
    under.files.delete_file(sent.file_id)
    with pytest.raises(NotFound):
        under.files.file_metadata(sent.file_id)
    with pytest.raises(NotFound):
        under.files.download_file(sent.file_id)
    assert sent.file_id not in [one.file_id for one in under.files.list_files()]


def test_lists_go_on_over_pages(under: Under) -> None:
    sent = {under.files.upload_file(written(f"{n}.csv", b"a")).file_id for n in range(5)}
    assert sent <= {one.file_id for one in under.files.list_files()}


def test_what_code_made_comes_back_exactly(under: Under) -> None:
    data = bytes(range(256)) * 20
    file_id, container_id = under.make("made.csv", data)
    with under.files.download_file(file_id, container_id=container_id) as fetched:
        assert (fetched.filename, fetched.mime_type, fetched.size) == ("made.csv", "text/csv", len(data))
        assert fetched.content == data
        assert b"".join(fetched.chunks()) == data


def test_an_upload_comes_back_or_says_why_not(under: Under) -> None:
    sent = under.files.upload_file(written("data.csv", b"a,b\n"))
    if under.name in ("anthropic", "gemini"):
        with pytest.raises(InvalidRequest, match="only what code has made"):
            under.files.download_file(sent.file_id)
    else:
        with under.files.download_file(sent.file_id) as fetched:
            assert (fetched.filename, fetched.content) == ("data.csv", b"a,b\n")


def test_expiry_is_known(under: Under) -> None:
    sent = under.files.upload_file(written("data.csv", b"a"), lifetime=timedelta(hours=2))
    assert sent.created_at is not None
    expected = timedelta(hours=48) if under.name == "gemini" else timedelta(hours=2)
    assert sent.expires_at == sent.created_at + expected


def test_what_nobody_limits_is_kept_until_it_is_deleted(under: Under) -> None:
    sent = under.files.upload_file(written("data.csv", b"a"))
    assert (sent.expires_at is None) == (under.name != "gemini")


def test_a_lifetime_that_the_vendor_does_not_take_is_refused_before(under: Under) -> None:
    path = written("data.csv", b"a")
    if under.name in TAKES_LIFETIMES:
        with pytest.raises(InvalidRequest, match="lifetime"):
            under.files.upload_file(path, lifetime=timedelta(minutes=1))
        assert under.server is None or not under.server.asked


def test_progress_is_told_in_pieces_both_ways(under: Under) -> None:
    size = 20 * MIB
    path = Path("large.csv")
    path.touch()
    os.truncate(path, size)
    up: list[tuple[int, int]] = []
    under.files.upload_file(path, on_progress=lambda done, all: up.append((done, all)))
    assert up[-1] == (size, size)
    assert max(after - before for (before, _), (after, _) in zip([(0, 0), *up], up, strict=False)) <= 8 * MIB
    down: list[int] = []
    data = b"x" * (3 * MIB)
    file_id, container_id = under.make("large.csv", data if under.server else b"x" * 1000)
    under.files.download_file(
        file_id, container_id=container_id, on_progress=lambda done, all: down.append(done)
    ).close()
    assert down == sorted(down)
    assert max(after - before for before, after in zip([0, *down], down, strict=False)) <= MIB


def test_an_upload_does_not_take_the_files_size_in_memory(gateway: Under) -> None:
    size = 64 * MIB
    Path("large.bin").touch()
    os.truncate("large.bin", size)
    tracemalloc.start()
    try:
        sent = gateway.files.upload_file("large.bin")
        gateway.files.download_file(sent.file_id).close()
        assert tracemalloc.get_traced_memory()[1] < size / 8
    finally:
        tracemalloc.stop()


def test_whoever_watches_can_stop_it(under: Under) -> None:
    class Stop(Exception):
        pass

    def stop(done: int, all: int) -> None:
        raise Stop

    asked = len(under.server.asked) if under.server else 0
    with pytest.raises(Stop):
        under.files.upload_file(written("data.csv", b"a"), on_progress=stop)
    assert under.server is None or len(under.server.asked) <= asked + 1


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_what_is_no_file_is_refused_before(under: Under, path: str) -> None:
    with pytest.raises(InvalidRequest, match="file"):
        under.files.upload_file(path)


# -- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "most"),
    [("openai", 512), ("anthropic", 500), ("gemini", 2048), ("xai", 48)],
    indirect=["vendor"],
)
def test_the_vendors_limit_is_checked_before_anything_is_sent(vendor: Under, most: int) -> None:
    vendor.files._largest = None
    Path("large.bin").touch()
    os.truncate("large.bin", most * MIB + 1)
    with pytest.raises(TooLarge, match="as of 2026"):
        vendor.files.upload_file("large.bin")
    assert vendor.server is not None
    assert not vendor.server.asked


def test_our_own_limit_is_lower_and_can_be_lifted(house: House) -> None:
    Path("large.bin").touch()
    os.truncate("large.bin", 2 * MIB)
    with GatewayFiles(base_url=house.base_url, largest=MIB) as files, pytest.raises(TooLarge, match="largest=None"):
        files.upload_file("large.bin")
    with GatewayFiles(base_url=house.base_url, largest=None) as files:
        assert files.upload_file("large.bin").size == 2 * MIB


# -- trouble ----------------------------------------------------------------------------------------------------------


@each_vendor
def test_what_fails_for_a_moment_is_tried_again_with_all_its_bytes(vendor: Under) -> None:
    assert vendor.server is not None
    vendor.server.trouble.extend([vendor.server.refusal(503), vendor.server.refusal(500)])
    sent = vendor.files.upload_file(written("data.csv", b"a,b\n"))
    assert vendor.server.kept[sent.file_id].data == b"a,b\n"
    assert [0.5 <= pause <= longest for pause, longest in zip(vendor.slept, (1, 2), strict=False)] == [True, True]


@each_vendor
def test_a_download_that_breaks_off_begins_anew(vendor: Under) -> None:
    assert vendor.server is not None
    data = b"x" * 1000
    file_id, container_id = vendor.server.make("made.csv", data)
    first = vendor.server.answer

    def breaking(asked: vendors.Asked) -> Reply:
        reply = first(asked)
        if isinstance(reply.body, bytes):
            vendor.server.answer = first  # type: ignore[method-assign, union-attr]
            return Reply(reply.body[:300], cut=True)
        return reply

    vendor.server.answer = breaking  # type: ignore[method-assign]
    with vendor.files.download_file(file_id, container_id=container_id) as fetched:
        assert fetched.content == data


@each_vendor
def test_what_fails_for_good_is_not_tried_again(vendor: Under) -> None:
    assert vendor.server is not None
    if vendor.name == "gemini":
        error = {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}
        vendor.server.trouble.append(Reply(error, 400))
    else:
        vendor.server.trouble.append(vendor.server.refusal(401, "Incorrect API key provided: sk-secret"))
    with pytest.raises(BadKey, match="_API_KEY") as caught:
        vendor.files.upload_file(written("data.csv", b"a"))
    assert "sk-secret" not in str(caught.value)
    assert len(vendor.server.asked) == 1


@each_vendor
def test_at_last_it_gives_up(vendor: Under) -> None:
    assert vendor.server is not None
    vendor.server.trouble.extend([vendor.server.refusal(503)] * 3)
    with pytest.raises(ProviderError):
        vendor.files.file_metadata("files/x" if vendor.name == "gemini" else "file-x")
    assert len(vendor.server.asked) == 3


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_it_waits_as_long_as_the_vendor_asks(vendor: Under) -> None:
    assert vendor.server is not None
    busy = vendor.server.refusal(429, "slow down")
    vendor.server.trouble.extend([Reply(busy.body, 429, {"retry-after": "7"})])
    vendor.files.upload_file(written("data.csv", b"a"))
    [slept] = vendor.slept
    assert 7 <= slept < 7.5
    vendor.server.trouble.extend([Reply(busy.body, 429, {"retry-after": "3600"})])
    with pytest.raises(RateLimited):
        vendor.files.upload_file("data.csv")


@pytest.mark.parametrize("kind", [kind for kind, _ in VENDORS.values()])
def test_nobody_there_is_said_so(kind: type[FilesApi]) -> None:
    files = kind(api_key="k", base_url="http://127.0.0.1:9", sleep=lambda pause: None)  # type: ignore[call-arg]
    with pytest.raises(Unreachable, match=r"reached|broke"):
        files.upload_file(written("data.csv", b"a"))
    files.close()


@pytest.mark.parametrize("vendor", ["openai"], indirect=True)
def test_a_file_that_the_server_finds_too_large(vendor: Under) -> None:
    assert vendor.server is not None
    vendor.server.trouble.append(vendor.server.refusal(413))
    with pytest.raises(TooLarge):
        vendor.files.upload_file(written("data.csv", b"a"))


# -- one by one -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vendor", ["anthropic"], indirect=True)
def test_anthropics_beta_header_only_where_it_is_asked_for(vendor: Under) -> None:
    assert vendor.server is not None
    vendor.files.upload_file(written("data.csv", b"a"))
    assert "anthropic-beta" not in vendor.server.asked[-1].headers
    with AnthropicFiles(api_key="k", base_url=vendor.server.url, beta="files-api-2025-04-14") as files:
        files.upload_file("data.csv")
    assert vendor.server.asked[-1].headers["anthropic-beta"] == "files-api-2025-04-14"


@pytest.mark.parametrize("vendor", ["gemini"], indirect=True)
def test_gemini_is_waited_for_and_used_by_its_address(vendor: Under) -> None:
    sent = vendor.files.upload_file(written("data.csv", b"a"))
    assert vendor.slept == [0.5]
    assert sent.uri.endswith(sent.file_id)
    assert sent.expires_at == NOW + timedelta(hours=48)


def test_a_purpose_may_be_given(under: Under) -> None:
    assert under.files.upload_file(written("data.csv", b"a"), "vision").size == 1
    if under.name in ("openai", "xai"):
        assert under.server is not None
        assert under.server.asked[-1].form["purpose"] == b"vision"


def test_a_client_of_ones_own_is_used_and_left_open(house: House) -> None:
    with openai.OpenAI(base_url=house.base_url, api_key="none") as client:
        with GatewayFiles(client) as files:
            files.upload_file(written("data.csv", b"a"))
        assert not client.is_closed()
    with vendors.Anthropic() as server, anthropic.Anthropic(api_key="k", base_url=server.url) as own:
        assert AnthropicFiles(own).upload_file("data.csv").size == 1
    with vendors.Gemini() as other:
        google = genai.Client(api_key="k", vertexai=False, http_options={"base_url": other.url})
        assert GeminiFiles(google, sleep=lambda pause: None).upload_file("data.csv").size == 1
        google.close()
