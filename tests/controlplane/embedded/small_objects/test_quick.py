"""Small objects over the wire: by the shortest way and by nanio's, which must not be told apart, and over kill -9."""

import asyncio
import http.client
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from controlplane.embedded.child import Child
from controlplane.embedded.small_objects.storage import SMALL_BYTES
from controlplane.embedded.store import prepare, url
from tests import aws
from tests.controlplane.embedded.small_objects import unsettled
from tests.controlplane.routing.peers import free_port
from workers.invocations.quick_put import QuickPut

KEYS = Credentials("AKIDSTORE", "a-secret")
BUCKET = "bucket"


class Server:
    """An embedded store of one's own."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.root = folder / "store"
        spec = prepare(folder, self.port, KEYS.access_key, KEYS.secret_key, folder / "store.log")
        argv = [f"{unsettled.__name__}:app" if each.endswith("nanio_files:app") else each for each in spec.argv]
        assert argv != spec.argv
        self.child = Child(replace(spec, argv=argv))
        self.start()
        self.s3.create_bucket(Bucket=BUCKET)

    @property
    def s3(self) -> Any:
        config = Config(retries={"total_max_attempts": 1}, signature_version="s3v4")
        keys = {"aws_access_key_id": KEYS.access_key, "aws_secret_access_key": KEYS.secret_key}
        return aws.client("s3", endpoint_url=url(self.port), region_name="us-east-1", config=config, **keys)

    def start(self) -> None:
        self.child.start()
        self.child.wait_ready(threading.Event())

    def kill(self) -> None:
        """As a machine's last resort does it."""
        assert self.child.process is not None
        self.child.process.send_signal(signal.SIGKILL)
        self.child.process.wait()

    def send(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request as it is; status, headers and body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def signed(self, target: str, body: bytes, keys: Credentials = KEYS, **headers: str) -> dict[str, str]:
        """The headers of a put, signed by botocore."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        request = AWSRequest("PUT", url(self.port) + target, data=body, headers=sent)
        S3SigV4Auth(keys, "s3", "us-east-1").add_auth(request)
        return dict(request.headers.items())

    def put(self, target: str, body: bytes, keys: Credentials = KEYS, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Put a body, signed."""
        return self.send("PUT", target, self.signed(target, body, keys, **headers), body)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("small"))
    yield found
    found.child.stop()


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, SMALL_BYTES + 1])
@pytest.mark.parametrize("extra", [{}, {"cache_control": "no-store"}], ids=["plain", "nanio"])
def test_either_way_keeps_the_same(server: Server, size: int, extra: dict[str, str]) -> None:
    key, body = f"out/{uuid4()}", b"y" * size
    status, headers, _ = server.put(f"/{BUCKET}/{key}", body, content_type="text/plain", x_amz_meta_mark="me", **extra)
    found = server.s3.get_object(Bucket=BUCKET, Key=key)
    assert (status, headers["etag"]) == (200, found["ETag"])
    assert (found["Body"].read(), found["ContentType"], found["Metadata"]) == (body, "text/plain", {"mark": "me"})
    assert server.s3.list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"][0]["Size"] == size


class Unsigned(S3SigV4Auth):
    """Signs all but the body, as clients may over TLS."""

    def payload(self, request: AWSRequest) -> str:
        del request
        return "UNSIGNED-PAYLOAD"


def test_a_body_that_is_not_signed_is_kept_by_nanio(server: Server) -> None:
    request = AWSRequest("PUT", f"{url(server.port)}/{BUCKET}/unsigned", data=b"text")
    Unsigned(KEYS, "s3", "us-east-1").add_auth(request)
    assert server.send("PUT", f"/{BUCKET}/unsigned", dict(request.headers.items()), b"text")[0] == 200
    assert server.s3.get_object(Bucket=BUCKET, Key="unsigned")["Body"].read() == b"text"


def test_a_client_that_asks_first_is_asked_for_its_body_only_where_it_is_good(server: Server) -> None:
    for bucket, continued in ((BUCKET, True), ("no-such-bucket", False)):
        target, body = f"/{bucket}/asked", b"given"
        headers = {**server.signed(target, body, expect="100-continue"), "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{head}\r\n".encode())
            said = connection.recv(4096)
            assert said.startswith(b"HTTP/1.1 100 ") is continued
            if continued:
                connection.sendall(body)
                assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert server.s3.get_object(Bucket=BUCKET, Key="asked")["Body"].read() == b"given"


def test_a_body_that_is_not_the_one_that_was_signed_is_refused(server: Server) -> None:
    target = f"/{BUCKET}/out/{uuid4()}"
    status, _, answer = server.send("PUT", target, server.signed(target, b"signed"), b"forged")
    assert (status, b"<Code>XAmzContentSHA256Mismatch</Code>" in answer) == (400, True)
    assert not (server.root / target[1:]).exists()


@pytest.mark.parametrize(
    ("target", "secret", "code"),
    [
        (f"/{BUCKET}/out/never", "wrong", "SignatureDoesNotMatch"),
        ("/no-such-bucket/a", KEYS.secret_key, "NoSuchBucket"),
        (f"/{BUCKET}/.nanio-meta/out", KEYS.secret_key, "InvalidObjectName"),
        (f"/{BUCKET}/a//b", KEYS.secret_key, "InvalidObjectName"),
        (f"/{BUCKET}/..%5Cb", KEYS.secret_key, "InvalidObjectName"),
        (f"/{BUCKET}/folder", KEYS.secret_key, "InvalidObjectName"),
        (f"/{BUCKET}/folder/object/below", KEYS.secret_key, "InvalidObjectName"),
    ],
    ids=["signature", "bucket", "own name", "empty part", "a way out", "a folder", "below an object"],
)
def test_what_cannot_be_is_refused_in_nanios_words(server: Server, target: str, secret: str, code: str) -> None:
    assert server.put(f"/{BUCKET}/folder/object", b"1")[0] == 200
    status, _, answer = server.put(target, b"x", Credentials(KEYS.access_key, secret))
    assert (400 <= status < 500, f"<Code>{code}</Code>" in answer.decode()) == (True, True), answer


