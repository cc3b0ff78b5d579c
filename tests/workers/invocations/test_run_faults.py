"""One invocation among faults: two clocks, containers that answer too early, too much or in odd words, slow payloads."""

import asyncio
import base64
import json
import tracemalloc
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from controlplane.invocations.models import AsyncInvocation, AsyncNotification
from tests.controlplane.gateway.site import Container
from tests.controlplane.routing.peers import Talk, raw_server
from tests.fakes.clock import FakeClock
from tests.fakes.https import HOST, Payloads, payload_server
from tests.workers.invocations.site import (
    BUCKET,
    bench,
    counts_of,
    database_url,
    do,
    object_at,
    queue_up,
    run_once,
    s3,
)
from workers.invocations.inputs import Https
from workers.invocations.queue import LEASE_SECONDS

pytestmark = pytest.mark.django_db(transaction=True)

MIB = 1024 * 1024


# The time to live is spent in the queue, the time allowed for the call in the call.


def test_a_request_whose_time_to_live_ends_while_it_runs_is_not_expired(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(b"hello", expires_at=fake_clock.now() + timedelta(seconds=60))

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(model.address)
            fake_clock.step(61)
            assert await site.queue.claim_expired(10) == []
            await site.run(leased, model.address)

    do(work())
    row.refresh_from_db()
    assert (row.state, object_at(row.output_location)) == ("completed", b"hello")
    assert object_at(row.failure_location) is None


def test_a_request_that_waited_for_hours_has_its_whole_time_for_the_call(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(b"hello", timeout_seconds=60)
    fake_clock.step(5 * 3600)
    assert run_once(row, model.address).state == "completed"


def test_no_attempt_is_made_after_the_time_to_live_and_it_ends_as_expired(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(custom_attributes="mode=http:503", expires_at=fake_clock.now() + timedelta(seconds=60))
    row, before = run_once(row, model.address), len(model.received())
    assert (row.state, row.attempts) == ("queued", 1)
    fake_clock.step(61)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            assert await site.claim(model.address) == []
            (expired,) = await site.queue.claim_expired(10)
            await site.run(expired, model.address)

    do(work())
    row.refresh_from_db()
    assert (row.state, row.failure_kind, len(model.received())) == ("expired", "expired", before)
    assert "503" in json.dumps(row.timeline)  # the last error is still told
    assert b"RequestTTLSeconds" in (object_at(row.failure_location) or b"")
    assert object_at(row.output_location) is None


# Containers.


def asked_of(talk: Talk, row: AsyncInvocation, times: int = 1) -> AsyncInvocation:
    """The request after a raw server was asked for it, so many times."""

    async def work() -> None:
        async with asyncio.timeout(60), raw_server(talk) as address, bench(row.endpoint_id, input_limit=64 * MIB) as site:
            for _ in range(times):
                await site.pool_do("UPDATE invocations_asyncinvocation SET due_at = accepted_at")
                await site.run_next(address)

    do(work())
    row.refresh_from_db()
    return row


@pytest.mark.parametrize("size", [1000, 64 * MIB], ids=["small", "large"])
def test_a_refusal_before_the_payload_was_read_is_believed_at_once(size: int) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/refused", Body=b"x" * size)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 8\r\n\r\ntoo much")
        await asyncio.Event().wait()

    row = asked_of(refuse, queue_up(input_location=f"s3://{BUCKET}/in/refused"))
    assert (row.state, row.attempts, row.failure_kind) == ("failed", 1, "model_client_error")
    assert 'client error (413) from model with message "too much"' in row.outcome_text


@pytest.mark.parametrize("is_kept", [False, True], ids=["a new connection", "a kept connection"])
def test_what_comes_behind_a_whole_answer_is_no_part_of_it_and_spoils_no_outcome(is_kept: bool) -> None:
    calls = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        if is_kept:
            await reader.readexactly(1)
            writer.write(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwhole and more than that")
        await writer.drain()

    row = asked_of(talk, queue_up(), times=1 + is_kept)
    assert (row.state, object_at(row.output_location), calls) == ("completed", b"whole", 1)


@pytest.mark.parametrize("content_type", [b"x" * 1025, "text/\u00e9".encode()], ids=["too long", "not ASCII"])
def test_a_content_type_that_no_store_keeps_costs_no_answer(content_type: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: " + content_type + b"\r\n\r\nok")
        await writer.drain()

    row = asked_of(talk, queue_up())
    assert (row.state, object_at(row.output_location)) == ("completed", b"ok")
    bucket, _, key = row.output_location.removeprefix("s3://").partition("/")
    assert s3().head_object(Bucket=bucket, Key=key)["ContentType"] == "application/octet-stream"


def test_the_bytes_of_a_refusal_reach_the_topic_as_they_were_and_the_object_in_words(model: Container) -> None:
    delivery = {"error_topic": "arn:aws:sns:us-east-1:123456789012:e", "includes": ["ERROR_NOTIFICATION_TOPIC"]}
    row = run_once(queue_up(delivery=delivery, custom_attributes="mode=http:422:nonutf8"), model.address)
    (note,) = AsyncNotification.objects.filter(invocation_id=row.pk)
    assert base64.b64decode(json.loads(note.message)["responseBody"]["content"]) == bytes(range(256))
    told = (object_at(row.failure_location) or b"").decode()
    assert told == row.outcome_text
    assert "\x00" not in told


# Payloads and answers that are larger than memory may be, or slow.


def test_neither_payload_nor_answer_has_to_fit_into_memory(model: Container) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/huge", Body=b"x" * (48 * MIB))
    row = queue_up(input_location=f"s3://{BUCKET}/in/huge", content_type="text/plain")
    tracemalloc.start()
    try:
        row = run_once(row, model.address, input_limit=64 * MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert row.state == "completed"
    assert peak < 32 * MIB
    bucket, _, key = row.output_location.removeprefix("s3://").partition("/")
    assert s3().head_object(Bucket=bucket, Key=key)["ContentLength"] == 48 * MIB


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payloads]:
    """A host of payloads, trusted."""
    with payload_server(tmp_path) as found:
        monkeypatch.setenv("SSL_CERT_FILE", str(found.certificate))
        yield found


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "held"])
def test_no_model_is_asked_for_a_request_whose_lease_was_lost_while_its_payload_came(
    model: Container, server: Payloads, fake_clock: FakeClock, is_lost: bool
) -> None:
    """The claim was good when the fetch began; whoever cannot renew it begins nothing more."""
    server.answers["/in"] = (200, {}, b"slow")
    url = database_url()

    def slow(host: str) -> list[str]:
        fake_clock.step(LEASE_SECONDS + 1)
        if is_lost:
            with psycopg.connect(url) as other:
                other.execute("UPDATE invocations_asyncinvocation SET lease_token = %s", [uuid4()])
        return ["127.0.0.1"]

    client = Https(frozenset({HOST}), slow, lambda address: True, server.port)
    row, before = queue_up(input_location=f"https://{HOST}/in"), len(model.received())
    counted: list[Any] = []
    row = run_once(row, model.address, https=client, counted=counted)
    assert len(model.received()) - before == (not is_lost)
    assert row.state == ("running" if is_lost else "completed")
    assert object_at(row.output_location) == (None if is_lost else b"slow")


def test_what_was_fetched_and_stored_is_measured_in_the_units_of_the_contract(
    model: Container, fake_clock: FakeClock
) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/measured", Body=b"payload")
    row = queue_up(input_location=f"s3://{BUCKET}/in/measured")
    fake_clock.step(3)
    counted: list[Any] = []
    assert run_once(row, model.address, counted=counted).state == "completed"
    units = {name: list(found) for bucket in counted for name, found in bucket.metrics.items()}
    assert units == {
        "RequestDownloadLatency": ["Microseconds"],
        "ResponseUploadLatency": ["Microseconds"],
        "TimeInBacklog": ["Milliseconds"],
        "TotalProcessingTime": ["Milliseconds"],
        "InvocationsProcesssed": ["Count"],
    }
    sums = counts_of(counted)
    assert (sums["TimeInBacklog"], sums["TotalProcessingTime"], sums["InvocationsProcesssed"]) == ([3000], [3000], [1])
