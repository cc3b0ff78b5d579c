"""What the simulated world can be told to do, under a clock that the test moves."""

import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes.clock import START, FakeClock
from workers.providers.base import Health, InstanceStatus, LaunchRequest, ProviderInstance, StartFailure
from workers.providers.errors import ErrorKind, ProviderError
from workers.providers.simulated.provider import SimulatedProvider
from workers.providers.simulated.schedule import CapacityChange, Weather, draw_shortages
from workers.providers.simulated.world import CALLS_KEPT, World

TYPE, OTHER = "ml.g5.2xlarge", "ml.m5.large"
ZONES = ("a", "b")


@pytest.fixture
def provider(fake_clock: FakeClock) -> Iterator[SimulatedProvider]:
    """A fresh world in memory."""
    world = World(":memory:")
    yield SimulatedProvider(world, ZONES)
    world.close()


def launch(
    provider: SimulatedProvider, token: str = "t", instance_type: str = TYPE, zone: str = "a", image: str = "i"
) -> ProviderInstance:
    return provider.launch(LaunchRequest(token, "us", instance_type, zone, image))


def refusal(provider: SimulatedProvider, token: str = "t", **what: str) -> ErrorKind:
    with pytest.raises(ProviderError) as caught:
        launch(provider, token, **what)
    return caught.value.kind


def status(provider: SimulatedProvider, token: str = "t") -> InstanceStatus | None:
    found = provider.find(token)
    return found.status if found else None


def test_an_instance_runs_once_it_has_booted(provider: SimulatedProvider, fake_clock: FakeClock) -> None:
    provider.world.set_knob("boot_seconds", 30)
    provider.world.set_knob("boot_seconds", 5, OTHER)
    launch(provider, "slow")
    launch(provider, "quick", OTHER)
    fake_clock.step(5)
    assert (status(provider, "slow"), status(provider, "quick")) == (InstanceStatus.PENDING, InstanceStatus.RUNNING)
    fake_clock.step(25)
    assert status(provider, "slow") is InstanceStatus.RUNNING


def test_only_running_instances_report_the_address_that_is_lent(fake_clock: FakeClock) -> None:
    world = World(":memory:")
    provider = SimulatedProvider(world, ZONES, serve_address="127.0.0.1:9")
    world.set_knob("boot_seconds", 1)
    assert launch(provider).address == ""
    fake_clock.step(1)
    assert launch(provider).address == "127.0.0.1:9"
    world.close()


def test_a_counting_knob_is_used_up(provider: SimulatedProvider) -> None:
    provider.world.set_knob("throttle", 2)
    assert [refusal(provider), refusal(provider)] == [ErrorKind.THROTTLED] * 2
    assert launch(provider).token == "t"


def test_a_knob_of_one_type_leaves_the_others_alone(provider: SimulatedProvider) -> None:
    provider.world.set_knob("throttle", 1, TYPE)
    assert launch(provider, "u", OTHER).token == "u"
    assert refusal(provider) is ErrorKind.THROTTLED


def test_a_lost_reply_happened_and_is_found_by_its_token(provider: SimulatedProvider) -> None:
    provider.world.set_knob("lose_replies", 1)
    assert refusal(provider) is ErrorKind.AMBIGUOUS
    found = provider.find("t")
    assert found is not None
    assert launch(provider).provider_id == found.provider_id
    assert len(provider.world.live()) == 1


def test_a_lost_request_did_not_happen(provider: SimulatedProvider) -> None:
    provider.world.set_knob("lose_requests", 1)
    assert refusal(provider) is ErrorKind.AMBIGUOUS
    assert provider.find("t") is None
    assert launch(provider).token == "t"


@pytest.mark.parametrize("kind", [ErrorKind.QUOTA, ErrorKind.MISCONFIGURED, ErrorKind.CAPACITY])
@pytest.mark.parametrize("subject", [TYPE, "bad-image"])
def test_a_type_or_an_image_can_be_refused_until_that_is_taken_back(
    provider: SimulatedProvider, kind: ErrorKind, subject: str
) -> None:
    provider.world.refuse(subject, kind.value, "No.")
    assert refusal(provider, image="bad-image") is kind
    assert launch(provider, "u", OTHER).token == "u"
    provider.world.refuse(subject, "", "")
    assert launch(provider, image="bad-image").token == "t"


