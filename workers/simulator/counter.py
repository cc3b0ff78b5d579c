"""The counter at which endpoints see what there is: each group's offerings with the marks as they are now."""

from controlplane.core.offerings import Offering
from workers.simulator.fleet import Subject, pools_of
from workers.simulator.memory import Memory
from workers.simulator.scenario import Group, Scenario
from workers.simulator.world import World


class Counter:
    """Offerings by group, made anew only when one of their marks has changed."""

    def __init__(self, scenario: Scenario, memory: Memory, world: World) -> None:
        self._zones = scenario.zones
        self._memory = memory
        self._world = world
        self._pools = {group.name: pools_of(group) for group in scenario.groups}
        self._made: dict[str, tuple[Offering, ...]] = {}
        self._users: dict[str, list[str]] = {each.name: [] for each in scenario.types}
        for group in scenario.groups:
            for pool in group.pools:
                self._users[pool.instance_type].append(group.name)

    def turn(self, instance_type: str) -> None:
        """A mark on this type changed."""
        for name in self._users[instance_type]:
            self._made.pop(name, None)

    def offerings_of(self, subject: Subject) -> tuple[Offering, ...]:
        """What a search of this endpoint may ask, by pool, then market, then zone."""
        name = subject.group.name
        found = self._made.get(name)
        if found is None:
            found = self._made[name] = self._make(subject.group)
        return found

    def _make(self, group: Group) -> tuple[Offering, ...]:
        return tuple(
            Offering(
                pool,
                zone,
                self._memory.mark_of(key),
                market,
                self._world.price(key),
                refused_at=self._memory.refused_at(key),
            )
            for pool in self._pools[group.name]
            for market in group.markets
            for zone in self._zones
            for key in [(pool.instance_type, zone, market)]
        )
