"""KV_AWARE: to the instance that probably has the prompt's beginning cached, unless it is too busy. Pure.

    score = 2 x matched part of the prompt + 1 x free part of the cache + 1 x idleness among the candidates

Candidates are the instances whose engine has said lately how it does and is not saturated. Where none of them holds any
of the prompt, the instance with the fewest calls is taken, as by LEAST_OUTSTANDING_REQUESTS. Weights: the upstream
sample mix (contract, data plane 3.5); the mirrored service publishes none.
"""

from typing import NamedTuple

MATCH_WEIGHT = 2.0
ROOM_WEIGHT = 1.0
IDLE_WEIGHT = 1.0

LEAST_SPREAD = 8.0
"""Calls. A smaller difference between the busiest and the idlest is not stretched over the whole scale: one call more
or less says nothing against half a prompt to be computed anew."""


class Holder(NamedTuple):
    """An instance that may be chosen for its cache.

    `matched` of the prompt's blocks are probably cached, `usage` of the cache is in use, `calls` are under way for each
    unit of its weight.
    """

    instance_id: str
    matched: int
    usage: float
    calls: float


def best_holders(holders: list[Holder], blocks: int) -> list[str]:
    """The instances with the best score; none when nobody holds any of the prompt's `blocks`."""
    if not blocks or not any(holder.matched for holder in holders):
        return []
    busiest = max(holder.calls for holder in holders)
    spread = max(busiest - min(holder.calls for holder in holders), LEAST_SPREAD)
    scores = [
        MATCH_WEIGHT * holder.matched / blocks
        + ROOM_WEIGHT * (1 - holder.usage)
        + IDLE_WEIGHT * (busiest - holder.calls) / spread
        for holder in holders
    ]
    best = max(scores)
    return [holder.instance_id for holder, score in zip(holders, scores, strict=True) if score == best]
