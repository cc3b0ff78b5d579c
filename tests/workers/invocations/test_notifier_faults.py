"""Messages that nobody can send: of the others each arrives all the same."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from controlplane.core.ids import new_uuid
from controlplane.invocations.models import AsyncNotification
from tests.fakes.clock import FakeClock
from tests.workers.invocations.site import Bench, bench, do
from tests.workers.invocations.test_notifier import Heard, cloud, letter
from workers.invocations.notifier import Notifier
from workers.invocations.outbox import Outbox
from workers.invocations.topics import REGIONS_LIMIT, Topics

__all__ = ["cloud"]

pytestmark = pytest.mark.django_db(transaction=True)

NO_REGION = "arn:aws:sns:{}:123456789012:results"
"""The API lets every such region pass; a client for it cannot be made."""


async def waiting(site: Bench) -> int:
    """How many messages are neither sent nor given up."""
    async with site.pool.connection() as connection:
        query = "SELECT count(*) FROM invocations_asyncnotification WHERE given_up_at IS NULL"
        [[count]] = await (await connection.execute(query)).fetchall()
    return int(count)


@pytest.mark.parametrize("kind", ["test", "result"])
@pytest.mark.parametrize("region", ["1", "-", "r" * 70], ids=["a digit", "a hyphen", "too long"])
def test_a_topic_in_a_region_that_is_none_is_given_up_and_the_next_message_is_sent(
    cloud: str, fake_clock: FakeClock, region: str, kind: str
) -> None:
    heard = Heard(cloud)
    bad = letter(NO_REGION.format(region), fake_clock, kind)
    later = letter(heard.topic, fake_clock, due_at=fake_clock.now() + timedelta(hours=2))

    async def work() -> list[dict[str, Any]]:
        async with bench(new_uuid()) as site, asyncio.timeout(60):
            topics = Topics(cloud, "us-east-1")
            notifier = Notifier(Outbox(site.pool), topics, site.measures)
            running = asyncio.create_task(notifier.run())
            while await waiting(site) == 2:
                fake_clock.step(10)  # past every pause
                await asyncio.sleep(0.05)
            fake_clock.step(2 * 3600)
            notifier.wake()
            while await waiting(site):
                await asyncio.sleep(0.05)
            assert not running.done()
            running.cancel()
            topics.close()
        return heard.messages()

    assert len(do(work())) == 1
    bad.refresh_from_db()
    assert "region" in bad.last_error
    assert not AsyncNotification.objects.filter(pk=later.pk).exists()


def test_regions_that_topics_name_do_not_fill_the_memory(cloud: str) -> None:
    async def work() -> int:
        topics = Topics(cloud, "us-east-1")
        heard = Heard(cloud)
        for place in range(REGIONS_LIMIT + 3):
            topics._client(f"region-{place}")
        await topics.publish(heard.topic, "{}")
        topics.close()
        return len(topics._clients)

    assert do(work()) <= REGIONS_LIMIT
