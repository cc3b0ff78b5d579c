"""One launch as parameters of RunInstances, checked against botocore's own model of them."""

import random
from typing import Any

import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.providers.ec2.site import OTHER_ZONE, ZONE, request_for, settings
from workers.providers.ec2.fake.wire import model
from workers.providers.ec2.request import client_token, from_tag, parameters, to_tag
from workers.providers.ec2.settings import Settings
from workers.providers.errors import ErrorKind, ProviderError


def parameters_for(found: Settings | None = None, **what: Any) -> dict[str, Any]:
    made = parameters(request_for(**what), found or settings())
    report = ParamValidator().validate(made, model().operation_model("RunInstances").input_shape)
    assert not report.has_errors(), report.generate_report()
    return made


def tags_of(made: dict[str, Any], kind: str = "instance") -> dict[str, str]:
    return {
        tag["Key"]: tag["Value"]
        for each in made["TagSpecifications"]
        if each["ResourceType"] == kind
        for tag in each["Tags"]
    }


def test_exactly_one_instance_is_asked_for_in_the_zones_subnet() -> None:
    made = parameters_for(zone=OTHER_ZONE)
    assert (made["MinCount"], made["MaxCount"], made["SubnetId"]) == (1, 1, "subnet-0000000b")
    assert (made["InstanceType"], made["ImageId"]) == ("g5.2xlarge", "ami-00000001")


def test_an_instance_is_born_with_its_tags() -> None:
    made = parameters_for(token="abc", labels={"endpoint": "echo", "variant": "main"})
    assert tags_of(made) == tags_of(made, "volume")
    assert tags_of(made) == {
        "Name": "headrace-echo",
        "headrace:owner": "us",
        "headrace:token": "abc",
        "headrace:instance-type": "ml.g5.2xlarge",
        "headrace:endpoint": "echo",
        "headrace:variant": "main",
    }


def test_no_label_takes_the_place_of_what_ownership_is_told_by() -> None:
    made = parameters_for(token="abc", labels={"owner": "them", "token": "other"})
    assert (tags_of(made)["headrace:owner"], tags_of(made)["headrace:token"]) == ("us", "abc")


