"""How many instances an endpoint is wanted to have, hour by hour. Pure; time in seconds from the scenario's start."""

import math
from random import Random

from workers.simulator.scenario import DAY, HOUR, Demand


def wanted_at(demand: Demand, at: float, dice: Random) -> int:
    """The count at this time: a cosine over the day between `low` and `high`, with this step's noise, within them."""
    if demand.low == demand.high:
        return demand.low
    turn = 2 * math.pi * (at - demand.peak_hour * HOUR) / DAY
    share = (1 + math.cos(turn)) / 2
    if demand.noise:
        share += dice.gauss(0.0, demand.noise)
    count = round(demand.low + share * (demand.high - demand.low))
    return min(max(count, demand.low), demand.high)
