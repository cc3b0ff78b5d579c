"""One invocation from its lease to its outcome, over the real database, the real store and a real container."""

import hashlib
import json
import tempfile
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from controlplane.core import clock
from controlplane.invocations.models import AsyncInvocation, AsyncPayload
from controlplane.invocations.steps import Step
from tests.controlplane.gateway.site import Container
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import (
    BUCKET,
    bench,
    counts_of,
    do,
    instance_at,
    object_at,
    queue_up,
    run_once,
    s3,
)
from workers.invocations.leased import Leased

pytestmark = pytest.mark.django_db(transaction=True)

UNREACHABLE = "127.0.0.1:1"


def steps(row: AsyncInvocation) -> list[str]:
    """The names of the timeline's steps."""
    return [step for _, step, _, _ in row.timeline]


def asked(model: Container) -> int:
    """How often the container was called."""
    return len(model.received())


# Answers.


def test_an_answer_is_stored_and_the_payload_dropped(model: Container) -> None:
    row = run_once(queue_up(b"hello"), model.address)
    assert (row.state, row.attempts, row.failure_kind, row.instance_id) == ("completed", 1, "", None)
    assert object_at(row.output_location) == b"hello"
    assert object_at(row.failure_location) is None
    assert not AsyncPayload.objects.filter(pk=row.pk).exists()
    assert row.variant_name == "main"


def test_the_timeline_tells_what_happened_when_and_where(model: Container, fake_clock: FakeClock) -> None:
    row = run_once(queue_up(b"hello"), model.address)
    now = fake_clock.now().isoformat()
    assert row.timeline == [
        [now, "claimed", 1, str(instance_at(model.address))],
        [now, "sent", 1, ""],
        [now, "answered", 1, "200"],
        [now, "stored", 1, row.output_location],
    ]


@pytest.mark.parametrize("size", [0, 1024 * 1024 + 1, 20_000_000])
def test_an_answer_of_any_size_is_stored_with_the_model_s_content_type(model: Container, size: int) -> None:
    row = run_once(queue_up(custom_attributes=f"mode=big:{size}"), model.address)
    assert row.state == "completed"
    assert object_at(row.output_location) == b"x" * size
    bucket, _, key = row.output_location.removeprefix("s3://").partition("/")
    assert s3().head_object(Bucket=bucket, Key=key)["ContentType"] == "application/octet-stream"


@pytest.mark.parametrize("mode", ["chunked", "hdr:5000"])
def test_framing_and_headers_of_the_answer_do_not_matter(model: Container, mode: str) -> None:
    row = run_once(queue_up(b"hello", custom_attributes=f"mode={mode}"), model.address)
    assert (row.state, object_at(row.output_location)) == ("completed", b"hello")


# Failures.


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("http:400", "model_client_error", 'client error (400) from model with message "the model says no"'),
        ("http:400:nul", "model_client_error", "no\ufffdno"),
        ("http:404:nonutf8", "model_client_error", "client error (404)"),
        ("http:413:10MB", "model_client_error", "client error (413)"),
        ("http:499:empty", "model_client_error", 'with message ""'),
    ],
)
def test_a_model_that_says_no_is_believed_at_once(model: Container, mode: str, kind: str, words: str) -> None:
    row = run_once(queue_up(custom_attributes=f"mode={mode}"), model.address)
    assert (row.state, row.attempts, row.failure_kind) == ("failed", 1, kind)
    assert words in row.outcome_text
    told = object_at(row.failure_location)
    assert told == row.outcome_text.encode()
    assert object_at(row.output_location) is None
    assert steps(row) == ["claimed", "sent", "answered", "failed"]


@pytest.mark.parametrize(
    ("mode", "kind", "words"),
    [
        ("http:500:nonutf8", "model_server_error", "server error (500)"),
        ("redirect:http://127.0.0.1:1/", "model_server_error", "server error (302)"),
        ("lie", "no_answer", "closed before the answer was complete"),
        ("cut-after:2", "no_answer", "closed before the answer was complete"),
        ("garbage", "no_answer", "not HTTP"),
        ("hdr:70000", "no_answer", "headers are larger"),
    ],
)
def test_a_model_in_trouble_is_asked_again_and_then_believed(
    model: Container, fake_clock: FakeClock, mode: str, kind: str, words: str
) -> None:
    row, before = queue_up(custom_attributes=f"mode={mode}"), asked(model)
    for attempt in (1, 2, 3):
        row = run_once(row, model.address)
        assert (row.attempts, asked(model) - before) == (attempt, attempt)
        fake_clock.step(10)
    assert (row.state, row.failure_kind) == ("failed", kind)
    assert words in row.outcome_text
    assert row.outcome_text.endswith("It was tried 3 times.")
    assert object_at(row.failure_location) == row.outcome_text.encode()
    assert object_at(row.output_location) is None
    assert AsyncPayload.objects.filter(pk=row.pk).exists()
    assert steps(row).count("retried") == 2