def test_the_machines_role_is_out_of_the_containers_reach_and_there_is_no_key_to_log_in_with() -> None:
    made = parameters_for()
    assert made["MetadataOptions"]["HttpTokens"] == "required"
    assert made["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert "KeyName" not in made


def test_spot_is_one_time_and_ends_by_termination() -> None:
    made = parameters_for(market="spot")
    assert made["InstanceMarketOptions"]["MarketType"] == "spot"
    assert made["InstanceMarketOptions"]["SpotOptions"]["SpotInstanceType"] == "one-time"
    assert made["InstanceMarketOptions"]["SpotOptions"]["InstanceInterruptionBehavior"] == "terminate"
    assert made["InstanceInitiatedShutdownBehavior"] == "terminate"


def test_on_demand_names_no_market_and_stops_with_its_container() -> None:
    made = parameters_for()
    assert "InstanceMarketOptions" not in made
    assert made["InstanceInitiatedShutdownBehavior"] == "stop"


@pytest.mark.parametrize(
    ("reservation", "wanted"),
    [
        ("none", {"CapacityReservationPreference": "none"}),
        ("open", {"CapacityReservationPreference": "open"}),
        ("cr-0123456789abcdef0", {"CapacityReservationTarget": {"CapacityReservationId": "cr-0123456789abcdef0"}}),
    ],
)
def test_on_demand_uses_the_operators_reservation_and_spot_does_not(reservation: str, wanted: object) -> None:
    found = settings(CAPACITY_RESERVATIONS=f'{{"ml.g5.2xlarge": "{reservation}"}}')
    assert parameters_for(found)["CapacityReservationSpecification"] == wanted
    assert "CapacityReservationSpecification" not in parameters_for(found, market="spot")


def test_a_capacity_block_is_a_market_of_its_own() -> None:
    made = parameters_for(settings(CAPACITY_RESERVATIONS='{"ml.g5.2xlarge": "block:cr-0123456789abcdef0"}'))
    assert made["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = made["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-0123456789abcdef0"}


def test_what_is_optional_is_sent_when_it_is_set() -> None:
    found = settings(SECURITY_GROUPS="sg-00000001, sg-00000002", INSTANCE_PROFILE="serving", ROOT_GIB="200")
    made = parameters_for(found)
    assert made["SecurityGroupIds"] == ["sg-00000001", "sg-00000002"]
    assert made["IamInstanceProfile"] == {"Name": "serving"}
    assert made["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == 200
    by_arn = settings(INSTANCE_PROFILE="arn:aws:iam::123456789012:instance-profile/serving")
    assert parameters_for(by_arn)["IamInstanceProfile"] == {"Arn": "arn:aws:iam::123456789012:instance-profile/serving"}


def test_a_public_address_is_asked_for_at_the_interface() -> None:
    made = parameters_for(settings(PUBLIC_ADDRESS="1", SECURITY_GROUPS="sg-00000001"))
    assert made["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is True
    assert made["NetworkInterfaces"][0]["Groups"] == ["sg-00000001"]
    assert not {"SubnetId", "SecurityGroupIds"} & set(made)


def test_the_same_request_gives_the_same_parameters() -> None:
    one = parameters_for(environment={"A": "1", "B": "2"}, labels={"endpoint": "e", "variant": "v"})
    other = parameters_for(environment={"B": "2", "A": "1"}, labels={"variant": "v", "endpoint": "e"})
    assert one == other


@given(st.text(max_size=64), st.sampled_from([ZONE, OTHER_ZONE]))
def test_a_client_token_is_64_ascii_characters_for_each_token_and_zone(token: str, zone: str) -> None:
    made = client_token(token, zone)
    assert len(made) == 64
    assert made.isascii()
    assert made == client_token(token, zone)
    assert len({made, client_token(token + "x", zone), client_token(token, zone + "x")}) == 3


@given(st.text(max_size=40))
def test_a_tag_gives_back_what_it_was_given_in_characters_that_no_filter_reads_as_a_pattern(value: str) -> None:
    tag = to_tag(value)
    assert from_tag(tag) == value
    assert not set(tag) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.=")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"zone": "us-east-1z"}, "HEADRACE_EC2_SUBNETS"),
        ({"market": "futures"}, "futures"),
        ({"image": "--privileged"}, "names no image"),
        ({"image": "a b"}, "names no image"),
        ({"image": ""}, "names no image"),
        ({"model_data_url": "https://example.com/x"}, "s3://"),
        ({"environment": {"A=B": "x"}}, "environment variable"),
        ({"environment": {"A": "x\0y"}}, "NUL"),
    ],
)
def test_what_can_never_work_is_refused_before_anything_is_asked(what: dict[str, Any], message: str) -> None:
    with pytest.raises(ProviderError, match=message) as caught:
        parameters(request_for(**what), settings())
    assert caught.value.kind is ErrorKind.MISCONFIGURED


def test_a_type_without_an_ami_is_refused_by_the_settings_name() -> None:
    with pytest.raises(ProviderError, match=r"HEADRACE_EC2_AMI names no AMI for ml\.g5\.2xlarge"):
        parameters(request_for(), settings(AMI='{"ml.other.large": "ami-00000001"}'))


def test_an_environment_that_does_not_fit_is_refused_with_the_limit() -> None:
    noise = random.Random(1)
    environment = {f"N{number}": noise.randbytes(500).hex() for number in range(50)}
    with pytest.raises(ProviderError, match="16384") as caught:
        parameters(request_for(environment=environment), settings())
    assert caught.value.kind is ErrorKind.MISCONFIGURED
