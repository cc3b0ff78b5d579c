"""The query protocol as botocore's own client speaks it: what it sends is read, what is written it reads."""

from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from botocore.parsers import EC2QueryParser
from botocore.serialize import EC2Serializer
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.ec2.fake import wire

TEXT = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]), min_size=1, max_size=20)
TAGS = st.lists(st.fixed_dictionaries({"Key": TEXT, "Value": TEXT}), min_size=1, max_size=4)
FILTERS = st.lists(
    st.fixed_dictionaries({"Name": TEXT, "Values": st.lists(TEXT, min_size=1, max_size=12)}), min_size=1, max_size=3
)


def body_of(action: str, parameters: dict[str, Any]) -> str:
    """What botocore would send."""
    return urlencode(EC2Serializer().serialize_to_request(parameters, wire.model().operation_model(action))["body"])


def parse(action: str, written: bytes) -> dict[str, Any]:
    """What botocore makes of an answer."""
    shape = wire.model().operation_model(action).output_shape
    parsed: dict[str, Any] = EC2QueryParser().parse({"body": written, "headers": {}, "status_code": 200}, shape)
    parsed.pop("ResponseMetadata")
    return parsed


@given(TAGS, st.integers(1, 9), st.booleans(), st.binary(max_size=40))
def test_a_launch_is_read_as_it_was_asked_for(
    tags: list[dict[str, str]], size: int, is_public: bool, user_data: bytes
) -> None:
    asked = {
        "MinCount": size,
        "MaxCount": size,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
        "NetworkInterfaces": [{"DeviceIndex": 0, "AssociatePublicIpAddress": is_public, "Groups": ["sg-1", "sg-2"]}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": size}}],
        "UserData": user_data.hex(),
    }
    assert wire.read(body_of("RunInstances", asked)) == ("RunInstances", asked)


@given(FILTERS)
def test_filters_are_read_in_their_order(filters: list[dict[str, Any]]) -> None:
    assert wire.read(body_of("DescribeInstances", {"Filters": filters}))[1] == {"Filters": filters}


@given(TAGS, TEXT)
def test_an_answer_is_read_as_it_was_given(tags: list[dict[str, str]], text: str) -> None:
    instance = {"InstanceId": "i-1", "State": {"Code": 16, "Name": "running"}, "Tags": tags, "ImageId": text}
    answer = {"Reservations": [{"Instances": [instance]}], "NextToken": text}
    assert parse("DescribeInstances", wire.write("DescribeInstances", answer, "r")) == answer


def test_an_empty_list_and_a_missing_member_stay_apart() -> None:
    assert parse("DescribeInstances", wire.write("DescribeInstances", {"Reservations": []}, "r")) == {"Reservations": []}


@pytest.mark.parametrize(
    "body", ["", "Action=Nothing", "Version=1", "Action=RunInstances&A=1&Tag.x=1&Tag.x.y=2", "nonsense"]
)
def test_a_body_that_makes_no_sense_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        wire.read(body)


def test_an_error_names_its_code() -> None:
    root = ElementTree.fromstring(wire.write_error("VcpuLimitExceeded", "a < b", "r"))
    assert (root.findtext("Errors/Error/Code"), root.findtext("Errors/Error/Message")) == ("VcpuLimitExceeded", "a < b")
