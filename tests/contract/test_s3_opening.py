"""Opening the bucket that the settings name: whose it is, who we are to it, and what is said where that goes wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.helpers.certificates import own_certificate
from tests.helpers.postgres import Postgres
from tests.helpers.s3 import BUCKET, CREDENTIALS, VARIABLES, Proxy, S3Server

from belljar.config import Settings
from belljar.errors import BadSettings, StoreUnavailable
from belljar.gateway.store.base import Blobs
from belljar.gateway.store.configured_store import open_blobs, open_records
from belljar.gateway.store.s3.account import Account


@pytest.fixture(autouse=True)
def own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def prefix() -> str:
    return os.urandom(8).hex()


@asynccontextmanager
async def opened(place: Path, **flags: object) -> AsyncIterator[Blobs]:
    settings = Settings.load(
        environment={"HOME": str(place)}, flags={"state_dir": str(place / "state"), "cache_dir": str(place), **flags}
    )
    records = await open_records(settings)
    try:
        blobs = await open_blobs(settings, records)
        try:
            yield blobs
        finally:
            await blobs.close()
    finally:
        await records.close()


async def write(blobs: Blobs, data: bytes) -> str:
    async with blobs.write() as writer:
        await writer.write(data)
        return (await writer.finish()).name


async def read(blobs: Blobs, name: str) -> bytes:
    return b"".join([chunk async for chunk in blobs.stream(name)])


async def test_a_store_in_a_bucket_is_opened_again(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    flags = {"blobs": f"s3://{BUCKET}/{prefix}/deeper", "blobs_endpoint": s3_server.url}
    async with opened(tmp_path, **flags) as blobs:
        name = await write(blobs, b"data")
    assert [key for key in s3_server.objects(prefix) if key == "deeper/store.json"]
    async with opened(tmp_path, **flags) as blobs, opened(tmp_path, **flags) as another:
        assert await read(blobs, name) == await read(another, name) == b"data"
    assert not (tmp_path / "state/blobs").exists()


async def test_the_endpoint_can_be_an_aws_variable(
    s3_server: S3Server, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server.url)
    async with opened(tmp_path, blobs=f"s3://{BUCKET}/{prefix}") as blobs:
        await write(blobs, b"data")
    assert len(s3_server.objects(prefix)) == 2


async def test_of_gateways_that_start_at_once_all_start(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    flags = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": s3_server.url}

    async def start() -> None:
        async with opened(tmp_path, **flags) as blobs:
            await write(blobs, b"data")

    await asyncio.gather(*(start() for _ in range(4)))
    assert len(s3_server.objects(prefix)) == 2


async def test_a_bucket_of_another_store_is_refused(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    flags = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": s3_server.url}
    async with opened(tmp_path / "one", **flags):
        pass
    with pytest.raises(BadSettings, match=r"has the files of other records .* a prefix of its own"):
        async with opened(tmp_path / "two", **flags):
            pass
    async with opened(tmp_path / "two", **{**flags, "blobs": f"s3://{BUCKET}/{prefix}/two"}):
        pass


async def test_a_bucket_without_the_files_is_refused(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    flags = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": s3_server.url}
    async with opened(tmp_path, **flags) as blobs:
        await write(blobs, b"data")
    with pytest.raises(BadSettings, match=r"has none of the files that these records name; .* copy store.json as well"):
        async with opened(tmp_path, **{**flags, "blobs": f"s3://{BUCKET}/{prefix}x"}):
            pass
    assert s3_server.objects(f"{prefix}x") == {}


async def test_records_whose_files_are_in_a_directory(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    async with opened(tmp_path) as blobs:
        await write(blobs, b"data")
    with pytest.raises(BadSettings, match=r"are in a directory, and a bucket has none of them; leave --blobs out"):
        async with opened(tmp_path, blobs=f"s3://{BUCKET}/{prefix}", blobs_endpoint=s3_server.url):
            pass
    assert s3_server.objects(prefix) == {}
    async with opened(tmp_path):
        pass


async def test_records_whose_files_are_in_a_bucket(s3_server: S3Server, tmp_path: Path, prefix: str) -> None:
    async with opened(tmp_path, blobs=f"s3://{BUCKET}/{prefix}", blobs_endpoint=s3_server.url):
        pass
    with pytest.raises(BadSettings, match=r"are in a bucket; say in which: --blobs"):
        async with opened(tmp_path):
            pass


async def test_a_bucket_that_there_is_not(s3_server: S3Server, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"there is no bucket nobodys .* make it, or name one that is there"):
        async with opened(tmp_path, blobs="s3://nobodys/x", blobs_endpoint=s3_server.url):
            pass
    async with opened(tmp_path):
        pass  # nothing was settled by the wrong one


async def test_keys_that_are_refused(
    s3_servers: Callable[[str], S3Server], tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-key-of-tests")
    flags = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": s3_servers("rclone").url}
    with pytest.raises(BadSettings, match=r"403 .*; check the keys, and that they may list the bucket") as caught:
        async with opened(tmp_path, **flags):
            pass
    assert "another-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "said", "told"),
    [
        (301, "<Error><Code>PermanentRedirect</Code></Error>", "check blobs_region and blobs_endpoint"),
        (
            400,
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-9</Region></Error>",
            "is in another region; set blobs_region to eu-west-9",
        ),
        (501, "what?", "check blobs and blobs_endpoint"),
    ],
)
async def test_a_server_that_will_not(
    s3_servers: Callable[[str], S3Server], tmp_path: Path, status: int, said: str, told: str
) -> None:
    async with Proxy(s3_servers("rclone").url).serving() as proxy:
        proxy.answer = status, said
        with pytest.raises(BadSettings, match=told):
            async with opened(tmp_path, blobs=f"s3://{BUCKET}", blobs_endpoint=proxy.url):
                pass


async def test_certificates_of_an_authority_of_ones_own(
    s3_server: S3Server, tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = own_certificate(tmp_path)
    monkeypatch.setattr("belljar.gateway.store.s3.bucket.PATIENCE", 0.0)
    async with Proxy(s3_server.url).serving(tls) as proxy:
        flags = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": proxy.url}
        with pytest.raises(StoreUnavailable, match="certificate"):
            async with opened(tmp_path, **flags):
                pass
        async with opened(tmp_path, **flags, blobs_ca=str(certificate)) as blobs:
            await write(blobs, b"data")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        async with opened(tmp_path, **flags) as blobs:
            await write(blobs, b"more")
        with pytest.raises(BadSettings, match=r"blobs_ca: .* cannot be used"):
            async with opened(tmp_path, **flags, blobs_ca=str(tmp_path / "none.pem")):
                pass


async def test_a_database_knows_the_directory_that_its_files_are_in(
    postgres: Postgres, tmp_path: Path, s3_servers: Callable[[str], S3Server], prefix: str
) -> None:
    """One machine may do without a bucket, or several with a volume that all of them have."""
    address = await postgres.empty_store()
    async with opened(tmp_path / "one", database=address) as blobs:
        name = await write(blobs, b"data")
    async with opened(tmp_path / "one", database=address) as blobs:
        assert await read(blobs, name) == b"data"
    with pytest.raises(
        BadSettings, match=r"are in a directory of another machine, .* keep files in a bucket: .* --blobs"
    ):
        async with opened(tmp_path / "two", database=address):
            pass
    (tmp_path / "volume").symlink_to(tmp_path / "one")
    async with opened(tmp_path / "volume", database=address) as blobs:
        assert await read(blobs, name) == b"data"
    bucket = {"blobs": f"s3://{BUCKET}/{prefix}", "blobs_endpoint": s3_servers("rclone").url}
    with pytest.raises(BadSettings, match="are in a directory, and a bucket has none of them"):
        async with opened(tmp_path / "one", database=address, **bucket):
            pass


async def test_gateways_of_several_machines_share_a_database_and_a_bucket(
    postgres: Postgres, s3_server: S3Server, tmp_path: Path, prefix: str
) -> None:
    flags = {
        "database": await postgres.empty_store(),
        "blobs": f"s3://{BUCKET}/{prefix}",
        "blobs_endpoint": s3_server.url,
    }
    async with opened(tmp_path / "one", **flags) as one, opened(tmp_path / "two", **flags) as two:
        assert await read(two, await write(one, b"data")) == b"data"
    with pytest.raises(BadSettings, match="are in a bucket; say in which"):
        async with opened(tmp_path / "one", database=flags["database"]):
            pass


# -- credentials ------------------------------------------------------------------------------------------------------


async def test_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await Account().credentials() == CREDENTIALS
    monkeypatch.setenv("AWS_REGION", "eu-west-9")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-8")
    assert Account().region in ("eu-west-8", "eu-west-9")


async def test_credentials_of_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text(
        "[mine]\naws_access_key_id = a\naws_secret_access_key = s\naws_session_token = t\nregion = eu-west-9\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "mine")
    account = Account()
    found = await account.credentials()
    assert (found.access_key, found.secret_key, found.token) == ("a", "s", "t")
    assert account.region == "eu-west-9"
    monkeypatch.setenv("AWS_PROFILE", "other")
    with pytest.raises(BadSettings, match=r"no AWS credentials can be had: .*other"):
        Account()


async def test_credentials_by_web_identity(
    s3_servers: Callable[[str], S3Server], tmp_path: Path, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a service account of Kubernetes has them; moto gives out the role."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "token").write_text("token of the service account")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/belljar")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    server = s3_servers("moto")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    found = await (account := Account()).credentials()
    assert found.token
    assert found == await account.credentials()
    async with opened(tmp_path, blobs=f"s3://{BUCKET}/{prefix}", blobs_endpoint=server.url) as blobs:
        assert await read(blobs, await write(blobs, b"data")) == b"data"


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(BadSettings, match=r"no AWS credentials for the bucket; set AWS_ACCESS_KEY_ID"):
        Account()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "botocore.session", None)
    with pytest.raises(BadSettings, match=r"run: pip install 'belljar\[s3\]'"):
        Account()
