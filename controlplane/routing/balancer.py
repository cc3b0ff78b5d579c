"""Which instance a call goes to: the variant's strategy, over the instances that are well, by what they can carry.

    open instances -> not the one that just failed -> those that are not ejected -> the strategy

    RANDOM                       by weight
    LEAST_OUTSTANDING_REQUESTS   the fewest calls for its weight, this one included; equals are drawn
    PREFIX_AWARE                 rendezvous hashing by the prompt's beginning (see `prefix`, `rendezvous`)
    KV_AWARE                     by what is cached where (see `blocks`, `cache_aware`), else as LEAST_OUTSTANDING_REQUESTS

No I/O and no clock: the time is given, in seconds of a monotonic clock, and so is randomness. Everything it remembers
is about instances of variants that were called within FORGET_SECONDS, and bounded for each of them.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.core.errors import ServiceUnavailable
from controlplane.routing.blocks import BlockIndex, capacity_of, chain_of
from controlplane.routing.cache_aware import Holder, best_holders
from controlplane.routing.engine_load import EngineLoad
from controlplane.routing.health import Health, let_in
from controlplane.routing.policies import InFlight
from controlplane.routing.pool import Pool, pool_of
from controlplane.routing.prefix import Ask, prefix_key, prompt_bytes
from controlplane.routing.rendezvous import Place, seat
from controlplane.routing.table import PrefixAware, Target, VariantRoute

FORGET_SECONDS = 600.0
SWEEP_SECONDS = 60.0
SLOW_START_SECONDS = 30.0

LEAST_OUTSTANDING_REQUESTS = "LEAST_OUTSTANDING_REQUESTS"
PREFIX_AWARE = "PREFIX_AWARE"
KV_AWARE = "KV_AWARE"
_WELL = Health()


@dataclass(frozen=True)
class _Choices:
    """The instances a strategy may choose from, at least one, with the weight of each; None = all the same."""

    targets: Sequence[Target]
    weights: Sequence[float] | None

    def weight(self, place: int) -> float:
        return 1.0 if self.weights is None else self.weights[place]


@dataclass
class Balancer:
    """Chooses instances and learns how they do; one for each gateway process."""

    in_flight: InFlight = field(default_factory=InFlight)
    draw: random.Random = field(default_factory=random.Random)
    type_weights: Mapping[str, float] = field(default_factory=dict)
    slow_start_seconds: float = SLOW_START_SECONDS
    loads: dict[str, EngineLoad] = field(default_factory=dict)
    _pools: dict[tuple[str, str, str], Pool] = field(default_factory=dict)
    _health: dict[str, Health] = field(default_factory=dict)
    _caches: dict[str, BlockIndex] = field(default_factory=dict)
    _sweep_at: float = 0.0

    def choose(self, endpoint_id: str, variant: VariantRoute, ask: Ask, now: float, avoid: Sequence[Target] = ()) -> Target:
        """An instance for this call, none of `avoid`; raises ServiceUnavailable when no other takes calls."""
        choices = self._choices(self._pool(endpoint_id, variant, now), now, avoid)
        if variant.strategy == KV_AWARE:
            return self._by_cache(choices, ask, now)
        if len(choices.targets) == 1:
            return choices.targets[0]
        if variant.strategy == PREFIX_AWARE and variant.prefix_aware is not None:
            return self._by_prefix(choices, variant.prefix_aware, ask)
        if variant.strategy == LEAST_OUTSTANDING_REQUESTS:
            return self._least_outstanding(choices)
        return self._at_random(choices)

    def failed(self, instance_id: str, now: float) -> bool:
        """Note a failure of this instance; True when it is ejected for it."""
        before = self._health.get(instance_id, _WELL)
        after = self._health[instance_id] = before.failed(now)
        return after.ejections > before.ejections

    def succeeded(self, instance_id: str, now: float) -> None:
        """Note an answer of this instance."""
        health = self._health.get(instance_id)
        if health is None:
            return
        after = health.succeeded(now)
        if after.ejections:
            self._health[instance_id] = after
        else:
            del self._health[instance_id]

    def scraped(self, instance_id: str, load: EngineLoad | None) -> None:
        """Note what an engine says of itself, None = it cannot be asked or says nothing that is known here."""
        if load is None:
            self.loads.pop(instance_id, None)
            return
        self.loads[instance_id] = load
        if load.cache_tokens:
            self._cache(instance_id).capacity = capacity_of(load.cache_tokens)

    def cache_aware_targets(self, now: float, within_seconds: float) -> list[Target]:
        """The open instances of KV_AWARE variants that were called lately."""
        return [
            target
            for pool in self._pools.values()
            if pool.variant.strategy == KV_AWARE and now - pool.used_at <= within_seconds
            for target in pool.targets
        ]

    # What a strategy may choose from.

    def _pool(self, endpoint_id: str, variant: VariantRoute, now: float) -> Pool:
        key = (endpoint_id, variant.name, variant.config_name)
        pool = self._pools.get(key)
        if pool is None or pool.variant is not variant:
            pool = self._pools[key] = pool_of(variant, pool, self.type_weights, now)
        pool.used_at = now
        if now >= self._sweep_at:
            self._sweep(now)
        return pool

    def _choices(self, pool: Pool, now: float, avoid: Sequence[Target]) -> _Choices:
        weights = None if pool.is_even else pool.weights_at(now, self.slow_start_seconds)
        if not avoid and not self._health and pool.targets:
            return _Choices(pool.targets, weights)
        refused = {target.instance_id for target in avoid}
        places = [place for place, target in enumerate(pool.targets) if target.instance_id not in refused]
        if not places:
            raise ServiceUnavailable(f"Variant {pool.variant.name} has no instance that takes calls now.")
        well = let_in(places, lambda place: self._health.get(pool.targets[place].instance_id, _WELL), now)
        return _Choices(
            [pool.targets[place] for place in well], None if weights is None else [weights[place] for place in well]
        )

    def _sweep(self, now: float) -> None:
        """Forget variants that are no longer called, and everything about instances of none."""
        self._sweep_at = now + SWEEP_SECONDS
        self._pools = {key: pool for key, pool in self._pools.items() if now - pool.used_at < FORGET_SECONDS}
        known = {target.instance_id for pool in self._pools.values() for target in pool.targets}
        remembered: tuple[dict[str, object], ...] = (self._health, self._caches, self.loads)  # type: ignore[assignment]
        for by_instance in remembered:
            for gone in by_instance.keys() - known:
                del by_instance[gone]

    # The strategies.

    def _at_random(self, choices: _Choices) -> Target:
        if choices.weights is None:
            return self.draw.choice(choices.targets)
        return self.draw.choices(choices.targets, choices.weights)[0]

    def _least_outstanding(self, choices: _Choices) -> Target:
        at = self.in_flight.at
        if choices.weights is None:
            carried: list[float] = [at(target.instance_id) for target in choices.targets]
        else:
            pairs = zip(choices.targets, choices.weights, strict=True)
            carried = [(at(target.instance_id) + 1) / weight for target, weight in pairs]
        fewest = min(carried)
        return self.draw.choice([target for target, each in zip(choices.targets, carried, strict=True) if each == fewest])

    def _by_prefix(self, choices: _Choices, settings: PrefixAware, ask: Ask) -> Target:
        places = [
            Place(target.instance_id, choices.weight(place), (target.instance_id,))
            for place, target in enumerate(choices.targets)
        ]
        key = prefix_key(ask, settings.prefix_length)
        chosen = seat(key, places, self.in_flight.at, settings.concurrency_threshold)
        return _named(choices.targets, chosen.instance_id)

    def _by_cache(self, choices: _Choices, ask: Ask, now: float) -> Target:
        chain = chain_of(prompt_bytes(ask))
        holders = [
            Holder(target.instance_id, self._cache(target.instance_id).match(chain), load.usage, calls)
            for place, target in enumerate(choices.targets)
            if (load := self.loads.get(target.instance_id)) is not None and load.is_fresh(now) and not load.is_saturated
            for calls in (max(self.in_flight.at(target.instance_id), load.running + load.waiting) / choices.weight(place),)
        ]
        best = best_holders(holders, len(chain))
        chosen = _named(choices.targets, self.draw.choice(best)) if best else self._least_outstanding(choices)
        self._cache(chosen.instance_id).add(chain)
        return chosen

    def _cache(self, instance_id: str) -> BlockIndex:
        cache = self._caches.get(instance_id)
        if cache is None:
            cache = self._caches[instance_id] = BlockIndex()
        return cache


def _named(targets: Sequence[Target], instance_id: str) -> Target:
    return next(target for target in targets if target.instance_id == instance_id)
