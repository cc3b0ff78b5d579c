"""From the text of a scenario file to a `Scenario`, or to a ScenarioError with every fault in it.

Fields are named with their unit (`boot_seconds`, `patience_minutes`, `from_hours`), `deploy/scenarios/` has examples.
Limits are what a laptop can bear or what the SageMaker API allows (pools, priorities, the provision budget).
"""

import tomllib
from collections.abc import Iterable

from controlplane.core.offerings import MARKETS, ON_DEMAND
from workers.simulator.scenario import (
    HOUR,
    OUTAGE_KINDS,
    THROTTLED,
    TOTAL,
    UNLIMITED,
    Demand,
    Flapping,
    Group,
    InstanceType,
    Outage,
    PoolWish,
    Scenario,
    Shortage,
)
from workers.simulator.toml_table import ScenarioError, Table

MINUTE = 60.0
DAYS_LIMIT = 366.0
HOURS_LIMIT = DAYS_LIMIT * 24
ENDPOINTS_LIMIT = 100_000
INSTANCES_LIMIT = 200
GROUPS_LIMIT = 200
TYPES_LIMIT = 100
ZONES_LIMIT = 10
POOLS_LIMIT = 5
WEATHER_LIMIT = 1000
PRICE_LIMIT = 10_000.0
RATE_LIMIT = 1000.0
"""Interruptions or crashes a day of one instance: one every minute and a half."""


