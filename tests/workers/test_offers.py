"""What the scheduler tells of the provider: zones, markets, and free slots where they are known."""

import json
from pathlib import Path

from controlplane.observability.offers import offer_of
from tests.workers.plane import FIRST, SECOND, THIRD, Plane
from workers import offers
from workers.providers.local.provider import LocalProvider
from workers.providers.slots import CountsSlots
from workers.schedule import Scheduler


def test_the_offer_is_what_the_provider_says_at_the_time(plane: Plane) -> None:
    plane.world.set_capacity(FIRST, 3)
    plane.create(count=2)
    plane.settle()
    offers.tell(plane.clock.now())
    offer = offer_of("simulated")
    assert offer is not None
    provider = offers.registry.get("simulated")
    assert (offer.zones, offer.markets) == (provider.zones, provider.markets)
    assert offer.free[("simulated-a", FIRST)] == 1
    assert offer.otherwise is not None
    assert offer.otherwise > 1000, "types nobody named have no limit in this world"
    assert offer.seen_at == plane.clock.now()


def test_the_scheduler_tells_it_by_itself(plane: Plane) -> None:
    scheduler = Scheduler()
    scheduler.step()
    scheduler.finish()
    assert offer_of("simulated") is not None


def test_a_provider_that_counts_nothing_offers_zones_alone(plane: Plane, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    class Cloud:
        name, zones, markets = "cloud", ("a", "b"), ("on-demand", "spot")

    monkeypatch.setattr(offers.registry, "get", lambda name: Cloud())
    offers.tell(plane.clock.now())
    offer = offer_of("cloud")
    assert offer is not None
    assert (offer.zones, offer.free, offer.otherwise) == (("a", "b"), {}, None)


def test_this_host_counts_its_slots_by_type(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path, {"HEADRACE_LOCAL_CAPACITY": json.dumps({FIRST: 2, SECOND: 0})})
    assert isinstance(provider, CountsSlots)
    provider.set_capacity(THIRD, 5)
    slots = provider.free_slots()
    assert slots.free == {("local", FIRST): 2, ("local", SECOND): 0, ("local", THIRD): 5}
    assert slots.otherwise == 0, "once the setting names types the others have none"
    assert LocalProvider(tmp_path, {}).free_slots().otherwise > 0
