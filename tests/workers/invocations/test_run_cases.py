"""Public failures of other queues, replayed on single requests: payloads that cannot be had, framings, waits, timeouts."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from controlplane.core import clock
from controlplane.invocations.models import AsyncInvocation, AsyncPayload
from tests.controlplane.gateway.site import Container, wait_for
from tests.controlplane.routing.peers import PATIENCE_SECONDS, TIMEOUTS, Talk, post, raw_server
from tests.fakes.clock import FakeClock
from tests.fakes.doors import Refusal, door_to
from tests.workers.invocations.site import BUCKET, bench, do, object_at, queue_up, run_once, s3
from workers.invocations.queue import LEASE_SECONDS
from workers.invocations.store import Store

pytestmark = pytest.mark.django_db(transaction=True)


# Payloads that cannot be had.


def deny_secrets(method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
    """What a store says of objects that the caller may not read."""
    if method == "GET" and "/secret/" in path:
        return 403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    return None


def test_a_payload_that_nobody_may_read_fails_the_request_once_and_asks_no_model(model: Container) -> None:
    s3().put_object(Bucket=BUCKET, Key="secret/in", Body=b"for others")
    row, before = queue_up(input_location=f"s3://{BUCKET}/secret/in"), len(model.received())
    with door_to(urlsplit(settings.HEADRACE.s3_endpoint_url).port or 0, deny_secrets) as door:
        row = run_once(row, model.address, objects=Store(door.url, "us-east-1"))
    assert (row.state, row.attempts, row.failure_kind) == ("failed", 1, "input_refused")
    assert b"AccessDenied" in (object_at(row.failure_location) or b"")
    assert object_at(row.output_location) is None
    assert len(model.received()) == before


@pytest.mark.parametrize("body", [None, b""], ids=["gone", "empty"])
def test_an_inline_payload_that_is_not_there_is_not_taken_for_an_empty_one(model: Container, body: bytes | None) -> None:
    row, before = queue_up(body or b""), len(model.received())
    if body is None:
        AsyncPayload.objects.filter(pk=row.pk).delete()
    row = run_once(row, model.address)
    assert (row.state, row.failure_kind) == (("completed", "") if body is not None else ("failed", "input_missing"))
    assert len(model.received()) - before == (body is not None)


def test_a_payload_that_was_deleted_after_the_acceptance_fails_the_request(model: Container) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/goes", Body=b"x")
    row = queue_up(input_location=f"s3://{BUCKET}/in/goes")
    s3().delete_object(Bucket=BUCKET, Key="in/goes")
    row = run_once(row, model.address)
    assert (row.state, row.failure_kind) == ("failed", "input_missing")
    assert b"There is no object" in (object_at(row.failure_location) or b"")


# What reaches the model.


def test_without_a_content_type_the_model_is_told_none(model: Container) -> None:
    run_once(queue_up(content_type="", accept="", custom_attributes=""), model.address)
    seen = model.received()[-1]["headers"]
    assert not {"content-type", "accept", "x-amzn-sagemaker-custom-attributes"} & set(seen)


# Framings of answers.


def answering(answer: bytes, *, is_kept: bool) -> Talk:
    """Gives this answer, `is_kept` to the second request of a connection, else to the first."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_kept:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfirst")
            await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    return talk


@pytest.mark.parametrize("is_kept", [False, True], ids=["new", "kept"])
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\ncontent-type: text/plain\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
        b"2\r\nhe\r\n3;ext=1\r\nllo\r\n0\r\nx-sum: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-large: " + b"h" * 4000 + b"\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["http/1.0", "no length", "trailers", "4000 bytes of headers"],
)
def test_every_framing_of_an_answer_is_understood(answer: bytes, is_kept: bool) -> None:
    row = queue_up()

    async def work() -> None:
        async with raw_server(answering(answer, is_kept=is_kept)) as address, bench(row.endpoint_id) as site:
            if is_kept:
                first = await site.runner.upstream.send(address, post(), TIMEOUTS)
                assert await first.read(5) == b"first"
                first.close()
            await site.run_next(address)

    do(work())
    row.refresh_from_db()
    assert (row.state, object_at(row.output_location)) == ("completed", b"hello")
    _, _, key = row.output_location.removeprefix("s3://").partition("/")
    assert s3().head_object(Bucket=BUCKET, Key=key)["ContentType"] == "text/plain"


# Time.


def test_a_call_whose_time_is_over_is_hung_up_on(model: Container) -> None:
    row = run_once(queue_up(inference_id="drip", custom_attributes="mode=drip", timeout_seconds=1), model.address)
    assert row.failure_kind == "timeout"

    def ends() -> list[str]:
        return [line["event"] for line in model.journal() if line["inference_id"] == "drip"]

    wait_for(lambda: ends() == ["received", "client-abort"])


def test_an_instance_that_keeps_silent_is_hung_up_on_when_its_time_is_over() -> None:
    row, hung_up = queue_up(timeout_seconds=1), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await reader.read()
        hung_up.set()

    async def work() -> None:
        async with raw_server(silent) as address, bench(row.endpoint_id) as site:
            await site.run_next(address)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await hung_up.wait()

    do(work())
    row.refresh_from_db()
    assert row.failure_kind == "timeout"


def test_a_request_that_waits_for_hours_is_called_once(model: Container, fake_clock: FakeClock) -> None:
    """Longer than any broker keeps a message from being delivered again; nobody's lease is on it meanwhile."""
    row, before = queue_up(expires_at=clock.now() + timedelta(seconds=21_600)), len(model.received())

    async def wait() -> None:
        async with bench(row.endpoint_id) as site:
            for _ in range(5):
                fake_clock.step(4000)
                await site.queue.reclaim(10)
                assert await site.queue.claim_expired(10) == []

    do(wait())
    row = run_once(row, model.address)
    assert (row.state, row.attempts, len(model.received()) - before) == ("completed", 1, 1)


def test_a_call_of_an_hour_keeps_its_lease_by_renewals(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(timeout_seconds=3600)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(model.address)
            for _ in range(3600 // int(LEASE_SECONDS - 1)):
                fake_clock.step(LEASE_SECONDS - 1)
                await site.queue.reclaim(10)
                assert await site.ledger.renew([leased]) == {(leased.id, leased.lease_token)}
            assert await site.claim(model.address) == []
            await site.run(leased, model.address)

    do(work())
    row.refresh_from_db()
    assert (row.state, row.attempts) == ("completed", 1)
    assert AsyncInvocation.objects.count() == 1
