"""What an hour of an instance costs, in US dollars, provisioning time included: a machine is paid for while it boots.

The operator's table (HEADRACE_PRICES) wins over the list prices of `price_list`. Spot has a price only where the operator
names one: it is never guessed, since a ceiling that guesses is none.
"""

from collections.abc import Mapping

from django.conf import settings

from controlplane.catalog.price_list import LIST_PRICES
from controlplane.core.offerings import ON_DEMAND


def hourly_price(instance_type: str, market: str = ON_DEMAND) -> float | None:
    """The price of this type in this market, None where nobody knows it."""
    return price_in(settings.HEADRACE.prices, instance_type, market)


def price_in(table: Mapping[str, float], instance_type: str, market: str) -> float | None:
    """The price by an operator's `table` (type, or type@market, -> price) and, on demand, the list."""
    exact = table.get(f"{instance_type}@{market}")
    if exact is not None or market != ON_DEMAND:
        return exact
    return table.get(instance_type, LIST_PRICES.get(instance_type))