def parse(text: str, *, days: float | None = None, seed: int | None = None) -> Scenario:
    """The scenario that a file's text describes; `days` and `seed` replace what the file says. Raises ScenarioError."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise ScenarioError([f"the file is no TOML: {error}"]) from error
    problems: list[str] = []
    overrides = {name: value for name, value in (("days", days), ("seed", seed)) if value is not None}
    top = Table({**values, **overrides}, "", problems)
    scenario = _scenario(top)
    top.close()
    problems += [] if problems else _across(scenario)
    if problems:
        raise ScenarioError(problems)
    return scenario


def _scenario(top: Table) -> Scenario:
    zones = top.words("zones", default=("a",))
    if len(zones) > ZONES_LIMIT:
        top.fault("zones", f"must be at most {ZONES_LIMIT}, are {len(zones)}")
    return Scenario(
        title=top.text("title"),
        days=top.number("days", 0.01, DAYS_LIMIT),
        seed=top.integer("seed", 0, 2**63 - 1, 1),
        zones=zones,
        types=top.tables("types", lambda table: _type(table, zones), TYPES_LIMIT, is_required=True),
        groups=top.tables("endpoints", _group, GROUPS_LIMIT, is_required=True),
        outages=top.tables("outages", _outage, WEATHER_LIMIT),
        call_seconds=top.number("call_seconds", 0.01, 25, 1.5),
        mark_seconds=top.number("mark_seconds", 1, 86_400, 300),
        coming_home_budget=top.integer("coming_home_budget", 1, ENDPOINTS_LIMIT, 2),
        hold_down_seconds=top.number("hold_down_minutes", 0, 10_000, 30) * MINUTE,
    )


def _type(table: Table, zones: tuple[str, ...]) -> InstanceType:
    price = table.number("price", 0, PRICE_LIMIT)
    return InstanceType(
        name=table.text("name"),
        price=price,
        spot_price=table.number("spot_price", 0, PRICE_LIMIT, price),
        boot_seconds=table.number("boot_seconds", 0, 7200, 180),
        boot_spread=table.number("boot_spread", 0, 1, 0.2),
        slots=table.integer("slots", 0, UNLIMITED, UNLIMITED),
        spot_slots=table.integer("spot_slots", 0, UNLIMITED, UNLIMITED),
        interruptions_per_day=table.number("interruptions_per_day", 0, RATE_LIMIT, 0),
        shortages=table.tables("shortages", lambda each: _shortage(each, zones), WEATHER_LIMIT),
        flapping=table.table("flapping", lambda each: _flapping(each, zones)),
    )


def _shortage(table: Table, zones: tuple[str, ...]) -> Shortage:
    start, end = _span(table)
    return Shortage(
        start,
        end,
        slots=table.integer("slots", 0, UNLIMITED, 0),
        zones=table.words("zones", zones, ()),
        market=table.choice("market", MARKETS, ""),
    )


def _flapping(table: Table, zones: tuple[str, ...]) -> Flapping:
    return Flapping(
        plenty=table.number("plenty_minutes", 1, 1_000_000) * MINUTE,
        shortage=table.number("shortage_minutes", 1, 1_000_000) * MINUTE,
        zones=table.words("zones", zones, ()),
    )


def _outage(table: Table) -> Outage:
    start, end = _span(table)
    kind = table.choice("kind", OUTAGE_KINDS, THROTTLED)
    return Outage(start, end, kind, table.number("happened", 0, 1, 0.5))


def _span(table: Table) -> tuple[float, float]:
    start, end = table.number("from_hours", 0, HOURS_LIMIT), table.number("to_hours", 0, HOURS_LIMIT)
    if end <= start:
        table.fault("to_hours", f"must be after from_hours ({start:g}), is {end:g}")
    return start * HOUR, end * HOUR


def _group(table: Table) -> Group:
    return Group(
        name=table.text("group"),
        count=table.integer("count", 1, ENDPOINTS_LIMIT, 1),
        pools=table.tables("pools", _pool, POOLS_LIMIT, is_required=True),
        demand=_demand(table),
        markets=table.words("markets", MARKETS, (ON_DEMAND,)),
        provision_seconds=table.number("provision_seconds", 300, 3600, 1800),
        home_after_seconds=_optional_minutes(table, "coming_home_minutes"),
        hourly_ceiling=table.number("hourly_ceiling", 0, PRICE_LIMIT * INSTANCES_LIMIT)
        if table.has("hourly_ceiling")
        else None,
        startup_seconds=table.number("startup_seconds", 0, 3600, 60),
        startup_spread=table.number("startup_spread", 0, 1, 0.2),
        startup_timeout_seconds=table.number("startup_timeout_seconds", 60, 3600, 480),
        drain_seconds=table.number("drain_seconds", 0, 3600, 30),
        crashes_per_day=table.number("crashes_per_day", 0, RATE_LIMIT, 0),
        failed_starts=table.number("failed_starts", 0, 1, 0),
        created_over=table.number("created_over_minutes", 0, HOURS_LIMIT * 60, 0) * MINUTE,
    )


def _optional_minutes(table: Table, name: str) -> float | None:
    return table.number(name, 0, 100_000) * MINUTE if table.has(name) else None


def _pool(table: Table) -> PoolWish:
    return PoolWish(
        instance_type=table.text("type"),
        priority=table.integer("priority", 1, 5),
        patience_seconds=table.number("patience_minutes", 0, 1440, 0) * MINUTE,
    )


def _demand(table: Table) -> Demand:
    """`instances` for a constant number, or a `demand` table with a daily curve; exactly one of them."""
    curve = table.table("demand", _curve)
    if curve is None:
        count = table.integer("instances", 1, INSTANCES_LIMIT)
        return Demand(count, count)
    if table.has("instances"):
        table.fault("instances", "must not be given beside demand")
    return curve


def _curve(table: Table) -> Demand:
    low, high = table.integer("low", 1, INSTANCES_LIMIT), table.integer("high", 1, INSTANCES_LIMIT)
    if high < low:
        table.fault("high", f"must not be below low ({low}), is {high}")
    return Demand(
        low,
        high,
        peak_hour=table.number("peak_hour", 0, 24, 14),
        noise=table.number("noise", 0, 1, 0),
        step_seconds=table.number("step_minutes", 1, 1440, 30) * MINUTE,
    )


def _across(scenario: Scenario) -> list[str]:
    """Faults that no single table shows."""
    problems = [f"types: {name} is there twice" for name in _twice(each.name for each in scenario.types)]
    problems += [f"endpoints: group {name} is there twice" for name in _twice(each.name for each in scenario.groups)]
    problems += [f"endpoints: no group may be named {TOTAL}" for each in scenario.groups if each.name == TOTAL]
    known = {each.name for each in scenario.types}
    for place, group in enumerate(scenario.groups):
        names = [pool.instance_type for pool in group.pools]
        problems += [f"endpoints[{place}].pools: {name} is there twice" for name in _twice(names)]
        problems += [f"endpoints[{place}].pools: {name} is none of the types" for name in names if name not in known]
    total = sum(group.count for group in scenario.groups)
    if total > ENDPOINTS_LIMIT:
        problems.append(f"endpoints: must be at most {ENDPOINTS_LIMIT} together, are {total}")
    return problems


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    found = []
    for name in names:
        if name in seen:
            found.append(name)
        seen.add(name)
    return found
