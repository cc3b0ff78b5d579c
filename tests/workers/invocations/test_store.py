"""The object store: another implementation's S3 for keys, the embedded one for the rest."""

import io
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TypeVar
from uuid import uuid4

import pytest
from django.conf import settings
from moto.server import ThreadedMotoServer

from tests import aws
from tests.workers.invocations.site import BUCKET, do, object_at, s3
from workers.invocations.store import PART_BYTES, Store, StoreAway, StoreMissing, StoreRefused, place_of


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    """The address of a store with keys."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    url = f"http://127.0.0.1:{port}"
    aws.client("s3", endpoint_url=url).create_bucket(Bucket=BUCKET)
    yield url
    server.stop()


T = TypeVar("T")


def on(url: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """What `work` gives with a store at this address."""

    async def open_and_work() -> T:
        store = Store(url, "us-east-1")
        try:
            return await work(store)
        finally:
            store.close()

    return do(open_and_work())


def embedded(work: Callable[[Store], Awaitable[T]]) -> T:
    """What `work` gives with the embedded store."""
    s3()
    return on(settings.HEADRACE.s3_endpoint_url, work)


def read(url: str, location: str) -> bytes:
    """The object, as payloads are read."""
    return b"".join(Store(url, "us-east-1").chunks(location, 100))


@pytest.mark.parametrize("body", [b"small", io.BytesIO(b"x" * (PART_BYTES + 1))], ids=["whole", "in parts"])
def test_an_output_is_encrypted_with_the_key_that_is_named(cloud: str, body: bytes | io.BytesIO) -> None:
    location = f"s3://{BUCKET}/{uuid4().hex}"
    on(cloud, lambda store: store.put(location, body, "text/plain", uuid4(), "my-key"))
    bucket, key = place_of(location)
    found = aws.client("s3", endpoint_url=cloud).head_object(Bucket=bucket, Key=key)
    assert (found["ServerSideEncryption"], found["SSEKMSKeyId"]) == ("aws:kms", "my-key")
    assert found["ContentType"] == "text/plain"


def test_a_store_without_keys_is_left_with_nothing() -> None:
    location = f"s3://{BUCKET}/{uuid4().hex}"
    with pytest.raises(StoreRefused, match="did not encrypt"):
        embedded(lambda store: store.put(location, b"secret", "text/plain", uuid4(), "my-key"))
    assert object_at(location) is None


def test_a_large_object_is_put_whole_and_again() -> None:
    file, location = io.BytesIO(b"y" * (2 * PART_BYTES + 3)), f"s3://{BUCKET}/{uuid4().hex}"
    for _ in range(2):
        embedded(lambda store: store.put(location, file, "", uuid4()))
        assert object_at(location) == file.getvalue()


def test_an_object_is_known_by_who_wrote_it() -> None:
    mine, location = uuid4(), f"s3://{BUCKET}/{uuid4().hex}"
    assert not embedded(lambda store: store.has(location, mine))
    embedded(lambda store: store.put(location, b"x", "", mine))
    assert embedded(lambda store: store.has(location, mine))
    assert not embedded(lambda store: store.has(location, uuid4()))


def test_a_key_is_taken_as_it_is_written() -> None:
    location = f"s3://{BUCKET}/a b/+/c?d=e#f"
    embedded(lambda store: store.put(location, b"x", "", uuid4()))
    assert s3().get_object(Bucket=BUCKET, Key="a b/+/c?d=e#f")["Body"].read() == b"x"


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        (f"s3://{BUCKET}/missing", StoreMissing),
        ("s3://no-such-bucket/missing", StoreMissing),
        ("s3://No_Such Bucket!/key", StoreRefused),
    ],
)
def test_no_object_and_no_such_name_are_told_apart(location: str, kind: type[Exception]) -> None:
    s3()
    with pytest.raises(kind) as caught:
        read(settings.HEADRACE.s3_endpoint_url, location)
    assert caught.type is kind


def test_a_store_that_does_not_answer_is_away() -> None:
    with pytest.raises(StoreAway):
        read("http://127.0.0.1:1", f"s3://{BUCKET}/x")


@pytest.mark.parametrize(("status", "kind"), [(403, StoreRefused), (429, StoreAway), (500, StoreAway), (501, StoreRefused)])
def test_what_a_store_says_decides_whether_it_is_asked_again(status: int, kind: type[Exception]) -> None:
    class Stub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(kind) as caught:
            read(f"http://127.0.0.1:{server.server_port}", f"s3://{BUCKET}/x")
        server.shutdown()
    assert caught.type is kind


def test_an_object_is_read_if_it_is_small_enough() -> None:
    location = f"s3://{BUCKET}/{uuid4().hex}"
    embedded(lambda store: store.put(location, b"12345", "text/csv", uuid4()))
    assert embedded(lambda store: store.read(location, 5)) == ("text/csv", b"12345")
    assert embedded(lambda store: store.read(location, 4)) == ("text/csv", None)