def test_a_way_out_between_backslashes_is_refused_by_all_and_harms_nobody(server: Server) -> None:
    place = {"Bucket": BUCKET, "Key": "a\\..\\b/c"}
    s3 = server.s3
    for ask in (s3.get_object, s3.delete_object, s3.create_multipart_upload):
        with pytest.raises(ClientError) as caught:
            ask(**place)
        assert caught.value.response["Error"]["Code"] == "InvalidObjectName"
    removed = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": place["Key"]}]})
    assert [each["Code"] for each in removed["Errors"]] == ["InvalidObjectName"]
    assert s3.list_objects_v2(Bucket=BUCKET)["ResponseMetadata"]["HTTPStatusCode"] == 200


def test_metadata_beyond_what_s3_takes_is_refused(server: Server) -> None:
    assert server.put(f"/{BUCKET}/a", b"x", x_amz_meta_long="m" * 3000)[0] == 400


def test_a_large_object_is_put_over_what_a_killed_store_left_of_another(server: Server) -> None:
    """nanio writes what it knows of an object to a file of one name, and refuses where there is one."""
    left = server.root / BUCKET / ".nanio-meta" / "large.json.tmp"
    left.write_bytes(b"half")
    for body in (b"l" * (SMALL_BYTES + 1), b"small"):
        assert server.put(f"/{BUCKET}/large", body, content_language="en")[0] == 200
        assert server.s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == body
    left.write_bytes(b"half")
    in_parts(server, "large", b"p" * 100)
    assert server.s3.get_object(Bucket=BUCKET, Key="large")["Body"].read() == b"p" * 100


def in_parts(server: Server, key: str, body: bytes) -> None:
    """Put an object as an upload of one part."""
    place = {"Bucket": BUCKET, "Key": key}
    upload = server.s3.create_multipart_upload(**place)["UploadId"]
    part = server.s3.upload_part(**place, UploadId=upload, PartNumber=1, Body=body)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    server.s3.complete_multipart_upload(**place, UploadId=upload, MultipartUpload=parts)


def test_what_became_of_small_objects_since_outlives_kill_9(tmp_path: Path) -> None:
    """Each was put small first, so that the log of the killed process holds it or did."""
    server = Server(tmp_path)
    try:
        large = b"l" * (SMALL_BYTES + 1)
        for key in ("kept", "removed", "removed-too", "large", "copied", "parts", "begun", "again"):
            assert server.put(f"/{BUCKET}/{key}", b"small")[0] == 200
        server.s3.delete_object(Bucket=BUCKET, Key="removed")
        server.s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": "removed-too"}]})
        server.s3.put_object(Bucket=BUCKET, Key="large", Body=large)
        server.s3.copy_object(Bucket=BUCKET, Key="copied", CopySource={"Bucket": BUCKET, "Key": "large"})
        in_parts(server, "parts", b"in parts")
        server.s3.create_multipart_upload(Bucket=BUCKET, Key="begun")
        assert server.put(f"/{BUCKET}/again", b"anew")[0] == 200
        server.kill()
        (server.root / BUCKET / "kept").unlink()
        (server.root / BUCKET / "begun").write_bytes(b"")  # as a lost machine leaves a file that was never synced
        server.start()
        listed = server.s3.list_objects_v2(Bucket=BUCKET)["Contents"]
        found = {each["Key"]: server.s3.get_object(Bucket=BUCKET, Key=each["Key"])["Body"].read() for each in listed}
        expected = {"kept": b"small", "begun": b"small", "again": b"anew", "parts": b"in parts"}
        assert found == {**expected, "large": large, "copied": large}
    finally:
        server.child.stop()


def test_whatever_a_worker_was_told_is_kept_is_there_after_kill_9_in_the_middle(tmp_path: Path) -> None:
    server = Server(tmp_path)
    kept: list[str] = []

    async def worker(putting: QuickPut, number: int) -> None:
        for each in range(1000):
            key = f"out/{number}-{each}"
            if not await putting(BUCKET, key, key.encode(), {"content-type": "text/plain"}):
                return
            kept.append(key)
            if len(kept) == 500:
                server.kill()

    async def run() -> None:
        putting = QuickPut(url(server.port), "us-east-1", KEYS)
        await asyncio.gather(*(worker(putting, number) for number in range(16)))
        putting.close()

    try:
        asyncio.run(run())
        assert len(kept) >= 500
        for key in kept[-20:]:  # as a lost machine loses them
            (server.root / BUCKET / key).unlink()
        server.start()
        for key in kept:
            assert (server.root / BUCKET / key).read_bytes() == key.encode()
        assert server.s3.get_object(Bucket=BUCKET, Key=kept[-1])["ContentType"] == "text/plain"
        listed = server.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET).search("Contents[].[Key, Size]")
        assert {key for key, size in listed if size != len(key)} == set()
    finally:
        server.child.stop()
