"""What an hour of an instance costs, in US dollars, provisioning time included: a machine is paid for while it boots.

What the operator set while Headrace runs (`catalog.price_overrides`) wins over the operator's table (HEADRACE_PRICES), and
that over the list prices of `price_list`. Spot has a price only where the operator names one: it is never guessed, since a
ceiling that guesses is none.
"""

from collections.abc import Mapping
from enum import StrEnum

from django.conf import settings

from controlplane.catalog.models import PriceOverride
from controlplane.catalog.price_list import LIST_PRICES
from controlplane.core.offerings import ON_DEMAND


class PriceSource(StrEnum):
    """Where a price comes from, the one that wins first."""

    OPERATOR = "operator"
    SETTING = "setting"
    LIST = "list"
    UNKNOWN = "unknown"


def overrides() -> dict[str, float]:
    """What operators have set, by type@market; one query."""
    rows = PriceOverride.objects.values_list("instance_type", "market", "hourly_price")
    return {f"{name}@{market}": price for name, market, price in rows}


def sourced_price(own: Mapping[str, float], instance_type: str, market: str) -> tuple[float | None, PriceSource]:
    """The price of this type in this market and where it comes from; `own` is what `overrides` gave."""
    exact = own.get(f"{instance_type}@{market}")
    if exact is not None:
        return exact, PriceSource.OPERATOR
    table = settings.HEADRACE.prices
    price = price_in(table, instance_type, market)
    if price is None:
        return None, PriceSource.UNKNOWN
    is_set = f"{instance_type}@{market}" in table or instance_type in table
    return price, PriceSource.SETTING if is_set else PriceSource.LIST


def price_table() -> dict[str, float]:
    """The operator's prices, by type or type@market, for `price_in`; one query."""
    return {**settings.HEADRACE.prices, **overrides()}


def hourly_price(instance_type: str, market: str = ON_DEMAND) -> float | None:
    """The price of this type in this market, None where nobody knows it; one query, so not for use in a loop."""
    return price_in(price_table(), instance_type, market)


def price_in(table: Mapping[str, float], instance_type: str, market: str) -> float | None:
    """The price by an operator's `table` (type, or type@market, -> price) and, on demand, the list."""
    exact = table.get(f"{instance_type}@{market}")
    if exact is not None or market != ON_DEMAND:
        return exact
    return table.get(instance_type, LIST_PRICES.get(instance_type))