def test_an_unknown_zone_is_a_misconfiguration(provider: SimulatedProvider) -> None:
    assert refusal(provider, zone="nowhere") is ErrorKind.MISCONFIGURED


def test_zombies_take_a_terminate_and_live_on(provider: SimulatedProvider) -> None:
    provider.world.set_knob("zombie_terminates", 1)
    launched = launch(provider)
    provider.terminate(launched.provider_id)
    assert status(provider) is InstanceStatus.RUNNING
    provider.terminate(launched.provider_id)
    assert status(provider) is None


def test_a_stopping_instance_keeps_its_slot_until_it_is_gone(provider: SimulatedProvider, fake_clock: FakeClock) -> None:
    provider.world.set_capacity(TYPE, 1)
    provider.world.set_knob("stop_seconds", 10)
    launched = launch(provider)
    provider.terminate(launched.provider_id)
    fake_clock.step(9)
    provider.terminate(launched.provider_id)
    assert status(provider) is InstanceStatus.STOPPING
    assert refusal(provider, "u") is ErrorKind.CAPACITY
    fake_clock.step(1)
    assert status(provider) is None
    assert launch(provider, "u").token == "u"


@pytest.mark.parametrize(
    ("knob", "failure"),
    [("exit_at_start", StartFailure.CONTAINER_EXITED), ("lack_model_data", StartFailure.MODEL_DATA)],
)
def test_an_instance_can_be_made_to_fail_its_start(
    provider: SimulatedProvider, fake_clock: FakeClock, knob: str, failure: StartFailure
) -> None:
    provider.world.set_knob("boot_seconds", 3)
    provider.world.set_knob(knob, 1)
    launch(provider)
    launch(provider, "u")
    assert status(provider) is InstanceStatus.PENDING
    fake_clock.step(3)
    found = provider.find("t")
    assert found is not None
    assert (found.status, found.failure) == (InstanceStatus.EXITED, failure)
    assert found.detail
    assert status(provider, "u") is InstanceStatus.RUNNING


def test_a_listing_misses_what_is_younger_than_the_consistency_window(
    provider: SimulatedProvider, fake_clock: FakeClock
) -> None:
    provider.world.set_knob("consistency_seconds", 5)
    assert provider.consistency_window_seconds == 5
    launched = launch(provider)
    assert provider.find("t") is None
    assert provider.list_owned("us") == []
    assert launch(provider).provider_id == launched.provider_id, "a repeated launch is stronger than a listing"
    fake_clock.step(5)
    assert set(provider.describe([launched.provider_id])) == {launched.provider_id}


def test_listings_can_be_throttled(provider: SimulatedProvider) -> None:
    provider.world.set_knob("throttle_listings", 1)
    with pytest.raises(ProviderError) as caught:
        provider.describe([])
    assert caught.value.kind is ErrorKind.THROTTLED
    assert provider.describe([]) == {}


def test_ping_tells_sick_from_well_and_from_gone(provider: SimulatedProvider, fake_clock: FakeClock) -> None:
    provider.world.set_knob("boot_seconds", 1)
    launched = launch(provider)
    assert not provider.ping(launched, 1.0).is_healthy
    fake_clock.step(1)
    assert provider.ping(launched, 1.0) == Health(True)
    provider.world.set_knob("is_sick", 1, TYPE)
    assert provider.ping(launched, 1.0) == Health(False, "/ping answered 500")
    provider.world.set_knob("is_sick", 0, TYPE)
    provider.terminate(launched.provider_id)
    assert not provider.ping(launched, 1.0).is_healthy


def test_capacity_is_by_zone_and_what_is_set_for_each_zone_replaces_it(provider: SimulatedProvider) -> None:
    provider.world.set_capacity(TYPE, 0, "a")
    assert refusal(provider) is ErrorKind.CAPACITY
    assert launch(provider, "u", zone="b").zone == "b"
    provider.world.set_capacity(TYPE, 1)
    assert launch(provider).zone == "a"
    assert refusal(provider, "v", zone="b") is ErrorKind.CAPACITY


