"""Requests to an S3 server: signed as AWS's own examples are, at the address that it expects; what its XML says."""

from __future__ import annotations

from calendar import timegm

import pytest

from belljar.gateway.store.s3 import answers
from belljar.gateway.store.s3.answers import ObjectListing, S3Fault, Unfinished
from belljar.gateway.store.s3.bucket import BucketAddress
from belljar.gateway.store.s3.signing import NOTHING, Credentials, encode_path, encode_query, hash_body, sign

# The examples of "Signature Calculations for the Authorization Header" in AWS's documentation of S3.
KEYS = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "examplebucket.s3.amazonaws.com"
NOW = float(timegm((2013, 5, 24, 0, 0, 0)))


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "digest", "signature"),
    [
        (
            "GET",
            "/test.txt",
            {},
            {"Range": "bytes=0-9"},
            NOTHING,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test$file.text",
            {},
            {"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            hash_body(b"Welcome to Amazon S3."),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            {"lifecycle": ""},
            {},
            NOTHING,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET",
            "/",
            {"max-keys": "2", "prefix": "J"},
            {},
            NOTHING,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)
def test_aws_own_examples(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], digest: str, signature: str
) -> None:
    made = sign(method, HOST, encode_path(path), encode_query(query), headers, digest, KEYS, "us-east-1", NOW)
    assert made["authorization"].endswith(f"Signature={signature}")
    assert made["host"] == HOST
    assert made["x-amz-content-sha256"] == digest


def test_a_session_token_is_signed_too() -> None:
    keys = Credentials(KEYS.access_key, KEYS.secret_key, "token")
    made = sign("GET", HOST, "/", "", {}, NOTHING, keys, "us-east-1", NOW)
    assert made["x-amz-security-token"] == "token"
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token" in made["authorization"]


def test_secrets_are_not_shown() -> None:
    assert repr(Credentials("key", "secret", "token")) == "Credentials(access_key='key')"


@pytest.mark.parametrize(
    ("address", "base", "root"),
    [
        (BucketAddress("bucket", "", "eu-west-1"), "https://bucket.s3.eu-west-1.amazonaws.com", ""),
        (BucketAddress("my.bucket", "p", "eu-west-1"), "https://s3.eu-west-1.amazonaws.com", "/my.bucket"),
        (BucketAddress("bucket", "p", "cn-north-1"), "https://bucket.s3.cn-north-1.amazonaws.com.cn", ""),
        (BucketAddress("bucket", "p", "x", "http://127.0.0.1:9000/"), "http://127.0.0.1:9000", "/bucket"),
        (BucketAddress("bucket", "p", "x", "https://host/s3"), "https://host/s3", "/bucket"),
    ],
)
def test_where_a_bucket_is(address: BucketAddress, base: str, root: str) -> None:
    assert (address.base, address.root) == (base, root)


def test_how_a_bucket_is_told() -> None:
    assert str(BucketAddress("bucket", "", "x")) == "s3://bucket"
    assert str(BucketAddress("bucket", "a/b", "x", "http://host:9000")) == "s3://bucket/a/b at http://host:9000"


SPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


def test_errors() -> None:
    said = b"<Error><Code>SlowDown</Code><Message>Reduce &amp; wait</Message><Region>eu-west-1</Region></Error>"
    assert answers.read_fault(said) == S3Fault("SlowDown", "Reduce & wait", "eu-west-1")
    assert answers.read_fault(f'<?xml version="1.0"?>\n<Error {SPACE}/>'.encode()) == S3Fault()
    for other in (b"", b"not XML", b"<html/>", b"<CompleteMultipartUploadResult/>", b"\xff\xfe\x00"):
        assert answers.read_fault(other) is None


def test_the_id_of_an_upload() -> None:
    said = f"<Initiated {SPACE}><Key>k</Key><UploadId>id/1+2=</UploadId></Initiated>"
    assert answers.read_upload_id(said.encode()) == "id/1+2="
    for other in (b"", b"<Error/>", b"<a><UploadId/></a>"):
        assert answers.read_upload_id(other) is None


def test_the_uploads_that_are_unfinished() -> None:
    one = "<Upload><Key>a/b</Key><UploadId>1</UploadId><Initiated>never</Initiated></Upload>"
    said = f"<ListMultipartUploadsResult {SPACE}><IsTruncated>false</IsTruncated>{one}</ListMultipartUploadsResult>"
    assert answers.read_uploads(said.encode()) == ObjectListing([Unfinished("a/b", "1")], None)
    more = "<NextKeyMarker>a/b</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
    said = said.replace("<IsTruncated>false</IsTruncated>", f"<IsTruncated>true</IsTruncated>{more}")
    assert answers.read_uploads(said.encode()) == ObjectListing([Unfinished("a/b", "1")], ("a/b", "1"))
    assert answers.read_uploads(b"not XML") == ObjectListing([], None)


def test_parts_are_told_by_their_tags() -> None:
    assert answers.write_parts(['"a"', "<b>"]) == (
        b'<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"a"</ETag></Part>'
        b"<Part><PartNumber>2</PartNumber><ETag>&lt;b&gt;</ETag></Part></CompleteMultipartUpload>"
    )
