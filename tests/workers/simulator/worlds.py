"""Small scenarios, by hand and by chance, and a run that checks itself at every rest."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from workers.fleet import actions as do
from workers.fleet.view import WANTED, Endpoint, Stage
from workers.simulator.engine import Simulation
from workers.simulator.fleet import Subject
from workers.simulator.ledger import Ledger
from workers.simulator.report import Report, report
from workers.simulator.scenario import (
    HOUR,
    OUTAGE_KINDS,
    Demand,
    Flapping,
    Group,
    InstanceType,
    Outage,
    PoolWish,
    Scenario,
    Shortage,
)

SHIPPED = sorted((Path(__file__).parents[3] / "deploy" / "scenarios").glob("*.toml"))
HOME, AWAY = "ml.home.large", "ml.away.large"


def kind(name: str = HOME, **facts: Any) -> InstanceType:
    """An instance type that boots in a minute."""
    return InstanceType(name, facts.pop("price", 2.0), facts.pop("spot_price", 1.0), 60.0, 0.1, **facts)


def group(name: str = "g", *names: str, **facts: Any) -> Group:
    """Endpoints of one instance over pools of these types, in order of priority."""
    pools = tuple(PoolWish(each, place) for place, each in enumerate(names or (HOME, AWAY), start=1))
    facts.setdefault("demand", Demand(1, 1))
    return Group(name, facts.pop("count", 1), facts.pop("pools", pools), startup_seconds=20.0, **facts)


def scenario(*groups: Group, types: Iterable[InstanceType] = (), hours: float = 12.0, **facts: Any) -> Scenario:
    """A scenario of these groups over two types with room for all, unless given."""
    kinds = tuple(types) or (kind(HOME), kind(AWAY, price=1.0))
    return Scenario("a test", hours / 24, facts.pop("seed", 1), facts.pop("zones", ("a",)), kinds, groups, **facts)


def play(played: Scenario) -> Report:
    """The report of a checked run."""
    simulation = Checked(played)
    return report(played, simulation.run())


class Checked(Simulation):
    """A run that asserts, whenever an endpoint comes to rest, what must hold then."""

    def run(self, progress: Any = None) -> Ledger:
        ledger = super().run(progress)
        for key, taken in self.world._taken.items():
            there = [m for s in self.subjects.values() for m in s.machines.values() if m.key == key and not m.is_gone]
            calls_under_way = sum(subject.is_busy for subject in self.subjects.values())
            lost = sum(fate.key == key for fate in self.world._untold.values())
            assert 0 <= taken - len(there) - lost <= calls_under_way, "slots and instances tell the same story"
        return ledger

    def _rest(self, subject: Subject, decided: do.Plan, view: Endpoint) -> None:
        super()._rest(subject, decided, view)
        rows = [machine.row for machine in subject.machines.values() if machine.row.stage in WANTED]
        movers = [row for row in rows if row.replaces]
        staying = [row for row in rows if row.ends_at is None and row not in movers]
        assert len(staying) <= subject.desired_count, "never more than is wanted, beside what moves or is taken away"
        assert len(movers) <= 1, "one move at a time"
        assert all(machine.row.stage is Stage.READY for machine in subject.machines.values() if machine.is_serving)
        assert all(taken >= 0 for taken in self.world._taken.values())


# By chance.


@st.composite
def shortages(draw: st.DrawFn, until: float) -> tuple[Shortage, ...]:
    """Up to two shortages that are over by `until`."""
    found = []
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.floats(0, until - 600))
        end = draw(st.floats(start + 60, until))
        found.append(Shortage(start, end, draw(st.integers(0, 3)), market=draw(st.sampled_from(["", "spot"]))))
    return tuple(found)


@st.composite
def types(draw: st.DrawFn, name: str, calm_from: float) -> InstanceType:
    """A type with weather until `calm_from` and plenty after it."""
    flaps = draw(st.booleans())
    return kind(
        name,
        price=draw(st.sampled_from([0.5, 1.0, 4.0])),
        interruptions_per_day=draw(st.sampled_from([0.0, 5.0])),
        shortages=draw(shortages(calm_from)),
        flapping=Flapping(1200.0, 600.0, zones=("b",)) if flaps else None,
    )


@st.composite
def groups(draw: st.DrawFn, name: str) -> Group:
    """A few endpoints with any option."""
    names = draw(st.permutations([HOME, AWAY]))
    pools = tuple(PoolWish(each, place, draw(st.sampled_from([0.0, 300.0]))) for place, each in enumerate(names, start=1))
    low = draw(st.integers(1, 3))
    return group(
        name,
        pools=pools,
        count=draw(st.integers(1, 4)),
        demand=Demand(low, low + draw(st.integers(0, 3)), noise=0.1, step_seconds=900.0),
        markets=draw(st.sampled_from([("on-demand",), ("spot",), ("spot", "on-demand")])),
        home_after_seconds=draw(st.sampled_from([None, 300.0])),
        hourly_ceiling=draw(st.sampled_from([None, 6.0])),
        crashes_per_day=draw(st.sampled_from([0.0, 10.0])),
        failed_starts=draw(st.sampled_from([0.0, 0.2])),
        created_over=draw(st.sampled_from([0.0, HOUR])),
    )


@st.composite
def scenarios(draw: st.DrawFn, hours: float = 8.0, calm_from: float = 4.0) -> Scenario:
    """Any weather for some hours, then calm."""
    outages = []
    if draw(st.booleans()):
        start = draw(st.floats(0, (calm_from - 1) * HOUR))
        outages.append(Outage(start, start + draw(st.floats(60, HOUR)), draw(st.sampled_from(OUTAGE_KINDS))))
    return scenario(
        *(draw(groups(f"g{number}")) for number in range(draw(st.integers(1, 2)))),
        types=[draw(types(name, calm_from * HOUR)) for name in (HOME, AWAY)],
        hours=hours,
        zones=("a", "b"),
        seed=draw(st.integers(0, 1000)),
        outages=tuple(outages),
        hold_down_seconds=600.0,
    )
