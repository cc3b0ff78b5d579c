"""What becomes of a claim whose holder is interrupted by the absence of the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from controlplane.endpoints.models import Endpoint
from tests.workers.outage import cut_after, cut_connections, database_away
from tests.workers.plane import FIRST, Plane
from workers.loop import lease
from workers.loop.give_back import PAUSE_SECONDS, TRIES, give_back
from workers.loop.lease import CLAIM_SECONDS, Claim
from workers.loop.run import AFTER_OUTAGE_SECONDS, OUTAGE, reconcile
from workers.providers import registry
from workers.providers.simulated.provider import SimulatedProvider


def held(plane: Plane) -> Claim:
    """The claim on an endpoint."""
    plane.create()
    claim = lease.claim(Endpoint.objects.get().id)
    assert claim is not None
    return claim


def holder() -> object:
    return Endpoint.objects.get().claim_token


def test_a_claim_is_given_back_as_soon_as_the_database_is_there_again(plane: Plane) -> None:
    claim, waited = held(plane), list[float]()
    with database_away() as back:

        def pause(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                back()

        assert give_back(claim, 7.0, "The database was away.", pause)
    endpoint = Endpoint.objects.get()
    assert waited == [PAUSE_SECONDS] * 3
    assert (endpoint.claim_token, endpoint.why) == (None, "The database was away.")
    assert endpoint.look_again_at == plane.clock.now() + timedelta(seconds=7)


def test_a_database_that_stays_away_is_not_waited_for_longer_than_the_claim_is_good(plane: Plane) -> None:
    claim, waited = held(plane), list[float]()
    with database_away():
        assert not give_back(claim, 0.0, "", waited.append)
    assert (len(waited), sum(waited)) == (TRIES, CLAIM_SECONDS)
    assert holder() == claim.token


def test_nor_is_one_whose_host_takes_long_to_be_found_away(plane: Plane) -> None:
    claim, waited = held(plane), list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        plane.clock.step(5)

    with database_away():
        assert not give_back(claim, 0.0, "", pause)
    assert len(waited) == CLAIM_SECONDS / 5 + 1


def test_an_endpoint_that_somebody_else_holds_by_now_stays_theirs(plane: Plane) -> None:
    claim = held(plane)
    plane.clock.step(CLAIM_SECONDS + 1)
    other = lease.claim(claim.endpoint_id)
    assert other is not None
    assert give_back(claim, 0.0, "late")
    endpoint = Endpoint.objects.get()
    assert endpoint.claim_token == other.token
    assert endpoint.why != "late"


@contextmanager
def at_the_provider(call: str) -> Iterator[None]:
    """The connection is cut while the provider is asked."""
    provider, real = registry.get("simulated"), getattr(SimulatedProvider, call)

    def cutting(*arguments: Any) -> Any:
        cut_connections()
        return real(provider, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(provider, call, cutting)
        yield


@pytest.mark.parametrize("step", ["claim", "launch", "describe"])
def test_wherever_the_connection_is_cut_the_endpoint_is_looked_at_again_at_once(plane: Plane, step: str) -> None:
    """And nothing is launched twice, or waits for a claim to expire."""
    plane.create(types=(FIRST,), count=2)
    if step == "describe":  # there is something to describe
        reconcile(Endpoint.objects.get().id)
        plane.clock.step(1)
    with cut_after("UPDATE") if step == "claim" else at_the_provider(step):
        reconcile(Endpoint.objects.get().id)
    endpoint, began = Endpoint.objects.get(), plane.clock.now()
    assert endpoint.claim_token is None
    assert endpoint.look_again_at <= began + timedelta(seconds=AFTER_OUTAGE_SECONDS)
    assert step == "claim" or endpoint.why == OUTAGE
    plane.until(lambda: Endpoint.objects.get().phase == "InService", 10, step=1)
    assert len(plane.world.live()) == 2
    assert len({call.token for call in plane.world.calls()}) == 2, (
        "a launch whose outcome was lost is asked for by its token"
    )
