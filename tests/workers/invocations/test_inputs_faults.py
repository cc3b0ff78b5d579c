"""Hosts and locations that mean no good: drips, bodies that break off, names that only look like a bucket's."""

import asyncio
import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from controlplane.core import clock
from tests.controlplane.gateway.site import Container
from tests.fakes.https import HOST, Payloads, payload_server
from tests.workers.invocations.site import BUCKET, do, object_at, queue_up, run_once, s3
from workers.invocations.inputs import THREADS, Https, InputAway, Inputs
from workers.invocations.store import Store, place_of

LOCATION = f"https://{HOST}/in"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payloads]:
    """The host, trusted."""
    with payload_server(tmp_path) as found:
        monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate))
        yield found


def inputs(server: Payloads, seconds: float = 60.0) -> Inputs:
    https = Https(frozenset({HOST}), lambda host: ["127.0.0.1"], lambda address: True, server.port)
    return Inputs(Store("http://127.0.0.1:1", "us-east-1"), https, 1_000_000, seconds)


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with a length", "in chunks"])
def test_a_host_that_drips_is_given_up_when_the_time_is_over(server: Payloads, is_chunked: bool) -> None:
    """Each byte comes in time, and all of them would take half an hour."""
    server.answers["/in"] = (200, {}, b"x" * 90_000)
    server.drips["/in"] = 0.02
    if is_chunked:
        server.chunked.add("/in")
    began = clock.monotonic()
    with pytest.raises(InputAway, match=r"within 0\.3 s"):
        do(inputs(server, 0.3).fetch(LOCATION, io.BytesIO()))
    assert clock.monotonic() - began < 60


def test_a_fetch_that_nobody_waits_for_any_more_ends_although_the_host_drips(server: Payloads) -> None:
    server.answers["/in"] = (200, {}, b"x" * 90_000)
    server.drips["/in"] = 0.02
    fetching = inputs(server)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await fetching.fetch(LOCATION, io.BytesIO())

    do(give_up())
    ended = threading.Thread(target=fetching.host_threads.shutdown)
    ended.start()
    ended.join(30)
    assert not ended.is_alive()


def test_slow_hosts_keep_nobody_waiting_whose_payload_is_in_the_store(server: Payloads) -> None:
    """However many of them: each holds a thread for as long as its time allows."""
    server.answers["/in"] = (200, {}, b"x" * 90_000)
    server.drips["/in"] = 0.1
    s3().put_object(Bucket=BUCKET, Key="in/quick", Body=b"payload")
    slow = inputs(server)
    both = Inputs(Store(settings.HEADRACE.s3_endpoint_url, "us-east-1"), slow.https, 1_000_000)

    async def work() -> bytes:
        fetching = [asyncio.create_task(both.fetch(LOCATION, io.BytesIO())) for _ in range(2 * THREADS)]
        while len(server.asked) < THREADS:
            await asyncio.sleep(0.01)
        into = io.BytesIO()
        async with asyncio.timeout(40):
            await both.fetch(f"s3://{BUCKET}/in/quick", into)
        for each in fetching:
            each.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)
        return into.getvalue()

    assert do(work()) == b"payload"


def test_chunks_that_break_off_are_no_payload(server: Payloads) -> None:
    server.answers["/in"] = (200, {}, b"x" * 1000)
    server.chunked.add("/in")
    into = io.BytesIO()
    assert do(inputs(server).fetch(LOCATION, into)) == 1000
    server.cut.add("/in")
    with pytest.raises(InputAway, match="broke off"):
        do(inputs(server).fetch(LOCATION, io.BytesIO()))


@pytest.mark.parametrize(
    ("location", "bucket", "key"),
    [
        ("s3://bucket/a/b", "bucket", "a/b"),
        ("s3://bucket//a//", "bucket", "/a//"),
        ("s3://bucket/?x#y", "bucket", "?x#y"),
        ("s3://bucket?x/key", "bucket?x", "key"),
        ("s3://bucket#x/key", "bucket#x", "key"),
        ("s3://[x/key", "[x", "key"),
        ("s3://\u2100/key", "\u2100", "key"),
        ("s3://user@bucket:80/key", "user@bucket:80", "key"),
    ],
)
def test_a_bucket_is_what_comes_before_the_first_slash(location: str, bucket: str, key: str) -> None:
    assert place_of(location) == (bucket, key)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "bucket", [f"{BUCKET}?x", f"{BUCKET}#x", "[x", "\u2100", f"user@{BUCKET}", f"{BUCKET}:80", "x" * 300]
)
def test_what_is_no_bucket_fails_at_the_first_attempt_and_nothing_is_read(model: Container, bucket: str) -> None:
    """Not even of the bucket whose name it begins with."""
    s3().put_object(Bucket=BUCKET, Key="not-yours", Body=b"secret")
    before = len(model.received())
    row = run_once(queue_up(input_location=f"s3://{bucket}/not-yours"), model.address)
    assert (row.state, row.attempts, row.failure_kind) == ("failed", 1, "input_refused")
    assert len(model.received()) == before
    assert object_at(row.failure_location) == row.outcome_text.encode()
    assert object_at(row.output_location) is None