@pytest.mark.parametrize("mode", ["hang:600", "drip"])
def test_the_time_allowed_is_for_the_whole_call(model: Container, mode: str) -> None:
    row = run_once(queue_up(custom_attributes=f"mode={mode}", timeout_seconds=1), model.address)
    assert (row.state, row.attempts, row.failure_kind) == ("failed", 1, "timeout")
    assert object_at(row.failure_location) == b"The model gave no whole answer within 1 s (InvocationTimeoutSeconds)."


def test_an_instance_that_cannot_be_reached_costs_no_attempt(fake_clock: FakeClock) -> None:
    row = run_once(queue_up(), UNREACHABLE)
    assert (row.state, row.attempts, row.instance_id) == ("queued", 0, None)
    assert row.due_at > fake_clock.now()
    assert row.timeline[-1][3] == (
        "The model was not called: 127.0.0.1:1 cannot be reached. For 5 s it is asked only where no other instance is open."
    )


def test_whether_an_instance_was_reached_is_noted_and_others_are_told_where_it_was_not(
    model: Container, fake_clock: FakeClock
) -> None:
    there, told = instance_at(model.address), list[UUID]()

    async def tell_others(instance_id: UUID) -> None:
        told.append(instance_id)

    async def work() -> list[list[UUID]]:
        seen = []
        async with bench(row.endpoint_id) as site:
            runner, site.runner = site.runner, replace(site.runner, tell_others=tell_others)
            runner.reach.failed(there, fake_clock.monotonic())
            for address in (UNREACHABLE, model.address):
                await site.run_next(address)
                fake_clock.step(1)
                seen.append(runner.reach.shunned(fake_clock.monotonic()))
        return seen

    row = queue_up(custom_attributes="mode=http:500")
    nowhere = instance_at(UNREACHABLE)
    assert do(work()) == [[there, nowhere], [nowhere]]
    assert told == [nowhere]


def test_a_failure_without_a_place_is_in_the_row(model: Container) -> None:
    row = run_once(queue_up(custom_attributes="mode=http:400", failure_location=""), model.address)
    assert (row.state, row.failure_kind) == ("failed", "model_client_error")
    assert "the model says no" in row.outcome_text


# Payloads in the store.


