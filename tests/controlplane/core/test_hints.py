"""Doorbells: rung after the commit or not at all, by a broker that may be away or keep silent."""

import json
import socket
from collections.abc import Iterator
from uuid import uuid4

import pytest
import redis
from django.conf import settings
from django.db import transaction

from controlplane.core import clock, hints
from tests.controlplane.routing.peers import free_port

QUEUE = "celery"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator["redis.Redis"]:
    """The broker, with no message in it before and after."""
    connection = redis.Redis.from_url(settings.HEADRACE.redis_url)
    connection.delete(QUEUE)
    hints.doorbell.cache_clear()
    yield connection
    connection.delete(QUEUE)
    connection.close()


def subjects(broker: "redis.Redis") -> list[str]:
    """Whom the messages in the queue are about, oldest first."""
    return [json.loads(each)["headers"]["argsrepr"].strip("[]'") for each in broker.lrange(QUEUE, 0, -1)][::-1]


class Refused(Exception):
    """Ends a transaction."""


@pytest.mark.django_db(transaction=True)
def test_it_rings_once_the_transaction_is_durable_and_not_before(broker: "redis.Redis") -> None:
    subject = uuid4()
    with transaction.atomic():
        hints.ring_after_commit(hints.RECONCILE, subject)
        assert subjects(broker) == []
    assert subjects(broker) == [str(subject)]


@pytest.mark.django_db(transaction=True)
def test_of_a_transaction_that_is_rolled_back_nobody_hears(broker: "redis.Redis") -> None:
    @transaction.atomic
    def refused() -> None:
        hints.ring_after_commit(hints.RECONCILE, uuid4())
        raise Refused

    with pytest.raises(Refused):
        refused()
    assert subjects(broker) == []


def test_a_broker_that_is_away_or_silent_costs_a_moment_and_then_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (free_port(), silent.getsockname()[1]):
            bell = hints.Doorbell(f"redis://127.0.0.1:{port}/0")
            began = clock.monotonic()
            bell.ring(hints.RECONCILE, uuid4())
            first = clock.monotonic() - began
            for _ in range(100):
                bell.ring(hints.RECONCILE, uuid4())
            assert clock.monotonic() - began < first + 20, "it is not asked again each time"
