"""What operators write for EC2."""

from pathlib import Path

import pytest

from tests.workers.providers.ec2.site import NEEDED, settings
from workers.providers.ec2.provider import Ec2Provider
from workers.providers.ec2.settings import Settings

NONSENSE = {
    "SUBNETS": ["", "{}", "[]", "{", '{"us-east-1a": 1}', '{"us-east-1a": "vpc-00000001"}', '{"a b": "subnet-00000001"}'],
    "AMI": ["", "img-1", '{"ml.g5.xlarge": "x"}', '{"g5.xlarge": "ami-00000001"}', "{}"],
    "SECURITY_GROUPS": ["default", "sg-00000001 sg-00000002"],
    "INSTANCE_PROFILE": ["a b", "x" * 257],
    "TYPES": ["[]", '{"ml.rack": "p5"}', '{"rack": "p5.48xlarge"}'],
    "CAPACITY_RESERVATIONS": ['{"ml.p5.48xlarge": "yes"}', '{"p5.48xlarge": "open"}'],
    "ROOT_GIB": ["-1", "many", "65537", "\u0663"],
    "ROOT_DEVICE": ["xvda", "/dev/../etc"],
    "PUBLIC_ADDRESS": ["true", "2"],
    "PORT": ["70000", "x"],
    "CONSISTENCY_SECONDS": ["-1", "1.5"],
    "ENDPOINT_URL": ["localhost:1", "ftp://x", "http://x/path/"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NONSENSE.items() for value in values])
def test_a_setting_that_makes_no_sense_is_refused_by_its_name(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^HEADRACE_EC2_{name} "):
        Ec2Provider(tmp_path, {**NEEDED, f"HEADRACE_EC2_{name}": value})


def test_a_profile_that_is_not_there_is_refused_by_the_settings_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match=r"^HEADRACE_EC2_PROFILE .*nobody"):
        Ec2Provider(tmp_path, {**NEEDED, "HEADRACE_EC2_PROFILE": "nobody"})


def test_the_key_of_the_embedded_store_is_never_shown_to_ec2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("[serving]\naws_access_key_id = AKIASERVING\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASTORE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "store")
    keys = {
        profile: Ec2Provider(
            tmp_path, {**NEEDED, "HEADRACE_S3_EMBEDDED": "1", "HEADRACE_EC2_PROFILE": profile}
        )._client._request_signer._credentials
        for profile in ("", "serving")
    }
    assert keys[""] is None
    assert keys["serving"].access_key == "AKIASERVING"


def test_zones_are_those_with_a_subnet_in_the_operators_order() -> None:
    assert settings(SUBNETS='{"us-east-1c": "subnet-00000003", "us-east-1a": "subnet-00000001"}').zones == (
        "us-east-1c",
        "us-east-1a",
    )


def test_types_lose_their_prefix_unless_the_operator_names_another() -> None:
    found = settings(TYPES='{"ml.rack.h100x8": "p5.48xlarge"}')
    assert found.ec2_type("ml.g5.2xlarge") == "g5.2xlarge"
    assert found.ec2_type("ml.rack.h100x8") == "p5.48xlarge"


def test_amis_can_be_named_by_type() -> None:
    found = settings(AMI='{"*": "ami-00000001", "ml.g5g.xlarge": "ami-00000002"}')
    assert [found.ami(name) for name in ("ml.g5.xlarge", "ml.g5g.xlarge")] == ["ami-00000001", "ami-00000002"]


def test_a_reservation_for_a_zone_comes_before_one_for_the_type() -> None:
    found = settings(
        CAPACITY_RESERVATIONS='{"ml.p5.48xlarge": "open", "ml.p5.48xlarge/us-east-1a": "cr-0123456789abcdef0"}'
    )
    assert found.reservation("ml.p5.48xlarge", "us-east-1a") == "cr-0123456789abcdef0"
    assert found.reservation("ml.p5.48xlarge", "us-east-1b") == "open"
    assert found.reservation("ml.g5.xlarge", "us-east-1a") == ""


def test_what_is_not_set_has_its_documented_default() -> None:
    found = Settings.read(NEEDED)
    assert (found.region, found.port, found.consistency_window_seconds, found.root_gib) == ("us-east-1", 8080, 60.0, 0)
    assert (found.security_groups, found.instance_profile, found.has_public_address) == ((), "", False)
