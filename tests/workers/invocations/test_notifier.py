"""Messages from the outbox to topics: another implementation's SNS and SQS, and the real database."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from controlplane.core.ids import new_uuid
from controlplane.invocations.models import AsyncNotification
from tests import aws
from tests.engines_plugin import ACCOUNT
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import bench, counts_of, do, queue_up
from workers.invocations.notifier import Notifier
from workers.invocations.outbox import LEASE_SECONDS, Outbox
from workers.invocations.postage import REFUSALS_LIMIT, RESULT_SECONDS, TEST_SECONDS
from workers.invocations.topics import Topics

pytestmark = pytest.mark.django_db(transaction=True)

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    """The address of SNS and SQS."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


class Heard:
    """A topic with somebody who listens."""

    def __init__(self, cloud: str, region: str = "us-east-1") -> None:
        name = new_uuid().hex
        parts: dict[str, Any] = {"endpoint_url": cloud, "region_name": region}
        sns, self._sqs = aws.client("sns", **parts), aws.client("sqs", **parts)
        self.topic = sns.create_topic(Name=name)["TopicArn"]
        self._queue = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        sns.subscribe(TopicArn=self.topic, Protocol="sqs", Endpoint=arn)

    def messages(self) -> list[dict[str, Any]]:
        """What was heard since the last time."""
        found = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=each["ReceiptHandle"])
        return [json.loads(each["Body"]) for each in found]


def letter(topic: str, fake_clock: FakeClock, kind: str = "result", **changes: Any) -> AsyncNotification:
    values = {
        "account_id": ACCOUNT,
        "endpoint_id": new_uuid(),
        "endpoint_name": "later",
        "variant_name": "main",
        "kind": kind,
        "topic": topic,
        "message": '{"said":"hello"}',
        "created_at": fake_clock.now(),
        "due_at": fake_clock.now(),
        **changes,
    }
    return AsyncNotification.objects.create(**values)


def send(url: str, times: int = 1, between: Callable[[], None] = lambda: None) -> dict[str, list[float]]:
    """Send what is due, so many times; returns what was counted."""

    async def work() -> dict[str, list[float]]:
        async with bench(new_uuid()) as site:
            topics = Topics(url, "us-east-1")
            notifier = Notifier(Outbox(site.pool), topics, site.measures)
            for _ in range(times):
                await notifier.send_due()
                between()
            topics.close()
            return counts_of(site.measures.taken()[1])

    return do(work())


def test_a_message_is_taken_noted_in_the_timeline_and_forgotten(cloud: str, fake_clock: FakeClock) -> None:
    heard, row = Heard(cloud), queue_up(state="completed", attempts=1)
    letter(heard.topic, fake_clock, invocation_id=row.pk)
    assert send(cloud) == {}
    (found,) = heard.messages()
    assert found["Message"] == '{"said":"hello"}'
    assert "Subject" not in found
    assert not AsyncNotification.objects.exists()
    row.refresh_from_db()
    assert row.timeline == [[fake_clock.now().isoformat(), "notified", 1, heard.topic]]


def test_a_topic_of_another_region_is_spoken_to_there(cloud: str, fake_clock: FakeClock) -> None:
    heard = Heard(cloud, "eu-west-1")
    letter(heard.topic, fake_clock)
    send(cloud)
    assert len(heard.messages()) == 1


def test_a_topic_that_does_not_exist_is_given_up_and_counted_and_holds_up_nobody(cloud: str, fake_clock: FakeClock) -> None:
    heard = Heard(cloud)
    missing = letter(heard.topic + "-missing", fake_clock)
    letter(heard.topic, fake_clock)
    counted = send(cloud, REFUSALS_LIMIT, lambda: fake_clock.step(10))
    assert counted == {"NotificationFailures": [1]}
    assert len(heard.messages()) == 1
    missing.refresh_from_db()
    assert missing.given_up_at is not None
    assert missing.attempts == REFUSALS_LIMIT
    assert "NotFound" in missing.last_error
    assert send(cloud, 2, lambda: fake_clock.step(RESULT_SECONDS)) == {}


def test_a_service_that_is_away_is_waited_for_and_each_message_arrives_in_the_end(
    cloud: str, fake_clock: FakeClock
) -> None:
    heard = Heard(cloud)
    row = letter(heard.topic, fake_clock)
    for _ in range(REFUSALS_LIMIT + 2):
        assert send(NOWHERE) == {}
        row.refresh_from_db()
        assert row.due_at > fake_clock.now()
        fake_clock.step((row.due_at - fake_clock.now()).total_seconds())
    send(cloud)
    assert len(heard.messages()) == 1


def test_nobody_waits_for_a_service_for_ever(fake_clock: FakeClock) -> None:
    row = letter("arn:aws:sns:us-east-1:123456789012:done", fake_clock)
    fake_clock.step(RESULT_SECONDS)
    assert send(NOWHERE) == {"NotificationFailures": [1]}
    row.refresh_from_db()
    assert row.given_up_at == fake_clock.now()


def test_a_test_is_given_up_after_a_minute_or_at_the_first_no(cloud: str, fake_clock: FakeClock) -> None:
    away = letter("arn:aws:sns:us-east-1:123456789012:away", fake_clock, kind="test", variant_name="")
    assert send(NOWHERE) == {}
    fake_clock.step(TEST_SECONDS)
    assert send(NOWHERE) == {}
    away.refresh_from_db()
    assert away.given_up_at is not None
    missing = letter("arn:aws:sns:us-east-1:123456789012:missing", fake_clock, kind="test", variant_name="")
    send(cloud)
    missing.refresh_from_db()
    assert missing.given_up_at is not None


def test_of_two_workers_one_sends_and_a_message_whose_worker_died_is_sent_again(cloud: str, fake_clock: FakeClock) -> None:
    heard = Heard(cloud)
    letter(heard.topic, fake_clock)

    async def take() -> int:
        async with bench(new_uuid()) as site:
            outbox = Outbox(site.pool)
            taken = await outbox.take(10)
            assert await outbox.take(10) == []
            return len(taken)

    assert do(take()) == 1
    send(cloud)
    assert heard.messages() == []
    fake_clock.step(LEASE_SECONDS + 1)
    send(cloud)
    assert len(heard.messages()) == 1


def test_a_message_that_is_not_due_is_left_alone(cloud: str, fake_clock: FakeClock) -> None:
    heard = Heard(cloud)
    letter(heard.topic, fake_clock, due_at=fake_clock.now() + timedelta(seconds=1))
    send(cloud)
    assert heard.messages() == []
