"""What each answer of EC2 to a launch comes to."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.clock import FakeClock
from tests.workers.providers.ec2.site import EC2_TYPE, OTHER_ZONE, TYPE, ZONE, env_of, request_for
from workers.providers.base import CALL_TIMEOUT_SECONDS, InstanceStatus
from workers.providers.ec2 import calls
from workers.providers.ec2.fake.server import FakeEc2
from workers.providers.ec2.fake.world import World
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.errors import ErrorKind, ProviderError


def refusal(call: Callable[[], object]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        call()
    return caught.value


def test_an_instance_is_launched_with_what_it_is_known_by(provider: Ec2Provider, fake_clock: FakeClock) -> None:
    launched = provider.launch(request_for("t"))
    assert (launched.token, launched.owner, launched.instance_type, launched.zone) == ("t", "us", TYPE, ZONE)
    assert launched.launched_at == fake_clock.now()
    assert launched.provider_id.startswith("i-")


def test_a_type_that_the_operator_maps_keeps_its_own_name(fake: FakeEc2, tmp_path: Path) -> None:
    provider = Ec2Provider(tmp_path, env_of(fake, TYPES='{"ml.rack.h100x8": "p5.48xlarge"}'))
    launched = provider.launch(request_for(instance_type="ml.rack.h100x8"))
    assert launched.instance_type == "ml.rack.h100x8"
    assert [each.instance_type for each in fake.world.live()] == ["p5.48xlarge"]


def test_a_shortage_is_capacity_for_that_type_and_zone_alone(provider: Ec2Provider, world: World) -> None:
    world.set_capacity(EC2_TYPE, 0, ZONE)
    refused = refusal(lambda: provider.launch(request_for("a")))
    assert refused.kind is ErrorKind.CAPACITY
    assert refused.message.startswith(f"EC2 refused {TYPE}: InsufficientInstanceCapacity: ")
    assert provider.launch(request_for("b", zone=OTHER_ZONE)).zone == OTHER_ZONE
    assert provider.launch(request_for("c", instance_type="ml.m5.large")).zone == ZONE


def test_quotas_are_told_from_shortages_and_the_markets_from_each_other(provider: Ec2Provider, world: World) -> None:
    world.set_quota("spot", 0)
    assert refusal(lambda: provider.launch(request_for("a", market="spot"))).kind is ErrorKind.QUOTA
    assert provider.launch(request_for("b")).token == "b"
    world.set_quota("on-demand", 1)
    assert refusal(lambda: provider.launch(request_for("c"))).kind is ErrorKind.QUOTA


def test_a_throttle_is_known_at_the_first_answer(provider: Ec2Provider, world: World) -> None:
    world.set_knob("throttle", 1)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.THROTTLED
    assert [call.result for call in world.calls()] == ["RequestLimitExceeded"]
    assert provider.launch(request_for()).token == "t"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("UnauthorizedOperation", 403, ErrorKind.MISCONFIGURED),
        ("InvalidAMIID.NotFound", 400, ErrorKind.MISCONFIGURED),
        ("Unsupported", 400, ErrorKind.CAPACITY),
        ("BrandNewCode", 400, ErrorKind.UNKNOWN),
        ("BrandNewCode", 500, ErrorKind.AMBIGUOUS),
    ],
)
def test_a_refusal_has_the_kind_of_its_code_and_names_it(
    provider: Ec2Provider, world: World, code: str, status: int, kind: ErrorKind
) -> None:
    world.refuse("ami-00000001", code, "why " * 1000, status)
    refused = refusal(lambda: provider.launch(request_for()))
    assert refused.kind is kind
    assert code in refused.message
    assert len(refused.message) <= calls.MESSAGE_LIMIT


def test_a_subnet_that_is_not_there_is_misconfigured(fake: FakeEc2, tmp_path: Path) -> None:
    provider = Ec2Provider(tmp_path, env_of(fake, SUBNETS='{"us-east-1a": "subnet-0000dead"}'))
    refused = refusal(lambda: provider.launch(request_for()))
    assert refused.kind is ErrorKind.MISCONFIGURED
    assert "subnet-0000dead" in refused.message


def test_a_lost_reply_is_ambiguous_and_the_same_token_finds_the_instance(provider: Ec2Provider, world: World) -> None:
    world.set_knob("lose_replies", 1)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    assert provider.launch(request_for()).provider_id == world.live()[0].instance_id
    assert len(world.live()) == 1


def test_a_lost_request_is_ambiguous_and_the_same_token_launches(provider: Ec2Provider, world: World) -> None:
    world.set_knob("lose_requests", 1)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    assert world.live() == []
    provider.launch(request_for())
    assert len(world.live()) == 1


def test_an_internal_error_is_asked_once_and_is_ambiguous(provider: Ec2Provider, world: World) -> None:
    world.set_knob("internal_errors", 1)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    assert len(world.calls()) == 1


def test_an_answer_without_an_instance_is_ambiguous(provider: Ec2Provider, world: World) -> None:
    world.set_knob("empty_replies", 1)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    assert provider.launch(request_for()).provider_id == world.live()[0].instance_id


def test_an_ec2_that_cannot_be_reached_has_launched_nothing(fake: FakeEc2, tmp_path: Path) -> None:
    provider = Ec2Provider(tmp_path, {**env_of(fake), "HEADRACE_EC2_ENDPOINT_URL": "http://127.0.0.1:9"})
    refused = refusal(lambda: provider.launch(request_for()))
    assert refused.kind is ErrorKind.THROTTLED
    assert "nothing was sent" in refused.message


def test_no_credentials_is_misconfigured(fake: FakeEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    provider = Ec2Provider(tmp_path, env_of(fake))
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.MISCONFIGURED


def test_the_address_that_users_point_their_clients_at_is_not_taken_for_ec2s(
    fake: FakeEc2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    env = {name: value for name, value in env_of(fake).items() if name != "HEADRACE_EC2_ENDPOINT_URL"}
    assert Ec2Provider(tmp_path, env)._client.meta.endpoint_url == "https://ec2.us-east-1.amazonaws.com"


def test_one_call_fits_the_time_that_the_contract_gives() -> None:
    assert calls.CONNECT_SECONDS + calls.READ_SECONDS <= CALL_TIMEOUT_SECONDS


def test_one_token_in_two_zones_is_two_launches(provider: Ec2Provider) -> None:
    one, other = provider.launch(request_for("t")), provider.launch(request_for("t", zone=OTHER_ZONE))
    assert one.provider_id != other.provider_id


def test_a_token_used_with_other_settings_finds_its_first_instance(
    provider: Ec2Provider, fake: FakeEc2, tmp_path: Path
) -> None:
    first = provider.launch(request_for())
    changed = Ec2Provider(tmp_path, env_of(fake, AMI="ami-00000002"))
    assert changed.launch(request_for()).provider_id == first.provider_id
    assert len(fake.world.live()) == 1


def test_a_token_used_with_other_settings_is_ambiguous_while_listings_may_lag_and_spent_after(
    provider: Ec2Provider, fake: FakeEc2, fake_clock: FakeClock, tmp_path: Path
) -> None:
    provider.launch(request_for())
    fake.world.set_knob("consistency_seconds", 3600)
    changed = Ec2Provider(tmp_path, env_of(fake, AMI="ami-00000002"))
    assert refusal(lambda: changed.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    fake_clock.step(59)
    assert refusal(lambda: changed.launch(request_for())).kind is ErrorKind.AMBIGUOUS
    fake_clock.step(2)
    assert refusal(lambda: changed.launch(request_for())).kind is ErrorKind.THROTTLED


def test_the_token_of_a_terminated_instance_launches_nothing(provider: Ec2Provider, world: World) -> None:
    provider.terminate(provider.launch(request_for()).provider_id)
    refused = refusal(lambda: provider.launch(request_for()))
    assert refused.kind is ErrorKind.THROTTLED
    assert "another token" in refused.message
    assert world.live() == []


def test_the_token_of_a_terminated_instance_may_be_answered_with_it(provider: Ec2Provider, world: World) -> None:
    world.set_knob("answer_spent_tokens", 1)
    first = provider.launch(request_for())
    provider.terminate(first.provider_id)
    again = provider.launch(request_for())
    assert (again.provider_id, again.status, again.failure) == (first.provider_id, InstanceStatus.EXITED, None)


def test_the_token_of_an_instance_that_was_taken_away_is_answered_with_what_became_of_it(
    provider: Ec2Provider, world: World
) -> None:
    first = provider.launch(request_for(market="spot"))
    world.take_away(first.provider_id, "Server.SpotInstanceTermination", "Spot instance termination")
    again = provider.launch(request_for(market="spot"))
    assert (again.provider_id, again.status, again.failure) == (first.provider_id, InstanceStatus.EXITED, None)
    assert "Spot instance termination" in again.detail


@pytest.mark.parametrize("is_answered", [0, 1])
def test_an_instance_that_never_ran_for_want_of_capacity_is_a_shortage(
    provider: Ec2Provider, world: World, is_answered: int
) -> None:
    world.set_knob("answer_spent_tokens", is_answered)
    world.set_knob("fail_pending", 1)
    world.set_knob("stop_seconds", 0)
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.CAPACITY
    assert refusal(lambda: provider.launch(request_for())).kind is ErrorKind.CAPACITY


def test_nothing_of_the_models_environment_is_logged(
    provider: Ec2Provider, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.set_knob("lose_replies", 1)
    with caplog.at_level(logging.INFO):
        refused = refusal(lambda: provider.launch(request_for(environment={"API_KEY": "hunter2"})))
    assert "hunter2" not in caplog.text + refused.message
