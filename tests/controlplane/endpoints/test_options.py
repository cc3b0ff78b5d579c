"""Options by tags: what they may hold, and what is refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import ValidationException
from controlplane.endpoints.options import PREFIX, OptionError, Options, parse, violations
from tests.workers.plane import Plane


def option(name: str, value: str) -> Options:
    """The options of one tag."""
    return parse([(PREFIX + name, value)])


def test_without_tags_nothing_is_asked_for() -> None:
    assert parse([("team", "search")]) == Options()
    assert Options().markets == ("on-demand",)


def test_every_option_is_read() -> None:
    assert option("coming-home", "90s").home_after_seconds == 90
    assert option("coming-home", "2h").home_after_seconds == 7200
    assert option("max-hourly-price", "12.5").hourly_ceiling == 12.5
    assert option("patience", "ml.g5.xlarge=20m ml.rack.h100x8=1h").patience_seconds == {
        "ml.g5.xlarge": 1200,
        "ml.rack.h100x8": 3600,
    }
    assert option("market", "spot on-demand").markets == ("spot", "on-demand")
    assert option("surge", "none").is_surgeless
    assert option("wake", "3").wake_count == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("coming-home", value) for value in ("", "10", "m", "-1m", "0s", "1.5h", "169h", "9999999s", "10 m")],
        *[("max-hourly-price", value) for value in ("", "0", "-3", "nan", "inf", "free", "1e10")],
        *[("patience", value) for value in ("ml.a", "=5m", "ml.a=soon", "ml.a=5m ml.a=6m")],
        *[("market", value) for value in ("", "auction", "spot spot", "Spot")],
        *[("surge", value) for value in ("", "some")],
        *[("wake", value) for value in ("", "0", "-1", "+1", "1.5", "1000", "\u0661")],
        ("speed", "fast"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_tag_in_the_sentence(name: str, value: str) -> None:
    (sentence,) = violations([(PREFIX + name, value)])
    assert f'"{PREFIX}{name}"' in sentence
    assert sentence.endswith(".")


@given(st.text(max_size=40), st.text(max_size=60))
def test_any_tag_is_either_understood_or_refused_by_name(key: str, value: str) -> None:
    for tag in ((key, value), (PREFIX + key, value), (PREFIX + "patience", value), (PREFIX + "coming-home", value)):
        refused = list(violations([tag]))
        if refused:
            with pytest.raises(OptionError, match=re.escape(tag[0])):
                parse([tag])
        else:
            assert isinstance(parse([tag]), Options)


def test_an_option_on_a_model_or_a_configuration_is_refused(plane: Plane) -> None:
    tag = [{"Key": "headrace:market", "Value": "spot"}]
    with pytest.raises(ValidationException, match="option of endpoints"):
        plane.call("CreateModel", ModelName="m", PrimaryContainer={"Image": "i"}, Tags=tag)
    plane.create()
    arn = plane.call("DescribeModel", ModelName="e")["ModelArn"]
    with pytest.raises(ValidationException, match="option of endpoints"):
        plane.call("AddTags", ResourceArn=arn, Tags=tag)


def test_of_two_deletions_of_one_model_the_second_finds_nothing(plane: Plane) -> None:
    plane.configure("m")
    plane.call("DeleteModel", ModelName="m")
    with pytest.raises(ValidationException, match="Could not find model"):
        plane.call("DeleteModel", ModelName="m")


def test_waking_is_for_endpoints_that_may_sleep() -> None:
    assert list(violations([(PREFIX + "wake", "1")])) == []
    (sentence,) = violations([(PREFIX + "wake", "1"), (PREFIX + "surge", "none")], is_async=False)
    assert "asynchronous endpoints only" in sentence