def test_types_that_the_default_does_not_name_have_no_slot(fake_clock: FakeClock) -> None:
    world = World(":memory:", {TYPE: 1})
    provider = SimulatedProvider(world, ZONES)
    assert launch(provider).token == "t"
    assert refusal(provider, "u", instance_type=OTHER) is ErrorKind.CAPACITY
    world.close()


def test_scheduled_capacity_comes_when_its_time_comes(provider: SimulatedProvider, fake_clock: FakeClock) -> None:
    provider.world.play(
        [CapacityChange(START + timedelta(seconds=20), TYPE, 1), CapacityChange(START + timedelta(seconds=10), TYPE, 0)]
    )
    launch(provider)
    fake_clock.step(10)
    assert refusal(provider, "u") is ErrorKind.CAPACITY
    provider.terminate(launch(provider).provider_id)
    fake_clock.step(10)
    assert launch(provider, "u").token == "u"


def test_one_seed_draws_one_weather_whatever_else_is_drawn() -> None:
    weather = Weather(plenty_seconds=3600, shortage_seconds=600, slots=4)
    alone = draw_shortages(7, [TYPE], weather, START, 86_400)
    both = draw_shortages(7, [OTHER, TYPE], weather, START, 86_400)
    assert [each for each in both if each.instance_type == TYPE] == alone
    assert alone != draw_shortages(8, [TYPE], weather, START, 86_400)
    assert [each.slots for each in alone] == [4, 0] * (len(alone) // 2) + [4] * (len(alone) % 2)
    assert [each.at for each in both] == sorted(each.at for each in both)
    assert alone[0].at == START
    assert alone[-1].at < START + timedelta(days=1)


def test_the_journal_holds_every_call_with_its_result(provider: SimulatedProvider, fake_clock: FakeClock) -> None:
    provider.world.set_capacity(TYPE, 1)
    launched = launch(provider)
    fake_clock.step(1)
    refusal(provider, "u")
    provider.terminate(launched.provider_id)
    told = [(call.token, call.result, (call.at - START).total_seconds()) for call in provider.world.calls()]
    assert told == [("t", "launched", 0), ("u", "capacity", 1)]
    assert [call.result for call in provider.world.calls("terminate")] == ["accepted"]


def test_the_journal_is_bounded(provider: SimulatedProvider) -> None:
    launch(provider)
    with provider.world.transaction() as cursor:
        cursor.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'call'", (CALLS_KEPT,))
    launch(provider)
    assert len(provider.world.calls()) == 1


def test_a_knob_that_is_not_there_is_refused(provider: SimulatedProvider) -> None:
    with pytest.raises(ValueError, match="throttle_listings"):
        provider.world.set_knob("trottle", 1)


def test_a_world_outlives_its_process_and_one_of_another_version_starts_afresh(
    tmp_path: Path, fake_clock: FakeClock
) -> None:
    provider = SimulatedProvider.stored(tmp_path, {})
    provider.launch(LaunchRequest("t", "us", TYPE, provider.zones[0], "i"))
    provider.world.close()
    again = SimulatedProvider.stored(tmp_path, {})
    assert [row.token for row in again.world.live()] == ["t"]
    again.world.close()
    with sqlite3.connect(tmp_path / "simulated" / "world.sqlite3") as raw:
        raw.execute("PRAGMA user_version = 1")
    raw.close()
    fresh = SimulatedProvider.stored(tmp_path, {})
    assert fresh.world.live() == []
    fresh.world.close()


def test_a_store_that_cannot_be_written_is_a_throttle_and_changes_nothing(
    provider: SimulatedProvider, fake_clock: FakeClock
) -> None:
    with provider.world.transaction() as cursor:
        cursor.execute("PRAGMA query_only = 1")
    assert refusal(provider) is ErrorKind.THROTTLED
    with provider.world._lock:
        provider.world._connection.execute("PRAGMA query_only = 0")
    assert provider.world.live() == []
