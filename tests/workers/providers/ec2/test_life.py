"""An instance's life as the provider tells it: what listings show, when they lag, and how ends are told."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from tests.workers.providers.ec2.site import TYPE, env_of, request_for
from workers.providers.base import InstanceStatus, StartFailure
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World
from workers.providers.ec2.notices import EVENTS_SECONDS, SPOT_SECONDS
from workers.providers.ec2.provider import FILTER_VALUES_LIMIT, Ec2Provider
from workers.providers.ec2.user_data import END_MARK
from workers.providers.errors import ErrorKind, ProviderError


def status(provider: Ec2Provider, provider_id: str) -> InstanceStatus | None:
    """The status that a describe shows; None when the instance is missing from it."""
    found = provider.describe([provider_id])
    return found[provider_id].status if found else None


def kind_of_terminate(provider: Ec2Provider, provider_id: str) -> ErrorKind | None:
    try:
        provider.terminate(provider_id)
    except ProviderError as error:
        return error.kind
    return None


def test_an_instance_boots_runs_stops_and_is_gone(provider: Ec2Provider, world: World, fake_clock: FakeClock) -> None:
    world.set_knob("boot_seconds", 40)
    world.set_knob("stop_seconds", 20)
    launched = provider.launch(request_for())
    assert (launched.status, launched.address) == (InstanceStatus.PENDING, "")
    fake_clock.step(40)
    seen = provider.describe([launched.provider_id])[launched.provider_id]
    assert (seen.status, seen.address) == (InstanceStatus.RUNNING, f"{world.live()[0].ip}:8080")
    provider.terminate(launched.provider_id)
    assert status(provider, launched.provider_id) is InstanceStatus.STOPPING
    assert [each.status for each in provider.list_owned("us")] == [InstanceStatus.STOPPING]
    fake_clock.step(20)
    assert status(provider, launched.provider_id) is None
    assert provider.list_owned("us") == []
    assert kind_of_terminate(provider, launched.provider_id) is ErrorKind.GONE


def test_instances_are_called_by_their_public_address_when_the_operator_says_so(fake: FakeEc2, tmp_path: Path) -> None:
    provider = Ec2Provider(tmp_path, env_of(fake, PUBLIC_ADDRESS="1", PORT="9000"))
    launched = provider.launch(request_for())
    assert launched.address == f"{fake.world.live()[0].ip}:9000"


def test_listings_lag_behind_launches_for_as_long_as_the_setting_says(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    world.set_knob("consistency_seconds", 30)
    launched = provider.launch(request_for())
    assert provider.consistency_window_seconds == 60.0
    assert provider.find("t") is None
    assert provider.list_owned("us") == []
    assert status(provider, launched.provider_id) is None
    fake_clock.step(30)
    assert provider.find("t") is not None
    assert status(provider, launched.provider_id) is InstanceStatus.RUNNING


def test_an_id_that_is_not_known_yet_spoils_the_describe_of_no_other(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    old = provider.launch(request_for("a"))
    world.set_knob("consistency_seconds", 30)
    fake_clock.step(30)
    new = provider.launch(request_for("b"))
    assert set(provider.describe([old.provider_id, new.provider_id, "i-" + "f" * 17])) == {old.provider_id}


def test_a_terminate_of_an_instance_that_is_not_known_yet_is_to_be_repeated(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    world.set_knob("consistency_seconds", 30)
    launched = provider.launch(request_for())
    assert kind_of_terminate(provider, launched.provider_id) is ErrorKind.THROTTLED
    fake_clock.step(30)
    assert kind_of_terminate(provider, launched.provider_id) is None
    assert world.live() == []


def test_what_is_unknown_after_the_window_is_gone(provider: Ec2Provider, world: World, fake_clock: FakeClock) -> None:
    launched = provider.launch(request_for())
    world.set_knob("consistency_seconds", 3600)
    fake_clock.step(61)
    assert kind_of_terminate(provider, launched.provider_id) is ErrorKind.GONE


def test_a_terminate_without_effect_leaves_the_instance_running(provider: Ec2Provider, world: World) -> None:
    world.set_knob("zombie_terminates", 1)
    launched = provider.launch(request_for())
    assert kind_of_terminate(provider, launched.provider_id) is None
    assert status(provider, launched.provider_id) is InstanceStatus.RUNNING
    assert kind_of_terminate(provider, launched.provider_id) is None
    assert status(provider, launched.provider_id) is None


def test_every_page_is_read(provider: Ec2Provider, world: World) -> None:
    world.set_knob("page_size", 5)
    ids = {provider.launch(request_for(f"t{number}")).provider_id for number in range(12)}
    assert {each.provider_id for each in provider.list_owned("us")} == ids
    assert set(provider.describe(ids)) == ids


def test_more_ids_than_a_filter_takes_are_asked_for_in_parts(provider: Ec2Provider, world: World) -> None:
    launched = provider.launch(request_for())
    unknown = [f"i-{number:017x}" for number in range(FILTER_VALUES_LIMIT + 50)]
    assert set(provider.describe([*unknown, launched.provider_id])) == {launched.provider_id}
    assert len(world.calls("DescribeInstances")) == 2


@pytest.mark.parametrize("question", ["find", "describe", "list_owned"])
def test_a_throttled_listing_is_an_error_and_not_an_absence(provider: Ec2Provider, world: World, question: str) -> None:
    launched = provider.launch(request_for())
    world.set_knob("throttle_listings", 1)
    argument = {"find": "t", "describe": [launched.provider_id], "list_owned": "us"}[question]
    with pytest.raises(ProviderError) as caught:
        getattr(provider, question)(argument)
    assert caught.value.kind is ErrorKind.THROTTLED


@pytest.mark.parametrize(
    ("words", "failure", "detail"),
    [
        (
            f"boot\r\n{END_MARK} container_exited exited with code 3: CUDA",
            StartFailure.CONTAINER_EXITED,
            "exited with code 3: CUDA",
        ),
        (f"{END_MARK} model_data it cannot be fetched", StartFailure.MODEL_DATA, "it cannot be fetched"),
        (
            f"{END_MARK} model_data of an earlier boot\r\n{END_MARK} container_exited exited with code 0",
            StartFailure.CONTAINER_EXITED,
            "exited with code 0",
        ),
        ("kernel panic", StartFailure.CONTAINER_EXITED, "the machine shut itself down"),
    ],
)
def test_a_machine_that_shut_itself_down_has_exited_for_the_reason_its_console_gives(
    provider: Ec2Provider, world: World, words: str, failure: StartFailure, detail: str
) -> None:
    launched = provider.launch(request_for())
    world.shut_down(launched.provider_id, words)
    seen = provider.describe([launched.provider_id])[launched.provider_id]
    assert (seen.status, seen.failure, seen.detail) == (InstanceStatus.EXITED, failure, detail)
    assert kind_of_terminate(provider, launched.provider_id) is None
    assert status(provider, launched.provider_id) is None


def test_a_spot_machine_that_shut_itself_down_still_tells_why(provider: Ec2Provider, world: World) -> None:
    launched = provider.launch(request_for(market="spot"))
    world.shut_down(launched.provider_id, f"{END_MARK} container_exited exited with code 3")
    seen = provider.describe([launched.provider_id])[launched.provider_id]
    assert (seen.status, seen.detail) == (InstanceStatus.EXITED, "exited with code 3")
    assert kind_of_terminate(provider, launched.provider_id) is ErrorKind.GONE


def test_an_instance_that_ec2_took_away_has_exited_through_no_fault_of_its_model(
    provider: Ec2Provider, world: World
) -> None:
    launched = provider.launch(request_for())
    world.take_away(launched.provider_id, "Server.InsufficientInstanceCapacity", "No capacity")
    seen = provider.describe([launched.provider_id])[launched.provider_id]
    assert (seen.status, seen.failure, seen.detail) == (InstanceStatus.EXITED, None, "EC2 ended it: No capacity")
    assert kind_of_terminate(provider, launched.provider_id) is ErrorKind.GONE
    assert provider.list_owned("us") == []


def test_an_instance_that_ec2_is_taking_away_has_exited_at_once(provider: Ec2Provider, world: World) -> None:
    world.set_knob("stop_seconds", 60)
    launched = provider.launch(request_for(market="spot"))
    world.take_away(launched.provider_id, "Server.SpotInstanceTermination", "Spot instance termination")
    assert status(provider, launched.provider_id) is InstanceStatus.EXITED
    assert kind_of_terminate(provider, launched.provider_id) is None


def test_interruptions_are_asked_for_once_in_their_period(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    launched = provider.launch(request_for(market="spot"))
    for _ in range(10):
        provider.describe([launched.provider_id])
        fake_clock.step(SPOT_SECONDS / 5)
    assert len(world.calls("DescribeSpotInstanceRequests")) == 2


def test_an_interruption_is_told_within_seconds_with_its_time(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    spot, other = provider.launch(request_for("a", market="spot")), provider.launch(request_for("b", market="spot"))
    provider.describe([spot.provider_id])
    world.interrupt(spot.provider_id)
    fake_clock.step(SPOT_SECONDS)
    seen = provider.describe([spot.provider_id, other.provider_id])
    assert "spot" in seen[spot.provider_id].notice
    interrupted_at = fake_clock.now() - timedelta(seconds=SPOT_SECONDS)
    assert seen[spot.provider_id].ends_at == interrupted_at + timedelta(seconds=120)
    assert seen[spot.provider_id].status is InstanceStatus.RUNNING
    assert (seen[other.provider_id].notice, seen[other.provider_id].ends_at) == ("", None)


def test_a_scheduled_retirement_is_told_with_its_time_and_a_completed_one_is_not(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    old, other = provider.launch(request_for("a")), provider.launch(request_for("b"))
    at = fake_clock.now() + timedelta(days=14)
    world.schedule_event(old.provider_id, "instance-retirement", "The host is degraded", at)
    world.schedule_event(other.provider_id, "system-reboot", "[Completed] Reboot", at)
    seen = provider.describe([old.provider_id, other.provider_id])
    assert seen[old.provider_id].notice == "EC2 has scheduled instance-retirement: The host is degraded"
    assert seen[old.provider_id].ends_at == at
    assert seen[other.provider_id].notice == ""


def test_notices_cost_few_calls_and_none_where_there_is_no_spot_instance(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    launched = provider.launch(request_for("a"))
    for _ in range(10):
        provider.describe([launched.provider_id])
        fake_clock.step(EVENTS_SECONDS / 10)
    assert len(world.calls("DescribeInstanceStatus")) == 1
    assert world.calls("DescribeSpotInstanceRequests") == []


def test_a_describe_goes_on_without_notices_when_they_cannot_be_had(
    provider: Ec2Provider, world: World, fake_clock: FakeClock
) -> None:
    spot = provider.launch(request_for("a", market="spot"))
    world.interrupt(spot.provider_id)
    assert provider.describe([spot.provider_id])[spot.provider_id].notice
    fake_clock.step(SPOT_SECONDS)
    world.set_knob("throttle_notices", 1)
    seen = provider.describe([spot.provider_id])[spot.provider_id]
    assert seen.notice
    assert seen.instance_type == TYPE
