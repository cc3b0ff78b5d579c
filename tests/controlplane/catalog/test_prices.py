"""What an hour costs: the operator's table first, the list else, and nothing that is guessed."""

import pytest

from controlplane.catalog.instance_types import aws_instance_types
from controlplane.catalog.price_list import LIST_PRICES
from controlplane.catalog.prices import hourly_price, price_in
from controlplane.config.environment import Environment, SettingError
from controlplane.core.offerings import ON_DEMAND, SPOT


@pytest.mark.django_db
def test_the_list_holds_real_types_and_prices_that_grow_with_their_size() -> None:
    assert set(LIST_PRICES) <= aws_instance_types()
    assert all(0 < price < 100 for price in LIST_PRICES.values())
    assert LIST_PRICES["ml.g5.xlarge"] < LIST_PRICES["ml.g5.2xlarge"] < LIST_PRICES["ml.g5.48xlarge"]
    assert hourly_price("ml.g5.2xlarge") == 1.212


def test_the_operator_s_table_wins_and_reaches_types_that_aws_has_not() -> None:
    table = {"ml.g5.2xlarge": 0.4, "ml.rack.h100x8": 11.0}
    assert price_in(table, "ml.g5.2xlarge", ON_DEMAND) == 0.4
    assert price_in(table, "ml.rack.h100x8", ON_DEMAND) == 11.0
    assert price_in(table, "ml.m5.large", ON_DEMAND) == LIST_PRICES["ml.m5.large"]


@pytest.mark.django_db
def test_a_price_nobody_knows_is_none() -> None:
    assert hourly_price("ml.rack.h100x8") is None
    assert hourly_price("ml.g5.2xlarge", SPOT) is None, "spot is never guessed from the on-demand price"
    assert price_in({"ml.g5.2xlarge": 0.4}, "ml.g5.2xlarge", SPOT) is None


def test_a_price_may_be_of_one_market() -> None:
    table = {"ml.g5.2xlarge@spot": 0.5, "ml.m5.large@on-demand": 0.07}
    assert price_in(table, "ml.g5.2xlarge", SPOT) == 0.5
    assert price_in(table, "ml.m5.large", ON_DEMAND) == 0.07


def test_prices_and_quotas_come_from_the_environment() -> None:
    read = Environment.read(
        {"HEADRACE_PRICES": '{"ml.a": 1, "ml.a@spot": 0.25}', "HEADRACE_QUOTAS": '{"ml.a": 4, "*": 20}'}
    )
    assert read.prices == {"ml.a": 1.0, "ml.a@spot": 0.25}
    assert read.quotas == {"ml.a": 4, "*": 20}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_PRICES", '{"ml.a": "1"}'),
        ("HEADRACE_PRICES", '{"ml.a": -1}'),
        ("HEADRACE_PRICES", '{"ml.a": true}'),
        ("HEADRACE_PRICES", '{"ml.a": NaN}'),
        ("HEADRACE_PRICES", '{"ml.a@sport": 1}'),
        ("HEADRACE_PRICES", "[1]"),
        ("HEADRACE_QUOTAS", '{"ml.a": 1.5}'),
        ("HEADRACE_QUOTAS", '{"ml.a": -1}'),
        ("HEADRACE_QUOTAS", '{"ml.a": true}'),
        ("HEADRACE_QUOTAS", "{"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        Environment.read({name: value})
