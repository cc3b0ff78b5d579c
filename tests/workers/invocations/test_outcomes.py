"""What becomes of an answer while the store is away, says no, or does not do what it was told."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.conf import settings

from controlplane.invocations.models import AsyncInvocation, AsyncNotification, AsyncPayload
from tests.controlplane.gateway.site import Container
from tests.fakes.clock import FakeClock
from tests.fakes.outage import Way, way_to
from tests.workers.invocations.site import BUCKET, Pauses, bench, counts_of, do, object_at, queue_up, run_once, s3
from workers.invocations.plan import STORING_SECONDS
from workers.invocations.store import Store

pytestmark = pytest.mark.django_db(transaction=True)

DONE, BROKEN = "arn:aws:sns:us-east-1:123456789012:done", "arn:aws:sns:us-east-1:123456789012:broken"


@pytest.fixture
def way() -> Iterator[Way]:
    """The way to the store."""
    address = urlsplit(settings.HEADRACE.s3_endpoint_url)
    assert address.hostname
    assert address.port
    with way_to(address.hostname, address.port) as found:
        yield found


def store_on(way: Way) -> Store:
    return Store(way.url, "us-east-1")


def asked(model: Container) -> int:
    return len(model.received())


def test_an_answer_waits_for_a_store_that_is_away_and_no_model_is_asked_again(
    way: Way, model: Container, fake_clock: FakeClock
) -> None:
    """Far more tries than a model gets: an outage of the store is no attempt."""
    way.shut()
    row, before, seen = queue_up(b"hello"), asked(model), list[AsyncInvocation]()

    def meanwhile(tries: int) -> None:
        if tries == 12:
            way.is_shut = False

    pauses = Pauses(meanwhile, move=fake_clock.step)
    row = run_once(row, model.address, objects=store_on(way), pauses=pauses)
    assert (row.state, row.attempts, asked(model) - before) == ("completed", 1, 1)
    assert object_at(row.output_location) == b"hello"
    assert pauses.seconds == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 60]
    assert seen == []


def test_while_the_answer_waits_the_instance_is_free_for_the_next(way: Way, model: Container) -> None:
    way.shut()
    row = queue_up(b"hello")
    queue_up(b"next", endpoint_id=row.endpoint_id)

    async def work() -> list[int]:
        found = []

        class Meanwhile(Pauses):
            async def __call__(self, seconds: float) -> None:
                found.append(len(await site.claim(model.address, max_concurrent=1)))
                way.is_shut = False

        async with bench(row.endpoint_id, objects=store_on(way), pauses=Meanwhile()) as site:
            (leased,) = await site.claim(model.address, max_concurrent=1)
            assert await site.claim(model.address, max_concurrent=1) == []
            await site.run(leased, model.address)
        return found

    assert do(work()) == [1]


def test_an_answer_is_offered_until_the_request_s_own_time_is_over(
    way: Way, model: Container, fake_clock: FakeClock
) -> None:
    way.shut()
    row = queue_up(b"hello", expires_at=fake_clock.now() + timedelta(seconds=60))
    began, counted = fake_clock.now(), []
    row = run_once(row, model.address, objects=store_on(way), pauses=Pauses(move=fake_clock.step), counted=counted)
    assert fake_clock.now() - began >= timedelta(seconds=STORING_SECONDS)
    assert (row.state, row.failure_kind, row.attempts) == ("failed", "output_store", 1)
    assert "could not be stored" in row.outcome_text
    assert AsyncPayload.objects.filter(pk=row.pk).exists()
    found = counts_of(counted)
    assert sum(found["ResponseUploadFailures"]) == 2  # the output's and the failure's
    assert found["InvocationFailures"] == [1]


def test_a_failure_waits_for_the_store_as_an_answer_does(way: Way, model: Container, fake_clock: FakeClock) -> None:
    way.shut()
    row, before = queue_up(custom_attributes="mode=http:400"), asked(model)

    def meanwhile(tries: int) -> None:
        way.is_shut = tries < 5

    pauses = Pauses(meanwhile, move=fake_clock.step)
    row = run_once(row, model.address, objects=store_on(way), pauses=pauses)
    assert (row.state, row.failure_kind, asked(model) - before) == ("failed", "model_client_error", 1)
    assert object_at(row.failure_location) == row.outcome_text.encode()
    assert len(pauses.seconds) == 5


def test_whoever_takes_over_an_answer_that_was_being_stored_looks_before_it_asks(
    way: Way, model: Container, fake_clock: FakeClock
) -> None:
    """While nobody can say whether the output is there, the request waits, and no attempt is counted."""
    row = queue_up(b"hello", is_storing=True, attempts=1)
    way.shut()
    before = asked(model)
    row = run_once(row, model.address, objects=store_on(way))
    assert (row.state, row.attempts, row.instance_id) == ("queued", 1, None)
    assert row.due_at > fake_clock.now()
    assert asked(model) == before
    way.is_shut = False
    fake_clock.step(60)
    row = run_once(row, model.address, objects=store_on(way))
    assert (row.state, row.attempts, asked(model) - before) == ("completed", 2, 1)


def test_a_payload_in_a_store_that_is_away_is_waited_for(way: Way, model: Container, fake_clock: FakeClock) -> None:
    s3().put_object(Bucket=BUCKET, Key="in/waited-for", Body=b"payload")
    row = queue_up(input_location=f"s3://{BUCKET}/in/waited-for")
    way.shut()
    row = run_once(row, model.address, objects=store_on(way))
    assert (row.state, row.attempts) == ("queued", 0)
    assert "cannot be fetched now" in row.timeline[-1][3]
    way.is_shut = False
    fake_clock.step(60)
    row = run_once(row, model.address, objects=store_on(way))
    assert (row.state, object_at(row.output_location)) == ("completed", b"payload")


def test_a_store_that_says_no_is_believed_after_a_few_times_and_the_failure_told_elsewhere(model: Container) -> None:
    row, before = queue_up(b"hello", output_location="s3://no-such-bucket/out"), asked(model)
    pauses = Pauses()
    row = run_once(row, model.address, pauses=pauses)
    assert (row.state, row.failure_kind, asked(model) - before) == ("failed", "output_store", 1)
    assert pauses.seconds == [1, 2]
    assert b"NoSuchBucket" in (object_at(row.failure_location) or b"")


def test_an_output_that_the_store_did_not_encrypt_is_taken_away_again(model: Container) -> None:
    """The embedded store knows of no keys and ignores them."""
    row = run_once(queue_up(b"secret", delivery={"kms_key_id": "key"}), model.address)
    assert (row.state, row.failure_kind) == ("failed", "output_store")
    assert object_at(row.output_location) is None
    assert "KmsKeyId" in row.outcome_text


# Who hears of it.


def test_each_outcome_is_told_to_its_topic_in_the_transaction_that_ends_the_request(model: Container) -> None:
    delivery = {"success_topic": DONE, "error_topic": BROKEN, "includes": ["SUCCESS_NOTIFICATION_TOPIC"]}
    done = run_once(queue_up(b"hello", delivery=delivery), model.address)
    failed = run_once(queue_up(delivery=delivery, custom_attributes="mode=http:400"), model.address)
    found = {row.invocation_id: row for row in AsyncNotification.objects.all()}
    assert {key: row.topic for key, row in found.items()} == {done.pk: DONE, failed.pk: BROKEN}
    assert '"content":"aGVsbG8="' in found[done.pk].message
    assert '"invocationStatus":"Failed"' in found[failed.pk].message
    assert "responseBody" not in found[failed.pk].message


def test_the_answer_is_in_the_message_even_if_it_was_found_stored(model: Container) -> None:
    row = queue_up(is_storing=True, delivery={"success_topic": DONE, "includes": ["SUCCESS_NOTIFICATION_TOPIC"]})

    async def store() -> None:
        async with bench(row.endpoint_id) as site:
            await site.store.put(row.output_location, b"hello", "text/csv", row.pk)

    do(store())
    run_once(row, model.address)
    (note,) = AsyncNotification.objects.all()
    assert '"content":"aGVsbG8="' in note.message
    assert '"contentType":"text/csv"' in note.message


def test_nobody_is_told_without_a_topic(model: Container) -> None:
    run_once(queue_up(), model.address)
    assert not AsyncNotification.objects.exists()