def put(key: str, body: bytes) -> str:
    s3().put_object(Bucket=BUCKET, Key=key, Body=body)
    return f"s3://{BUCKET}/{key}"


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_payload_in_the_store_reaches_the_model_whole(model: Container, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"z" * (size % 256)
    location = put("in/a key?with#marks", body)
    row = queue_up(input_location=location, content_type="text/csv", custom_attributes="mode=sha")
    row = run_once(row, model.address, input_limit=3_000_000)
    assert row.state == "completed"
    assert json.loads(object_at(row.output_location) or b"") == {
        "length": size,
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    assert model.received()[-1]["headers"]["content-type"] == "text/csv"


@pytest.mark.parametrize(
    ("location", "kind", "words"),
    [
        (f"s3://{BUCKET}/in/missing", "input_missing", b"There is no object"),
        ("s3://no-such-bucket/in", "input_missing", b"There is no object"),
        ("https://example.com/in", "input_refused", b"HEADRACE_INPUT_HOSTS"),
    ],
)
def test_a_payload_that_is_not_there_fails_the_request_and_asks_no_model(
    model: Container, location: str, kind: str, words: bytes
) -> None:
    row, before = queue_up(input_location=location), asked(model)
    counted: list[Any] = []
    row = run_once(row, model.address, counted=counted)
    assert (row.state, row.failure_kind, asked(model)) == ("failed", kind, before)
    assert words in (object_at(row.failure_location) or b"")
    assert object_at(row.output_location) is None
    assert counts_of(counted) == {
        "RequestDownloadFailures": [1],
        "InvocationFailures": [1],
        "InvocationsProcesssed": [1],
        "TotalProcessingTime": [pytest.approx(0, abs=60_000)],
    }


def test_a_payload_over_the_limit_fails_the_request(model: Container) -> None:
    location, before = put("in/large", b"x" * 1001), asked(model)
    row = run_once(queue_up(input_location=location), model.address, input_limit=1000)
    assert (row.state, row.failure_kind, asked(model)) == ("failed", "input_too_large", before)
    assert "1000 bytes" in row.outcome_text


# Leases.


def test_a_lost_lease_ends_the_work_without_a_trace(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(b"hello")

    async def work() -> Leased:
        async with bench(row.endpoint_id) as site:
            (lost,) = await site.claim(model.address)
            fake_clock.step(16)
            await site.queue.reclaim(10)
            (taken,) = await site.claim(model.address)
            await site.run(lost, model.address)
            return taken

    taken = do(work())
    row.refresh_from_db()
    assert (row.state, row.lease_token, row.attempts) == ("running", taken.lease_token, 2)
    assert object_at(row.output_location) is None
    assert steps(row) == ["claimed", "retried", "claimed"]


def test_an_output_that_an_earlier_attempt_stored_is_found_and_no_model_asked(model: Container) -> None:
    row = queue_up(b"hello")

    async def store_and_die() -> None:
        async with bench(row.endpoint_id) as site:
            (leased,) = await site.claim(model.address)
            await site.ledger.start_storing(leased, leased.step(Step.SENT), leased.step(Step.ANSWERED))
            await site.store.put(leased.output_location, b"the answer", "text/plain", leased.id)

    do(store_and_die())
    AsyncInvocation.objects.update(lease_expires_at=clock.now() - timedelta(seconds=1))
    before = asked(model)

    async def resume() -> None:
        async with bench(row.endpoint_id) as site:
            await site.queue.reclaim(10)
            await site.run_next(model.address)

    do(resume())
    row.refresh_from_db()
    assert (row.state, object_at(row.output_location), asked(model)) == ("completed", b"the answer", before)


def test_after_its_last_attempt_an_abandoned_request_fails(model: Container, fake_clock: FakeClock) -> None:
    row = queue_up(attempts=2)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            await site.claim(model.address)
            fake_clock.step(16)
            await site.queue.reclaim(10)
            assert await site.claim(model.address) == []
            (decided,) = await site.queue.claim_decided(10)
            await site.run(decided, model.address)

    do(work())
    row.refresh_from_db()
    assert (row.state, row.failure_kind) == ("failed", "abandoned")
    assert object_at(row.failure_location) == b"The worker that ran the request ended before it had an answer."


def test_what_waited_for_too_long_expires_and_its_payload_is_kept(fake_clock: FakeClock) -> None:
    row = queue_up(expires_at=fake_clock.now() + timedelta(seconds=60))
    fake_clock.step(61)

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            assert await site.claim(UNREACHABLE) == []
            (expired,) = await site.queue.claim_expired(10)
            await site.run(expired, UNREACHABLE)

    do(work())
    row.refresh_from_db()
    assert (row.state, row.failure_kind, steps(row)) == ("expired", "expired", ["claimed", "expired"])
    assert b"RequestTTLSeconds" in (object_at(row.failure_location) or b"")
    assert AsyncPayload.objects.filter(pk=row.pk).exists()


def test_what_a_deleted_endpoint_leaves_behind_fails() -> None:
    row = queue_up()

    async def work() -> None:
        async with bench(row.endpoint_id) as site:
            (waiting,) = await site.queue.waiting()
            assert waiting.is_gone
            (leased,) = await site.queue.claim_of_deleted(row.endpoint_id, 10)
            await site.run(leased, UNREACHABLE)

    do(work())
    row.refresh_from_db()
    assert (row.state, row.failure_kind) == ("failed", "endpoint_deleted")


def test_a_worker_without_room_for_the_answer_leaves_the_request_to_others(
    model: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/no-such-folder")
    row = run_once(queue_up(custom_attributes="mode=big:2000000"), model.address)
    assert (row.state, row.attempts) == ("queued", 1)
    assert "could not keep" in row.timeline[-1][3]
    monkeypatch.undo()
    AsyncInvocation.objects.update(due_at=clock.now())
    assert run_once(row, model.address).state == "completed"
