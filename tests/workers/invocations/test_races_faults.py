"""Requests that are cancelled and put back again and again, by several at once, while a worker runs them."""

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection

from controlplane.core import clock
from controlplane.core.errors import ValidationException
from controlplane.invocations import services
from controlplane.invocations.models import ENDED, AsyncInvocation, AsyncPayload
from controlplane.observability.models import Event
from tests.controlplane.gateway.site import Container, wait_for
from tests.engines_plugin import ACCOUNT
from tests.workers.invocations.site import database_url, object_at, queue_up, serve
from workers.residents import Residents

pytestmark = pytest.mark.django_db(transaction=True)

REQUESTS, HANDS, DEEDS = 24, 4, 60
MODES = ("mode=delay:0.05", "mode=http:400", "mode=delay:0.3")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dispatcher at work."""
    monkeypatch.setattr(settings, "HEADRACE", replace(settings.HEADRACE, database_url=database_url()))
    residents = Residents()
    residents.start()
    yield
    residents.stop()


def meddle(seed: int, ids: list[UUID]) -> int:
    """Cancel and redrive at random; returns how often that was allowed. Nothing but a refusal may come of it."""
    chance, allowed = random.Random(seed), 0
    try:
        for _ in range(DEEDS):
            which, deed = chance.choice(ids), chance.choice((services.cancel, services.redrive))
            try:
                deed(ACCOUNT, which, actor=f"hand {seed}", now=clock.now())
                allowed += 1
            except ValidationException:
                continue
        return allowed
    finally:
        connection.close()


def test_whatever_hands_do_at_once_each_request_ends_once_and_shows_one_outcome(
    worker: None, containers: Callable[[str], Container]
) -> None:
    """Whoever waits for an outcome believes the object that appears: there is one, and it is the row's."""
    endpoint_id = serve("meddled", containers("model"), max_concurrent=8)
    rows = [
        queue_up(b"answer", endpoint_id=endpoint_id, endpoint_name="meddled", custom_attributes=MODES[place % len(MODES)])
        for place in range(REQUESTS)
    ]
    ids = [row.pk for row in rows]
    with ThreadPoolExecutor(HANDS) as hands:
        allowed = sum(hands.map(lambda seed: meddle(seed, ids), range(HANDS)))
    assert allowed > REQUESTS / 2  # they did get into its way
    wait_for(lambda: AsyncInvocation.objects.filter(pk__in=ids, state__in=ENDED).count() == REQUESTS, 60)
    told = Event.objects.filter(reason__in=("AsyncRequestCancelled", "AsyncRequestRedriven")).count()
    assert 0 < told <= allowed
    for row in AsyncInvocation.objects.filter(pk__in=ids):
        output, failure = object_at(row.output_location), object_at(row.failure_location)
        if row.state == "completed":
            assert (output, failure, row.failure_kind) == (b"answer", None, "")
        else:
            assert (output, failure) == (None, row.outcome_text.encode())
            assert row.failure_kind in ("cancelled", "model_client_error")
        assert AsyncPayload.objects.filter(pk=row.pk).exists() == (row.state == "failed")
        assert (row.lease_token, row.instance_id, row.is_storing) == (None, None, False)
