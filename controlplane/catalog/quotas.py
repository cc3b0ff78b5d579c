"""Quotas: how many instances an account may want at once, by type and in all. Pure.

A quota names an instance type; `*` limits all types together. Instances that serve count for the type they run on;
those still wanted may land on any type of their variant, so they count wherever they fit best: a request is refused only
when its instances cannot all be placed, whatever goes where. So a pool whose type has a quota of 0 is skipped, as it is
when capacity is short, and a variant of one type behaves as on the service this mirrors.

The placing is a flow from variants to types. Instances already wanted are placed first; a new one may push them to another
of their types, never off it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

ALL = "*"
"""The quota of all types together."""

ALL_NAME = "Number of instances across active endpoints"


@dataclass(frozen=True)
class Demand:
    """So many instances on any of these types, the most wanted first."""

    types: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Usage:
    """What an account has asked for so far: `placed` instances by type, and `open` ones that are not there yet."""

    placed: Mapping[str, int]
    open: tuple[Demand, ...] = ()

    @property
    def total(self) -> int:
        """All instances wanted."""
        return sum(self.placed.values()) + sum(demand.count for demand in self.open)


@dataclass(frozen=True)
class Excess:
    """A quota that a request would exceed: its name as AWS writes it, its limit, the use so far, and what is asked for."""

    name: str
    limit: int
    usage: int
    delta: int

    def __str__(self) -> str:
        """The service's own sentence, which clients match on (contract 5.2)."""
        return (
            f"The account-level service limit '{self.name}' is {self.limit} Instances, with current utilization of "
            f"{self.usage} Instances and a request delta of {self.delta} Instances. Please use AWS Service Quotas to "
            "request an increase for this quota. If AWS Service Quotas is not available, contact AWS support to request "
            "an increase for this quota."
        )


def first_excess(limits: Mapping[str, int], usage: Usage, request: Sequence[Demand]) -> Excess | None:
    """The quota that stands in the way of `request`, None when all of it fits.

    Of a variant with several types the most wanted one is named; the total is looked at last.
    """
    flow = _Flow({name: limit for name, limit in limits.items() if name != ALL}, usage.placed)
    for demand in usage.open:
        flow.place(demand)
    before = flow.by_type()
    asked: Counter[str] = Counter()
    for demand in request:
        asked[demand.types[0]] += demand.count
    for demand in request:
        if not flow.place(demand):
            # A type without a quota takes any number, so all of these have one.
            name = demand.types[0]
            return Excess(f"{name} for endpoint usage", limits[name], before[name], asked[name])
    return _total_excess(limits, usage, request)


def room(limits: Mapping[str, int], used: Mapping[str, int]) -> dict[str, int]:
    """How many more instances each limited type may have; never below 0. The total is under ALL."""
    total = sum(used.values())
    return {name: max(limit - (total if name == ALL else used.get(name, 0)), 0) for name, limit in limits.items()}


def _total_excess(limits: Mapping[str, int], usage: Usage, request: Iterable[Demand]) -> Excess | None:
    delta = sum(demand.count for demand in request)
    if ALL not in limits or not delta or usage.total + delta <= limits[ALL]:
        return None
    return Excess(ALL_NAME, limits[ALL], usage.total, delta)


class _Flow:
    """Demands placed on types with limits, moved about by augmenting paths.

    Demands with the same types are one node: however many endpoints an account has, there are few of them.
    """

    def __init__(self, limits: Mapping[str, int], placed: Mapping[str, int]) -> None:
        self._limits = limits
        self._fixed = placed
        self._moved: dict[tuple[str, ...], Counter[str]] = {}

    def by_type(self) -> Counter[str]:
        """How many instances stand on each type."""
        standing = Counter(self._fixed)
        for counts in self._moved.values():
            standing.update(counts)
        return standing

    def place(self, demand: Demand) -> bool:
        """Place as much of the demand as fits; whether that was all of it."""
        left = demand.count
        while left > 0:
            placed = self._push(demand.types, left, frozenset())
            if not placed:
                return False
            left -= placed
        return True

    def _push(self, types: tuple[str, ...], count: int, seen: frozenset[str]) -> int:
        """Place up to `count` instances on the first of `types` that has room or can be given some; returns how many."""
        for name in types:
            if name in seen:
                continue
            free = self._free(name)
            made = min(count, free) if free else self._make_room(name, count, seen | {name})
            if made:
                self._moved.setdefault(types, Counter())[name] += made
                return made
        return 0

    def _make_room(self, name: str, count: int, seen: frozenset[str]) -> int:
        """Move up to `count` instances that stand on this type, and need not, to another of theirs."""
        for types, counts in list(self._moved.items()):
            movable = min(counts[name], count)
            if movable and (moved := self._push(types, movable, seen)):
                counts[name] -= moved
                return moved
        return 0

    def _free(self, name: str) -> int:
        """How many more fit on this type; a type without a limit takes any number."""
        if name not in self._limits:
            return _ANY
        return max(self._limits[name] - self.by_type()[name], 0)


_ANY = 1 << 30
